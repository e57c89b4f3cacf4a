"""`fn Op(...)`: a matched region as the body of one new node."""

from __future__ import annotations

from collections.abc import Sequence

from gerules.engine.candidate import Candidate, Refused
from gerules.ir import UNKNOWN, Body, Const, Graph, Node, Value


def body_of_region(
    op: str,
    region: Sequence[Node],
    inputs: Sequence[int | None],
    outputs: Sequence[int],
    candidate: Candidate,
) -> Body:
    """Return the body: input `i` stands for input `i` of the node, constants not passed stay inside.

    An input that is absent has a stand-in of unknown type that nothing reads. Nodes and values keep
    their ids inside; the stand-ins get new ones.

    Raises:
        Refused: The region reads a value that is neither an argument nor a constant.
    """
    site = candidate.site
    values: dict[int, Value] = {}
    stand_in: dict[int, int] = {}
    formals: list[int] = []
    end = len(inputs)
    while end and inputs[end - 1] is None:
        end -= 1
    for place, outer in enumerate(inputs[:end]):
        inner = site.editor.fresh_id()
        formals.append(inner)
        if outer is None:
            values[inner] = Value(inner, f"absent_{place}", UNKNOWN)
            continue
        known = candidate.values.get(outer) or site.values[outer]
        values[inner] = Value(inner, known.name, known.type)
        stand_in.setdefault(outer, inner)
    made = {value for node in region for value in node.writes()}
    if any(value in made and value not in outputs for value in stand_in):
        raise Refused(f"an argument of {op} is made inside the region")
    consts: dict[int, Const] = {}
    nodes: dict[int, Node] = {}
    for node in region:
        if node.bodies and any(True for _ in node.captured()):
            raise Refused("a region with bodies that capture values cannot become a function")
        for value in node.reads():
            if value in stand_in or value in made or value in consts:
                continue
            const = site.const(value)
            if const is None:
                raise Refused(f"{op} reads {site.values[value].name or value}, which is no argument")
            consts[value] = const
            values[value] = site.values[value]
        for value in node.writes():
            values[value] = site.values[value]
        renamed = tuple(None if value is None else stand_in.get(value, value) for value in node.inputs)
        nodes[node.id] = Node(
            node.id, node.op, renamed, node.outputs, node.attrs, node.name, node.origin, node.bodies
        )
    opsets = dict(site.editor.opsets)
    graph = Graph(
        op,
        tuple(formals),
        tuple(outputs),
        values,
        nodes,
        consts,
        opsets=opsets,
        next_id=site.editor.fresh_id(),
    )
    return Body(graph)
