"""Graph text, written: one value a line, in the words that rules use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from gerules.errors.arguments import checked
from gerules.ir.dtype import DType
from gerules.ir.graph import Attr, Body, Const, Graph, Node, Origin
from gerules.ir.types import (
    UNKNOWN,
    Dim,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
)

KEYWORDS: Final = frozenset(
    {"graph", "opset", "meta", "input", "capture", "const", "return", "none", "tensor", "type", "bytes"}
    | {"fill", "random", "file", "elided", "seq", "optional", "map", "inf", "nan"}
)
"""Words that a value can only have as its name in backquotes."""

_PLAIN: Final = re.compile(r"[^\W\d]\w*")
_INLINE_ELEMENTS: Final = 64
"""Constants with more elements are not written out in place."""

Marks = Mapping[int, Mapping[str, Attr]]
"""What is known beside the graph, by node id: engine, stream, offset ..., printed in braces."""

ConstWriter = Callable[[str, Const], str | None]
"""Stores a large constant elsewhere and returns the text that finds it again, or None to elide it."""


@checked("marks", "store")
def print_graph(graph: Graph, *, marks: Marks | None = None, store: ConstWriter | None = None) -> str:
    """Return the text of a graph; `parse_graph` reads it back.

    Constants of up to 64 elements, and larger ones that repeat one element, are written in place;
    others are handed to `store`. Without it they are left out (`elided(...)`), and the text can be
    read by people but not compiled.
    """
    return _Printer(marks or {}, store).text(graph)


def quote_name(name: str) -> str:
    """Return a name as graph text writes it: bare where it can be, in backquotes otherwise."""
    if _PLAIN.fullmatch(name) and name not in KEYWORDS:
        return name
    return "`" + _escape(name).replace("`", "\\`") + "`"


def print_type(type: ValueType) -> str:
    """Return a type as graph text writes it."""
    if isinstance(type, TensorType):
        if type.shape is None:
            return f"{type.dtype}[*]"
        text = f"{type.dtype}[" + ", ".join(_dim(dim) for dim in type.shape) + "]"
        if type.format.name != "ND" or type.groups != 1:
            text += f" @{type.format.name}" + (f"/{type.groups}" if type.groups != 1 else "")
        return text
    if isinstance(type, SequenceType):
        return f"seq({print_type(type.element)})"
    if isinstance(type, OptionalType):
        return f"optional({print_type(type.element)})"
    return f"map({type.key}, {print_type(type.value)})"


def print_attr(value: Attr) -> str:
    """Return an attribute's value as graph and rule texts write it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bytes):
        return f'bytes("{value.hex()}")'
    if isinstance(value, DType):
        return value.value
    if isinstance(value, Const):
        return f"tensor({print_type(value.type)}, {_elements(value)})"
    if isinstance(value, tuple):
        return "[" + ", ".join(print_attr(item) for item in value) + "]"
    return f"type({print_type(value)})"


class _Printer:
    def __init__(self, marks: Marks, store: ConstWriter | None) -> None:
        self._marks = marks
        self._store = store
        self._lines: list[str] = []

    def text(self, graph: Graph) -> str:
        self._lines = [f"graph {quote_name(graph.name or 'main')}:"]
        self._graph(graph, 1, {})
        return "\n".join(self._lines) + "\n"

    def _graph(self, graph: Graph, depth: int, captures: Mapping[int, str]) -> None:
        names = dict(_unique_names(graph))
        pad = "    " * depth
        out = self._lines
        for domain, version in graph.opsets.items():
            out.append(f"{pad}opset " + (f"{_string(domain)} " if domain else "") + str(version))
        for key, value in graph.metadata.items():
            out.append(f"{pad}meta {_string(key)} = {_string(value)}")
        for inner, outer in captures.items():
            out.append(f"{pad}capture {names[inner]}: {print_type(graph.type_of(inner))} = {outer}")
        for value in graph.inputs:
            default = graph.defaults.get(value)
            tail = "" if default is None else f" = {self._data(names[value], default)}"
            out.append(f"{pad}input {names[value]}: {print_type(graph.type_of(value))}{tail}")
        pending = dict(graph.consts)
        for node in graph.nodes.values():
            # A constant stands right above its first reader, so that the text reads top to bottom.
            for value in node.reads():
                if value in pending:
                    self._const(graph, value, pending.pop(value), names, pad)
            self._node(graph, node, names, depth)
        for value, const in pending.items():
            self._const(graph, value, const, names, pad)
        out.append(f"{pad}return " + ", ".join(names[value] for value in graph.outputs))
        if not graph.outputs:
            out[-1] = f"{pad}return"

    def _const(self, graph: Graph, value: int, const: Const, names: Mapping[int, str], pad: str) -> None:
        type = print_type(graph.type_of(value))
        self._lines.append(f"{pad}{names[value]}: const {type} = {self._data(names[value], const)}")

    def _node(self, graph: Graph, node: Node, names: Mapping[int, str], depth: int) -> None:
        pad = "    " * depth
        results: list[str] = []
        for value in node.outputs:
            if value is None:
                results.append("none")
            elif graph.type_of(value) == UNKNOWN:
                results.append(names[value])
            else:
                results.append(f"{names[value]}: {print_type(graph.type_of(value))}")
        args = ["none" if value is None else names[value] for value in node.inputs]
        args += [f"{quote_name(key)}={print_attr(value)}" for key, value in node.attrs.items()]
        line = f"{pad}{', '.join(results) or 'none'} = {node.op}({', '.join(args)})"
        marks = dict(_own_marks(node, graph)) | dict(self._marks.get(node.id, {}))
        if marks:
            shown = ", ".join(f"{quote_name(key)}={print_attr(value)}" for key, value in marks.items())
            line += f"  {{{shown}}}"
        if not node.bodies:
            self._lines.append(line)
            return
        self._lines.append(line + ":")
        for key, body in node.bodies.items():
            self._lines.append(f"{pad}    {quote_name(key)}:")
            self._graph(body.graph, depth + 2, _captures(body, names))

    def _data(self, name: str, const: Const) -> str:
        array = const.array
        if array.size <= _INLINE_ELEMENTS:
            return _elements(const)
        if not any(array.strides) and array.dtype.kind != "O":
            return f"fill({_number(array.reshape(-1)[:1].item())})"
        where = None if self._store is None else self._store(name, const)
        return where or f'elided("{const.digest.hex()}")'


def default_sources(name: str, first_output: str) -> tuple[str, ...]:
    """Where a node comes from when its text does not say: from itself, under the name users know."""
    return (name or first_output,) if name or first_output else ()


def _own_marks(node: Node, graph: Graph) -> Iterator[tuple[str, Attr]]:
    """What a reader could not tell from the line itself."""
    if node.name:
        yield "name", node.name
    origin: Origin = node.origin
    first = next((graph.values[value].name for value in node.writes()), "")
    if origin.sources and origin.sources != default_sources(node.name, first):
        yield "from", origin.sources
    if origin.rules:
        yield "rules", origin.rules
    if origin.phase:
        yield "phase", origin.phase


def _captures(body: Body, names: Mapping[int, str]) -> Mapping[int, str]:
    return {inner: names[outer] for outer, inner in body.captures}


def _unique_names(graph: Graph) -> Iterator[tuple[int, str]]:
    taken: set[str] = set()
    counts: dict[str, int] = {}
    reserved = {graph.values[value].name for value in (*graph.inputs, *graph.outputs)}
    first = [*graph.inputs, *graph.outputs]
    for value in dict.fromkeys([*first, *graph.values]):
        wanted = graph.values[value].name or f"v{value}"
        name, count = wanted, counts.get(wanted, 1)
        while name in taken or (count > 1 and name in reserved):
            count += 1
            name = f"{wanted}_{count}"
        taken.add(name)
        counts[wanted] = count
        yield value, quote_name(name)


def _elements(const: Const) -> str:
    array = const.array
    if array.dtype.kind in "OUST":
        items = [_string(str(item)) for item in array.reshape(-1).tolist()]
    elif array.dtype.kind == "c":
        items = [_number(part) for item in array.reshape(-1).tolist() for part in (item.real, item.imag)]
    else:
        items = [_number(item) for item in array.reshape(-1)]
    if array.ndim == 0 and len(items) == 1:
        return items[0]
    return "[" + ", ".join(items) + "]"


def _number(value: bool | int | float | complex | str | bytes | np.generic) -> str:
    if isinstance(value, np.generic):
        return _element(value)
    return str(int(value)) if isinstance(value, bool) else repr(value)


def _element(value: np.generic) -> str:
    kind = value.dtype.kind
    if kind in "iub":
        return str(int(value.item()))
    if value.dtype == np.float32 or value.dtype == np.float16:
        # numpy prints the fewest digits that read back to the same element of the narrow type.
        return repr(float(str(value)))
    number = np.asarray(value).astype(np.float64).item()  # extension types: bf16, f8, int4 ...
    return str(int(number)) if "int" in value.dtype.name else repr(number)


def _dim(dim: Dim) -> str:
    if isinstance(dim, int) or dim == "?":
        return str(dim)
    return dim if _PLAIN.fullmatch(dim) else "`" + _escape(dim).replace("`", "\\`") + "`"


def _string(text: str) -> str:
    return '"' + _escape(text).replace('"', '\\"') + '"'


def _escape(text: str) -> str:
    # JSON's escapes, without those for the quote and without hiding letters that are not ASCII.
    return json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("\x7f", "\\u007f")
