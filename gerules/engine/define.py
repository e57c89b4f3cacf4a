"""What a `define`d operator computes: its body as a graph, for one node and its types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gerules.dsl import expr as dsl
from gerules.dsl.syntax import BuildLine, Define, FoldLine, Rule
from gerules.dsl.tree import RuleError
from gerules.dsl.values import Reject, Value
from gerules.engine.binding import Kind, Match, Scope
from gerules.engine.build import Builder
from gerules.engine.candidate import Candidate, Infer, Refused
from gerules.engine.evaluation import MatchEvaluator, RuleContext
from gerules.engine.keywords import value_of_attr
from gerules.engine.site import Site
from gerules.errors import GerulesError, table
from gerules.ir import (
    UNKNOWN,
    Attr,
    Const,
    Graph,
    GraphEditor,
    Node,
    ValueType,
    empty_graph,
)
from gerules.ir import (
    Value as GraphValue,
)
from gerules.ops import Schemas
from gerules.ops.inference import Extra
from gerules.ops.inference import infer as infer_types
from gerules.ops.type_memory import TypeMemory

_DEEPEST_DEFINE: Final = 32
"""Definitions that use defined operators inside each other."""


def make_infer(schemas: Schemas, opsets: Mapping[str, int], extra: Extra | None = None) -> Infer:
    """Return inference for new nodes at these versions: gerules' own, `extra` for what it does not know."""
    latest = schemas.latest_opset
    memory = TypeMemory()

    def infer(
        node: Node, inputs: Sequence[ValueType | None], consts: Sequence[Const | None]
    ) -> Sequence[ValueType]:
        opset = opsets.get(node.op.rpartition("::")[0], latest)
        return infer_types(node, inputs, consts, schemas, opset, extra=extra, memory=memory)

    return infer


def expand_define(
    define: Define,
    node: Node,
    inputs: Sequence[ValueType | None],
    *,
    schemas: Schemas,
    infer: Infer,
    consts: Sequence[Const | None] = (),
    context: RuleContext | None = None,
) -> Graph:
    """Return what a node of a defined operator computes, as a graph of its own.

    Definitions are written in the newest ONNX operators, whatever version the model is in, and the
    graph says so in its `opsets`.

    Graph input `i` stands for input `i` of the node; one that is absent has a stand-in of unknown type
    that nothing reads. Outputs are the definition's results, as many as the node has.

    Args:
        inputs: Types of the node's inputs, None for absent ones.
        consts: Arrays of inputs known when compiling; they help inference and stay inputs.
        infer: Types of the nodes inside.

    Raises:
        RuleError: E40038 when the definition does not go with this node.
    """
    context = context or RuleContext()
    site = Site(schemas)
    editor = GraphEditor(empty_graph(define.name.name, {"": schemas.latest_opset}))
    site.enter(editor, {})
    scope, slots = _bind(define, node, inputs, consts, editor, site)
    evaluator = MatchEvaluator(site, context)
    match = Match(len(slots))
    match.slots[:] = slots
    candidate = Candidate(site, {}, ())
    if define.rest_results is not None:
        name = define.rest_results.name
        n_rest = max(0, len(node.outputs) - len(define.results))
        scope.slots[name], scope.kinds[name] = len(match.slots), Kind.VALUES
        match.slots.append([candidate.fresh_value(name) for _ in range(n_rest)])
    builder = Builder(candidate, _as_rule(define, ()), scope, match, evaluator, infer, node.origin, ())
    try:
        for step in define.body:
            if isinstance(step, FoldLine):
                _fold(step, evaluator, scope, match)
            else:
                builder.rule = _as_rule(define, (step,))
                builder.run()
        results = [_result(builder, name.name) for name in define.results]
        if define.rest_results is not None:
            results += _results(builder, define.rest_results.name)
    except (Refused, Reject) as error:
        raise RuleError(
            table.BAD_DEFINE, span=define.name.span, place=node.name, op=node.op, reason=str(error)
        ) from None
    except GerulesError as error:
        reason = error.diagnostics[0].message
        raise RuleError(table.BAD_DEFINE, span=define.name.span, op=node.op, reason=reason) from None
    for value, record in candidate.values.items():
        editor.values[value] = GraphValue(value, record.name, candidate.types.get(value, record.type))
    editor.consts.update(candidate.consts)
    if candidate.nodes:
        editor.insert(candidate.nodes)
    # Known inputs were initializers while building, so that expressions could read them.
    for value in editor.inputs:
        editor.consts.pop(value, None)
    wanted = results[: max(1, len(node.outputs))]
    editor.set_outputs([_produced(value, editor) for value in wanted])
    return editor.commit()


def define_extra(defines: Mapping[str, Define], *, schemas: Schemas, context: RuleContext) -> Extra:
    """Return inference for defined operators through what they compute (`gerules.ops.inference.Extra`).

    Results are remembered, as `TypeMemory` does it.
    """
    memory = TypeMemory()
    depth = 0

    def extra(
        node: Node, inputs: Sequence[ValueType | None], consts: Sequence[Const | None]
    ) -> Sequence[ValueType] | None:
        nonlocal depth
        define = defines.get(node.op)
        if define is None or depth >= _DEEPEST_DEFINE:
            return None
        key = memory.key(node, inputs)
        known = memory.get(key, consts)
        if known is not None:
            return known[0]
        depth += 1
        try:
            inner = make_infer(schemas, {}, extra)
            graph = expand_define(
                define, node, inputs, schemas=schemas, infer=inner, consts=consts, context=context
            )
        finally:
            depth -= 1
        types = tuple(graph.type_of(value) for value in graph.outputs)
        memory.keep(key, consts, (types, None))
        return types

    return extra


def _bind(
    define: Define,
    node: Node,
    inputs: Sequence[ValueType | None],
    consts: Sequence[Const | None],
    editor: GraphEditor,
    site: Site,
) -> tuple[Scope, list[object]]:
    """Bind parameters to inputs and attributes of the node; what is left over is a fault."""
    scope, slots = Scope(), list[object]()

    def bind(name: str, kind: Kind, value: object) -> None:
        scope.slots[name] = len(slots)
        scope.kinds[name] = kind
        slots.append(value)

    formals: list[int | None] = []
    for place, type in enumerate(inputs):
        known = consts[place] if place < len(consts) else None
        params = [param for param in define.params if param.default is None]
        name = params[place].name.name if place < len(params) else f"input_{place}"
        value = editor.add_input(type if type is not None else UNKNOWN, name)
        formals.append(value if type is not None else None)
        if known is not None:
            editor.consts[value] = known
    place = 0
    named: set[str] = set()
    for param in define.params:
        name = param.name.name
        if param.default is None:
            given = formals[place] if place < len(formals) else None
            if given is None and not param.is_optional:
                raise RuleError(
                    table.BAD_DEFINE,
                    span=param.span,
                    place=node.name,
                    op=node.op,
                    reason=f"{name} is not given",
                )
            bind(name, Kind.VALUE, given)
            place += 1
            continue
        named.add(name)
        attr = node.attrs.get(name)
        bind(
            name,
            Kind.ATTR,
            value_of_attr(attr) if attr is not None else dsl.evaluate(param.default, dsl.Scope()),
        )
    rest = tuple(value for value in formals[place:] if value is not None)
    if define.rest_inputs is not None:
        bind(define.rest_inputs.name, Kind.VALUES, rest)
    elif rest:
        raise RuleError(
            table.BAD_DEFINE,
            span=define.name.span,
            place=node.name,
            op=node.op,
            reason="it has too many inputs",
        )
    others: dict[str, Attr] = {name: value for name, value in node.attrs.items() if name not in named}
    if define.rest_attrs is not None:
        bind(define.rest_attrs.name, Kind.ATTRS, others)
    for step in define.body:
        for fold_name in step.names if isinstance(step, FoldLine) else ():
            bind(fold_name.name, Kind.RESULT, None)
    return scope, slots


def _fold(step: FoldLine, evaluator: MatchEvaluator, scope: Scope, match: Match) -> None:
    found: dict[str, Value] = dsl.fold(step, evaluator.seen(match, scope, step.value))
    for name, value in found.items():
        match.slots[scope.slots[name]] = value


def _result(builder: Builder, name: str) -> int:
    found = builder.made.get(name)
    if isinstance(found, int):
        return found
    slot = builder.scope.slots.get(name)
    bound = builder.match.slots[slot] if slot is not None else None
    if isinstance(bound, int):
        return bound
    raise Refused(f"{name} has no value")


def _results(builder: Builder, name: str) -> tuple[int, ...]:
    found = builder.made.get(name)
    if not isinstance(found, tuple):
        raise Refused(f"{name} has no values")
    return found


def _produced(value: int, editor: GraphEditor) -> int:
    """Return a value that a node makes: an output that is an input goes through an Identity."""
    if editor.producer(value) is not None and value not in editor.outputs:
        return value
    node = editor.add_node("Identity", [value])
    made = node.outputs[0]
    assert made is not None
    editor.set_type(made, editor.values[value].type)
    return made


def _as_rule(define: Define, lines: tuple[BuildLine, ...]) -> Rule:
    return Rule(
        define.span, define.name, "", "", (), (), (), lines, (), (), (), (), 0, (), (), False, "", False, None
    )
