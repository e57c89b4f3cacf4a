"""A builder of graphs, and the values that operators of Python and of `es.all` take and give."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, cast

import numpy as np

from gerules.compat.ge.error import GeError
from gerules.compat.ge.graph.conversion import is_whole, shown
from gerules.compat.ge.graph.graph import DATA, Graph, InDataAnchor, Node, OutDataAnchor
from gerules.compat.ge.graph.tensor import Tensor, TensorDesc, dims_of
from gerules.compat.ge.graph.types import DataType, Format, member_of
from gerules.errors import table

_BOOLEAN: Final = frozenset(
    [
        "Equal",
        "Less",
        "LessEqual",
        "Greater",
        "GreaterEqual",
        "LogicalAnd",
        "LogicalOr",
        "LogicalNot",
        "IsNan",
    ]
)


class TensorHolder:
    """An output of a node under construction; arithmetic adds nodes."""

    def __init__(self, builder: GraphBuilder, node: Node, index: int) -> None:
        self.builder = builder
        self.node = node
        self.index = index

    @property
    def name(self) -> str:
        """The name of its node."""
        return self.node.name

    @property
    def data_type(self) -> DataType:
        """The element type, as far as it was said."""
        return self.node.get_output_desc(self.index).data_type

    def get_owner_builder(self) -> GraphBuilder:
        """Return the builder."""
        return self.builder

    def set_data_type(self, data_type: DataType) -> TensorHolder:
        """Say the element type, and return the value."""
        self.node.get_output_desc(self.index).data_type = member_of(DataType, data_type)
        return self

    def set_format(self, format: Format) -> TensorHolder:
        """Say the format, and return the value."""
        self.node.get_output_desc(self.index).format = member_of(Format, format)
        return self

    def set_shape(self, shape: Sequence[int]) -> TensorHolder:
        """Say the shape, and return the value."""
        self.node.get_output_desc(self.index).shape = dims_of(shape)
        return self

    def __add__(self, other: object) -> TensorHolder:
        return self.builder.call("Add", self, other)

    def __radd__(self, other: object) -> TensorHolder:
        return self.builder.call("Add", other, self)

    def __sub__(self, other: object) -> TensorHolder:
        return self.builder.call("Sub", self, other)

    def __rsub__(self, other: object) -> TensorHolder:
        return self.builder.call("Sub", other, self)

    def __mul__(self, other: object) -> TensorHolder:
        return self.builder.call("Mul", self, other)

    def __rmul__(self, other: object) -> TensorHolder:
        return self.builder.call("Mul", other, self)

    def __truediv__(self, other: object) -> TensorHolder:
        return self.builder.call("Div", self, other)

    def __rtruediv__(self, other: object) -> TensorHolder:
        return self.builder.call("Div", other, self)

    def __repr__(self) -> str:
        return f"<TensorHolder {self.node.name}:{self.index}>"


class GraphBuilder:
    """Builds one graph after another."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name or "graph"
        self._graph = Graph(self._name)
        self._outputs: dict[int, TensorHolder] = {}

    @property
    def graph(self) -> Graph:
        """The graph as far as it is built."""
        return self._graph

    # ------------------------------------------------------------ inputs and constants
    def create_input(
        self,
        index: int,
        *,
        name: str | None = None,
        type_str: str = DATA,
        data_type: DataType = DataType.DT_FLOAT,
        format: Format = Format.FORMAT_ND,
        shape: Sequence[int] | None = None,
    ) -> TensorHolder:
        """Return an input of the graph.

        Args:
            index: Its place, from 0.
            shape: -1 is open; without it even the rank is.

        Raises:
            GeError: E41004 for a place that is none, E41007 for what is no shape, format or element type.
        """
        if not is_whole(index) or index < 0:
            raise GeError(
                table.GE_BAD_GRAPH, name=self._name, reason=f"an input has the place {shown(index)}",
                remedy="number inputs from 0",
            )  # fmt: skip
        desc = TensorDesc([-2] if shape is None else shape, format, data_type)
        node = self._graph.add_node(type_str, name or f"input_{index}", {"index": index})
        node.update_output_desc(0, desc)
        return TensorHolder(self, node, 0)

    def create_inputs(self, num: int, start_index: int = 0) -> list[TensorHolder]:
        """Return several inputs of open rank."""
        return [self.create_input(start_index + at) for at in range(num)]

    def create_const(
        self, value: object, data_type: DataType = DataType.DT_FLOAT, shape: Sequence[int] | None = None
    ) -> TensorHolder:
        """Return a constant. Raises GeError E41007 for what is no tensor, or what the type cannot hold."""
        if value is None:
            raise GeError(
                table.GE_BAD_TENSOR, reason="None is no tensor",
                remedy="pass a numpy array, or numbers in lists of equal lengths",
            )  # fmt: skip
        tensor = value if isinstance(value, Tensor) else Tensor(value, data_type=data_type, shape=shape)
        node = self._graph.add_node("Const", "", {"value": tensor})
        node.update_output_desc(0, TensorDesc(tensor.shape, tensor.format, tensor.data_type))
        return TensorHolder(self, node, 0)

    def create_const_float(self, value: object, shape: Sequence[int] | None = None) -> TensorHolder:
        """Return a constant of DT_FLOAT."""
        return self.create_const(value, DataType.DT_FLOAT, shape)

    def create_const_int64(self, value: object, shape: Sequence[int] | None = None) -> TensorHolder:
        """Return a constant of DT_INT64."""
        return self.create_const(value, DataType.DT_INT64, shape)

    def create_const_int32(self, value: object, shape: Sequence[int] | None = None) -> TensorHolder:
        """Return a constant of DT_INT32."""
        return self.create_const(value, DataType.DT_INT32, shape)

    def create_const_uint64(self, value: object, shape: Sequence[int] | None = None) -> TensorHolder:
        """Return a constant of DT_UINT64."""
        return self.create_const(value, DataType.DT_UINT64, shape)

    def create_const_uint32(self, value: object, shape: Sequence[int] | None = None) -> TensorHolder:
        """Return a constant of DT_UINT32."""
        return self.create_const(value, DataType.DT_UINT32, shape)

    def create_vector_int64(self, value: Sequence[int]) -> TensorHolder:
        """Return a vector of DT_INT64."""
        found = self.create_const(value, DataType.DT_INT64)
        n_axes = len(found.node.get_output_desc(0).shape)
        if n_axes != 1:
            raise GeError(
                table.GE_BAD_TENSOR, reason=f"{shown(value)} is no vector", remedy="pass numbers in one list"
            )
        return found

    def create_scalar_float(self, value: float) -> TensorHolder:
        """Return a scalar of DT_FLOAT."""
        return self.create_const(value, DataType.DT_FLOAT)

    def create_scalar_int64(self, value: int) -> TensorHolder:
        """Return a scalar of DT_INT64."""
        return self.create_const(value, DataType.DT_INT64)

    def create_scalar_int32(self, value: int) -> TensorHolder:
        """Return a scalar of DT_INT32."""
        return self.create_const(value, DataType.DT_INT32)

    # ------------------------------------------------------------ nodes
    def AddNode(  # noqa: N802 - the name of the interface
        self, type: str, name: str = "", attrs: Mapping[str, object] | None = None, **more: object
    ) -> Node:
        """Add a node to the graph, as `Graph.AddNode` does."""
        return self._graph.add_node(type, name, attrs, **more)

    def AddEdge(self, source: OutDataAnchor, target: InDataAnchor) -> None:  # noqa: N802 - the interface's
        """Lead an edge from an anchor to an anchor, as `Graph.AddEdge` does."""
        self._graph.AddEdge(source, target)

    def add_operator(
        self,
        type: str,
        inputs: Sequence[object],
        attrs: Mapping[str, object],
        n_outputs: int = 1,
        name: str = "",
    ) -> tuple[TensorHolder, ...]:
        """Add an operator; numbers and lists among the inputs become constants.

        Raises:
            GeError: E41002 for inputs of another builder, E41007 for what is no tensor.
        """
        # The type of what is computed with; a condition beside it says nothing.
        dtypes = [item.data_type for item in inputs if isinstance(item, TensorHolder)]
        computed = [dtype for dtype in dtypes if dtype is not DataType.DT_BOOL]
        dtype = next(iter(computed or dtypes), DataType.DT_FLOAT)
        sources = [None if item is None else self._holder(item, dtype) for item in inputs]
        scoped = {key: value for scope in _ATTRS.get() for key, value in scope.items()}
        node = self._graph.add_node(type, name, {**scoped, **attrs})
        for at, source in enumerate(sources):
            if source is not None:
                self._graph.add_data_edge(source.node, source.index, node, at)
        for control in _CONTROLS.get():
            if control.builder is self:
                node.add_control(control.node)
        told = DataType.DT_BOOL if type in _BOOLEAN else dtype
        for at in range(n_outputs):
            node.update_output_desc(at, TensorDesc([-2], data_type=told))
        return tuple(TensorHolder(self, node, at) for at in range(n_outputs))

    def call(self, type: str, *inputs: object) -> TensorHolder:
        """Add an operator with one output and no attributes."""
        return self.add_operator(type, inputs, {})[0]

    def add_control_dependency(self, target: TensorHolder, sources: Sequence[TensorHolder]) -> None:
        """Let nodes run before another."""
        for source in sources:
            target.node.add_control(source.node)

    # ------------------------------------------------------------ outputs
    def set_graph_output(self, output: TensorHolder, index: int) -> None:
        """Say that a value is an output of the graph, at a place from 0. Raises GeError E41004."""
        self._check_output(output)
        self._outputs[index] = output

    def set_graph_attr(self, name: str, value: object) -> None:
        """Set an attribute of the graph."""
        self._graph.set_attr(name, value)

    set_graph_attr_int64 = set_graph_attr_string = set_graph_attr_bool = set_graph_attr

    def set_node_attr(self, tensor: TensorHolder, name: str, value: object) -> None:
        """Set an attribute of the node that makes a value."""
        tensor.node.set_attr(name, value)

    set_node_attr_int64 = set_node_attr_string = set_node_attr_bool = set_node_attr

    def set_tensor_attr(self, tensor: TensorHolder, name: str, value: object) -> None:
        """Set an attribute of a value."""
        tensor.node.set_output_attr(tensor.index, name, value)

    set_tensor_attr_int64 = set_tensor_attr_string = set_tensor_attr_bool = set_tensor_attr

    def build_and_reset(self, outputs: Sequence[TensorHolder] | None = None) -> Graph:
        """Return the graph, and begin another one of the same name.

        Raises:
            GeError: E41004 when the outputs are not numbered from 0 without gaps, or are no values of it.
        """
        for output in outputs or ():
            self._check_output(output)
        chosen = dict(enumerate(outputs)) if outputs is not None else self._outputs
        if sorted(chosen) != list(range(len(chosen))):
            raise GeError(
                table.GE_BAD_GRAPH, name=self._name, reason=f"its outputs are numbered {sorted(chosen)}",
                remedy="number them from 0",
            )  # fmt: skip
        graph = self._graph
        graph.set_outputs([(chosen[at].node, chosen[at].index) for at in range(len(chosen))])
        self._graph = Graph(self._name)
        self._outputs = {}
        return graph

    def _check_output(self, output: object) -> None:
        if not isinstance(output, TensorHolder) or output.builder is not self:
            raise GeError(
                table.GE_BAD_GRAPH, name=self._name, reason=f"{shown(output)} is no value of it",
                remedy="pass what its operators returned",
            )  # fmt: skip

    def _holder(self, item: object, dtype: DataType) -> TensorHolder:
        if isinstance(item, TensorHolder):
            if item.builder is not self:
                raise GeError(
                    table.GE_BAD_NODE, place=item.name, type=item.node.type,
                    reason="it belongs to another builder", remedy="build a graph with one builder",
                )  # fmt: skip
            return item
        if isinstance(item, Tensor):
            return self.create_const(item)
        # Numbers beside tensors are of their type; lists of whole numbers are shapes and axes.
        if isinstance(item, list | tuple):
            items = cast("Sequence[object]", item)
            is_whole = all(isinstance(one, int | np.integer) for one in items)
            return self.create_const(items, DataType.DT_INT64 if is_whole else dtype)
        if isinstance(item, np.ndarray | np.generic):
            return self.create_const(Tensor(cast(object, item)))
        return self.create_const(item, dtype)


@contextmanager
def attr_scope(attrs: Mapping[str, object]) -> Generator[None, None, None]:
    """Give all nodes that are added meanwhile attributes."""
    token = _ATTRS.set((*_ATTRS.get(), attrs))
    try:
        yield
    finally:
        _ATTRS.reset(token)


@contextmanager
def control_dependency_scope(sources: Sequence[TensorHolder]) -> Generator[None, None, None]:
    """Let all nodes that are added meanwhile run after others."""
    token = _CONTROLS.set((*_CONTROLS.get(), *sources))
    try:
        yield
    finally:
        _CONTROLS.reset(token)


_ATTRS: ContextVar[tuple[Mapping[str, object], ...]] = ContextVar("attrs of nodes", default=())
_CONTROLS: ContextVar[tuple[TensorHolder, ...]] = ContextVar("nodes that run before", default=())
