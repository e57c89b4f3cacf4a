"""Tensors in an `.om` file: descriptions of values, and constants laid out as the device keeps them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gerules.backend.exact import write_strings, write_type
from gerules.backend.om import (
    ABSENT,
    ExternalDType,
    OmAttr,
    OmError,
    OmTensor,
    TensorValue,
    WeightsBuilder,
    describe_tensor,
    floats,
    ints,
    tensor_type,
    texts,
)
from gerules.backend.om.numbers import external_of
from gerules.errors import Faults
from gerules.ir import Attr, Const, DType, Format, TensorType, ValueType, to_storage

TYPE_ATTR: Final = "_gerules_type"
"""On a description: the exact type, where the description alone would lose some of it."""

_FORMATS_OF_IMAGES: Final = frozenset({Format.NC1HWC0, Format.NHWC, Format.HWCN, Format.NCHW})
_FORMATS_OF_VOLUMES: Final = frozenset(
    {Format.NDC1HWC0, Format.NDHWC, Format.DHWCN, Format.FRACTAL_Z_3D, Format.NCDHW}
)


class TensorWriter:
    """Describes values and places constants; collects what the format cannot hold."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.weights = WeightsBuilder()
        self._known: dict[ValueType, OmTensor] = {}

    def describe(
        self, type: ValueType, name: str = "", attrs: Mapping[str, OmAttr] | None = None
    ) -> OmTensor:
        """Return the description of a value; faults are E80020 for element types without number."""
        base = self._known.get(type)
        if base is None:
            base = self._known[type] = self._describe(type, name)
        return replace(base, name=name, attrs={**base.attrs, **attrs} if attrs else base.attrs)

    def constant(self, const: Const, type: TensorType, name: str) -> TensorValue:
        """Place an array in the weights, in its storage format; strings stay inside the graph.

        Faults are E80020 and E80021, with `name` as their place.
        """
        desc = self.describe(type, name)
        if type.dtype is DType.STRING:
            return TensorValue(desc, write_strings(const.array.reshape(-1).tolist()))
        try:
            stored = to_storage(const.array, type.format, type.dtype, groups=type.groups)
            place = self.weights.add(stored, type.dtype)
        except OmError as error:
            self.faults.extend(replace(item, place=name) for item in error.diagnostics)
            return TensorValue(desc)
        return TensorValue(replace(desc, data_offset=place.offset_bytes, weight_size_bytes=place.size_bytes))

    def native(self, value: Attr, name: str) -> OmAttr:
        """Return an attribute in the kind that readers of `.om` files show; it may lose precision."""
        if isinstance(value, Const):
            return self.constant(value, value.type, name)
        if isinstance(value, DType):
            try:
                return ExternalDType(external_of(value))
            except OmError:
                return value.value
        if isinstance(value, int):
            return value if -(2**63) <= value < 2**63 else str(value)
        if isinstance(value, float | str | bytes):
            return value
        if not isinstance(value, tuple):
            return str(value)
        if all(isinstance(item, int) for item in value):
            return ints(item for item in value if isinstance(item, int))
        if all(isinstance(item, float) for item in value):
            return floats(item for item in value if isinstance(item, float))
        return texts(item if isinstance(item, str) else repr(item) for item in value)

    def _describe(self, type: ValueType, name: str) -> OmTensor:
        exact = {TYPE_ATTR: write_type(type)}
        if not isinstance(type, TensorType) or type.dtype is DType.UNKNOWN:
            return OmTensor(attrs=exact)
        if type.is_static and math.prod((*type.static_shape, 8)) >= 2**63:
            return OmTensor(attrs=exact)
        try:
            desc = describe_tensor(type, origin_layout=_origin_layout(type))
        except OmError as error:
            self.faults.extend(replace(item, place=name) for item in error.diagnostics)
            return ABSENT
        return desc if tensor_type(desc) == type else replace(desc, attrs=exact)


def _origin_layout(type: TensorType) -> Format:
    if type.format in _FORMATS_OF_VOLUMES:
        return Format.NCDHW
    is_weight = type.format is Format.FRACTAL_Z and type.rank == 4
    return Format.NCHW if type.format in _FORMATS_OF_IMAGES or is_weight else Format.ND
