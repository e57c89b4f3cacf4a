"""The graph: frozen records that hold ids, never each other, and a snapshot with its index."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from gerules.ir.dtype import DType, dtype_of
from gerules.ir.types import TensorType, ValueType


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """An array known at compile time: an initializer, or a tensor-valued attribute.

    The array is never written to; it may be a view into the model file or a broadcast of one
    element. `groups`/format of a stored weight are in its value's type, not here.
    """

    array: npt.NDArray[np.generic]
    _digest: list[bytes] = field(default_factory=list[bytes], repr=False)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return dtype_of(self.array)

    @property
    def type(self) -> TensorType:
        """The type of the array, in plain layout."""
        return TensorType(self.dtype, self.array.shape)

    @property
    def digest(self) -> bytes:
        """A 16-byte digest of dtype, shape and elements; computed once."""
        if not self._digest:
            state = hashlib.blake2b(f"{self.array.dtype}{self.array.shape}".encode(), digest_size=16)
            if self.array.dtype.kind == "O":
                state.update(repr(self.array.tolist()).encode())
            elif self.array.size and not any(self.array.strides):
                state.update(b"broadcast" + self.array.reshape(-1)[:1].tobytes())
            else:
                state.update(np.ascontiguousarray(self.array).view(np.uint8).data)
            self._digest.append(state.digest())
        return self._digest[0]

    def equals(self, other: Const) -> bool:
        """Whether dtype, shape and every byte agree."""
        mine, theirs = self.array, other.array
        if mine is theirs:
            return True
        if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
            return False
        if mine.size:
            # Most arrays of one type differ at once, and need no digest. (A NaN differs from itself.)
            one, two = mine.item(0), theirs.item(0)
            if one != two and one == one and two == two:
                return False
        return self.digest == other.digest


Attr = (
    int
    | float
    | str
    | bytes
    | DType
    | Const
    | ValueType
    | tuple[int, ...]
    | tuple[float, ...]
    | tuple[str, ...]
    | tuple[bytes, ...]
    | tuple[Const, ...]
)
"""An attribute's value. ONNX's integer codes of element types are `DType` here (`Cast.to`, ...);
texts are `str`, or `bytes` when they are no UTF-8; graphs are not attributes but `Node.bodies`."""

NO_ATTRS: Final[Mapping[str, Attr]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node came from, so that users can go on naming nodes as their model does.

    `sources` are names of nodes of the model as read, in order; `rules` are the rules that made the
    node, oldest first; `phase` is the phase of the last of them (empty: as read).
    """

    sources: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    phase: str = ""


NO_ORIGIN: Final = Origin()


@dataclass(frozen=True, slots=True)
class Value:
    """One tensor (or sequence, ...) of a graph. The name is a hint for people."""

    id: int
    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Body:
    """A graph inside a node (a branch of If, the body of Loop, what a fused operator does).

    `captures` pairs a value of the outer graph with the value that stands for it inside; inside it
    has no producer. The outer value counts as read by the node.
    """

    graph: Graph
    captures: tuple[tuple[int, int], ...] = ()


NO_BODIES: Final[Mapping[str, Body]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Node:
    """One operator application.

    `op` is `Conv` for the ONNX domain and `domain::Name` for any other. An input is None when an
    optional one is absent (never at the end); an output is None when nobody asked for it.
    """

    id: int
    op: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    attrs: Mapping[str, Attr] = field(default_factory=lambda: NO_ATTRS)
    name: str = ""
    origin: Origin = NO_ORIGIN
    bodies: Mapping[str, Body] = field(default_factory=lambda: NO_BODIES)

    def captured(self) -> Iterator[int]:
        """Yield the outer values that the node's bodies read."""
        for body in self.bodies.values():
            for outer, _ in body.captures:
                yield outer

    def reads(self) -> Iterator[int]:
        """Return every value the node reads, captures included; a value read twice comes twice."""
        inputs = self.inputs
        if self.bodies:
            return chain((value for value in inputs if value is not None), self.captured())
        if None in inputs:
            return (value for value in inputs if value is not None)
        return iter(inputs)  # pyright: ignore[reportReturnType] (none of them is None)

    def writes(self) -> Iterator[int]:
        """Return every value the node produces."""
        outputs = self.outputs
        if None in outputs:
            return (value for value in outputs if value is not None)
        return iter(outputs)  # pyright: ignore[reportReturnType] (none of them is None)


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A frozen snapshot: nodes in topological order, everything by id.

    Ids of values and nodes come from one counter, so the two never coincide. `consts` are
    initializers that no caller can override; `defaults` are those of graph inputs that a caller may
    override. In a body, values captured from outside appear in `values` without producer.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    values: Mapping[int, Value]
    nodes: Mapping[int, Node]
    consts: Mapping[int, Const]
    defaults: Mapping[int, Const] = field(default_factory=dict[int, Const])
    opsets: Mapping[str, int] = field(default_factory=dict[str, int])
    """Version of each operator domain; the ONNX domain is `""`."""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    next_id: int = 0
    """The first id not yet given out."""

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self.nodes)} nodes>"

    @cached_property
    def producer(self) -> Mapping[int, int]:
        """Node id that produces a value; inputs, consts and captures have none."""
        return {value: node.id for node in self.nodes.values() for value in node.writes()}

    @cached_property
    def readers(self) -> Mapping[int, tuple[int, ...]]:
        """Node ids that read a value (captures included), each once, in topological order."""
        found: dict[int, dict[int, None]] = {}
        for node in self.nodes.values():
            for value in node.reads():
                found.setdefault(value, {})[node.id] = None
        return {value: tuple(nodes) for value, nodes in found.items()}

    @cached_property
    def output_set(self) -> frozenset[int]:
        """The graph outputs, for membership tests."""
        return frozenset(self.outputs)

    @property
    def opset(self) -> int:
        """Version of the ONNX operator set; 0 when the graph names none."""
        return self.opsets.get("", 0)

    def type_of(self, value: int) -> ValueType:
        """Return the type of a value id."""
        return self.values[value].type

    def node_list(self) -> list[Node]:
        """Return the nodes in topological order."""
        return list(self.nodes.values())


def empty_graph(name: str, opsets: Mapping[str, int] | None = None) -> Graph:
    """Return a graph without values or nodes, to be filled by an editor."""
    return Graph(name, (), (), {}, {}, {}, opsets=dict(opsets or {}))
