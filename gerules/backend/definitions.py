"""The definitions a graph needs, as texts that travel with it: an offline model says what it computes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gerules.dsl import RuleBook
from gerules.ir import Graph

_OPERATOR = re.compile(r"[A-Za-z_][\w.]*::[A-Za-z_]\w*")


def definition_texts(book: RuleBook, *graphs: Graph) -> tuple[str, ...]:
    """Return rule texts with the `define`s of the operators of graphs, those they use, and their constants.

    Cost: linear in nodes and in the texts returned.
    """
    wanted: dict[str, None] = {}
    pending = [op for graph in graphs for op in ops_in(graph) if op in book.defines]
    while pending:
        op = pending.pop()
        if op in wanted:
            continue
        wanted[op] = None
        text = book.defines[op].span.text
        pending.extend(name for name in _OPERATOR.findall(text) if name in book.defines)
    if not wanted:
        return ()
    shared = [*book.consts.values(), *book.params.values()]
    head = "\n".join(["gerules 1", *(item.span.text.strip() for item in shared)])
    body = "\n\n".join(_dedent(book.defines[op].span.text) for op in sorted(wanted))
    return (f"{head}\n\n{body}\n",)


def ops_in(graph: Graph) -> set[str]:
    """Return the operators of a graph and of all bodies inside."""
    return {node for inner in graphs_in(graph) for node in _ops(inner)}


def graphs_in(graph: Graph) -> Iterator[Graph]:
    """Yield a graph and all bodies inside, outermost first."""
    pending = [graph]
    while pending:
        inner = pending.pop()
        yield inner
        for node in inner.nodes.values():
            pending.extend(body.graph for body in node.bodies.values())


def _ops(graph: Graph) -> Iterable[str]:
    return {node.op for node in graph.nodes.values()}


def _dedent(text: str) -> str:
    return text.strip("\n").rstrip()
