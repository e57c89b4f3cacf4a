"""Checks of a whole rule book before anything runs: every fault of every file, with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gerules.dsl.book import RuleBook, SchemaSource, suggest
from gerules.dsl.check_expr import Names, check_expr, names_of
from gerules.dsl.check_ops import Operators, calls_of
from gerules.dsl.check_rule import RuleChecker
from gerules.dsl.declarations import Device, Profile
from gerules.dsl.expressions import Ident
from gerules.dsl.functions import FUNCTIONS
from gerules.dsl.registry import Function
from gerules.dsl.selection import bases_of, is_switch, switch_names
from gerules.dsl.syntax import (
    BuildLine,
    CallPattern,
    FoldLine,
    MatchStatement,
    PlainOp,
    match_lines,
    patterns_in,
)
from gerules.errors import ErrorCode, Faults, table

MAX_FAULTS: Final = 1000
"""With so many faults the rest of the rules is not looked at."""


def check_rules(
    book: RuleBook, schemas: SchemaSource, functions: Mapping[str, Function] = FUNCTIONS
) -> Faults:
    """Check a book against the operators that exist.

    Returns:
        The faults (E40003 names without meaning, E40106 and E40138 circles, E40111 to E40118 calls,
        operators and names that do not fit) and the warnings (E40117 names that nothing uses).

    Cost: linear in the text of the book.
    """
    faults = Faults()
    operators = Operators(book, schemas)
    names = names_of(book, operators.names, functions)
    checker = RuleChecker(names, operators, faults)
    _check_constants(book, names, operators, faults)
    _check_patterns(book, checker)
    _check_defines(book, checker)
    for rule in book.rules:
        if len(faults) >= MAX_FAULTS:
            break
        checker.check(rule)
    _check_sets_and_phases(book, names, faults)
    _check_profiles(book, names, faults)
    _check_devices(book, names, operators, checker, faults)
    return faults


def _check_constants(book: RuleBook, names: Names, operators: Operators, faults: Faults) -> None:
    for const in (*book.consts.values(), *book.params.values()):
        check_expr(const.value, (), names, faults)
        if const.name.name in book.consts and const.name.name in book.params:
            first = book.consts[const.name.name].name.span
            if const.name.span != first:
                faults.add(table.DECLARED_TWICE, span=const.name.span, kind="constant", name=const.name.name)
    for ops in book.ops.values():
        operators.check_set(ops.ops, faults)


def _check_patterns(book: RuleBook, checker: RuleChecker) -> None:
    for name, clauses in book.patterns.items():
        for clause in clauses:
            bindings = checker.check_statements(clause.match, clause.guards)
            for item in (*clause.results, *(formal.name for formal in clause.formals)):
                if item.name not in bindings.kinds:
                    _undefined(item, bindings.kinds, checker.faults)
            if len(clause.formals) != len(clauses[0].formals) or len(clause.results) != len(
                clauses[0].results
            ):
                reason = f"the first clause of {name} has other parameters or results"
                checker.faults.add(table.BAD_NAME, span=clause.name.span, name=name, reason=reason)
            if name in checker.operators.names:
                reason = "it is the name of an operator; take another name"
                checker.faults.add(table.BAD_NAME, span=clause.name.span, name=name, reason=reason)
    _check_circles(book, checker.faults)


def _check_circles(book: RuleBook, faults: Faults) -> None:
    """Record circles: patterns in themselves, bases that extend and rules that override themselves."""
    from_patterns = {
        name: [op for clause in clauses for op in _patterns_used(clause.match, book)]
        for name, clauses in book.patterns.items()
    }
    _find_circles("patterns", from_patterns, faults)
    owners: tuple[tuple[str, Mapping[str, Profile] | Mapping[str, Device]], ...] = (
        ("profiles", book.profiles),
        ("devices", book.devices),
    )
    for what, known in owners:
        bases = {name: [item.extends] if item.extends else [] for name, item in known.items()}
        _find_circles(what, bases, faults)
    overridden = {rule.name.name: rule.overrides for rule in book.rules}
    _find_circles("rules", overridden, faults, table.OVERRIDES_CIRCLE)


def _find_circles(
    what: str, needs: Mapping[str, Iterable[Ident]], faults: Faults, code: ErrorCode = table.CIRCLE
) -> None:
    done: set[str] = set()
    for root in needs:
        path: list[str] = []
        stack: list[tuple[str, list[Ident]]] = [(root, list(needs[root]))] if root not in done else []
        path += [root] if stack else []
        while stack:
            name, left = stack[-1]
            if not left:
                done.add(name)
                stack.pop()
                path.pop()
                continue
            ref = left.pop()
            if ref.name in path:
                circle = " -> ".join([*path[path.index(ref.name) :], ref.name])
                faults.add(code, span=ref.span, what=what, path=circle)
            elif ref.name in needs and ref.name not in done:
                stack.append((ref.name, list(needs[ref.name])))
                path.append(ref.name)


def _check_defines(book: RuleBook, checker: RuleChecker) -> None:
    needs: dict[str, list[Ident]] = {}
    for name, define in book.defines.items():
        inputs = [param.name for param in define.params if param.default is None]
        attrs = [param.name for param in define.params if param.default is not None]
        for param in define.params:
            if param.default is not None:
                check_expr(param.default, (), checker.names, checker.faults)
        built = checker.check_body(inputs, attrs, define)
        rest = () if define.rest_results is None else (define.rest_results,)
        for item in (*define.results, *rest):
            if item.name not in built:
                _undefined(item, built, checker.faults)
        needs[name] = [op for op in _ops_built(define.body) if op.name in book.defines]
    _find_circles("operators", needs, checker.faults)


def _check_sets_and_phases(book: RuleBook, names: Names, faults: Faults) -> None:
    for ruleset in book.rulesets.values():
        for condition in ruleset.when:
            check_expr(condition.test, (), names, faults)
        if not book.rules_of(ruleset.name.name):
            faults.add(
                table.UNUSED_NAME,
                span=ruleset.name.span,
                severity="warning",
                name=ruleset.name.name,
                kind="a rule set without rules",
                remedy="remove it, or put a rule into it",
            )
    prefixes = {name for name in switch_names(book) if name not in book.rule_by_name}
    for phase in book.phases.values():
        for item in (*phase.run, *phase.then):
            if item.name not in book.set_names and item.name not in prefixes:
                _undefined(item, book.set_names, faults)
        for condition in (*phase.requires, *phase.ensures):
            check_expr(condition.test, (), names, faults)
        if not phase.run:
            reason = "it runs nothing; add a `run` line"
            faults.add(table.BAD_NAME, span=phase.name.span, name=phase.name.name, reason=reason)
    for pipeline in book.pipelines.values():
        for item in pipeline.phases:
            if item.name not in book.phases:
                _undefined(item, book.phases, faults)


def _check_profiles(book: RuleBook, names: Names, faults: Faults) -> None:
    for profile in book.profiles.values():
        if profile.extends is not None and profile.extends.name not in book.profiles:
            _undefined(profile.extends, book.profiles, faults)
        for setting in profile.settings:
            check_expr(setting.value, (), names, faults)
            if setting.name.name in book.consts:
                reason = "it is a `const`; only a `param` can be set"
                faults.add(table.BAD_NAME, span=setting.name.span, name=setting.name.name, reason=reason)
        for item in (*profile.enable, *profile.disable):
            if not is_switch(book, item.name):
                _undefined(item, switch_names(book), faults)


def _check_devices(
    book: RuleBook, names: Names, operators: Operators, checker: RuleChecker, faults: Faults
) -> None:
    for device in book.devices.values():
        if device.extends is not None and device.extends.name not in book.devices:
            _undefined(device.extends, book.devices, faults)
        for engine in device.engines:
            operators.check_set(engine.ops, faults)
            if engine.where is not None:
                attrs = operators.attributes(book.resolve(engine.ops))
                check_expr(engine.where.test, {*NODE_NAMES, "x", *attrs}, names, faults)
        for ops in device.lacks:
            operators.check_set(ops, faults)
        for setting in device.settings:
            check_expr(setting.value, (), names, faults)
    engines = {
        f"{device.name}.{engine.name}"
        for device in book.devices.values()
        for base in bases_of(device, book.devices)
        for engine in base.engines
    }
    for formats in book.tables:
        # Devices may come from elsewhere; only a book that declares some can know better.
        if engines and formats.engine.name not in engines:
            _undefined(formats.engine, engines, faults)
        for line in formats.lines:
            if isinstance(line.ops, Ident):
                operators.check_known(line.ops, faults)
            else:
                operators.check_set(line.ops, faults)
            for name in (*(item.format for item in line.inputs), *line.outputs, line.rest_outputs):
                if name is not None and not name.name[0].islower():
                    checker.check_format(name)
            ops = [line.ops.name] if isinstance(line.ops, Ident) else book.resolve(line.ops)
            bound = {*NODE_NAMES, *operators.attributes(ops), *output_names(len(line.outputs))}
            bound |= {item.name for item in line.inputs if item.name}
            for expr in (line.where.test if line.where else None, line.cost):
                if expr is not None:
                    check_expr(expr, bound, names, faults)


def _patterns_used(statements: tuple[MatchStatement, ...], book: RuleBook) -> Iterator[Ident]:
    for line in match_lines(statements):
        for pattern in patterns_in(line.pattern):
            op = pattern.op if isinstance(pattern, CallPattern) else None
            if isinstance(op, PlainOp) and op.name in book.patterns:
                yield Ident(op.span, op.name)


def _ops_built(body: tuple[BuildLine | FoldLine, ...]) -> Iterator[Ident]:
    for line in body:
        for call in calls_of(line.build) if isinstance(line, BuildLine) else ():
            if isinstance(call.op, PlainOp):
                yield Ident(call.op.span, call.op.name)


NODE_NAMES: Final = frozenset({"op", "inputs", "outputs", "y"})
"""What conditions of engines and kernels may ask about: operator, lists of values, the first output."""


def output_names(n_outputs: int) -> Iterator[str]:
    """Yield the names of a kernel's outputs in its condition: y0, y1, ..."""
    return (f"y{place}" for place in range(n_outputs))


def _undefined(name: Ident, known: Iterable[str], faults: Faults) -> None:
    faults.add(table.UNDEFINED_NAME, span=name.span, name=name.name, notes=suggest(name.name, known))
