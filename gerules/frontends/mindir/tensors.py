"""TensorProto of MindIR to numpy: views where the bytes are as numpy wants them, sizes checked everywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from gerules.frontends.mindir.records import TensorRecord
from gerules.frontends.onnx.external import DataFiles
from gerules.ir import DType, TensorType

Array = npt.NDArray[np.generic]

DTYPE_OF_CODE: Final[Mapping[int, DType]] = {
    1: DType.F32, 2: DType.U8, 3: DType.I8, 4: DType.U16, 5: DType.I16, 6: DType.I32, 7: DType.I64,
    9: DType.BOOL, 10: DType.F16, 11: DType.F64, 12: DType.U32, 13: DType.U64, 14: DType.C64, 15: DType.C128,
    16: DType.BF16,
}  # fmt: skip
"""By the numbers of TensorProto.DataType in a MindIR file."""

DTYPE_OF_TYPE_ID: Final[Mapping[int, DType]] = {
    30: DType.BOOL, 32: DType.I8, 33: DType.I16, 34: DType.I32, 35: DType.I64, 37: DType.U8, 38: DType.U16,
    39: DType.U32, 40: DType.U64, 42: DType.F16, 43: DType.F32, 44: DType.F64, 45: DType.BF16,
}  # fmt: skip
"""By MindSpore's own numbers of types, which operators such as Cast take."""

_HIGHEST_RANK: Final = 32
_LARGEST_DIM: Final = 1 << 40


class TensorFault(Exception):  # noqa: N818 - it becomes a ModelError once the tensor is known
    """A tensor cannot be read; the text says why."""


def type_of(record: TensorRecord) -> TensorType:
    """Return the type that a record declares: -1 is a dimension of which nothing is known.

    Raises:
        TensorFault: for an element type or a shape that has no meaning.
    """
    dtype = DTYPE_OF_CODE.get(record.data_type)
    if dtype is None:
        raise TensorFault(f"element type {record.data_type} is not known")
    if -2 in record.dims:  # even the rank is open
        return TensorType(dtype, None)
    if len(record.dims) > _HIGHEST_RANK or any(not -1 <= dim < _LARGEST_DIM for dim in record.dims):
        raise TensorFault(f"shape {record.dims[:8]} has no meaning")
    return TensorType(dtype, tuple("?" if dim < 0 else dim for dim in record.dims))


def read_array(record: TensorRecord, files: DataFiles) -> Array:
    """Return the array of a weight or a constant.

    Raises:
        TensorFault: when shape, type and bytes do not fit each other.
        DataFault: when its file beside the model cannot be read.
    """
    kind = type_of(record)
    if not kind.is_static:
        raise TensorFault(f"shape {record.dims} is open")
    if record.compression:
        raise TensorFault("it is compressed by quantization, which is not read")
    shape, dtype = kind.static_shape, kind.dtype.numpy
    n_elements = math.prod(shape)
    size_bytes = n_elements * dtype.itemsize
    if record.location:
        length = record.length or size_bytes
        if length != size_bytes:
            raise TensorFault(f"{size_bytes} bytes are wanted, and its entry says {length}")
        data = files.read(record.location, record.offset, size_bytes)
    elif record.raw is not None:
        data = record.raw
    else:
        return _from_fields(record, kind.dtype, n_elements).reshape(shape)
    if len(data) != size_bytes:
        raise TensorFault(f"{size_bytes} bytes are wanted for {kind}, and there are {len(data)}")
    array = np.frombuffer(data, dtype).reshape(shape)
    if kind.dtype is DType.BOOL and array.size and array.view(np.uint8).max() > 1:
        raise TensorFault("a truth value is neither 0 nor 1")
    return array


def _from_fields(record: TensorRecord, dtype: DType, n_elements: int) -> Array:
    if record.floats and dtype is DType.F32:
        found: Array = np.concatenate([np.frombuffer(part, np.float32) for part in record.floats])
    elif record.doubles and dtype is DType.F64:
        found = np.concatenate([np.frombuffer(part, np.float64) for part in record.doubles])
    elif record.ints and dtype in (DType.F16, DType.BF16):
        if any(not 0 <= item < 1 << 16 for item in record.ints):
            raise TensorFault("an element has more bits than its type")
        found = np.array(record.ints, np.uint16).view(dtype.numpy)
    elif dtype is DType.BOOL:
        found = np.array([item != 0 for item in record.ints], np.bool_)
    else:
        if np.dtype(dtype.numpy).kind not in "iu" and record.ints:
            raise TensorFault("its elements stand in a field of another type")
        try:
            found = np.array(record.ints, dtype.numpy)
        except (OverflowError, ValueError):
            raise TensorFault("an element is beyond its type") from None
    if found.size != n_elements:
        raise TensorFault(f"{n_elements} elements are wanted, and there are {found.size}")
    return found
