"""What a script can ask of a model: its inputs, outputs and gears, as pyACL numbers them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, Literal

from gerules.backend.om import OmInterface, OmPort
from gerules.backend.om.numbers import dtype_of_proto, external_of_proto, format_number

GearKind = Literal["batch", "hw", "dims"]

SHAPE_INPUT: Final = "ascend_mbatch_shape_data"
"""The input through which a caller chooses a gear. Source: CANN, ACL_DYNAMIC_TENSOR_NAME."""

MOST_DIMS: Final = 128
LONGEST_NAME: Final = 128
"""Bytes of a name in a description of dimensions, its end included. Source: CANN, ACL_MAX_TENSOR_NAME_LEN."""

_UNKNOWN_RANK: Final = -2
_ND: Final = 2


@dataclass(frozen=True, slots=True)
class PortFacts:
    """One input or output.

    Attributes:
        dims: The shape, -1 where the caller chooses; a gear's caller too.
        size_bytes: For the largest shape; 0 where there is no largest.
        dtype, format: pyACL's numbers.
        ranges: The least and the largest size of each dimension.
        type_bytes: Of one element; 0 for texts.
    """

    name: str
    dims: tuple[int, ...]
    size_bytes: int
    dtype: int
    format: int
    ranges: tuple[tuple[int, int], ...]
    type_bytes: int

    @property
    def is_open(self) -> bool:
        """Whether the caller chooses the shape."""
        return any(dim < 0 for dim in self.dims)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What `get_desc` copies out of a model.

    `gears` are the values that choose one each; `kind` is None for a model without. `gear_outputs` are the
    shapes of outputs by gear and place.
    """

    name: str
    inputs: tuple[PortFacts, ...]
    outputs: tuple[PortFacts, ...]
    kind: GearKind | None
    gears: tuple[tuple[int, ...], ...]
    gear_order: tuple[int, ...]
    gear_outputs: dict[tuple[int, int], tuple[int, ...]]

    @property
    def shape_input(self) -> int | None:
        """The place of the input that chooses a gear, or None."""
        return next((at for at, port in enumerate(self.inputs) if port.name == SHAPE_INPUT), None)

    def open_dims_of(self, gear: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        """Return the shapes of all inputs with open dimensions at a gear, by their place."""
        found: dict[int, tuple[int, ...]] = {}
        if self.kind == "dims":
            values = iter(gear)
            for at in self.gear_order:
                found[at] = tuple(next(values, -1) if dim < 0 else dim for dim in self.inputs[at].dims)
            return found
        for at, port in enumerate(self.inputs):
            if not port.is_open:
                continue
            # With a batch each open dimension is the batch; with an image they are height and width.
            values = iter(gear)
            sizes = (gear[0] if self.kind == "batch" else next(values, -1) for dim in port.dims if dim < 0)
            found[at] = tuple(next(sizes) if dim < 0 else dim for dim in port.dims)
        return found


def read_facts(name: str, interface: OmInterface) -> ModelFacts:
    """Return the facts of a model from its interface."""
    kind, gears = _gears_of(interface)
    inputs = tuple(_port_facts(port) for port in interface.inputs)
    return ModelFacts(
        name,
        inputs,
        tuple(_port_facts(port) for port in interface.outputs),
        kind,
        gears,
        _order_of(inputs, interface.input_order),
        dict(item for text in interface.dynamic_output_shapes if (item := _read_output_shape(text))),
    )


def _gears_of(interface: OmInterface) -> tuple[GearKind | None, tuple[tuple[int, ...], ...]]:
    if interface.dynamic_batch:
        return "batch", tuple((size,) for size in interface.dynamic_batch)
    if interface.dynamic_hw:
        return "hw", interface.dynamic_hw
    if interface.dynamic_dims:
        return "dims", interface.dynamic_dims
    return None, ()


def _port_facts(port: OmPort) -> PortFacts:
    dims = port.origin_shape if any(dim < 0 for dim in port.origin_shape) else port.shape
    dims = (-1,) if _UNKNOWN_RANK in dims else dims[:MOST_DIMS]
    ranges = port.ranges or tuple((1, -1) if dim < 0 else (dim, dim) for dim in dims)
    dtype, format = dtype_of_proto(port.dtype), format_number(port.layout)
    n_bits = 0 if dtype is None else dtype.bits
    size_bytes = port.size_bytes
    if not size_bytes and n_bits and all(dim >= 0 for dim in port.shape):
        size_bytes = (prod(port.shape) * n_bits + 7) // 8
    return PortFacts(
        port.name, dims, size_bytes, external_of_proto(port.dtype), _ND if format is None else format,
        ranges[: len(dims)], (n_bits + 7) // 8,
    )  # fmt: skip


def _order_of(inputs: tuple[PortFacts, ...], names: tuple[str, ...]) -> tuple[int, ...]:
    """The places of inputs with open dimensions, in the order in which gears list their sizes."""
    places = {port.name: at for at, port in enumerate(inputs)}
    listed = [places[name] for name in names if name in places and inputs[places[name]].is_open]
    return tuple(listed) or tuple(at for at, port in enumerate(inputs) if port.is_open)


def _read_output_shape(text: str) -> tuple[tuple[int, int], tuple[int, ...]] | None:
    parts = text.split(",")
    # Files are hostile; what is no list of numbers says nothing.
    if len(parts) < 2 or not all(part.lstrip("-").isdecimal() and len(part) < 20 for part in parts):
        return None
    numbers = [int(part) for part in parts]
    return (numbers[0], numbers[1]), tuple(numbers[2:])
