"""What a pass sees of a match: the operators of its pattern, their types, and the elements of constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gerules.compat.ge.error import GeError
from gerules.compat.ge.graph.graph import CONSTANTS, DATA, Graph, Node
from gerules.compat.ge.graph.tensor import Tensor, TensorDesc
from gerules.compat.ge.graph.types import DataType, Format, data_type_of
from gerules.compat.ge.passes.matched_attrs import UNTOLD
from gerules.dsl.values import ValueView
from gerules.errors import table
from gerules.ir import TensorType

UNKNOWN_RANK = -2


@dataclass(frozen=True, slots=True)
class MatchedNode:
    """An operator of the pattern at a match.

    `views` are the matched values by pattern node and output, `told` the attributes in the model that the
    pattern leaves open.
    """

    node: Node
    views: Mapping[tuple[Node, int], ValueView]
    told: Mapping[Node, Mapping[str, object]]

    @property
    def type(self) -> str:
        """The type that the pattern says; what it reads from outside is `Const` where that is a constant."""
        is_const = self.node.type == DATA and self._const is not None
        return "Const" if is_const else self.node.type

    @property
    def name(self) -> str:
        """The name of what it makes in the model."""
        view = self.views.get((self.node, 0))
        return self.node.name if view is None else view.name

    def has_attr(self, name: str) -> bool:
        """Whether there is an attribute: `value` of constants, what model or pattern say of others."""
        if name == "value":
            return self._const is not None
        return name in self._told or self.node.has_attr(name)

    def get_attr(self, name: str) -> object:
        """Return an attribute as it is in the model, also `value` of a constant.

        One that the operator has nowhere else, such as a node's own name for something, is the pattern's.

        Raises:
            GeError: E41002 when it has no such attribute, or when its value in the model is not at hand: that
                of an attribute which is a constant input here, of pads that a mode chooses, of the elements
                of a constant that operators here have as an attribute.
        """
        view = self._const
        if name == "value" and self.type in CONSTANTS and view is None and self.views:
            raise GeError(
                table.GE_BAD_NODE, type=self.name, reason="the elements of this constant are not known",
                remedy="ask for the types of what is computed from it",
            )  # fmt: skip
        if self._told.get(name) is UNTOLD:
            raise GeError(
                table.GE_BAD_NODE, place=self.name, type=self.type,
                reason=f"what its attribute {name} is in the model is not known",
                remedy="ask for the types of what it reads and makes",
            )  # fmt: skip
        if name in self._told:
            return self._told[name]
        return self.node.get_attr(name) if name != "value" or view is None else Tensor(view.array)

    @property
    def _told(self) -> Mapping[str, object]:
        return self.told.get(self.node, {})

    @property
    def _const(self) -> ValueView | None:
        """The constant that it is, if it is one whose elements are known."""
        view = self.views.get((self.node, 0)) if self.node.type in (*CONSTANTS, DATA) else None
        return view if view is not None and view.const is not None else None

    def get_in_data_nodes_and_port_indexes(self, index: int) -> tuple[MatchedNode, int]:
        """Return node and port that an input reads; what comes from outside of the pattern is its `Data`.

        Raises:
            GeError: E41003 when nothing is there.
        """
        source, port = self.node.get_in_data_nodes_and_port_indexes(index)
        return MatchedNode(source, self.views, self.told), port

    def get_inputs_size(self) -> int:
        """Return the number of inputs."""
        return self.node.get_inputs_size()

    def get_outputs_size(self) -> int:
        """Return the number of outputs."""
        return self.node.get_outputs_size()

    def get_input_desc(self, index: int) -> TensorDesc:
        """Return type and shape of an input in the model."""
        source = self.node.source_of(index)
        return _desc_of(None if source is None else self.views.get(source))

    def get_output_desc(self, index: int) -> TensorDesc:
        """Return type and shape of an output in the model."""
        return _desc_of(self.views.get((self.node, index)))


@dataclass(frozen=True, slots=True)
class MatchResult:
    """A match of a pattern."""

    graph: Graph
    views: Mapping[tuple[Node, int], ValueView]
    told: Mapping[Node, Mapping[str, object]]

    def get_matched_nodes(self) -> list[MatchedNode]:
        """Return the operators and constants of the pattern at this match, in the pattern's order."""
        return [
            MatchedNode(node, self.views, self.told)
            for node in self.graph.get_direct_nodes()
            if node.type != "Data"
        ]

    def get_pattern_graph_name(self) -> str:
        """Return the name of the pattern's graph."""
        return self.graph.name

    def get_captured_tensor(self, index: int) -> TensorDesc:
        """Return type and shape of what the pattern reads from outside, by its number.

        Raises:
            GeError: E41005 when there is none of the number.
        """
        inputs: Sequence[Node] = [node for node in self.graph.get_direct_nodes() if node.type == DATA]
        if not 0 <= index < len(inputs):
            raise GeError(
                table.GE_BAD_PASS, name=self.graph.name, reason=f"its pattern has no input {index}",
                remedy=f"there are {len(inputs)}, from 0",
            )  # fmt: skip
        return _desc_of(self.views.get((inputs[index], 0)))


def _desc_of(view: ValueView | None) -> TensorDesc:
    if view is None or not isinstance(view.type, TensorType):
        return TensorDesc([UNKNOWN_RANK], Format.FORMAT_ND, DataType.DT_UNDEFINED)
    dims = view.type.shape
    shape = [UNKNOWN_RANK] if dims is None else [dim if isinstance(dim, int) else -1 for dim in dims]
    return TensorDesc(shape, Format.FORMAT_ND, data_type_of(view.type.dtype))
