"""Sliding windows: the geometry that convolutions and pools share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_ints, read_text
from gerules.runtime.kernels.contract import Array


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over the spatial axes of an `[N, C, *spatial]` tensor; every tuple has one entry an axis."""

    spatial: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    """Padding as the model asks for it; with `ceil_mode` the last window may reach beyond."""
    out: tuple[int, ...]

    @property
    def is_unpadded(self) -> bool:
        """Whether every window lies inside the input."""
        return not any(self.begin) and all(
            need <= size for need, size in zip(self.padded, self.spatial, strict=True)
        )

    @property
    def padded(self) -> tuple[int, ...]:
        """Size of the padded input that the windows cover."""
        axes = zip(self.out, self.strides, self.kernel, self.dilations, strict=True)
        return tuple((out - 1) * stride + (size - 1) * step + 1 for out, stride, size, step in axes)

    def taps(self) -> Iterator[tuple[int, ...]]:
        """Yield every position inside the kernel, last axis fastest."""
        return itertools.product(*(range(size) for size in self.kernel))

    def tap_slices(self, tap: Sequence[int]) -> tuple[slice, ...]:
        """Return slices of the padded spatial axes: the element at `tap` of every window."""
        axes = zip(tap, self.dilations, self.strides, self.out, strict=True)
        return tuple(
            slice(at * step, at * step + (out - 1) * stride + 1, stride) for at, step, stride, out in axes
        )


def conv_windows(spatial: Sequence[int], kernel: Sequence[int], attrs: Mapping[str, Attr]) -> Windows:
    """Return the windows of a convolution.

    Raises:
        ValueError: For sizes that give no output, or lists that do not fit the rank.
    """
    return _windows(spatial, kernel, attrs, ceil_mode=False)


def pool_windows(spatial: Sequence[int], attrs: Mapping[str, Attr], *, ceil_mode: bool) -> Windows:
    """Return the windows of a pool; with `ceil_mode` a partial window counts at the end."""
    kernel = read_ints(attrs, "kernel_shape")
    if kernel is None:
        raise ValueError("attribute kernel_shape is missing")
    return _windows(spatial, kernel, attrs, ceil_mode=ceil_mode)


def _windows(
    spatial: Sequence[int], kernel: Sequence[int], attrs: Mapping[str, Attr], *, ceil_mode: bool
) -> Windows:
    rank = len(spatial)
    strides = spatial_ints(attrs, "strides", rank, 1)
    dilations = spatial_ints(attrs, "dilations", rank, 1)
    if len(kernel) != rank or rank == 0 or min(kernel) < 1:
        raise ValueError(f"kernel {list(kernel)} does not fit {rank} spatial axes")
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    auto_pad = read_text(attrs, "auto_pad", "NOTSET")
    begin, end, out = [0] * rank, [0] * rank, [0] * rank
    pads = read_ints(attrs, "pads") or (0,) * (2 * rank)
    if len(pads) != 2 * rank or min(pads) < 0:
        raise ValueError(f"pads {list(pads)} do not fit {rank} spatial axes")
    for axis in range(rank):
        size, stride = spatial[axis], strides[axis]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            out[axis] = -(-size // stride)
            begin[axis], end[axis] = same_pads(auto_pad, (out[axis] - 1) * stride + reach[axis] - size)
            continue
        if auto_pad == "NOTSET":
            begin[axis], end[axis] = pads[axis], pads[axis + rank]
        elif auto_pad != "VALID":
            raise ValueError(f"auto_pad {auto_pad} is unknown")
        free = size + begin[axis] + end[axis] - reach[axis]
        out[axis] = (-(-free // stride) if ceil_mode else free // stride) + 1
        # A window must start inside the input or its leading padding.
        if ceil_mode and (out[axis] - 1) * stride >= size + begin[axis]:
            out[axis] -= 1
    if min(out) < 1:
        raise ValueError(f"windows {list(kernel)} do not fit into {list(spatial)}")
    return Windows(tuple(spatial), tuple(kernel), strides, dilations, tuple(begin), tuple(end), tuple(out))


def same_pads(auto_pad: str, total: int) -> tuple[int, int]:
    """Split `total` padding of one axis; SAME_UPPER puts the odd one at the end."""
    total = max(total, 0)
    small = total // 2
    return (small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small)


def spatial_ints(attrs: Mapping[str, Attr], name: str, rank: int, default: int) -> tuple[int, ...]:
    """Return one positive integer for each spatial axis. Raises ValueError."""
    values = read_ints(attrs, name) or (default,) * rank
    if len(values) != rank or min(values, default=1) < 1:
        raise ValueError(f"{name} {list(values)} do not fit {rank} spatial axes")
    return values


def pad_for(array: Array, windows: Windows, value: object = 0) -> Array:
    """Return `[N, C, *padded]` with the input at `begin`, or the input itself when nothing is padded."""
    if windows.is_unpadded:
        return array
    sizes = [
        max(need, size + start)
        for need, size, start in zip(windows.padded, windows.spatial, windows.begin, strict=True)
    ]
    shape = (*array.shape[:2], *sizes)
    padded = np.zeros(shape, array.dtype) if value == 0 else np.full(shape, value, array.dtype)
    padded[(slice(None), slice(None), *inner_slices(windows))] = array
    return padded


def inner_slices(windows: Windows) -> tuple[slice, ...]:
    """Return where the input lies inside the padded spatial axes."""
    axes = zip(windows.begin, windows.spatial, strict=True)
    return tuple(slice(start, start + size) for start, size in axes)
