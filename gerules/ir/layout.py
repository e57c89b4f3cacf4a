"""Storage formats: how a device lays out a logical tensor, as shapes and as numpy arrays.

Source: the format table and shape formulas of the Graph Engine (numbers of `ge::Format`).
"""

from __future__ import annotations

import enum
import math
from typing import Final

import numpy as np
import numpy.typing as npt

from gerules.ir.dtype import DType

CUBE: Final = 16
"""Rows and columns of one fractal (M0 and N0). Source: `[DtypeMKN]` of the platform files."""


class Format(enum.Enum):
    """A storage format. The value is its number in `.om` files."""

    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    DHWCN = 31
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self.name


def c0_of(dtype: DType) -> int:
    """Elements in the innermost block: 32 bytes' worth, so 16 for f16, 32 for i8, 64 for i4; f32 keeps 16."""
    return {1: 256, 2: 128, 4: 64, 8: 32}.get(dtype.bits, 16)


def storage_shape(
    shape: tuple[int, ...], format: Format, dtype: DType, *, groups: int = 1
) -> tuple[int, ...]:
    """Return the shape in memory of a logical tensor kept in `format`.

    The logical order is the framework's: N, C, spatial axes for activations; Cout, Cin/group,
    spatial axes for weights; rows, columns last for matrices. A format whose named axes the rank
    does not offer leaves the shape as it is, as the Graph Engine does; so do scalars.

    >>> storage_shape((1, 32, 16, 16), Format.NC1HWC0, DType.F16)
    (1, 2, 16, 16, 16)
    >>> storage_shape((100, 200, 100, 200), Format.FRACTAL_Z, DType.F16)
    (260000, 7, 16, 16)
    """
    c0 = c0_of(dtype)
    if perm := _permutation(len(shape), format):
        return tuple(shape[axis] for axis in perm)
    match format:
        case Format.NC1HWC0 if len(shape) == 4:
            n, c, h, w = shape
            return (n, _ceil(c, c0), h, w, c0)
        case Format.NDC1HWC0 if len(shape) == 5:
            n, c, d, h, w = shape
            return (n, d, _ceil(c, c0), h, w, c0)
        case Format.FRACTAL_Z if len(shape) == 4:
            n, c, h, w = shape
            n_blocks, c_out, c_in = _group_blocks(n, c, groups, c0)
            return (n_blocks * _ceil(c_in, c0) * h * w, _ceil(c_out, CUBE), CUBE, c0)
        case Format.FRACTAL_Z if len(shape) == 2:
            k, n = shape
            return (_ceil(k, c0), _ceil(n, CUBE), CUBE, c0)
        case Format.FRACTAL_Z_3D if len(shape) == 5:
            n, c, d, h, w = shape
            return (d * _ceil(c, c0) * h * w, _ceil(n, CUBE), CUBE, c0)
        case Format.FRACTAL_NZ if len(shape) >= 1:
            *batch, m, n = shape if len(shape) > 1 else (shape[0], 1)
            return (*batch, _ceil(n, c0), _ceil(m, CUBE), CUBE, c0)
        case _:
            return shape


def to_storage(
    array: npt.NDArray[np.generic], format: Format, dtype: DType, *, groups: int = 1
) -> npt.NDArray[np.generic]:
    """Lay a logical array out as the device keeps it; padding is zero.

    Returns:
        An array of `storage_shape(array.shape, ...)`; `array` itself when nothing moves.
    """
    shape, c0 = array.shape, c0_of(dtype)
    if perm := _permutation(len(shape), format):
        return array.transpose(perm)
    match format:
        case Format.NC1HWC0 if len(shape) == 4:
            n, c, h, w = shape
            padded = _pad(array, (n, _up(c, c0), h, w))
            return padded.reshape(n, -1, c0, h, w).transpose(0, 1, 3, 4, 2)
        case Format.NDC1HWC0 if len(shape) == 5:
            n, c, d, h, w = shape
            padded = _pad(array, (n, _up(c, c0), d, h, w))
            return padded.reshape(n, -1, c0, d, h, w).transpose(0, 3, 1, 4, 5, 2)
        case Format.FRACTAL_Z if len(shape) == 4:
            return _weight_to_blocks(array, groups, c0)
        case Format.FRACTAL_Z if len(shape) == 2:
            k, n = shape
            padded = _pad(array, (_up(k, c0), _up(n, CUBE)))
            return padded.reshape(-1, c0, _ceil(n, CUBE), CUBE).transpose(0, 2, 3, 1)
        case Format.FRACTAL_Z_3D if len(shape) == 5:
            n, c, d, h, w = shape
            padded = _pad(array, (_up(n, CUBE), _up(c, c0), d, h, w))
            blocks = padded.reshape(-1, CUBE, _ceil(c, c0), c0, d, h, w).transpose(4, 2, 5, 6, 0, 1, 3)
            return blocks.reshape(storage_shape(shape, format, dtype))
        case Format.FRACTAL_NZ if len(shape) >= 1:
            matrix = array if len(shape) > 1 else array.reshape(-1, 1)
            *batch, m, n = matrix.shape
            padded = _pad(matrix, (*batch, _up(m, CUBE), _up(n, c0)))
            blocks = padded.reshape(*batch, _ceil(m, CUBE), CUBE, _ceil(n, c0), c0)
            return np.moveaxis(blocks, -2, -4)
        case _:
            return array


def from_storage(
    array: npt.NDArray[np.generic],
    shape: tuple[int, ...],
    format: Format,
    dtype: DType,
    *,
    groups: int = 1,
) -> npt.NDArray[np.generic]:
    """Return the logical array of `shape` that `to_storage` laid out; padding is dropped.

    The result is a view of `array` where numpy can express it as one.
    """
    c0 = c0_of(dtype)
    if perm := _permutation(len(shape), format):
        return array.transpose(np.argsort(perm))
    match format:
        case Format.NC1HWC0 if len(shape) == 4:
            n, c, h, w = shape
            return array.transpose(0, 1, 4, 2, 3).reshape(n, -1, h, w)[:, :c]
        case Format.NDC1HWC0 if len(shape) == 5:
            n, c, d, h, w = shape
            return array.transpose(0, 2, 5, 1, 3, 4).reshape(n, -1, d, h, w)[:, :c]
        case Format.FRACTAL_Z if len(shape) == 4:
            return _blocks_to_weight(array, shape, groups, c0)
        case Format.FRACTAL_Z if len(shape) == 2:
            k, n = shape
            return array.transpose(0, 3, 1, 2).reshape(_up(k, c0), _up(n, CUBE))[:k, :n]
        case Format.FRACTAL_Z_3D if len(shape) == 5:
            n, c, d, h, w = shape
            blocks = array.reshape(d, _ceil(c, c0), h, w, _ceil(n, CUBE), CUBE, c0)
            return blocks.transpose(4, 5, 1, 6, 0, 2, 3).reshape(_up(n, CUBE), _up(c, c0), d, h, w)[:n, :c]
        case Format.FRACTAL_NZ if len(shape) >= 1:
            *batch, m, n = shape if len(shape) > 1 else (shape[0], 1)
            matrix = np.moveaxis(array, -4, -2).reshape(*batch, _up(m, CUBE), _up(n, c0))
            return matrix[..., :m, :n].reshape(shape)
        case _:
            return array


_PERMUTATIONS: Final = {
    (Format.NHWC, 4): (0, 2, 3, 1),
    (Format.HWCN, 4): (2, 3, 1, 0),
    (Format.NDHWC, 5): (0, 2, 3, 4, 1),
    (Format.DHWCN, 5): (2, 3, 4, 1, 0),
}


def _permutation(rank: int, format: Format) -> tuple[int, ...] | None:
    return _PERMUTATIONS.get((format, rank))


def _group_blocks(n: int, c: int, groups: int, c0: int) -> tuple[int, int, int]:
    """Return (blocks, output channels, input channels) of one block; E groups share a block diagonally."""
    if groups <= 1 or n < groups:
        return 1, n, c
    c_out = n // groups
    shared = min(math.lcm(c0 // math.gcd(c, c0), CUBE // math.gcd(c_out, CUBE)), groups)
    return _ceil(groups, shared), shared * c_out, shared * c


def _weight_to_blocks(array: npt.NDArray[np.generic], groups: int, c0: int) -> npt.NDArray[np.generic]:
    n, c, h, w = array.shape
    n_blocks, c_out, c_in = _group_blocks(n, c, groups, c0)
    if n_blocks == 1 and c_out == n and c_in == c:
        full = _pad(array, (_up(n, CUBE), _up(c, c0), h, w))[None]
    else:
        full = np.zeros((n_blocks, _up(c_out, CUBE), _up(c_in, c0), h, w), array.dtype)
        for index, rows, block, columns in _diagonal(n, c, groups, c_out):
            full[index, block, columns] = array[rows]
    blocks = full.reshape(n_blocks, -1, CUBE, _ceil(c_in, c0), c0, h, w).transpose(0, 3, 5, 6, 1, 2, 4)
    return blocks.reshape(-1, _ceil(c_out, CUBE), CUBE, c0)


def _blocks_to_weight(
    array: npt.NDArray[np.generic], shape: tuple[int, ...], groups: int, c0: int
) -> npt.NDArray[np.generic]:
    n, c, h, w = shape
    n_blocks, c_out, c_in = _group_blocks(n, c, groups, c0)
    blocks = array.reshape(n_blocks, _ceil(c_in, c0), h, w, _ceil(c_out, CUBE), CUBE, c0)
    full = blocks.transpose(0, 4, 5, 1, 6, 2, 3).reshape(n_blocks, _up(c_out, CUBE), _up(c_in, c0), h, w)
    if n_blocks == 1 and c_out == n and c_in == c:
        return full[0, :n, :c]
    out = np.empty(shape, array.dtype)
    for index, rows, block, columns in _diagonal(n, c, groups, c_out):
        out[rows] = full[index, block, columns]
    return out


def _diagonal(n: int, c: int, groups: int, c_out: int) -> list[tuple[int, slice, slice, slice]]:
    per_group = n // groups
    shared = c_out // per_group
    found: list[tuple[int, slice, slice, slice]] = []
    for group in range(groups):
        index, place = divmod(group, shared)
        rows = slice(group * per_group, (group + 1) * per_group)
        block = slice(place * per_group, (place + 1) * per_group)
        found.append((index, rows, block, slice(place * c, (place + 1) * c)))
    return found


def _pad(array: npt.NDArray[np.generic], shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    if array.shape == shape:
        return array
    out = np.zeros(shape, array.dtype)
    out[tuple(slice(0, size) for size in array.shape)] = array
    return out


def _ceil(value: int, block: int) -> int:
    return -(-value // block)


def _up(value: int, block: int) -> int:
    return _ceil(value, block) * block
