"""From a pattern and a replacement to a rule: the operators that graphs lower to, as the text of a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from gerules.compat.ge.error import GeError
from gerules.compat.ge.graph.graph import CONSTANTS, DATA, NET_OUTPUT, Graph, Node
from gerules.compat.ge.graph.tensor import Tensor
from gerules.compat.ge.lowering import Lowering, Value, count_read, find_operator
from gerules.compat.ge.passes.matched_attrs import has_attrs
from gerules.compat.ge.passes.pattern_pass import PatternMatcherConfig
from gerules.dsl.pattern_builder import Attribute, Pattern, Term
from gerules.errors import table
from gerules.ir import UNKNOWN, Attr, TensorType

Array = npt.NDArray[np.generic]
Argument = Term | int | float | None

_ROUNDING: Final = 2.0**-8
"""How far a number may be from one of an operator, relative to it: as far as BF16 rounds."""


@dataclass(frozen=True, slots=True)
class CapturedAttrs:
    """The attributes of an operator of the pattern: which of ONNX's has them, and their name in the rule."""

    op: str
    name: str


@dataclass(slots=True)
class RuleSink:
    """Adds operators to one half of a rule.

    `node` is the one that is lowered; `captured` is filled for those whose attributes the match leaves
    open and somebody `wants_attrs` of.
    """

    pattern: Pattern
    config: PatternMatcherConfig
    is_match: bool
    prefix: str
    wants_attrs: bool = False
    node: Node | None = None
    captured: dict[Node, CapturedAttrs] = field(default_factory=dict[Node, CapturedAttrs])
    items: list[Argument] = field(default_factory=list[Argument])
    arrays: dict[Value, Array] = field(default_factory=dict[int, Array])
    ports: dict[tuple[Node, int], Value] = field(default_factory=dict[tuple[Node, int], int])

    def add(
        self, op: str, inputs: Sequence[Value | None], attrs: Mapping[str, Attr], n_outputs: int, name: str
    ) -> tuple[Value, ...]:
        """Add an operator; a match ignores attributes unless it is strict."""
        given: dict[str, Attribute] = {}
        rest = self._open_attrs(op) if self.is_match and not self.config.matches_attrs else None
        if rest is None:
            given = {key: cast("Attribute", _plain(value)) for key, value in attrs.items()}
        args = [None if value is None else self.items[value] for value in inputs]
        while args and args[-1] is None:
            args.pop()
        # Names that a rule's own cannot meet: `p.op` takes attributes by keyword.
        term = self.pattern.op(op, *args, name=self._fresh(), outputs=n_outputs, attrs=rest, **given)
        return tuple(self._keep(item) for item in self.pattern.outputs(term))

    def _open_attrs(self, op: str) -> Term | EllipsisType:
        """Return what leaves the attributes of an operator open: a name for them where they are wanted."""
        node = self.node
        if node is None or not self.wants_attrs or node in self.captured or not has_attrs(node.type, op):
            return ...
        found = self.captured[node] = CapturedAttrs(op, f"a{len(self.captured)}")
        return self.pattern.attrs(found.name)

    def add_const(self, array: Array, *, is_fixed: bool = False) -> Value:
        """Add a constant: any, or one of the value, in a match; the value in a replacement."""
        if self.is_match:
            term = self.pattern.const(self._fresh())
            value = self._keep(term)
            if is_fixed:
                # A number of any float type: the type's own rounding is none of the operator's.
                number = float(cast(float, array.item()))
                self.pattern.where(
                    f"is_scalar({term.name}) and "
                    f"abs(scalar({term.name}) - {number!r}) <= {abs(number) * _ROUNDING!r}",
                    otherwise="a number has another value than the operator's",
                )
            elif self.config.matches_const_values:
                self.pattern.where(
                    f"same_value({term.name}, {_text(array)})" if array.size > 1 else
                    f"is_scalar({term.name}) and scalar({term.name}) == {array.reshape(-1)[0].item()!r}",
                    otherwise="a constant has another value than the pattern's",
                )  # fmt: skip
        elif array.ndim == 0 and array.dtype.kind in "fiu":
            value = self._keep(cast("int | float", array.item()))
        else:
            value = self._keep(self.pattern.fold(self._fresh(), _text(array)))
        self.arrays[value] = array
        return value

    def add_branches(
        self, op: str, condition: Value, inputs: Sequence[Value], branches: Mapping[str, Graph], name: str
    ) -> tuple[Value, ...]:
        """Refuse them: a rule matches inside one graph."""
        raise GeError(
            table.GE_BAD_PASS, name=name, reason=f"{op} has graphs inside; a rule matches inside one",
            remedy="match what is inside the branches",
        )  # fmt: skip

    def array_of(self, value: Value) -> Array | None:
        """Return the elements of a constant of the pattern itself."""
        return self.arrays.get(value)

    def type_of(self, value: Value) -> TensorType:
        """Return nothing: a pattern is matched whatever the types are."""
        return UNKNOWN

    def add_input(self, term: Term) -> Value:
        """Add a value from outside."""
        return self._keep(term)

    def _keep(self, item: Argument) -> Value:
        self.items.append(item)
        return len(self.items) - 1

    def _fresh(self) -> str:
        return f"{self.prefix}{len(self.items)}"


def lower_into(sink: RuleSink, graph: Graph, inputs: Mapping[int, Term], name: str) -> list[Value]:
    """Lower a graph into one half of a rule, and return its outputs.

    Args:
        inputs: The values from outside by their number.

    Raises:
        GeError: E41001, E41002 for its nodes; E41005 for an input that the pattern does not have.
    """
    n_read = count_read(graph)
    for node in graph.get_direct_nodes():
        if node.type == NET_OUTPUT:
            continue
        if node.type == DATA:
            number = node.attrs.get("index")
            term = inputs.get(number) if isinstance(number, int) else None
            if term is not None:
                sink.ports[node, 0] = sink.add_input(term)
            continue
        if node.type in CONSTANTS:
            tensor = node.get_attr("value")
            sink.ports[node, 0] = sink.add_const(cast(Tensor, tensor).array)
            continue
        operator = find_operator(node.type, place=f"{name}, {node.name}")
        values = [None if source is None else _port(sink, source, name) for source in node.sources]
        lowering = Lowering(
            operator, f"{name}, {node.name}", values, node.attrs, sink, n_read.get(node, 0)
        )  # fmt: skip
        sink.node = node
        made = operator.lower(lowering)
        for at, value in enumerate(made if isinstance(made, tuple) else (made,)):
            sink.ports[node, at] = value
    return [_port(sink, port, name) for port in graph.outputs]


def _port(sink: RuleSink, port: tuple[Node, int], name: str) -> Value:
    value = sink.ports.get(port)
    if value is None:
        reason = (
            f"its replacement reads input {port[0].attrs.get('index')}, which the pattern does not"
            if port[0].type == DATA
            else f"{port[0].name} has no output {port[1]}"
        )
        raise GeError(table.GE_BAD_PASS, name=name, reason=reason, remedy="read what the pattern reads")
    return value


def _plain(value: Attr) -> object:
    return list(value) if isinstance(value, tuple) else value


def _text(array: Array) -> str:
    """An array as an expression of rules; a list, or a scalar, converted to its type."""
    found = cast(object, array.tolist())
    return f"cast({found!r}, {_DTYPES.get(array.dtype.name, 'f32')})"


_DTYPES = {
    "float32": "f32", "float16": "f16", "float64": "f64", "int64": "i64", "int32": "i32", "bool": "bool",
    "uint8": "u8", "int8": "i8",
}  # fmt: skip
