"""The branch of an If in the place of the If."""

from __future__ import annotations

from dataclasses import replace

from gerules.ir import Body, GraphEditor, Node, Value


def inline_branch(editor: GraphEditor, node: Node, body: Body) -> list[Node] | None:
    """Replace an If by one of its branches; says which nodes came in, in order.

    The values that the If gave keep their ids and readers. None when the branch does not fit the
    node, which then stays.
    """
    inner = body.graph
    if len(inner.outputs) < len(node.outputs) or inner.inputs:
        return None
    outer: dict[int, int] = {inside: outside for outside, inside in body.captures}
    wanted = [(value, inner.outputs[place]) for place, value in enumerate(node.outputs) if value is not None]
    if not wanted:
        return None
    for outside, inside in wanted:
        # A branch may give one value twice, or one that it did not compute: those need an Identity.
        if inside in inner.producer and inside not in outer:
            outer[inside] = outside
    for value, const in inner.consts.items():
        outer[value] = editor.add_const(const, inner.values[value].name)
    for value, record in inner.values.items():
        if value not in outer:
            outer[value] = editor.add_value(record.type, record.name)
    made: list[Node] = []
    for one in inner.nodes.values():
        bodies = {
            name: Body(inside.graph, tuple((outer[value], own) for value, own in inside.captures))
            for name, inside in one.bodies.items()
        }
        made.append(
            replace(
                one,
                id=editor.fresh_id(),
                inputs=tuple(None if value is None else outer[value] for value in one.inputs),
                outputs=tuple(None if value is None else outer[value] for value in one.outputs),
                bodies=bodies or one.bodies,
            )
        )
    for outside, inside in wanted:
        if outer[inside] != outside:
            made.append(
                Node(
                    editor.fresh_id(),
                    "Identity",
                    (outer[inside],),
                    (outside,),
                    name=node.name,
                    origin=node.origin,
                )
            )
        else:
            known = editor.values[outside]
            editor.values[outside] = Value(outside, known.name, inner.values[inside].type)
    editor.substitute([node.id], made, {})
    return made
