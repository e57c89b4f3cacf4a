"""Tensors and their descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from gerules.compat.ge.error import GeError
from gerules.compat.ge.graph.conversion import converted, is_whole, numpy_type_of, shown
from gerules.compat.ge.graph.types import DataType, Format, Placement, data_type_of, member_of
from gerules.errors import table
from gerules.errors.counts import count_text
from gerules.ir import UNKNOWN_DIM, TensorType, dtype_of
from gerules.text.files import open_regular

Array = npt.NDArray[np.generic]

UNKNOWN_RANK = -2
LARGEST_FILE_BYTES = 1 << 32


class Shape:
    """The sizes of a tensor; -1 is open, a single -2 an open rank. Raises GeError E41007 for others."""

    def __init__(self, dims: Sequence[int] = ()) -> None:
        self.dims = dims_of(dims)

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
    """What is known of a tensor: shape, format, element type. `origin_...` are the model's own.

    Raises:
        GeError: E41007 for what is no shape, no format, no element type.
    """

    def __init__(
        self,
        shape: Sequence[int] | Shape = (),
        format: Format = Format.FORMAT_ND,
        data_type: DataType = DataType.DT_FLOAT,
    ) -> None:
        self.shape = dims_of(shape.dims if isinstance(shape, Shape) else shape)
        self.format = member_of(Format, format)
        self.data_type = member_of(DataType, data_type)
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
        GeError: E41007 for elements that do not fit the shape or that the type cannot hold, E10001 for a
            file.
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
        self.format = member_of(Format, format)
        self.placement = member_of(Placement, placement)
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
    def data(self) -> object:
        """The elements in lists as deep as the shape is long; of a scalar, its element."""
        return cast(object, self._array.tolist())

    @property
    def data_type(self) -> DataType:
        """The element type."""
        return data_type_of(dtype_of(self._array))

    @property
    def shape(self) -> list[int]:
        """The sizes."""
        return list(self._array.shape)

    def get_data(self) -> object:
        """Return `data`."""
        return self.data

    def numpy(self) -> Array:
        """Return the elements as an array."""
        return self._array

    def set_format(self, format: Format) -> Tensor:
        """Set the format, and return the tensor."""
        self.format = member_of(Format, format)
        return self

    def set_shape(self, shape: Sequence[int]) -> Tensor:
        """Set the sizes, and return the tensor. Raises GeError E41007 when the elements do not fit."""
        self._array = self._reshaped(shape)
        return self

    def set_data_type(self, data_type: DataType) -> Tensor:
        """Convert the elements, and return the tensor.

        Raises:
            GeError: E41007 for elements that the type cannot hold.
        """
        self._array = converted(self._array, data_type)
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
        dims = dims_of(shape)
        if any(dim < 0 for dim in dims) or prod(dims) != self._array.size:
            raise GeError(
                table.GE_BAD_TENSOR,
                reason=f"{count_text(self._array.size, 'element')} cannot have the shape {dims}",
                remedy="give as many elements as the shape has",
            )  # fmt: skip
        return self._array.reshape(tuple(dims))


def dims_of(shape: object) -> list[int]:
    """Return a shape as numbers; -1 is open, a single -2 an open rank. Raises GeError E41007 for others."""
    is_list = isinstance(shape, list | tuple | np.ndarray)
    items = list(cast("Sequence[object]", shape)) if is_list else []
    given: object = items if is_list else shape
    found = [int(cast(int, item)) for item in items if is_whole(item)]
    is_known = found == [UNKNOWN_RANK] or all(dim >= -1 for dim in found)
    if not is_list or len(found) != len(items) or not is_known:
        raise GeError(
            table.GE_BAD_TENSOR, reason=f"{shown(given)} is no shape",
            remedy="give a list of sizes; -1 is an open size, [-2] alone an open rank",
        )  # fmt: skip
    return found


def _array_of(data: object, data_type: DataType | None) -> Array:
    if data is None:
        data = []
    try:
        array = _whole_of(data, np.asarray(data))
        dtype_of(array)
    except (ValueError, TypeError, KeyError) as error:
        raise GeError(
            table.GE_BAD_TENSOR, reason=f"no tensor can be made of a {type(data).__name__}: {error}",
            remedy="pass a numpy array, or numbers in lists of equal lengths",
        ) from None  # fmt: skip
    if data_type is not None:
        return converted(array, data_type)
    is_typed = isinstance(data, np.ndarray | np.generic)
    return array if is_typed or array.dtype.kind == "b" else converted(array, DataType.DT_FLOAT)


def _whole_of(data: object, array: Array) -> Array:
    """Lists of whole numbers that numpy takes for floats, since some of them need the unsigned type."""
    if not isinstance(data, list | tuple) or array.dtype != np.float64:
        return array
    exact = np.asarray(data, object)
    is_unsigned = all(is_whole(item) and 0 <= cast(int, item) < 1 << 64 for item in exact.flat)
    return exact.astype(np.uint64) if is_unsigned and exact.size else array


def _read_raw(path: str, data_type: DataType) -> Array:
    try:
        with open_regular(Path(path)) as file:
            data = file.read(LARGEST_FILE_BYTES)
    except (OSError, ValueError) as error:
        raise GeError(table.FILE_NOT_FOUND, path=path, reason=str(error)) from None
    dtype = numpy_type_of(data_type)
    if len(data) % dtype.itemsize:
        raise GeError(
            table.GE_BAD_TENSOR,
            reason=f"{path} has {count_text(len(data), 'byte')}, no whole number of {dtype}",
            remedy="choose the element type of the file",
        )  # fmt: skip
    return np.frombuffer(data, dtype)
