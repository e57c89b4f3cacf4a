"""Options: the ways in which one node can run, by the storage formats its kernels take and give."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gerules.ir import DType, Format, Graph, Node, TensorType, ValueType, c0_of
from gerules.ir.layout import CUBE
from gerules.target import FormatPort, Kernel

HEAVY: Final = (
    Format.NC1HWC0, Format.FRACTAL_NZ, Format.FRACTAL_Z, Format.NDC1HWC0, Format.FRACTAL_Z_3D,
)  # fmt: skip
"""Formats in blocks, which a device computes in. Source: heavy formats of the Graph Engine."""

_FOR_DATA: Final = (Format.ND, Format.NC1HWC0, Format.FRACTAL_NZ, Format.NDC1HWC0)
"""What a format variable can stand for; the others are for weights, which kernels name outright."""

_ORIGINAL: Final = frozenset({Format.ND, Format.NCHW, Format.NCDHW})
"""Formats in which a tensor lies as the model wrote it."""

_RANKS: Final = {
    Format.NC1HWC0: (4, 4),
    Format.NHWC: (4, 4),
    Format.HWCN: (4, 4),
    Format.NDHWC: (5, 5),
    Format.DHWCN: (5, 5),
    Format.NDC1HWC0: (5, 5),
    Format.FRACTAL_Z_3D: (5, 5),
    Format.FRACTAL_NZ: (2, 64),
}
_NO_BLOCKS: Final = frozenset({
    DType.BOOL, DType.I64, DType.U64, DType.F64, DType.STRING, DType.C64, DType.C128, DType.UNKNOWN,
})  # fmt: skip
"""Element types that no conversion takes; bool is cast first. Source: TransData's type list."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One way to run a node: the format of each input and output slot; `cost` multiplies its time.

    Options are compared by identity: nodes that are alike share them.
    """

    inputs: tuple[Format, ...]
    outputs: tuple[Format, ...]
    cost: float = 1.0

    @property
    def label(self) -> Format:
        """The format that a region around the node would have."""
        return self.outputs[0] if self.outputs else Format.ND


def plain(format: Format) -> Format:
    """Return ND for formats in which nothing moves."""
    return Format.ND if format in _ORIGINAL else format


def applies(type: ValueType, format: Format) -> bool:
    """Whether a value can be kept in a format.

    Sizes must be known and above zero, the rank must fit, and TransData must take the element type.
    """
    if plain(format) is Format.ND:
        return True
    if not isinstance(type, TensorType) or not type.is_static or type.dtype in _NO_BLOCKS:
        return False
    shape = type.static_shape
    if 0 in shape:
        return False
    if format is Format.FRACTAL_Z:
        return len(shape) in (2, 4)
    low, high = _RANKS.get(format, (1, 0))
    return low <= len(shape) <= high


def is_scalar(type: ValueType) -> bool:
    """Whether a value has a single element, which every kernel takes as it lies."""
    return isinstance(type, TensorType) and type.is_static and type.n_elements == 1


class OptionTable:
    """The options of nodes; found once for nodes with one operator, types and attributes."""

    def __init__(self) -> None:
        self._ids: dict[Hashable, int] = {}
        self._options: list[list[Option]] = []

    def find(self, graph: Graph, node: Node, kernels: Sequence[Kernel]) -> tuple[int, list[Option]]:
        """Return a number that like nodes share, and their options."""
        values = graph.values
        key: Hashable = (
            node.op,
            tuple([None if value is None else values[value].type for value in node.inputs]),
            tuple([None if value is None else values[value].type for value in node.outputs]),
            tuple(node.attrs.items()) if node.attrs else None,
            # Bodies decide what a node costs.
            node.id if node.bodies else None,
            id(kernels),
        )
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = len(self._options)
            self._options.append(find_options(graph, node, kernels))
        return known, self._options[known]


def find_options(graph: Graph, node: Node, kernels: Sequence[Kernel]) -> list[Option]:
    """Return the ways to run a node, in the order of the device's tables; never empty.

    Where no kernel fits (sizes not known, another rank, no table), the only way is all plain.
    """
    inputs = [None if value is None else graph.type_of(value) for value in node.inputs]
    outputs = [None if value is None else graph.type_of(value) for value in node.outputs]
    made = [type for type in outputs if type is not None]
    found: dict[tuple[tuple[Format, ...], tuple[Format, ...]], Option] = {}
    for kernel in kernels:
        ports = ports_of(kernel, len(node.inputs))
        if ports is None or (
            kernel.where is not None and not kernel.where(node.op, inputs, made, node.attrs)
        ):
            continue
        for option in _instances(kernel, ports, inputs, outputs):
            key = option.inputs, option.outputs
            if key not in found or found[key].cost > option.cost:
                found[key] = option
    return list(found.values()) or [all_plain(node)]


def all_plain(node: Node) -> Option:
    """Return the option in which nothing has a format."""
    return Option((Format.ND,) * len(node.inputs), (Format.ND,) * len(node.outputs))


def ports_of(kernel: Kernel, n_inputs: int) -> list[FormatPort] | None:
    """Return the port of each input slot; None when the kernel does not take so many."""
    ports = [port for port in kernel.inputs if not port.is_rest]
    rest = next((port for port in kernel.inputs if port.is_rest), None)
    if n_inputs <= len(ports):
        return ports[:n_inputs]
    return None if rest is None else ports + [rest] * (n_inputs - len(ports))


def _instances(
    kernel: Kernel,
    ports: Sequence[FormatPort],
    inputs: Sequence[ValueType | None],
    outputs: Sequence[ValueType | None],
) -> Iterator[Option]:
    """Yield the kernel's options: one, or one for each format that its variable can stand for."""
    given = [port.format for port in ports]
    # Outputs that a table does not mention are plain.
    made = [port.format for port in kernel.outputs][: len(outputs)]
    made += [Format.ND] * (len(outputs) - len(made))
    variables = {one for one in (*given, *made) if isinstance(one, str)}
    for chosen in _FOR_DATA if variables else (Format.ND,):
        option = _instance(kernel, given, made, chosen, inputs, outputs)
        if option is not None:
            yield option


def _instance(
    kernel: Kernel,
    given: Sequence[Format | str],
    made: Sequence[Format | str],
    chosen: Format,
    inputs: Sequence[ValueType | None],
    outputs: Sequence[ValueType | None],
) -> Option | None:
    into: list[Format] = []
    for one, type in zip(given, inputs, strict=True):
        format = chosen if isinstance(one, str) else plain(one)
        if type is None or (isinstance(one, str) and is_scalar(type)):
            format = Format.ND
        elif not applies(type, format):
            return None
        into.append(format)
    out: list[Format] = []
    for one, type in zip(made, outputs, strict=True):
        format = chosen if isinstance(one, str) else plain(one)
        if type is None:
            format = Format.ND
        elif not applies(type, format) or (
            format is not Format.ND and isinstance(one, str) and is_scalar(type)
        ):
            # Single elements are never laid out anew.
            return None
        out.append(format)
    if chosen is not Format.ND:
        varied = [type for one, type in zip(given, inputs, strict=True) if isinstance(one, str) and type]
        results = [type for one, type in zip(made, outputs, strict=True) if isinstance(one, str) and type]
        if not blocks_agree(chosen, varied, results):
            return None
    return Option(tuple(into), tuple(out), kernel.cost)


def blocks_agree(format: Format, inputs: Sequence[ValueType], outputs: Sequence[ValueType]) -> bool:
    """Whether operands that broadcast can be combined block by block.

    Equal shapes always can, and single elements with anything. NC1HWC0 needs equal channels, so that
    padding meets padding; FRACTAL_NZ needs the last two axes not to broadcast, and whole blocks where
    another axis does. C0 must agree, as it does not between i8 and f16.

    Source: the Graph Engine's rules for broadcast and heavy formats.
    """
    if not outputs:
        return False
    shape = _shape(outputs[0])
    if shape is None or any(_shape(type) != shape for type in outputs):
        return False
    blocks = {c0_of(type.dtype) for type in (*inputs, *outputs) if isinstance(type, TensorType)}
    if len(blocks) > 1:
        return False
    for type in inputs:
        operand = _shape(type)
        if operand == shape or is_scalar(type):
            continue
        if operand is None or len(operand) != len(shape):
            return False
        if format in (Format.NC1HWC0, Format.NDC1HWC0):
            if operand[1] != shape[1]:
                return False
        elif format is Format.FRACTAL_NZ:
            if operand[-2:] != shape[-2:] or shape[-1] % next(iter(blocks)) or shape[-2] % CUBE:
                return False
        else:
            return False
    return True


def _shape(type: ValueType) -> tuple[int, ...] | None:
    return type.static_shape if isinstance(type, TensorType) and type.is_static else None
