"""Checks of one rule: names bound before use, calls that fit, new values used, groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from gerules.dsl.bindings import Bindings, Kind, NameChecker
from gerules.dsl.book import suggest
from gerules.dsl.check_example import ExampleChecker
from gerules.dsl.check_expr import GATE_NAMES
from gerules.dsl.check_ops import COUNTING, check_call, pattern_shape
from gerules.dsl.expressions import Ident
from gerules.dsl.later_tests import LaterTests
from gerules.dsl.syntax import (
    ANY,
    Alternatives,
    AnyInputs,
    BuildCall,
    BuildEach,
    BuildFunction,
    BuildLine,
    BuildParam,
    BuildRef,
    BuildRest,
    CallPattern,
    CaptureAttr,
    ChainOp,
    Condition,
    Define,
    DimName,
    DimSeq,
    FoldLine,
    ManyLines,
    MatchedOp,
    MatchLine,
    MatchStatement,
    NamedPattern,
    ParamAttr,
    ParamPattern,
    Pattern,
    PlainOp,
    RestInputs,
    RestTargets,
    Rule,
    Target,
    TypePattern,
    ValuePattern,
    VariableOp,
)
from gerules.errors import Span, table
from gerules.ir import Format


@dataclass(frozen=True, slots=True)
class _Built:
    """What is known between the lines of a rewrite.

    Attributes:
        names: What earlier lines built or replaced; `lists` are those of them that are new lists.
        pending: What later lines replace.
        read: What some line reads; grows.
    """

    names: Collection[str]
    lists: Collection[str]
    pending: Collection[str]
    read: set[str]


class RuleChecker(NameChecker):
    """Checks rules, patterns and definitions of one book."""

    # ------------------------------------------------------------ a rule
    def check(self, rule: Rule) -> None:
        """Record everything that is wrong in a rule, and warn of names that nothing uses."""
        for condition in rule.when:
            self.expr(condition.test, ())
        bindings = Bindings()
        self._match(rule.match, bindings)
        for step in rule.steps:
            self._step(step, bindings)
        for gate in rule.gates:
            bindings.used |= self.expr(gate.test, {*bindings.kinds, *GATE_NAMES})
        self._rewrite(rule.rewrite, bindings)
        for line in rule.annotations:
            if bindings.kinds.get(line.value_name.name) is not Kind.RESULT:
                self.undefined(line.value_name, [n for n, k in bindings.kinds.items() if k is Kind.RESULT])
            self.warn_of_key(line.key)
            bindings.used |= self.expr(line.value, bindings.kinds)
        if rule.decreases is not None:
            bindings.used |= self.expr(rule.decreases, bindings.kinds)
        are_tests_read = not isinstance(rule.tests, LaterTests)
        if are_tests_read:
            tests = ExampleChecker(self.names, self.operators, self.faults)
            for test in rule.tests:
                tests.check(test, bindings)
        for other in rule.overrides:
            if other.name not in self.names.book.rule_by_name:
                notes = suggest(other.name, self.names.book.rule_by_name)
                self.faults.add(table.UNKNOWN_OVERRIDDEN, span=other.span, name=other.name, notes=notes)
        if are_tests_read:  # which use names too
            self._warn_unused(bindings)

    def _step(self, step: Condition | FoldLine, bindings: Bindings) -> None:
        if isinstance(step, Condition):
            bindings.used |= self.expr(step.test, bindings.kinds)
            return
        bindings.used |= self.expr(step.value, bindings.kinds)
        for name in step.names:
            if name.name in bindings.kinds:
                self._rebound(name, bindings)
            bindings.bind(name.name, Kind.VALUE, name.span)

    def _warn_unused(self, bindings: Bindings) -> None:
        for name, kind in bindings.kinds.items():
            if name in bindings.used or name.startswith("_"):
                continue  # a name like `_k` says what it is that nobody needs
            if kind not in {Kind.ATTR, Kind.ATTRS, Kind.OP, Kind.VALUE}:
                continue
            remedy = "write `**` to ignore them" if kind is Kind.ATTRS else "write `_`, or use it"
            if kind is Kind.VALUE:
                remedy = "remove it, or use it"
            self.faults.add(
                table.UNUSED_NAME,
                span=bindings.spans[name],
                severity="warning",
                name=name,
                kind=kind.value,
                remedy=remedy,
            )

    # ------------------------------------------------------------ match
    def _match(self, statements: Sequence[MatchStatement], bindings: Bindings) -> None:
        n_groups = 0
        for statement in statements:
            if isinstance(statement, MatchLine):
                self._match_line(statement, bindings)
            else:
                n_groups += 1
                if n_groups == 2:
                    self.bad_name(statement.span, "a second group", "a rule has at most one `many`")
                self._many(statement, bindings)

    def _many(self, group: ManyLines, bindings: Bindings) -> None:
        outside = set(bindings.kinds)
        for line in group.lines:
            self._match_line(line, bindings)
        inside = set(bindings.kinds) - outside
        for name in group.same:
            if name.name not in inside and name.name not in outside and not self._is_implicit(name, group):
                self.undefined(name, inside)
        bindings.groups |= inside - {name.name for name in group.same}
        for limit in group.limits:
            bindings.used |= self.expr(limit, bindings.kinds)

    @staticmethod
    def _is_implicit(name: Ident, group: ManyLines) -> bool:
        """Whether `same T` names an element type that no line constrains: all values agree in it."""
        return len(name.name) == 1 and name.name.isupper() and bool(group.lines)

    def _match_line(self, line: MatchLine, bindings: Bindings) -> None:
        self._pattern(line.pattern, bindings, n_outputs=len(line.targets))
        for target in line.targets:
            if isinstance(target, Target):
                if bindings.kinds.get(target.name) is Kind.LEAF:
                    self.bad_name(
                        target.span,
                        target.name,
                        "it is used above the line that says what it is; move the line up",
                    )
                elif target.name in bindings.kinds:
                    self.bad_name(
                        target.span, target.name, "it is bound already; give the second one another name"
                    )
                bindings.bind(target.name, Kind.RESULT, target.span)
                if target.type is not None:
                    self._type(target.type, bindings)
            elif isinstance(target, RestTargets):
                bindings.bind(target.name, Kind.LIST, target.span)

    def _pattern(self, pattern: Pattern, bindings: Bindings, n_outputs: int = 1) -> None:
        match pattern:
            case ValuePattern():
                bindings.bind(pattern.name, Kind.LEAF, pattern.span)
                if pattern.type is not None:
                    self._type(pattern.type, bindings)
            case NamedPattern():
                self._pattern(pattern.pattern, bindings, n_outputs)
                kind = Kind.LEAF if isinstance(pattern.pattern, ValuePattern) else Kind.RESULT
                bindings.bind(pattern.name.name, kind, pattern.name.span)
            case Alternatives():
                for choice in pattern.choices:
                    self._pattern(choice.pattern, bindings, n_outputs)
                    for binding in choice.bindings:
                        bindings.used |= self.expr(binding.value, bindings.kinds)
                        bindings.bind(binding.name.name, Kind.VALUE, binding.name.span)
            case ParamPattern():
                self._param(pattern.name, pattern.span)
            case CallPattern():
                self._call(pattern, bindings, n_outputs)
            case _:
                pass

    def _call(self, call: CallPattern, bindings: Bindings, n_outputs: int) -> None:
        n_args, has_rest = 0, False
        for arg in call.args:
            if isinstance(arg, RestInputs):
                bindings.bind(arg.name, Kind.LIST, arg.span)
                has_rest = True
            elif isinstance(arg, AnyInputs):
                has_rest = True
            else:
                n_args += 1
                self._pattern(arg, bindings)
        for attr in call.attrs:
            if isinstance(attr.pattern, CaptureAttr):
                is_new = attr.pattern.name not in bindings.kinds
                bindings.bind(attr.pattern.name, Kind.ATTR, attr.pattern.span)
                if is_new and self.warn_of_type(attr.pattern.name, attr.pattern.span):
                    bindings.used.add(attr.pattern.name)  # one warning is enough
            elif isinstance(attr.pattern, ParamAttr):
                self._param(attr.pattern.name, attr.pattern.span)
        if call.rest is not None and call.rest.name is not None:
            bindings.bind(call.rest.name, Kind.ATTRS, call.rest.span)
        op = call.op
        if isinstance(op, VariableOp | ChainOp):
            self.operators.check_set(op.ops, self.faults)
            bindings.bind(op.name, Kind.CHAIN if isinstance(op, ChainOp) else Kind.OP, op.span)
            return
        patterns = self.names.book.patterns
        if op.name in patterns:
            shape = pattern_shape(patterns[op.name])
        else:
            shape = self.operators.check_known(Ident(op.span, op.name), self.faults, patterns)
        if op.order == "any" and n_args < 2:
            reason = f"`{op.name}~` needs at least two inputs"
            self.faults.add(table.BAD_ARITY, span=call.span, op=op.name, reason=reason)
        if shape is None or op.order == "any":
            return
        check_call(
            op.name,
            shape,
            call.span,
            n_args,
            {attr.name.name: attr.name.span for attr in call.attrs},
            n_outputs,
            self.faults,
            has_rest_inputs=has_rest,
            has_rest_attrs=call.rest is not None,
            is_build=False,
        )

    def _type(self, kind: TypePattern, bindings: Bindings) -> None:
        if kind.dtype_name is not None:
            bindings.bind(kind.dtype_name, Kind.DTYPE, kind.span)
        for dim in kind.dims or ():
            if isinstance(dim, DimName | DimSeq):
                bindings.bind(dim.name, Kind.DIM, dim.span)
        if kind.format is not None:
            self.check_format(kind.format)

    # ------------------------------------------------------------ rewrite
    def _rewrite(self, lines: Sequence[BuildLine], bindings: Bindings) -> None:
        new: dict[str, Span] = {}
        lists: set[str] = set()
        read: set[str] = set()
        replaced: set[str] = set()
        targets = {target.name for line in lines for target in line.targets}
        for line in lines:
            pending = {name for name in targets if bindings.kinds.get(name) is Kind.RESULT} - replaced
            self._build(line, bindings, _Built({*new, *replaced}, lists, pending, read))
            for target in line.targets:
                kind = bindings.kinds.get(target.name)
                is_group = target.name in bindings.groups
                if target.name in replaced or target.name in new:
                    self.bad_name(target.span, target.name, "it is built twice")
                elif kind is Kind.RESULT:
                    replaced.add(target.name)
                    if is_group and isinstance(target, Target):
                        self.bad_name(target.span, target.name, f"it is a group; write `*{target.name}`")
                    elif not is_group and isinstance(target, RestTargets):
                        self.bad_name(target.span, target.name, f"it is one value; write `{target.name}`")
                elif kind is not None and not (kind is Kind.LIST and isinstance(target, RestTargets)):
                    self.bad_name(
                        target.span, target.name, f"it is {kind.value}, which a rewrite cannot replace"
                    )
                elif kind is not None:
                    replaced.add(target.name)
                elif target.name != ANY:
                    new[target.name] = target.span
                    if isinstance(target, RestTargets):
                        lists.add(target.name)
                        self._check_counted(target, line)
        if lines and not replaced:
            self.bad_name(
                lines[0].span,
                "the rewrite",
                "no name on the left is one that `match` bound, so nothing is replaced",
            )
        for name, span in new.items():
            if name not in read:
                self.bad_name(span, name, "it is built, but nothing uses it")
        bindings.used |= read

    def _check_counted(self, target: RestTargets, line: BuildLine) -> None:
        """Record a new list of which nothing says how many values it has."""
        attrs = line.build.attrs if isinstance(line.build, BuildCall) else ()
        keywords = {name.name for name, _ in attrs}
        if not isinstance(line.build, BuildEach) and keywords.isdisjoint(COUNTING):
            reason = "nothing says how many values it has; give `split` or `num_outputs`, or use `each`"
            self.bad_name(target.span, f"*{target.name}", reason)

    def _build(self, line: BuildLine, bindings: Bindings, built: _Built) -> None:
        build = line.build
        if isinstance(build, BuildRef):
            self._build_ref(build, bindings, built, is_item=False)
            return
        has_rest_targets = any(isinstance(target, RestTargets) for target in line.targets)
        if isinstance(build, BuildEach) and not (has_rest_targets and len(line.targets) == 1):
            self.bad_name(build.span, "each", "it gives a list; write one `*name` on the left")
        n_outputs = 1 if has_rest_targets else len(line.targets)
        stack: list[tuple[BuildCall | BuildFunction | BuildEach, int, bool]] = [(build, n_outputs, False)]
        while stack:
            item, n_outputs, is_item = stack.pop()
            if isinstance(item, BuildEach) and is_item:
                self.bad_name(item.span, "each", "it stands inside another `each`")
            is_item |= isinstance(item, BuildEach)
            call = item if isinstance(item, BuildCall) else item.call
            has_rest = False
            for arg in call.args:
                match arg:
                    case BuildCall() | BuildFunction() | BuildEach():
                        has_rest |= isinstance(arg, BuildEach)
                        stack.append((arg, 1, is_item))
                    case BuildRef():
                        self._build_ref(arg, bindings, built, is_item=is_item)
                    case BuildRest():
                        has_rest = True
                        self._build_rest(arg, bindings, built)
                    case BuildParam():
                        self._param(arg.name, arg.span)
                    case _:
                        pass
            self._build_keywords(call, bindings, built)
            if isinstance(call.op, MatchedOp):
                self._matched_op(call.op, bindings, built.read)
            elif not isinstance(item, BuildFunction):
                self._build_op(call, call.op, has_rest, n_outputs)

    def _build_op(self, call: BuildCall, op: PlainOp, has_rest: bool, n_outputs: int) -> None:
        shape = self.operators.check_known(Ident(op.span, op.name), self.faults)
        if shape is None:
            return
        check_call(
            op.name,
            shape,
            call.span,
            sum(1 for arg in call.args if not isinstance(arg, BuildRest | BuildEach)),
            {name.name: name.span for name, _ in call.attrs},
            n_outputs,
            self.faults,
            has_rest_inputs=has_rest,
            has_rest_attrs=bool(call.rests),
            is_build=True,
        )

    def _build_keywords(self, call: BuildCall, bindings: Bindings, built: _Built) -> None:
        for _, value in call.attrs:
            built.read.update(self.expr(value, {*bindings.kinds, *built.names}))
        for rest in call.rests:
            if bindings.kinds.get(rest.name) is Kind.ATTRS:
                built.read.add(rest.name)
            else:
                self.undefined(rest, [name for name, kind in bindings.kinds.items() if kind is Kind.ATTRS])

    def _matched_op(self, op: MatchedOp, bindings: Bindings, read: set[str]) -> None:
        if bindings.kinds.get(op.name) is Kind.OP:
            read.add(op.name)
        else:
            known = [name for name, kind in bindings.kinds.items() if kind is Kind.OP]
            self.undefined(Ident(op.span, op.name), known)

    def _build_ref(self, ref: BuildRef, bindings: Bindings, built: _Built, *, is_item: bool) -> None:
        """Check a name that is read; `is_item`: inside `each`, where a list stands for its item."""
        name, span = ref.name, ref.span
        kind = bindings.kinds.get(name)
        if kind is None and name not in built.names:
            self.undefined(Ident(span, name), [*bindings.kinds, *built.names])
            return
        built.read.add(name)
        is_list = name in built.lists or (
            name not in built.names and (name in bindings.groups or kind is Kind.LIST)
        )
        if name in built.pending:
            self.bad_name(span, name, "this rewrite replaces it, so its new value cannot be made from it")
        elif is_list and not is_item:
            self.bad_name(span, name, f"it is a group or a list of values; write `*{name}`")
        elif name in built.names or is_list:
            return
        elif kind in {Kind.ATTRS, Kind.OP, Kind.CHAIN, Kind.DTYPE}:
            self.bad_name(span, name, f"it is {kind.value}, not a value")

    def _build_rest(self, rest: BuildRest, bindings: Bindings, built: _Built) -> None:
        name = rest.path[0]
        kind = bindings.kinds.get(name)
        if kind is None and name not in built.lists:
            self.undefined(Ident(rest.span, name), [*bindings.kinds, *built.lists])
            return
        built.read.add(name)
        is_list = name in built.lists or name in bindings.groups or kind in {Kind.LIST, Kind.VALUE}
        is_side = kind is Kind.CHAIN and rest.path[1:] == ("side_inputs",)
        if not is_side and not (is_list and len(rest.path) == 1):
            self.bad_name(rest.span, ".".join(rest.path), "it is no list of values")

    # ------------------------------------------------------------ patterns and definitions
    def check_statements(self, statements: Sequence[MatchStatement], guards: Iterable[Condition]) -> Bindings:
        """Check the body of a named pattern; returns what it binds."""
        bindings = Bindings()
        self._match(statements, bindings)
        for guard in guards:
            bindings.used |= self.expr(guard.test, bindings.kinds)
        return bindings

    def check_body(
        self,
        inputs: Iterable[Ident],
        attrs: Iterable[Ident],
        define: Define,
    ) -> set[str]:
        """Check the body of a `define`; returns the names it makes."""
        rest, rest_inputs = define.rest_attrs, define.rest_inputs
        many = None if define.rest_results is None else define.rest_results.name
        bindings = Bindings()
        for name in inputs:
            bindings.bind(name.name, Kind.LEAF, name.span)
        for name in attrs:
            bindings.bind(name.name, Kind.ATTR, name.span)
        if rest is not None:
            bindings.bind(rest.name, Kind.ATTRS, rest.span)
        if rest_inputs is not None:
            bindings.bind(rest_inputs.name, Kind.LIST, rest_inputs.span)
        built: set[str] = set()
        for line in define.body:
            if isinstance(line, FoldLine):
                self._step(line, bindings)
                continue
            self._build(line, bindings, _Built(built, set(), (), set()))
            for target in line.targets:
                if isinstance(target, RestTargets) and target.name != many:
                    reason = "only the result that has a star after `->` can be many values"
                    self.bad_name(target.span, target.name, reason)
                elif isinstance(target, Target) and target.name == many:
                    self.bad_name(target.span, target.name, f"it is many values; write `*{many}`")
                if target.name in built or target.name in bindings.kinds:
                    self.bad_name(
                        target.span, target.name, "it is bound already; give the second one another name"
                    )
                built.add(target.name)
        return built

    def check_format(self, name: Ident) -> None:
        """Record a format that is neither declared nor known to the device side."""
        declared = self.names.book.formats
        if name.name not in declared and name.name not in Format.__members__:
            notes = suggest(name.name, [*declared, *Format.__members__])
            self.faults.add(table.UNDEFINED_NAME, span=name.span, name=name.name, notes=notes)

    # ------------------------------------------------------------ faults
    def _param(self, name: str, span: Span) -> None:
        if name not in self.names.params:
            notes = suggest(name, self.names.params)
            self.faults.add(table.UNDEFINED_NAME, span=span, name=f"${name}", notes=notes)

    def _rebound(self, name: Ident, bindings: Bindings) -> None:
        self.bad_name(
            name.span, name.name, f"it is {bindings.kinds[name.name].value} already; take another name"
        )
