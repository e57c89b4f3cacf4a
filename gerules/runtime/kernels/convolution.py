"""Convolution on BLAS: pointwise, depthwise and general, in bounded scratch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_int, read_ints
from gerules.runtime.kernels.contract import Array, Kernel, KernelContext, optional, required
from gerules.runtime.kernels.precision import round_to, widen
from gerules.runtime.kernels.windows import Windows, conv_windows, inner_slices, pad_for

_SCRATCH_BYTES: Final = 16 << 20
"""Most bytes that unfolded windows take at a time; a larger one gained nothing when measured."""

_BLOCK_BYTES: Final = 1 << 18
"""Bytes of one block of channels of a depthwise convolution: it and its product stay in cache."""


def conv(inputs: Sequence[Array | None], attrs: Mapping[str, Attr], context: KernelContext) -> list[Array]:
    """Conv over 1, 2, 3 or more spatial axes, with groups, strides, dilations and any padding."""
    x, weight, bias = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    windows, groups = check_conv(x, weight, attrs)
    wide = widen(x)
    context.check_size((*x.shape[:2], *windows.padded), wide.dtype)
    shape = (x.shape[0], weight.shape[0], *windows.out)
    out = context.destination(shape, wide.dtype)
    convolve(wide, widen(weight), windows, groups, out)
    if bias is not None:
        out += widen(bias).reshape(-1, *(1,) * len(windows.out))
    return [round_to(out, x.dtype)]


def check_conv(x: Array, weight: Array, attrs: Mapping[str, Attr]) -> tuple[Windows, int]:
    """Return windows and groups of a convolution. Raises ValueError when shapes do not fit."""
    groups = read_int(attrs, "group", 1)
    if x.ndim < 3 or weight.ndim != x.ndim:
        raise ValueError(f"input {list(x.shape)} and weight {list(weight.shape)} do not fit")
    if groups < 1 or x.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
        raise ValueError(f"{x.shape[1]} channels do not fit weight {list(weight.shape)} in {groups} groups")
    named = read_ints(attrs, "kernel_shape")
    if named is not None and named != weight.shape[2:]:
        raise ValueError(f"kernel_shape {list(named)} is not that of weight {list(weight.shape)}")
    return conv_windows(x.shape[2:], weight.shape[2:], attrs), groups


def convolve(x: Array, weight: Array, windows: Windows, groups: int, out: Array) -> None:
    """Write the convolution of f32 or f64 arrays into `out`, without bias."""
    if not out.size:
        return
    if not x.shape[1]:
        out[...] = 0
        return
    if weight.shape[1] == 1 and groups == weight.shape[0] and groups > 1:
        _convolve_depthwise(x, weight, windows, out)
    elif max(windows.kernel) == 1:
        _convolve_pointwise(pad_for(x, windows), weight, windows, groups, out)
    else:
        _convolve_unfolded(pad_for(x, windows), weight, windows, groups, out)


def _convolve_pointwise(x: Array, weight: Array, windows: Windows, groups: int, out: Array) -> None:
    n, m = out.shape[:2]
    picked = x[(slice(None), slice(None), *windows.tap_slices((0,) * len(windows.kernel)))]
    columns = picked.reshape(n, groups, x.shape[1] // groups, -1)
    _multiply(weight.reshape(1, groups, m // groups, -1), columns, out)


def _multiply(matrix: Array, columns: Array, target: Array) -> None:
    """Write `matrix @ columns`, both `[n, groups, ...]`, into a tile of the output."""
    shape = (columns.shape[0], matrix.shape[1], matrix.shape[2], columns.shape[3])
    if target.flags.c_contiguous:
        np.matmul(matrix, columns, out=target.reshape(shape))
    else:
        target[...] = np.matmul(matrix, columns).reshape(target.shape)


def _convolve_unfolded(x: Array, weight: Array, windows: Windows, groups: int, out: Array) -> None:
    """Unfold windows into columns, a tile at a time, and multiply."""
    n, m = out.shape[:2]
    rank = len(windows.out)
    depth = x.shape[1] * math.prod(windows.kernel)
    matrix = weight.reshape(1, groups, m // groups, -1)
    unfolded = _unfold(x, windows)
    for images, tile in _tiles(n, windows.out, max(1, _SCRATCH_BYTES // (depth * x.itemsize))):
        block = unfolded[(images, *(slice(None),) * (1 + rank), *tile)]
        columns = np.ascontiguousarray(block).reshape(block.shape[0], groups, depth // groups, -1)
        _multiply(matrix, columns, out[(images, slice(None), *tile)])


def _unfold(x: Array, windows: Windows) -> Array:
    """Return a view `[N, C, *kernel, *out]` of a padded input."""
    spatial = x.strides[2:]
    inside = [stride * step for stride, step in zip(spatial, windows.dilations, strict=True)]
    across = [stride * step for stride, step in zip(spatial, windows.strides, strict=True)]
    shape = (*x.shape[:2], *windows.kernel, *windows.out)
    return as_strided(x, shape, (*x.strides[:2], *inside, *across), writeable=False)


def _tiles(n: int, out: Sequence[int], budget: int) -> Iterator[tuple[slice, tuple[slice, ...]]]:
    """Yield ranges of images and of output positions with at most `budget` positions each.

    Trailing axes stay whole as long as they fit, so that a tile is one run of memory in the output.
    """
    sizes = [n, *out]
    steps = [1] * len(sizes)
    for axis in range(len(sizes) - 1, -1, -1):
        steps[axis] = max(1, min(sizes[axis], budget))
        budget //= sizes[axis]
        if budget < 1:
            break
    ranges = [
        [slice(start, min(start + step, size)) for start in range(0, size, step)]
        for size, step in zip(sizes, steps, strict=True)
    ]
    for first, *rest in itertools.product(*ranges):
        yield first, tuple(rest)


def _convolve_depthwise(x: Array, weight: Array, windows: Windows, out: Array) -> None:
    """Sum shifted inputs, each times its tap's weight, a block of channels at a time."""
    if max(windows.strides) == 1:
        _convolve_depthwise_flat(x, weight, windows, out)
        return
    n, channels = out.shape[:2]
    padded = pad_for(x, windows)
    step = min(channels, max(1, _BLOCK_BYTES // (math.prod(windows.out) * x.itemsize)))
    product = np.empty((step, *windows.out), x.dtype)
    for image, start in itertools.product(range(n), range(0, channels, step)):
        block = slice(start, min(start + step, channels))
        total = out[image, block]
        for index, tap in enumerate(windows.taps()):
            shifted = padded[(image, block, *windows.tap_slices(tap))]
            factor = weight[(block, 0, *tap)].reshape(-1, *(1,) * len(windows.out))
            _accumulate(shifted, factor, total, product[: total.shape[0]], index == 0)


def _convolve_depthwise_flat(x: Array, weight: Array, windows: Windows, out: Array) -> None:
    """As `_convolve_depthwise` with stride 1, where a shifted plane is a run of the flat padded plane.

    The few columns between rows are computed for nothing, in exchange for long inner loops.
    """
    n, channels = out.shape[:2]
    pitches = [math.prod(windows.padded[axis + 1 :]) for axis in range(len(windows.out))]
    plane, span = math.prod(windows.padded), windows.out[0] * pitches[0]
    step = min(channels, max(1, _BLOCK_BYTES // (span * x.itemsize)))
    flat = np.zeros((step, plane + pitches[0]), x.dtype)
    total = np.empty((step, span), x.dtype)
    product = np.empty_like(total)
    for image, start in itertools.product(range(n), range(0, channels, step)):
        block = slice(start, min(start + step, channels))
        width = block.stop - block.start
        # The border stays zero from block to block; only the inside is overwritten.
        flat[:width, :plane].reshape(width, *windows.padded)[(slice(None), *inner_slices(windows))] = x[
            image, block
        ]
        for index, tap in enumerate(windows.taps()):
            offset = sum(
                at * gap * pitch for at, gap, pitch in zip(tap, windows.dilations, pitches, strict=True)
            )
            factor = weight[(block, 0, *tap)].reshape(-1, 1)
            _accumulate(
                flat[:width, offset : offset + span], factor, total[:width], product[:width], index == 0
            )
        rows = total[:width].reshape(width, windows.out[0], *windows.padded[1:])
        out[image, block] = rows[(slice(None), slice(None), *(slice(0, size) for size in windows.out[1:]))]


def _accumulate(shifted: Array, factor: Array, total: Array, product: Array, is_first: bool) -> None:
    if is_first:
        np.multiply(shifted, factor, out=total)
        return
    np.multiply(shifted, factor, out=product)
    np.add(total, product, out=total)


KERNELS: Final[Mapping[str, Kernel]] = {"Conv": conv}
