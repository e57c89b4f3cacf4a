"""Graph text, read: names become ids, and every fault of the text is reported with its place."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from lark import Token, Tree

from gerules.errors import Diagnostic, Faults, GerulesError, Source, Span, table
from gerules.errors.arguments import checked
from gerules.ir.dtype import DType
from gerules.ir.editor import GraphEditor
from gerules.ir.elements import equal_elements, listed_elements, random_elements
from gerules.ir.graph import Attr, Body, Const, Graph, Node, Origin, empty_graph
from gerules.ir.layout import Format
from gerules.ir.printing import default_sources
from gerules.ir.types import UNKNOWN, Dim, MapType, OptionalType, SequenceType, TensorType, ValueType
from gerules.text import parse_graphs

ConstReader = Callable[[str, int, int], bytes | memoryview]
"""Finds the bytes of `file("name", offset)`: (name, offset, size in bytes). Raises OSError or ValueError."""

_DTYPES: Final = {kind.value: kind for kind in DType}


class GraphError(GerulesError):
    """A graph text cannot be read, or what it says is no graph."""


@dataclass(frozen=True, slots=True)
class GraphText:
    """What a text holds: the graph, and the marks beside it by node id."""

    graph: Graph
    marks: Mapping[int, Mapping[str, Attr]] = field(default_factory=dict[int, Mapping[str, Attr]])


@checked("load")
def parse_graph(source: Source | str, *, load: ConstReader | None = None) -> Graph:
    """Read the text of one graph; marks beside it are dropped. See `read_graph_text`."""
    return read_graph_text(source, load=load).graph


def read_graph_text(source: Source | str, *, load: ConstReader | None = None) -> GraphText:
    """Read the text of one graph.

    Args:
        source: The text; a bare string is called `<graph>` in diagnostics.
        load: How `file(...)` constants are found; without it they are a fault.

    Raises:
        TextError: E10005, E40001, E40004, E40006 as `gerules.text` reports them.
        GraphError: E40003 undefined names, E40007 names defined twice, E40010 to E40014 and E40102 for
            types, constants and structure; all faults of the text at once.
    """
    if isinstance(source, str):
        source = Source("<graph>", source)
    tree = parse_graphs(source)
    graphs = [item for item in tree.children if isinstance(item, Tree)]
    reader = _Reader(source, load)
    if len(graphs) != 1:
        reader.faults.add(table.NOT_ONE_GRAPH, place=source.name, found=len(graphs))
        reader.faults.raise_if_any(GraphError)
    head, *statements = graphs[0].children
    result = reader.graph(_name(cast("Tree[Token]", head)), cast("list[Tree[Token]]", statements), {}, None)
    reader.faults.raise_if_any(GraphError)
    return result


class _Reader:
    """One pass over the statements; unresolved names are faults, never exceptions."""

    def __init__(self, source: Source, load: ConstReader | None) -> None:
        self.source = source
        self.load = load
        self.faults = Faults()

    def graph(
        self,
        name: str,
        statements: list[Tree[Token]],
        outer: Mapping[str, int],
        captures: list[tuple[int, int]] | None,
    ) -> GraphText:
        editor = GraphEditor(empty_graph(name))
        names: dict[str, int] = {}
        marks: dict[int, Mapping[str, Attr]] = {}
        returned = False
        for item in statements:
            if returned:
                self._fault(item, table.AFTER_RETURN)
                break
            match item.data:
                case "opset":
                    domain, version = _tokens(item)
                    key = "" if domain is None else _unquote(domain)
                    editor.opsets[key] = int(version or 0)
                case "meta":
                    key, value = (_unquote(token) for token in _tokens(item) if token is not None)
                    editor.metadata[key] = value
                case "input":
                    self._input(editor, names, item)
                case "capture":
                    self._capture(editor, names, item, outer, captures)
                case "const":
                    self._const(editor, names, item)
                case "return":
                    found = [self._lookup(names, child) for child in _parts(item)]
                    editor.set_outputs([value for value in found if value is not None])
                    returned = True
                case _:
                    self._node(editor, names, item, marks)
        if not returned and statements:
            self._fault(statements[-1], table.NO_RETURN)
        return GraphText(editor.commit(), marks)

    # ------------------------------------------------------------ statements
    def _input(self, editor: GraphEditor, names: dict[str, int], item: Tree[Token]) -> None:
        head, kind, *data = _parts(item)
        type = self._type(kind)
        value = editor.add_input(type, _name(head))
        if data:
            const = self._data(data[0], type, kind)
            if const is not None:
                editor.defaults[value] = const
        self._define(names, head, value)

    def _capture(
        self,
        editor: GraphEditor,
        names: dict[str, int],
        item: Tree[Token],
        outer: Mapping[str, int],
        captures: list[tuple[int, int]] | None,
    ) -> None:
        head, kind, target = _parts(item)
        value = editor.add_value(self._type(kind), _name(head))
        self._define(names, head, value)
        if captures is None:
            self._fault(item, table.CAPTURE_OUTSIDE_BODY)
            return
        found = self._lookup(outer, target)
        if found is not None:
            captures.append((found, value))

    def _const(self, editor: GraphEditor, names: dict[str, int], item: Tree[Token]) -> None:
        head, kind, data = _parts(item)
        type = self._type(kind)
        value = editor.add_value(type, _name(head))
        const = self._data(data, type, kind)
        if const is not None:
            editor.consts[value] = const
        self._define(names, head, value)

    def _node(
        self,
        editor: GraphEditor,
        names: dict[str, int],
        item: Tree[Token],
        marks: dict[int, Mapping[str, Attr]],
    ) -> None:
        children = _parts(item)
        results = [child for child in children if child.data in ("result", "absent")]
        call = next(child for child in children if child.data == "call")
        op = str(call.children[0])
        inputs: list[int | None] = []
        attrs: dict[str, Attr] = {}
        for arg in _parts(call):
            if arg.data == "absent":
                inputs.append(None)
            elif arg.data == "keyword":
                self._keyword(arg, attrs)
            else:
                inputs.append(self._lookup(names, arg))
        bodies: dict[str, Body] = {}
        for child in children:
            if child.data == "body":
                key, *statements = _parts(child)
                captures: list[tuple[int, int]] = []
                inner = self.graph(_name(key), statements, names, captures)
                if _name(key) in bodies:
                    self._fault(key, table.DEFINED_TWICE, name=_name(key))
                bodies[_name(key)] = Body(inner.graph, tuple(captures))
        outputs: list[int | None] = []
        defined: list[tuple[Tree[Token], int]] = []
        for result in results:
            if result.data == "absent":
                outputs.append(None)
                continue
            head, *kind = _parts(result)
            value = editor.add_value(self._type(kind[0]) if kind else UNKNOWN, _name(head))
            outputs.append(value)
            defined.append((head, value))
        own = self._marks(next((child for child in children if child.data == "marks"), None))
        node_name = own.pop("name", "")
        sources, rules, phase = own.pop("from", None), own.pop("rules", ()), own.pop("phase", "")
        name = node_name if isinstance(node_name, str) else ""
        if not isinstance(sources, tuple):
            first = next((editor.values[v].name for v in outputs if v is not None), "")
            sources = default_sources(name, first)
        origin = Origin(_strings(sources), _strings(rules), phase if isinstance(phase, str) else "")
        node: Node = editor.add_node(
            op, inputs, outputs, attrs, name=name, origin=origin, bodies=bodies, n_outputs=len(outputs)
        )
        for head, value in defined:
            self._define(names, head, value)
        if own:
            marks[node.id] = own

    def _marks(self, item: Tree[Token] | None) -> dict[str, Attr]:
        found: dict[str, Attr] = {}
        if item is None:
            return found
        for child in _parts(item):
            self._keyword(child, found)
        return found

    def _keyword(self, item: Tree[Token], into: dict[str, Attr]) -> None:
        head, value = cast("list[Tree[Token]]", item.children)  # the value may be a token
        attr = self._attr(value)
        if _name(head) in into:
            self._fault(head, table.DEFINED_TWICE, name=_name(head))
        elif attr is not None:
            into[_name(head)] = attr

    # ------------------------------------------------------------ names
    def _define(self, names: dict[str, int], head: Tree[Token], value: int) -> None:
        name = _name(head)
        if name in names:
            self._fault(head, table.DEFINED_TWICE, name=name)
        names[name] = value

    def _lookup(self, names: Mapping[str, int], head: Tree[Token]) -> int | None:
        name = _name(head)
        if name in names:
            return names[name]
        near = difflib.get_close_matches(name, list(names)[-500:], n=1)
        notes = [f"did you mean {near[0]}?"] if near else []
        self.faults.add(table.UNDEFINED_NAME, span=self._span(head), notes=notes, name=name)
        return None

    # ------------------------------------------------------------ types and values
    def _type(self, item: Tree[Token]) -> ValueType:
        match item.data:
            case "sequence_type":
                return SequenceType(self._type(cast("Tree[Token]", item.children[0])))
            case "optional_type":
                return OptionalType(self._type(cast("Tree[Token]", item.children[0])))
            case "map_type":
                key, value = item.children
                return MapType(self._dtype(cast("Token", key)), self._type(cast("Tree[Token]", value)))
            case "unranked_type":
                return TensorType(self._dtype(cast("Token", item.children[0])))
            case _:
                return self._tensor_type(item)

    def _tensor_type(self, item: Tree[Token]) -> TensorType:
        dtype = self._dtype(cast("Token", item.children[0]))
        dims: list[Dim] = []
        format, groups = Format.ND, 1
        for child in _parts(item):
            if child.data == "layout":
                name, count = _tokens(child)
                if str(name) in Format.__members__:
                    format = Format[str(name)]
                else:
                    known = ", ".join(Format.__members__)
                    self._fault(child, table.UNKNOWN_FORMAT, name=str(name), known=known)
                groups = int(count) if count else 1
            else:
                dims.append(self._dim(cast("Token", child.children[0])))
        return TensorType(dtype, tuple(dims), format, groups)

    def _dim(self, token: Token) -> Dim:
        if token.type == "INT":
            if int(token) < 0:
                self._fault(token, table.BAD_CONSTANT, reason="a dimension is negative")
                return 0
            return int(token)
        return _unquote(token) if token.type == "QUOTED" else str(token)

    def _dtype(self, token: Token) -> DType:
        if str(token) in _DTYPES:
            return _DTYPES[str(token)]
        self._fault(token, table.UNKNOWN_DTYPE, name=str(token), remedy=f"use one of {', '.join(_DTYPES)}")
        return DType.UNKNOWN

    def _attr(self, item: Tree[Token] | Token | None) -> Attr | None:
        if isinstance(item, Token):
            return _scalar(item)
        if item is None:
            return None
        match item.data:
            case "dtype":
                return self._dtype(cast("Token", item.children[0]))
            case "list":
                values = [self._attr(child) for child in cast("list[Tree[Token] | None]", item.children)]
                return self._list(item, [value for value in values if value is not None])
            case "tensor":
                kind, data = _parts(item)
                type = self._type(kind)
                return self._data(data, type, kind)
            case "type_value":
                return self._type(cast("Tree[Token]", item.children[0]))
            case _:
                try:
                    return bytes.fromhex(_unquote(cast("Token", item.children[0])))
                except ValueError:
                    self._fault(item, table.BAD_CONSTANT, reason="bytes are written as hexadecimal digits")
                    return None

    def _list(self, item: Tree[Token], values: list[Attr]) -> Attr | None:
        if all(isinstance(value, int) for value in values):
            return tuple(cast("list[int]", values))
        if all(isinstance(value, int | float) for value in values):
            return tuple(float(value) for value in cast("list[float]", values))
        for kind in (str, bytes, Const):
            if all(isinstance(value, kind) for value in values):
                return cast("Attr", tuple(values))
        self._fault(item, table.BAD_CONSTANT, reason="a list holds values of different kinds")
        return None

    def _data(self, item: Tree[Token], type: ValueType, where: Tree[Token]) -> Const | None:
        if not isinstance(type, TensorType) or not type.is_static or type.dtype is DType.UNKNOWN:
            self._fault(where, table.BAD_CONSTANT, reason="a constant needs a known element type and shape")
            return None
        shape, dtype = type.static_shape, type.dtype
        try:
            array = self._array(item, shape, dtype)
        except (ValueError, TypeError, OverflowError, OSError) as error:
            self._fault(item, table.BAD_CONSTANT, reason=str(error))
            return None
        return None if array is None else Const(array)

    def _array(
        self, item: Tree[Token], shape: tuple[int, ...], dtype: DType
    ) -> npt.NDArray[np.generic] | None:
        count = int(np.prod(shape, dtype=object)) if shape else 1
        tokens = [token for token in _tokens(item) if token is not None]
        match item.data:
            case "fill":
                return equal_elements(_scalar(tokens[0]), shape, dtype)
            case "random":
                return random_elements(int(tokens[0]), shape, dtype)
            case "file":
                if self.load is None:
                    raise ValueError("constants in other files are not read here")
                size_bytes = count * dtype.numpy.itemsize
                data = self.load(_unquote(tokens[0]), int(tokens[1]), size_bytes)
                return np.frombuffer(data, dtype.numpy, count).reshape(shape)
            case "elided":
                raise ValueError("the elements were left out when the text was written")
            case _:
                return listed_elements([_scalar(token) for token in tokens], shape, dtype)

    def _span(self, item: Tree[Token] | Token) -> Span:
        if isinstance(item, Token):
            start, end = item.start_pos or 0, item.end_pos or 0
        else:
            start, end = getattr(item.meta, "start_pos", 0), getattr(item.meta, "end_pos", 0)
        return Span(self.source, start, end)

    def _fault(self, item: Tree[Token] | Token, code: table.ErrorCode, **facts: object) -> None:
        self.faults.extend([Diagnostic(code, facts, self._span(item))])


def _scalar(token: Token) -> int | float | str:
    if token.type == "INT":
        return int(token)
    if token.type == "FLOAT":
        return float(token)
    return _unquote(token)


def _strings(value: Attr) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, tuple) else ()


def _parts(item: Tree[Token]) -> list[Tree[Token]]:
    """The inner trees of a node, without its tokens and without what was left out."""
    return [child for child in item.children if isinstance(child, Tree)]


def _tokens(item: Tree[Token]) -> list[Token | None]:
    return cast("list[Token | None]", item.children)


def _name(item: Tree[Token]) -> str:
    token = cast("Token", item.children[0])
    return _unquote(token) if token.type == "QUOTED" else str(token)


def _unquote(token: Token) -> str:
    inner = str(token)[1:-1]
    if "\\" not in inner:
        return inner
    inner = inner.replace("\\`", "`") if token.type == "QUOTED" else inner
    try:
        plain = inner.replace('"', '\\"') if token.type == "QUOTED" else inner
        return cast("str", json.loads(f'"{plain}"'))
    except json.JSONDecodeError:
        return inner
