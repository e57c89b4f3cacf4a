"""TensorProto to numpy: views where the bytes are as numpy wants them, checked sizes everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx import SparseTensorProto, TensorProto

from gerules.errors import table
from gerules.frontends.onnx.external import DataFault, DataFiles
from gerules.frontends.onnx.findings import Findings
from gerules.frontends.onnx.wire import Payload
from gerules.ir import Attr, Const, DType
from gerules.ops.onnx_types import DTYPE_OF_CODE

Array = npt.NDArray[np.generic]

_HIGHEST_RANK: Final = 64
"""numpy's own limit."""

_LARGEST_DENSE_BYTES: Final = 1 << 30
"""A sparse tensor of a few bytes may claim any shape; beyond this it is not made dense."""

_MOST_COPIES: Final = 32
"""Bytes of unpacked elements for each byte of the files; varints of one byte grow eight times."""

_TYPED_FIELD: Final[dict[DType, str]] = {
    DType.F32: "float_data",
    DType.C64: "float_data",
    DType.F64: "double_data",
    DType.C128: "double_data",
    DType.I64: "int64_data",
    DType.U32: "uint64_data",
    DType.U64: "uint64_data",
}
"""The field that holds elements of a type when it is not `raw_data`; `int32_data` for all others."""

_FIELD_NUMBER: Final = {"float_data": 4, "double_data": 10}
_RAW_NUMBER: Final = 9

_IN_FIELD: Final[dict[str, npt.DTypeLike]] = {
    "float_data": np.float32,
    "double_data": np.float64,
    "int64_data": np.int64,
    "uint64_data": np.uint64,
    "int32_data": np.int32,
}


class _Misfit(Exception):  # noqa: N818 - never leaves this file
    """The tensor is wrong; the text says how."""


class Tensors:
    """Reads the tensors of one model of `size_bytes` bytes."""

    def __init__(
        self,
        data: memoryview,
        payloads: list[Payload],
        secret: int,
        files: DataFiles,
        findings: Findings,
        *,
        size_bytes: int,
    ) -> None:
        self._data = data
        self._size_bytes = size_bytes
        self._payloads = payloads
        self._secret = secret
        self._files = files
        self._findings = findings
        self._copied_bytes = 0

    def read(self, proto: TensorProto, name: str, place: Callable[[], str]) -> Array:
        """Return the array of a tensor; a faulty one is reported and comes back empty.

        The array is a view into the file for types of at least eight bits stored as bytes; it cannot be
        written to.
        """
        try:
            return self._read(proto)
        except _Misfit as fault:
            self._findings.add(table.BAD_TENSOR, place=place(), name=name, reason=str(fault))
        except DataFault as fault:
            self._findings.add(table.BAD_EXTERNAL_DATA, place=place(), name=name, reason=str(fault))
        return np.zeros(0, np.float32)

    def read_sparse(self, proto: SparseTensorProto, name: str, place: Callable[[], str]) -> Array:
        """Return a sparse tensor as a dense array; a faulty one is reported and comes back empty."""
        try:
            return self._densify(proto)
        except _Misfit as fault:
            self._findings.add(table.BAD_TENSOR, place=place(), name=name, reason=str(fault))
        except DataFault as fault:
            self._findings.add(table.BAD_EXTERNAL_DATA, place=place(), name=name, reason=str(fault))
        return np.zeros(0, np.float32)

    def constant_of(self, kind: str, value: Attr) -> Const:
        """Return the constant that one attribute of a Constant node stands for."""
        if isinstance(value, Const):
            return value
        match kind:
            case "value_int" | "value_ints":
                array = np.array(value, np.int64)
            case "value_float" | "value_floats":
                array = np.array(value, np.float32)
            case "value_string":
                array = np.empty((), np.object_)
                array[()] = value
            case _:
                array = np.empty(len(value) if isinstance(value, tuple) else 0, np.object_)
                array[:] = value
        array.flags.writeable = False
        return Const(array)

    def _read(self, proto: TensorProto) -> Array:
        dims = tuple(proto.dims)
        dtype = _dtype_of(proto.data_type)
        n_elements = _count(dims, dtype)
        if dtype is DType.STRING:
            flat = _strings(proto.string_data)
        else:
            flat = self._numbers(proto, dtype, n_elements)
        if flat.size != n_elements:
            raise _Misfit(f"its shape {list(dims)} asks for {n_elements} elements, but it has {flat.size}")
        self._count_copy(flat)
        out = flat.reshape(dims)
        out.flags.writeable = False
        return out

    def _count_copy(self, array: Array) -> None:
        """Stop before arrays that are no views fill the memory: a function may be called many times."""
        if array.flags.writeable:
            self._copied_bytes += array.nbytes
        limit = _LARGEST_DENSE_BYTES + _MOST_COPIES * (self._size_bytes + self._files.mapped_bytes)
        if self._copied_bytes > limit:
            raise _Misfit(f"the tensors take more than {limit} bytes once unpacked")

    def _numbers(self, proto: TensorProto, dtype: DType, n_elements: int) -> Array:
        need = dtype.size_bytes(n_elements)
        if proto.data_location == TensorProto.EXTERNAL:
            return _from_bytes(self._external(proto, need), dtype, n_elements)
        if proto.HasField("segment"):
            payload = self._payload(proto)
            view = self._data[payload.offset : payload.offset + payload.size_bytes]
            expected = _FIELD_NUMBER.get(_TYPED_FIELD.get(dtype, ""))
            if payload.field not in (_RAW_NUMBER, expected):
                raise _Misfit(f"its elements of type {dtype} stand in a field for another type")
            return _from_bytes(view, dtype, n_elements)
        if proto.HasField("raw_data"):
            return _from_bytes(memoryview(proto.raw_data), dtype, n_elements)
        return _from_field(proto, dtype, n_elements)

    def _payload(self, proto: TensorProto) -> Payload:
        segment = proto.segment
        if segment.end != self._secret or not 0 <= segment.begin < len(self._payloads):
            raise _Misfit("it is one segment of a tensor, which ONNX gave up")
        return self._payloads[segment.begin]

    def _external(self, proto: TensorProto, need: int) -> memoryview:
        entries = {entry.key: entry.value for entry in proto.external_data}
        offset = _whole_number(entries.get("offset", "0"), "offset")
        size = _whole_number(entries.get("length", str(need)), "length")
        if size != need:
            raise DataFault(f"its shape and type ask for {need} bytes, but its length is {size}")
        return self._files.read(entries.get("location", ""), offset, size)

    def _densify(self, proto: SparseTensorProto) -> Array:
        values = self._read(proto.values)
        if proto.values.data_type == TensorProto.STRING:
            raise _Misfit("sparse strings have no zero")
        indices = self._read(proto.indices)
        dims = tuple(proto.dims)
        n_elements = _count(dims, _dtype_of(proto.values.data_type))
        if n_elements * values.dtype.itemsize > _LARGEST_DENSE_BYTES:
            raise _Misfit(f"its dense form of shape {list(dims)} is larger than {_LARGEST_DENSE_BYTES} bytes")
        if values.ndim != 1 or indices.dtype != np.int64:
            raise _Misfit("a sparse tensor has one dimension of values, and indices of type i64")
        places = indices.astype(np.int64)
        if places.shape == (values.size, len(dims)) and len(dims) != 1:
            sizes = np.array(dims, np.int64)
            if places.size and bool(((places < 0) | (places >= sizes)).any()):
                raise _Misfit("a sparse index lies outside the shape")
            strides = np.array([math.prod(dims[axis + 1 :]) for axis in range(len(dims))], np.int64)
            places = (places * strides).sum(axis=1)
        places = places.reshape(-1)
        if places.size != values.size:
            raise _Misfit(f"it has {values.size} values and indices of shape {list(indices.shape)}")
        if places.size and (int(places.min()) < 0 or int(places.max()) >= n_elements):
            raise _Misfit("a sparse index lies outside the shape")
        out = np.zeros(n_elements, values.dtype)
        out[places] = values
        self._count_copy(out)
        out = out.reshape(dims)
        out.flags.writeable = False
        return out


def _dtype_of(code: int) -> DType:
    dtype = DTYPE_OF_CODE.get(code, DType.UNKNOWN)
    if dtype is DType.UNKNOWN:
        raise _Misfit(f"element type {code} is unknown")
    return dtype


def _count(dims: tuple[int, ...], dtype: DType) -> int:
    if len(dims) > _HIGHEST_RANK:
        raise _Misfit(f"it has {len(dims)} dimensions; at most {_HIGHEST_RANK} can be held")
    if any(dim < 0 for dim in dims):
        raise _Misfit(f"its shape {list(dims)} has a negative dimension")
    # numpy multiplies the dimensions that are not zero, even of an empty array.
    if math.prod(dim for dim in dims if dim) * dtype.numpy.itemsize >= 1 << 62:
        raise _Misfit(f"its shape {list(dims)} is beyond any memory")
    return math.prod(dims)


def _whole_number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise DataFault(f"its {name} is no number")
    return int(text)


def _strings(texts: Iterable[bytes]) -> Array:
    decoded = [text_or_bytes(text) for text in texts]
    out = np.empty(len(decoded), np.object_)
    out[:] = decoded
    return out


def text_or_bytes(raw: bytes) -> str | bytes:
    """Return bytes as text, or as they are when they are no UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _from_bytes(data: memoryview, dtype: DType, n_elements: int) -> Array:
    need = dtype.size_bytes(n_elements)
    if len(data) != need:
        raise _Misfit(f"its shape and type {dtype} ask for {need} bytes, but it has {len(data)}")
    if not n_elements:
        return np.zeros(0, dtype.numpy)
    if dtype.bits < 8:
        return _unpack(np.frombuffer(data, np.uint8), dtype, n_elements)
    if dtype is DType.BOOL:
        octets = np.frombuffer(data, np.uint8)
        return octets.view(np.bool_) if int(octets.max()) < 2 else octets != 0
    return np.frombuffer(data, dtype.numpy)


def _from_field(proto: TensorProto, dtype: DType, n_elements: int) -> Array:
    name = _TYPED_FIELD.get(dtype, "int32_data")
    stored: Iterable[float] = getattr(proto, name)
    flat = np.fromiter(stored, _IN_FIELD[name])
    if dtype.bits < 8:
        # Each entry holds one byte of packed elements.
        octets = flat.astype(np.uint8)
        if octets.size != dtype.size_bytes(n_elements):
            raise _Misfit(
                f"its shape and type {dtype} ask for {dtype.size_bytes(n_elements)} bytes, "
                f"but it has {octets.size}"
            )
        return _unpack(octets, dtype, n_elements)
    if dtype in (DType.C64, DType.C128):
        return flat.view(dtype.numpy) if flat.size % 2 == 0 else flat
    if dtype is DType.BOOL:
        return flat != 0
    if name == "int32_data" and (dtype.is_float):
        # The bits of the element, as an integer.
        return flat.astype(np.uint16 if dtype.bits == 16 else np.uint8).view(dtype.numpy)
    return flat.astype(dtype.numpy, copy=False)


def _unpack(octets: npt.NDArray[np.uint8], dtype: DType, n_elements: int) -> Array:
    """Spread elements of four or two bits, lowest bits first, to one a byte."""
    per_byte = 8 // dtype.bits
    mask = np.uint8((1 << dtype.bits) - 1)
    spread = np.empty((octets.size, per_byte), np.uint8)
    for place in range(per_byte):
        spread[:, place] = (octets >> np.uint8(place * dtype.bits)) & mask
    flat = spread.reshape(-1)[:n_elements]
    if dtype is DType.F4E2M1:
        return flat.view(ml_dtypes.float4_e2m1fn)
    if dtype.value[0] == "i":
        sign = 1 << (dtype.bits - 1)
        return ((flat ^ np.uint8(sign)).astype(np.int8) - np.int8(sign)).astype(dtype.numpy)
    return flat.astype(dtype.numpy)


def pack(array: Array, dtype: DType) -> npt.NDArray[np.uint8]:
    """Return elements of four or two bits packed as ONNX stores them, lowest bits first."""
    per_byte = 8 // dtype.bits
    mask = np.uint8((1 << dtype.bits) - 1)
    if dtype is DType.F4E2M1:
        codes = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & mask
    else:
        codes = array.reshape(-1).astype(np.int8).view(np.uint8) & mask
    padded = np.zeros(-(-codes.size // per_byte) * per_byte, np.uint8)
    padded[: codes.size] = codes
    spread = padded.reshape(-1, per_byte)
    out = spread[:, 0].copy()
    for place in range(1, per_byte):
        out |= spread[:, place] << np.uint8(place * dtype.bits)
    return out
