"""Tensors and their descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from gerules.compat.ge.error import GeError
from gerules.compat.ge.graph.types import DataType, Format, Placement, data_type_of
from gerules.errors import table
from gerules.ir import UNKNOWN_DIM, TensorType, dtype_of
from gerules.text.files import open_regular

Array = npt.NDArray[np.generic]

UNKNOWN_RANK = -2
LARGEST_FILE_BYTES = 1 << 32


class Shape:
    """The sizes of a tensor; -1 is open, a single -2 an open rank."""

    def __init__(self, dims: Sequence[int] = ()) -> None:
        self.dims = [int(dim) for dim in dims]

    def get_shape_size(self) -> int:
        """Return the number of elements, -1 where it is open."""
        return -1 if self.is_unknown_shape() else prod(self.dims)

    def is_unknown_shape(self) -> bool:
        """Whether a size is open."""
        return any(dim < 0 for dim in self.dims)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and self.dims == other.dims

    def __hash__(self) -> int:
        return hash(tuple(self.dims))

    def __repr__(self) -> str:
        return f"Shape({self.dims})"


class TensorDesc:
    """What is known of a tensor: shape, format, element type. `origin_...` are the model's own."""

    def __init__(
        self,
        shape: Sequence[int] | Shape = (),
        format: Format = Format.FORMAT_ND,
        data_type: DataType = DataType.DT_FLOAT,
    ) -> None:
        self.shape = list(shape.dims if isinstance(shape, Shape) else shape)
        self.format = Format(format)
        self.data_type = DataType(data_type)
        self.origin_shape = list(self.shape)
        self.origin_format = self.format

    @property
    def type(self) -> TensorType:
        """The type in a graph of gerules; logical, whatever the format."""
        if self.shape == [UNKNOWN_RANK]:
            return TensorType(self.data_type.ir, None)
        return TensorType(self.data_type.ir, tuple(dim if dim >= 0 else UNKNOWN_DIM for dim in self.shape))

    def __repr__(self) -> str:
        return f"TensorDesc({self.shape}, {self.format.name}, {self.data_type.name})"


class Tensor:
    """Elements with a description.

    Args:
        data: An array, or numbers in lists; without it the elements of `file_path`, raw.
        data_type: Without it that of an array; numbers are DT_FLOAT.
        shape: Without it that of the data.

    Raises:
        GeError: E41007 for elements that do not fit the shape or the type, E10001 for a file.
    """

    def __init__(
        self,
        data: object = None,
        file_path: str | None = None,
        data_type: DataType | None = None,
        format: Format = Format.FORMAT_ND,
        shape: Sequence[int] | None = None,
        placement: Placement = Placement.PLACEMENT_HOST,
    ) -> None:
        self.format = Format(format)
        self.placement = Placement(placement)
        if file_path is not None:
            self._array = _read_raw(file_path, DataType.DT_FLOAT if data_type is None else data_type)
        else:
            self._array = _array_of(data, data_type)
        if shape is not None:
            self._array = self._reshaped(shape)

    @property
    def array(self) -> Array:
        """The elements."""
        return self._array

    @property
    def data(self) -> list[object]:
        """The elements in nested lists; a list of one for a scalar."""
        found = cast(object, self._array.tolist())
        return cast("list[object]", found) if isinstance(found, list) else [found]

    @property
    def data_type(self) -> DataType:
        """The element type."""
        return data_type_of(dtype_of(self._array))

    @property
    def shape(self) -> list[int]:
        """The sizes."""
        return list(self._array.shape)

    def get_data(self) -> list[object]:
        """Return `data`."""
        return self.data

    def numpy(self) -> Array:
        """Return the elements as an array."""
        return self._array

    def set_format(self, format: Format) -> Tensor:
        """Set the format, and return the tensor."""
        self.format = Format(format)
        return self

    def set_shape(self, shape: Sequence[int]) -> Tensor:
        """Set the sizes, and return the tensor. Raises GeError E41007 when the elements do not fit."""
        self._array = self._reshaped(shape)
        return self

    def set_data_type(self, data_type: DataType) -> Tensor:
        """Convert the elements, and return the tensor."""
        self._array = _converted(self._array, data_type)
        return self

    def to_host(self) -> Tensor:
        """Return the tensor: it is in this machine's memory."""
        return self

    def to_device(self) -> Tensor:
        """Return the tensor: it is in this machine's memory."""
        return self

    def __repr__(self) -> str:
        return f"Tensor({self.data_type.name}{self.shape})"

    def _reshaped(self, shape: Sequence[int]) -> Array:
        if prod(shape) != self._array.size:
            raise GeError(
                table.GE_BAD_TENSOR, reason=f"{self._array.size} elements have no shape {list(shape)}",
                remedy="give as many elements as the shape has",
            )  # fmt: skip
        return self._array.reshape(tuple(shape))


def _array_of(data: object, data_type: DataType | None) -> Array:
    if data is None:
        data = []
    try:
        array = np.asarray(data)
        dtype_of(array)
    except (ValueError, TypeError, KeyError) as error:
        raise GeError(
            table.GE_BAD_TENSOR, reason=f"no tensor can be made of a {type(data).__name__}: {error}",
            remedy="pass a numpy array, or numbers in lists of equal lengths",
        ) from None  # fmt: skip
    if data_type is None:
        is_typed = isinstance(data, np.ndarray | np.generic)
        return array if is_typed or array.dtype.kind == "b" else array.astype(np.float32)
    return _converted(array, data_type)


def _converted(array: Array, data_type: DataType) -> Array:
    try:
        return array.astype(DataType(data_type).ir.numpy)
    except (KeyError, ValueError, TypeError) as error:
        raise GeError(
            table.GE_BAD_TENSOR, reason=f"the elements cannot be {data_type!r}: {error}",
            remedy="choose another element type",
        ) from None  # fmt: skip


def _read_raw(path: str, data_type: DataType) -> Array:
    try:
        with open_regular(Path(path)) as file:
            data = file.read(LARGEST_FILE_BYTES)
    except (OSError, ValueError) as error:
        raise GeError(table.FILE_NOT_FOUND, path=path, reason=str(error)) from None
    dtype = DataType(data_type).ir.numpy
    if len(data) % dtype.itemsize:
        raise GeError(
            table.GE_BAD_TENSOR, reason=f"{len(data)} bytes of {path} are no elements of {dtype}",
            remedy="choose the element type of the file",
        )  # fmt: skip
    return np.frombuffer(data, dtype)
