"""Examples of the pages run through the engine, and graphs compared by what they say rather than by names."""

from __future__ import annotations

from gerules.dsl import RuleBook
from gerules.engine.rewrite import rewrite
from gerules.ir import Graph, print_attr, print_type
from gerules.pipeline.toolchain import make_toolchain


def apply_rules(book: RuleBook, graph: Graph, names: set[str]) -> Graph:
    """Rewrite a graph with the named rules of a book, for the device `host`."""
    tools = make_toolchain(book, graph.opsets)
    rules = [rule for rule in tools.selection.rules if rule.name.name in names]
    return rewrite(graph, rules, schemas=tools.schemas, infer=tools.infer, context=tools.context)[0]


def meaning_of(graph: Graph) -> list[str]:
    """A graph as lines that do not depend on names of inner values and nodes, for comparison."""
    names: dict[int, str] = {}
    lines: list[str] = []
    for value in graph.inputs:
        names[value] = f"input {graph.values[value].name}"
        lines.append(f"{names[value]}: {print_type(graph.type_of(value))}")
    for node in graph.nodes.values():
        for value in node.reads():
            if value not in names:
                const = graph.consts[value]
                names[value] = f"const {const.dtype}{list(const.array.shape)}{const.array.tolist()}"
        for place, value in enumerate(node.writes()):
            names[value] = f"{len(lines)}.{place}: {print_type(graph.type_of(value))}"
        inputs = ["none" if value is None else names[value] for value in node.inputs]
        attrs = [f"{key}={print_attr(node.attrs[key])}" for key in sorted(node.attrs)]
        outputs = ["none" if value is None else names[value] for value in node.outputs]
        lines.append(f"{outputs} = {node.op}({inputs}, {attrs})")
    lines.append(f"return {[graph.values[value].name for value in graph.outputs]}")
    return [*lines, *(names[value] for value in graph.outputs)]
