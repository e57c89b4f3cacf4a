"""Element types: one enum with the short names that graph and rule texts use."""

from __future__ import annotations

import enum
from typing import Final

import ml_dtypes
import numpy as np
import numpy.typing as npt


class DType(enum.Enum):
    """The element type of a tensor. The value is its name in texts (`f16`, `i64`, ...)."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    F8E4M3FN = "f8e4m3fn"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E5M2 = "f8e5m2"
    F8E5M2FNUZ = "f8e5m2fnuz"
    F8E8M0 = "f8e8m0"
    F4E2M1 = "f4e2m1"
    I64 = "i64"
    I32 = "i32"
    I16 = "i16"
    I8 = "i8"
    I4 = "i4"
    I2 = "i2"
    U64 = "u64"
    U32 = "u32"
    U16 = "u16"
    U8 = "u8"
    U4 = "u4"
    U2 = "u2"
    BOOL = "bool"
    STRING = "string"
    C64 = "c64"
    C128 = "c128"
    UNKNOWN = "unknown"
    """Not inferred yet; unifies with every other type."""

    __hash__ = object.__hash__

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy type that holds one element; sub-byte types hold one element a byte.

        Raises KeyError for `UNKNOWN`.
        """
        return _NUMPY[self]

    @property
    def bits(self) -> int:
        """Bits of one element as a device stores it; 0 for strings and `UNKNOWN`."""
        return _BITS[self]

    @property
    def is_float(self) -> bool:
        """Whether the type holds real numbers with a fraction."""
        return self.value[0] == "f" or self is DType.BF16

    @property
    def is_integer(self) -> bool:
        """Whether the type holds signed or unsigned integers (not booleans)."""
        return self.value[0] == "i" or (self.value[0] == "u" and self is not DType.UNKNOWN)

    def size_bytes(self, n_elements: int) -> int:
        """Bytes of `n_elements` packed elements, rounded up to whole bytes."""
        return (n_elements * _BITS[self] + 7) // 8

    def __str__(self) -> str:
        return self.value


def dtype_of(array: npt.NDArray[np.generic] | np.dtype[np.generic]) -> DType:
    """Return the element type of a numpy array or dtype; text and objects are strings.

    Raises KeyError when numpy's type has no counterpart (dates, records).
    """
    dtype = array if isinstance(array, np.dtype) else array.dtype
    known = _FROM_NUMPY.get(dtype)
    if known is not None:
        return known
    if dtype.kind in "OUST":
        return DType.STRING
    return _FROM_NUMPY[dtype.newbyteorder("=")]


_NUMPY: Final[dict[DType, np.dtype[np.generic]]] = {
    DType.F64: np.dtype(np.float64),
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.F8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.F8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    DType.F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DType.F8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    DType.F8E8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
    DType.F4E2M1: np.dtype(ml_dtypes.float4_e2m1fn),
    DType.I64: np.dtype(np.int64),
    DType.I32: np.dtype(np.int32),
    DType.I16: np.dtype(np.int16),
    DType.I8: np.dtype(np.int8),
    DType.I4: np.dtype(ml_dtypes.int4),
    DType.I2: np.dtype(ml_dtypes.int2),
    DType.U64: np.dtype(np.uint64),
    DType.U32: np.dtype(np.uint32),
    DType.U16: np.dtype(np.uint16),
    DType.U8: np.dtype(np.uint8),
    DType.U4: np.dtype(ml_dtypes.uint4),
    DType.U2: np.dtype(ml_dtypes.uint2),
    DType.BOOL: np.dtype(np.bool_),
    DType.STRING: np.dtype(np.object_),
    DType.C64: np.dtype(np.complex64),
    DType.C128: np.dtype(np.complex128),
}

_FROM_NUMPY: Final = {dtype: kind for kind, dtype in _NUMPY.items() if kind is not DType.STRING}

_BITS: Final = {
    kind: int("".join(c for c in kind.value.split("e")[0] if c.isdigit()) or 0) for kind in DType
} | {DType.BOOL: 8, DType.F8E4M3FN: 8, DType.F4E2M1: 4, DType.STRING: 0, DType.UNKNOWN: 0}
