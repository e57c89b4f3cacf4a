"""A form of a rule becomes the plan of a pass: nodes, inputs, conditions, and what is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from gerules.compat.ge.lowering import OPERATORS
from gerules.dsl.expressions import (
    Attribute,
    Binary,
    CallExpr,
    Expr,
    ListExpr,
    Literal,
    Negate,
    ParamRef,
    Ref,
)
from gerules.dsl.syntax import (
    AttrArg,
    Build,
    BuildArg,
    BuildCall,
    BuildLine,
    BuildNone,
    BuildNumber,
    BuildParam,
    BuildRef,
    CallPattern,
    CaptureAttr,
    ListAttr,
    LiteralAttr,
    NamedPattern,
    NonePattern,
    NumberPattern,
    ParamAttr,
    ParamPattern,
    Pattern,
    PlainOp,
    Rule,
    Target,
    TypePattern,
    ValuePattern,
)
from gerules.dsl.values import Value
from gerules.errors import Span
from gerules.exporting.conditions import DT, Code, Desc, const_number
from gerules.exporting.forms import Form
from gerules.exporting.names import pass_name
from gerules.exporting.operators import GeAttr, all_attributes, form_of
from gerules.exporting.plan import (
    AttrValue,
    Captured,
    Computed,
    Input,
    Number,
    Output,
    Plan,
    PlanNode,
    Refusal,
    Source,
)
from gerules.exporting.requirements import Conditions
from gerules.ir import DType


def plan_of(rule: Rule, form: Form, params: Mapping[str, Value]) -> Plan:
    """Return the plan of one form of a rule. Raises Refusal for what a pass cannot say."""
    if not rule.rewrite or rule.annotations:
        raise Refusal("annotation", "it marks values, and replaces none", rule.name.span)
    if rule.gates:
        raise Refusal("cost", "it asks what the device's costs are", rule.gates[0].span)
    if rule.when:
        raise Refusal("settings", "it depends on settings of the compile", rule.when[0].span)
    planner = _Planner(rule, form, Plan(pass_name(rule.name.name), rule.name.name, rule.doc), params)
    planner.read_patterns()
    planner.read_folds()
    planner.read_rewrite()
    planner.read_conditions()
    if planner.is_same():
        raise Refusal("same", "both sides are one operator there; reading a model does this", rule.name.span)
    return planner.plan


@dataclass(slots=True)
class _Planner(Conditions):
    rests: dict[str, int] = field(default_factory=dict[str, int])
    used: frozenset[str] = frozenset()
    made: dict[str, Source] = field(default_factory=dict[str, "Source"])

    # ------------------------------------------------------------ pattern
    def read_patterns(self) -> None:
        """Fill nodes and inputs from the fixed patterns."""
        self.used = frozenset(_names_read(self.rule.rewrite))
        for target, pattern in self.form.lines:
            source = self._source(pattern)
            if not isinstance(source, Output):
                raise Refusal("no operator", "a line matches no operator", target.span)
            self._bind(target.name, source, target.type)

    def _bind(self, name: str, source: Source, kind: TypePattern | None = None) -> None:
        if name != "_":
            self.values[name] = source
            if isinstance(source, Output):
                self.descs[name] = Desc(source.node, 0, True)
        if kind is not None:
            self.types.append((name, kind))

    def _source(self, pattern: Pattern) -> Source:
        match pattern:
            case ValuePattern(name=name):
                return self._value(pattern)
            case NumberPattern(value=value, tolerance=tolerance):
                return Number(value, tolerance)
            case ParamPattern(name=name, tolerance=tolerance):
                return Number(self._param(name, pattern.span), tolerance)
            case NonePattern():
                return None
            case NamedPattern(pattern=inner, name=name):
                source = self._source(inner)
                self._bind(name.name, source)
                return source
            case CallPattern():
                return self._node(pattern)
            case _:
                raise Refusal("alternatives", "an alternative was not expanded", pattern.span)

    def _value(self, pattern: ValuePattern) -> Source:
        name, kind = pattern.name, pattern.type
        if name in self.form.absent:
            self.values[name] = None
            return None
        if name in self.values:
            if isinstance(self.values[name], Number):
                raise Refusal("twice", f"the constant {name} is read twice, and would be two", pattern.span)
            if kind is not None:
                self.types.append((name, kind))
            return self.values[name]
        if kind is not None and kind.is_const and name not in self.used:
            source: Source = Number(None)
        else:
            source = Input(self.plan.n_inputs)
            self.plan.n_inputs += 1
        if name != "_":
            self.values[name] = source
        if kind is not None:
            self.types.append((name, kind))
        return source

    def _node(self, pattern: CallPattern) -> Output:
        op = cast("PlainOp", pattern.op).name
        form = form_of(op)
        if form is None:
            raise Refusal(
                "operator", f"{op} is no operator of the Graph Engine with a fixed form", pattern.op.span
            )
        sources = [self._source(cast("Pattern", arg)) for arg in pattern.args]
        while sources and sources[-1] is None:
            sources.pop()
        node = PlanNode(form, sources)
        place = len(self.plan.nodes)
        self.plan.nodes.append(node)
        for slot, arg in enumerate(pattern.args):
            self._note_read(cast("Pattern", arg), place, slot)
        for name, value in form.fixed.items():
            node.attrs[name] = (
                value if isinstance(value, int | float | str) else tuple(cast("Sequence[int]", value))
            )
        mentioned: set[str] = set()
        for arg in pattern.attrs:
            self._pattern_attr(arg, node, place)
            mentioned.add(arg.name.name)
        self._const_defaults(node, mentioned)
        _check_inputs(node, pattern.span)
        if pattern.rest is not None:
            node.is_open = True
            if pattern.rest.name is not None:
                self.rests[pattern.rest.name] = place
        else:
            self._defaults(node, mentioned, pattern.span)
        return Output(place)

    def _note_read(self, arg: Pattern, node: int, slot: int) -> None:
        """A named value that a node reads is asked about through that node."""
        if isinstance(arg, ValuePattern) and arg.name not in self.descs and arg.name != "_":
            source = self.values.get(arg.name)
            is_const = arg.type is not None and arg.type.is_const
            if isinstance(source, Input | Number):
                self.descs[arg.name] = Desc(node, slot, False, is_const)

    def _pattern_attr(self, arg: AttrArg, node: PlanNode, place: int) -> None:
        name, form = arg.name.name, node.form
        slot = form.const_inputs.get(name)
        if slot is not None:
            self._const_input(arg, node, place, slot)
            return
        attr = form.attrs.get(name)
        if attr is None:
            raise Refusal("attribute", f"attribute {name} has no counterpart in {form.type}", arg.span)
        match arg.pattern:
            case CaptureAttr(name=captured, is_optional=is_optional):
                if is_optional:
                    raise Refusal("attribute", f"attribute {name} may be absent", arg.span)
                node.is_open = True
                if captured != "_":
                    self.attrs[captured] = Captured(place, attr.name, attr.kind)
            case LiteralAttr(value=value):
                node.attrs[attr.name] = _attr_value(value, attr, arg.span)
            case ListAttr(values=values):
                node.attrs[attr.name] = _attr_value(tuple(values), attr, arg.span)
            case ParamAttr(name=param):
                node.attrs[attr.name] = _attr_value(self._param(param, arg.span), attr, arg.span)
            case _:
                raise Refusal("attribute", f"attribute {name} is one of several, or absent", arg.span)

    def _const_input(self, arg: AttrArg, node: PlanNode, place: int, slot: int) -> None:
        """A parameter of ONNX that is a constant input there."""
        match arg.pattern:
            case CaptureAttr(name=captured, is_optional=False):
                source = Number(None)
                if captured != "_":
                    self.codes[captured] = const_number(Desc(place, slot, False, True))
            case LiteralAttr(value=int() | float() as value):
                source = Number(value)
            case ListAttr(values=values) if all(isinstance(item, int) for item in values):
                source = Number(cast("tuple[int, ...]", tuple(values)))
            case _:
                raise Refusal("attribute", f"{arg.name.name} is no fixed constant", arg.span)
        while len(node.inputs) <= slot:
            node.inputs.append(None)
        node.inputs[slot] = source

    def _const_defaults(self, node: PlanNode, mentioned: set[str]) -> None:
        """A parameter that is a constant input there has its default where it is left out."""
        for name, value in node.form.const_defaults.items():
            if name not in mentioned:
                slot = node.form.const_inputs[name]
                node.inputs += [None] * (slot + 1 - len(node.inputs))
                node.inputs[slot] = Number(value)

    def _defaults(self, node: PlanNode, mentioned: set[str], span: Span) -> None:
        """What a pattern without `**` does not mention has its default."""
        for name, attr in node.form.attrs.items():
            if name not in mentioned:
                if attr.default is None:
                    raise Refusal("attribute", f"{node.form.type} has no default for {attr.name}", span)
                node.attrs[attr.name] = _attr_value(attr.default, attr, span)

    def _param(self, name: str, span: Span) -> int | float:
        value = self.params.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refusal("settings", f"${name} is no fixed number", span)
        return value

    # ------------------------------------------------------------ constants
    def read_folds(self) -> None:
        """Numbers that are computed from numbers; arrays have no counterpart that both languages share."""
        for fold in self.rule.folds:
            try:
                code = self.writer().write(_without_cast(fold.value))
            except Refusal as refusal:
                raise Refusal("fold", f"`{fold.value.span.text}` computes an array", refusal.span) from None
            if len(fold.names) != 1 or code.kind != "number":
                raise Refusal("fold", f"`{fold.value.span.text}` is no number", fold.span)
            name = fold.names[0].name
            self.codes[name] = code
            self.made[name] = Computed(code.python, code.cpp)
            self.require(
                Code(f"({code.python}) is not None", f"std::isfinite({code.cpp})", "bool"),
                f"{name} is not known",
            )

    # ------------------------------------------------------------ replacement
    def read_rewrite(self) -> None:
        """Fill what is built, and which values it replaces."""
        for line in self.rule.rewrite:
            if len(line.targets) != 1 or not isinstance(line.targets[0], Target):
                raise Refusal("outputs", "operators of several results are not written", line.span)
            name = line.targets[0].name
            source = self._build(line.build)
            old = self.values.get(name)
            if isinstance(old, Output):
                self.plan.outputs.append(old)
                self.plan.results.append(source)
            else:
                self.made[name] = source
        if not self.plan.outputs:
            raise Refusal("annotation", "it replaces no value", self.rule.name.span)

    def _build(self, build: Build | BuildArg) -> Source:
        match build:
            case BuildRef(name=name):
                return self._ref(name, build.span)
            case BuildNumber(value=value):
                return Number(value)
            case BuildParam(name=name):
                return Number(self._param(name, build.span))
            case BuildNone():
                return None
            case BuildCall():
                return self._build_node(build)
            case _:
                raise Refusal("build", "it builds a body, a list of nodes, or spreads a list", build.span)

    def _ref(self, name: str, span: Span) -> Source:
        if name in self.made:
            return self.made[name]
        source = self.values.get(name)
        if name in self.values and (source is None or isinstance(source, Input)):
            return source
        if isinstance(source, Output):
            return self._again(source, span)
        raise Refusal("computed", f"what is built reads {name}, which is computed", span)

    def _again(self, source: Output, span: Span) -> Output:
        """Build an operator inside of the match once more: what is matched goes away, and this stays."""
        old = self.plan.nodes[source.node]
        if any(isinstance(item, Number) for item in old.inputs):
            raise Refusal("inside", "what is built reads the result of an operator with a constant", span)
        inputs = [self._again(item, span) if isinstance(item, Output) else item for item in old.inputs]
        copies = source.node if all_attributes(old.form.type) else None
        new = PlanNode(old.form, inputs, copies=copies)
        if new not in self.plan.built:
            self.plan.built.append(new)
        return Output(self.plan.built.index(new))

    def _build_node(self, call: BuildCall) -> Output:
        op = call.op.name if isinstance(call.op, PlainOp) else self.form.chosen.get(call.op.name, "")
        if isinstance(call.op, PlainOp) and call.op.is_optional:
            raise Refusal("build", "it builds an operator that may be left out", call.span)
        form = form_of(op)
        if form is None:
            raise Refusal(
                "operator", f"{op} is no operator of the Graph Engine with a fixed form", call.op.span
            )
        inputs = [self._build(arg) for arg in call.args]
        while inputs and inputs[-1] is None:
            inputs.pop()
        node = PlanNode(form, inputs)
        mentioned: set[str] = set()
        for ident, expr in call.attrs:
            mentioned.add(ident.name)
            slot = form.const_inputs.get(ident.name)
            if slot is not None:
                while len(inputs) <= slot:
                    inputs.append(None)
                code = self.codes.get(expr.name) if isinstance(expr, Ref) else None
                inputs[slot] = Number(_fixed(expr)) if code is None else Computed(code.python, code.cpp)
                continue
            attr = form.attrs.get(ident.name)
            if attr is None:
                raise Refusal("attribute", f"attribute {ident} has no counterpart in {form.type}", ident.span)
            node.attrs[attr.name] = self._built_attr(expr, attr)
        for rest in call.rests:
            self._copy(node, rest.name, rest.span)
        self._const_defaults(node, mentioned)
        _check_inputs(node, call.span)
        if node.copies is None:
            for name, attr in form.attrs.items():
                if name not in mentioned and attr.default is None:
                    raise Refusal("attribute", f"{form.type} needs {attr.name}", call.span)
                if name not in mentioned and name != attr.name:
                    node.attrs[attr.name] = _attr_value(attr.default, attr, call.span)
        self.plan.built.append(node)
        return Output(len(self.plan.built) - 1)

    def _built_attr(self, expr: Expr, attr: GeAttr) -> AttrValue:
        if isinstance(expr, Ref) and expr.name in self.attrs:
            found = self.attrs[expr.name]
            if found.kind != attr.kind:
                raise Refusal(
                    "attribute", f"{expr.name} is a {found.kind}, and {attr.name} is not", expr.span
                )
            return found
        if isinstance(expr, ParamRef):
            return _attr_value(self._param(expr.name, expr.span), attr, expr.span)
        if attr.kind == "float" and isinstance(expr, Binary):
            code = self.writer().write(expr)
            return Computed(code.python, f"static_cast<float>({code.cpp})")
        return _attr_value(_fixed(expr), attr, expr.span)

    def _copy(self, node: PlanNode, rest: str, span: Span) -> None:
        place = self.rests.get(rest)
        if place is None or node.copies is not None:
            raise Refusal("attribute", f"**{rest} is not of one matched operator", span)
        if not set(all_attributes(self.plan.nodes[place].form.type)) <= set(all_attributes(node.form.type)):
            raise Refusal("attribute", f"{node.form.type} does not have all attributes of **{rest}", span)
        node.copies = place

    def is_same(self) -> bool:
        """Whether what is built says the same as what is matched."""
        plan = self.plan
        old = [(node.form.type, node.inputs) for node in plan.nodes]
        new = [(node.form.type, node.inputs) for node in plan.built]
        return old == new and plan.outputs == plan.results


def _check_inputs(node: PlanNode, span: Span) -> None:
    form, n_given = node.form, len(node.inputs)
    if not form.n_required <= n_given <= form.n_inputs:
        raise Refusal("inputs", f"{form.type} does not have {n_given} inputs", span)
    if None in node.inputs[: form.n_required]:
        missing = OPERATORS[form.type].inputs[node.inputs.index(None)]
        raise Refusal("inputs", f"{form.type} needs its input {missing}", span)


def _attr_value(value: object, attr: GeAttr, span: Span) -> AttrValue:
    """An attribute's value of rules as it is there."""
    match attr.kind, value:
        case "dtype", DType() if value in DT:
            return DT[value][0]
        case "dtype", int():
            return value
        case "bool", bool() | int():
            return bool(value)
        case "int", int():
            return int(value)
        case "float", int() | float():
            return float(value)
        case "text", str():
            return value
        case "list", bool():
            pass
        case "list", int():
            return (value,)
        case "list", tuple() | list():
            items = cast("Sequence[object]", value)
            if all(isinstance(item, int) for item in items):
                return tuple(cast("Sequence[int]", items))
        case _:
            pass
    raise Refusal("attribute", f"{attr.name} cannot be {value}", span)


def _without_cast(expr: Expr) -> Expr:
    """A number beside tensors takes their type, so that a cast of it to that type says nothing more."""
    match expr:
        case CallExpr(callee=Ref(name="cast"), args=(inner, Attribute(name=name))) if name.name == "dtype":
            return inner
        case _:
            return expr


def _fixed(expr: Expr) -> int | float | tuple[int, ...]:
    match expr:
        case Literal(value=int() | float() as value):
            return value
        case Negate(operand=Literal(value=int() | float() as value)):
            return -value
        case ListExpr(items=items):
            found = [_fixed(item) for item in items]
            if all(isinstance(item, int) for item in found):
                return cast("tuple[int, ...]", tuple(found))
        case _:
            pass
    raise Refusal("computed", f"`{expr.span.text}` is computed", expr.span)


def _names_read(lines: Sequence[BuildLine]) -> list[str]:
    """The names of matched values that a replacement reads."""
    found: list[str] = []
    pending: list[object] = [line.build for line in lines]
    while pending:
        item = pending.pop()
        if isinstance(item, BuildRef):
            found.append(item.name)
        elif isinstance(item, BuildCall):
            pending += item.args
    return found
