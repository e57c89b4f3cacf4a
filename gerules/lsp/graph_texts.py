"""Graph texts (`.graph`): what is wrong with them, and the types of their values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from gerules.dsl import Environment, select_rules
from gerules.engine.define import define_extra
from gerules.engine.evaluation import RuleContext
from gerules.errors import Diagnostic, GerulesError, Source, Span
from gerules.ir import Graph, read_graph_text
from gerules.lsp.hover import Hover
from gerules.lsp.operator_docs import describe_operator
from gerules.lsp.reading import MAX_BYTES
from gerules.lsp.workspace import Context
from gerules.ops import infer_graph
from gerules.text import check_size

_WORD: Final = re.compile(r"[^\W\d][\w.]*::[^\W\d]\w*|[^\W\d]\w*|`(?:\\.|[^`\\\n])*`")


def graph_faults(source: Source, context: Context) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a graph text: its syntax, names, constants and structure; then its types."""
    return _read(source, context)[1]


def graph_hover(source: Source, offset: int, context: Context) -> Hover | None:
    """Return the type of the value at an offset, inferred where possible, or what the operator does."""
    start = source.text.rfind("\n", 0, offset) + 1
    end = source.text.find("\n", offset)
    words = _WORD.finditer(source.text, start, end if end >= 0 else len(source.text))
    word = next((item for item in words if item.start() <= offset <= item.end()), None)
    if word is None:
        return None
    name = word[0].strip("`")
    graph, _ = _read(source, context)
    for found in _types(graph, name) if graph is not None else ():
        return Hover(f"```graph\n{name}: {found}\n```", word.start(), word.end())
    text = describe_operator(name, context)
    return Hover(text, word.start(), word.end()) if text is not None else None


def _types(graph: Graph, name: str) -> Iterator[str]:
    pending = [graph]
    while pending:
        inner = pending.pop()
        yield from (str(value.type) for value in inner.values.values() if value.name == name)
        pending += [body.graph for node in inner.nodes.values() for body in node.bodies.values()]


def _read(source: Source, context: Context) -> tuple[Graph | None, tuple[Diagnostic, ...]]:
    """Read a text and infer its types; the graph stays untyped where they do not fit."""
    folder = Path(source.name).parent

    def load(name: str, offset: int, size_bytes: int) -> bytes:
        # Types need no elements; whether they are there is all that is looked at.
        path = folder / name
        if Path(name).name != name or not path.is_file():
            raise ValueError(f"{name} is not there")
        if offset < 0 or offset + size_bytes > path.stat().st_size:
            raise ValueError(f"{name} has no {size_bytes} bytes at {offset}")
        return bytes(size_bytes)

    try:
        check_size(source, MAX_BYTES)
        graph = read_graph_text(source, load=load).graph
    except GerulesError as error:
        return None, error.diagnostics
    try:
        rules = RuleContext(select_rules(context.book, Environment()).scope, context.book.patterns)
        extra = define_extra(context.book.defines, schemas=context.schemas, context=rules)
        return infer_graph(graph, context.schemas, extra=extra), ()
    except GerulesError as error:
        return graph, tuple(_placed(item, source) for item in error.diagnostics)


def _placed(item: Diagnostic, source: Source) -> Diagnostic:
    """Give a fault of a node the place of its first result, which it has its name from."""
    name = item.facts.get("node")
    if item.span is not None or not isinstance(name, str):
        return item
    found = re.search(rf"^[ \t]*`?({re.escape(name)})`?[ \t]*[:,=]", source.text, re.MULTILINE)
    return item if found is None else replace(item, span=Span(source, found.start(1), found.end(1)))
