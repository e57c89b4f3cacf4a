"""Between the compiler's tensor types and descriptions in a file."""

from __future__ import annotations

from typing import Final

from gerules.backend.om.model import OmTensor
from gerules.backend.om.numbers import proto_of
from gerules.ir.layout import Format
from gerules.ir.types import UNKNOWN_DIM, TensorType

UNKNOWN_RANK: Final = (-2,)
"""The shape of a tensor of which not even the rank is known. Source: ge `UNKNOWN_DIM_NUM`."""

_ALIGN_BYTES: Final = 32


def memory_bytes(size_bytes: int) -> int:
    """Return the memory a tensor is given: up to a multiple of 32, and 32 more for reads past its end.

    Source: hicann/ge, `TensorUtils::GetTensorMemorySizeInBytes`.

    >>> memory_bytes(9216), memory_bytes(4)
    (9248, 64)
    """
    return -(-size_bytes // _ALIGN_BYTES) * _ALIGN_BYTES + _ALIGN_BYTES


def describe_tensor(type: TensorType, *, origin_layout: Format = Format.ND) -> OmTensor:
    """Describe a tensor: its shape in memory, and its logical one as the origin.

    Dims that are no numbers become -1; the shape in memory of a blocked format is then not known.

    Args:
        origin_layout: What the logical axes mean, such as NCHW.

    Raises:
        OmError: E80020 for an element type without number.
    """
    logical = (
        UNKNOWN_RANK
        if type.shape is None
        else tuple(dim if isinstance(dim, int) else -1 for dim in type.shape)
    )
    shape, size_bytes = logical, 0
    if type.is_static:
        shape, size_bytes = type.storage_shape, memory_bytes(type.size_bytes)
    elif type.format not in (Format.ND, Format.NCHW, Format.NCDHW):
        shape = UNKNOWN_RANK
    return OmTensor(
        proto_of(type.dtype),
        shape,
        type.format.name,
        size_bytes=size_bytes,
        origin_shape=logical,
        origin_layout=origin_layout.name,
        sub_format=type.groups if type.groups > 1 else 0,
    )


def tensor_type(desc: OmTensor) -> TensorType | None:
    """Return the type a description stands for; None when gerules lacks its element type or format.

    The logical shape is the origin's, the one in memory where none is given.
    """
    dtype, format = desc.ir_dtype, desc.ir_format
    if dtype is None or format is None:
        return None
    known = desc.shape if desc.origin_shape is None else desc.origin_shape
    shape = None if known == UNKNOWN_RANK else tuple(UNKNOWN_DIM if dim < 0 else dim for dim in known)
    return TensorType(dtype, shape, format, max(1, desc.sub_format))
