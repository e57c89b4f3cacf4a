"""The numberings of `.om` files: element types (two orders) and storage formats.

Source: hicann/metadef, `ge_ir.proto` (DataType), `graph/types.h` (ge::DataType, ge::Format).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gerules.backend.om.error import OmError
from gerules.errors import table
from gerules.ir.dtype import DType
from gerules.ir.layout import Format

UNDEFINED: Final = 0
"""The proto number of a type that is not known, and of an absent optional input."""

FORMAT_RESERVED: Final = "RESERVED"
"""The layout of an absent optional input; spelled `FORMAT_RESERVED` in files."""

_RESERVED_IN_FILE: Final = "FORMAT_RESERVED"


@dataclass(frozen=True, slots=True)
class DTypeNumbers:
    """One element type: its name, its number in descriptors, and its number everywhere else.

    `proto` is used by `TensorDescriptor.dtype`; `external` by `dt` attributes, `Cast.dst_type` and
    MODEL_INOUT_INFO. The two orders differ. `ir` is None for types gerules does not compute with.
    """

    name: str
    proto: int
    external: int
    ir: DType | None


DTYPES: Final = (
    DTypeNumbers("UNDEFINED", 0, 28, DType.UNKNOWN),
    DTypeNumbers("FLOAT", 1, 0, DType.F32),
    DTypeNumbers("FLOAT16", 2, 1, DType.F16),
    DTypeNumbers("INT8", 3, 2, DType.I8),
    DTypeNumbers("UINT8", 4, 4, DType.U8),
    DTypeNumbers("INT16", 5, 6, DType.I16),
    DTypeNumbers("UINT16", 6, 7, DType.U16),
    DTypeNumbers("INT32", 7, 3, DType.I32),
    DTypeNumbers("INT64", 8, 9, DType.I64),
    DTypeNumbers("UINT32", 9, 8, DType.U32),
    DTypeNumbers("UINT64", 10, 10, DType.U64),
    DTypeNumbers("BOOL", 11, 12, DType.BOOL),
    DTypeNumbers("DOUBLE", 12, 11, DType.F64),
    DTypeNumbers("STRING", 13, 13, DType.STRING),
    DTypeNumbers("DUAL_SUB_INT8", 14, 14, None),
    DTypeNumbers("DUAL_SUB_UINT8", 15, 15, None),
    DTypeNumbers("COMPLEX64", 16, 16, DType.C64),
    DTypeNumbers("COMPLEX128", 17, 17, DType.C128),
    DTypeNumbers("QINT8", 18, 18, None),
    DTypeNumbers("QINT16", 19, 19, None),
    DTypeNumbers("QINT32", 20, 20, None),
    DTypeNumbers("QUINT8", 21, 21, None),
    DTypeNumbers("QUINT16", 22, 22, None),
    DTypeNumbers("RESOURCE", 23, 23, None),
    DTypeNumbers("STRING_REF", 24, 24, None),
    DTypeNumbers("DUAL", 25, 25, None),
    DTypeNumbers("VARIANT", 26, 26, None),
    DTypeNumbers("BF16", 27, 27, DType.BF16),
    DTypeNumbers("INT4", 28, 29, DType.I4),
    DTypeNumbers("UINT1", 29, 30, None),
    DTypeNumbers("INT2", 30, 31, DType.I2),
    DTypeNumbers("UINT2", 31, 32, DType.U2),
    DTypeNumbers("COMPLEX32", 32, 33, None),
    DTypeNumbers("HIFLOAT8", 33, 34, None),
    DTypeNumbers("FLOAT8_E5M2", 34, 35, DType.F8E5M2),
    DTypeNumbers("FLOAT8_E4M3FN", 35, 36, DType.F8E4M3FN),
    DTypeNumbers("FLOAT8_E8M0", 36, 37, DType.F8E8M0),
    DTypeNumbers("FLOAT6_E3M2", 37, 38, None),
    DTypeNumbers("FLOAT6_E2M3", 38, 39, None),
    DTypeNumbers("FLOAT4_E2M1", 39, 40, DType.F4E2M1),
    DTypeNumbers("FLOAT4_E1M2", 40, 41, None),
    DTypeNumbers("HIFLOAT4", 41, 42, None),
)
"""Every element type a file can name."""

_BY_PROTO: Final = {row.proto: row for row in DTYPES}
_BY_EXTERNAL: Final = {row.external: row for row in DTYPES}
_BY_NAME: Final = {row.name: row for row in DTYPES}
_BY_IR: Final = {row.ir: row for row in DTYPES if row.ir is not None}

FORMAT_NAMES: Final[dict[int, str]] = {
    **dict(enumerate((
        "NCHW", "NHWC", "ND", "NC1HWC0", "FRACTAL_Z", "NC1C0HWPAD", "NHWC1C0", "FSR_NCHW",
        "FRACTAL_DECONV", "C1HWNC0",
    ))),
    12: "NC1HWC0_C04", 13: "FRACTAL_Z_C04", 14: "CHWN", 16: "HWCN", 17: "NC1KHKWHWC0", 18: "BN_WEIGHT",
    19: "FILTER_HWCK",
    **dict(enumerate((
        "C1HWNCoC0", "MD", "NDHWC", "FRACTAL_ZZ", "FRACTAL_NZ", "NCDHW", "DHWCN", "NDC1HWC0",
        "FRACTAL_Z_3D", "CN", "NC", "DHWNC", "FRACTAL_Z_3D_TRANSPOSE", "FRACTAL_ZN_LSTM", "FRACTAL_Z_G",
        FORMAT_RESERVED, "ALL", "NULL", "ND_RNN_BIAS", "FRACTAL_ZN_RNN", "NYUV", "NYUV_A", "NCL",
        "FRACTAL_Z_WINO", "C1HWC0", "FRACTAL_NZ_C0_16", "FRACTAL_NZ_C0_32", "FRACTAL_NZ_C0_2",
        "FRACTAL_NZ_C0_4", "FRACTAL_NZ_C0_8",
    ), start=25)),
}  # fmt: skip
"""Storage formats by number, those gerules cannot compute included."""

_FORMAT_NUMBERS: Final = {name: number for number, name in FORMAT_NAMES.items()}
_FORMATS: Final = {format.name: format for format in Format}


def proto_of(dtype: DType) -> int:
    """Return the descriptor number of an element type.

    Raises:
        OmError: E80020 for a type `.om` files have no number for (u4, the fnuz floats).
    """
    row = _BY_IR.get(dtype)
    if row is None:
        raise OmError(table.OM_NO_NUMBER, dtype=dtype)
    return row.proto


def external_of(dtype: DType) -> int:
    """Return the number of an element type outside descriptors. Raises OmError E80020 as `proto_of`."""
    return _BY_PROTO[proto_of(dtype)].external


def external_of_proto(number: int) -> int:
    """Turn a descriptor number into the other order; an unknown number becomes UNDEFINED (28)."""
    return _BY_PROTO.get(number, _BY_PROTO[UNDEFINED]).external


def proto_of_external(number: int) -> int:
    """Turn a number of the other order into a descriptor number; an unknown one becomes UNDEFINED."""
    row = _BY_EXTERNAL.get(number)
    return UNDEFINED if row is None else row.proto


def dtype_of_proto(number: int) -> DType | None:
    """Return the element type of a descriptor number; None when gerules does not compute with it."""
    row = _BY_PROTO.get(number)
    return None if row is None else row.ir


def dtype_name(number: int) -> str:
    """Return the name of a descriptor number, `dtype <n>` when it has none."""
    row = _BY_PROTO.get(number)
    return f"dtype {number}" if row is None else row.name


def proto_of_name(name: str) -> int:
    """Return the descriptor number of `FLOAT` or `DT_FLOAT`; UNDEFINED when there is no such type."""
    row = _BY_NAME.get(name.removeprefix("DT_"))
    return UNDEFINED if row is None else row.proto


def format_name(number: int) -> str:
    """Return the text of a format number, `format <n>` when it has none."""
    return FORMAT_NAMES.get(number, f"format {number}")


def format_number(layout: str) -> int | None:
    """Return the number of a layout text, or None for a layout that has none.

    >>> format_number("FRACTAL_NZ"), format_number("format 77"), format_number("mine")
    (29, 77, None)
    """
    number = _FORMAT_NUMBERS.get(layout)
    if number is None and layout.startswith("format ") and layout[7:].isascii() and layout[7:].isdigit():
        value = int(layout[7:12])
        return value if f"format {value}" == layout and value < 256 else None
    return number


def format_of(layout: str) -> Format | None:
    """Return the format a layout text names; None when gerules cannot compute with it."""
    return _FORMATS.get(layout)


def layout_in_file(layout: str) -> str:
    """Return the spelling of a layout in `TensorDescriptor.layout`."""
    return _RESERVED_IN_FILE if layout == FORMAT_RESERVED else layout


def layout_from_file(text: str) -> str:
    """Return the layout of a spelling in `TensorDescriptor.layout`."""
    return FORMAT_RESERVED if text == _RESERVED_IN_FILE else text


@dataclass(frozen=True, slots=True)
class PackedFormat:
    """A format number as attributes keep it: format, sub-format (convolution groups) and C0 code in one.

    Source: metadef `graph/types.h`, GetFormatFromSub and GetFormatFromC0: bits 0-7, 8-23, 24-27.
    """

    format: int
    sub_format: int = 0
    c0_code: int = 0

    def pack(self) -> int:
        """Return the one number."""
        return self.format & 0xFF | (self.sub_format & 0xFFFF) << 8 | (self.c0_code & 0xF) << 24


def unpack_format(number: int) -> PackedFormat:
    """Split a packed format number."""
    return PackedFormat(number & 0xFF, number >> 8 & 0xFFFF, number >> 24 & 0xF)
