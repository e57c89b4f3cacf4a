"""Enumerations of the Graph Engine, with its numbers."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar, cast

from gerules.backend.om.numbers import dtype_of_proto, external_of, proto_of_external
from gerules.compat.ge.error import GeError
from gerules.errors import table
from gerules.ir import DType

M = TypeVar("M", bound=IntEnum)


def member_of(kind: type[M], value: object) -> M:
    """Return the member of an enumeration that a number stands for. Raises GeError E41007 for none."""
    try:
        return kind(cast(int, value))
    except ValueError:
        raise GeError(
            table.GE_BAD_TENSOR, reason=f"{value!r} is no {kind.__name__}",
            remedy=f"pass a member of {kind.__name__}",
        ) from None  # fmt: skip


class DataType(IntEnum):
    """Element types. Source: hicann/metadef, `graph/types.h`."""

    DT_FLOAT = 0
    DT_FLOAT16 = 1
    DT_INT8 = 2
    DT_INT32 = 3
    DT_UINT8 = 4
    DT_INT16 = 6
    DT_UINT16 = 7
    DT_UINT32 = 8
    DT_INT64 = 9
    DT_UINT64 = 10
    DT_DOUBLE = 11
    DT_BOOL = 12
    DT_STRING = 13
    DT_COMPLEX64 = 16
    DT_COMPLEX128 = 17
    DT_BF16 = 27
    DT_UNDEFINED = 28
    DT_INT4 = 29

    @property
    def ir(self) -> DType:
        """The element type of gerules; unknown for what it does not compute with."""
        return dtype_of_proto(proto_of_external(int(self))) or DType.UNKNOWN


class Format(IntEnum):
    """Storage formats. Source: hicann/metadef, `graph/types.h`."""

    FORMAT_NCHW = 0
    FORMAT_NHWC = 1
    FORMAT_ND = 2
    FORMAT_NC1HWC0 = 3
    FORMAT_FRACTAL_Z = 4
    FORMAT_HWCN = 16
    FORMAT_NDHWC = 27
    FORMAT_FRACTAL_NZ = 29
    FORMAT_NCDHW = 30


class Placement(IntEnum):
    """Where a tensor's bytes are."""

    PLACEMENT_HOST = 0
    PLACEMENT_DEVICE = 1


class DumpFormat(IntEnum):
    """Forms of `dump_to_file`."""

    kOnnx = 0  # noqa: N815 - the name of the interface
    kTxt = 1  # noqa: N815 - the name of the interface
    kReadable = 2  # noqa: N815 - the name of the interface


def data_type_of(dtype: DType) -> DataType:
    """Return the number of an element type; DT_UNDEFINED when it has none here."""
    try:
        return DataType(external_of(dtype))
    except ValueError:
        return DataType.DT_UNDEFINED
