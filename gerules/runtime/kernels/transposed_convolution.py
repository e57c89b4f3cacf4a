"""ConvTranspose: one product per kernel position, added into the output at its stride."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_int, read_ints, read_text
from gerules.runtime.kernels.contract import Array, Kernel, KernelContext, optional, required
from gerules.runtime.kernels.precision import round_to, widen
from gerules.runtime.kernels.windows import Windows, same_pads, spatial_ints

_SCRATCH_BYTES: Final = 64 << 20
"""Most bytes of the products of one step; a larger layer is computed one kernel position at a time."""


def conv_transpose(
    inputs: Sequence[Array | None], attrs: Mapping[str, Attr], context: KernelContext
) -> list[Array]:
    """ConvTranspose over any number of spatial axes."""
    x, weight, bias = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    groups = read_int(attrs, "group", 1)
    fits = x.ndim >= 3 and weight.ndim == x.ndim and groups >= 1
    if not fits or x.shape[1] != weight.shape[0] or x.shape[1] % groups:
        shapes = f"{list(x.shape)} and {list(weight.shape)}"
        raise ValueError(f"input and weight {shapes} do not fit in {groups} groups")
    full, begin, out = _geometry(x.shape[2:], weight.shape[2:], attrs)
    channels = weight.shape[1] * groups
    context.check_size((x.shape[0], channels, *full.spatial), x.dtype)
    total = _scatter(widen(x), widen(weight), full, groups)
    inside = tuple(slice(start, start + size) for start, size in zip(begin, out, strict=True))
    result = total[(slice(None), slice(None), *inside)]
    if bias is not None:
        result = result + widen(bias).reshape(-1, *(1,) * len(out))
    return [round_to(np.ascontiguousarray(result), x.dtype)]


def _geometry(
    spatial: Sequence[int], kernel: Sequence[int], attrs: Mapping[str, Attr]
) -> tuple[Windows, list[int], list[int]]:
    """Return windows of the whole output, padding included, then where the result begins and its size."""
    rank = len(spatial)
    strides, dilations = spatial_ints(attrs, "strides", rank, 1), spatial_ints(attrs, "dilations", rank, 1)
    extra = read_ints(attrs, "output_padding") or (0,) * rank
    wanted = read_ints(attrs, "output_shape")
    wanted = None if wanted is None else wanted[-rank:]
    pads = read_ints(attrs, "pads") or (0,) * (2 * rank)
    auto_pad = read_text(attrs, "auto_pad", "NOTSET")
    begin, out, full = [0] * rank, [0] * rank, [0] * rank
    for axis in range(rank):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        span = (spatial[axis] - 1) * strides[axis] + reach + extra[axis]
        if wanted is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            out[axis] = spatial[axis] * strides[axis] if wanted is None else wanted[axis]
            # The operator gives the odd element to the end for SAME_UPPER, to the beginning otherwise.
            mode = "SAME_UPPER" if auto_pad == "SAME_UPPER" else "SAME_LOWER"
            begin[axis] = same_pads(mode, span - out[axis])[0]
        elif auto_pad == "VALID":
            out[axis] = span
        else:
            begin[axis], out[axis] = pads[axis], span - pads[axis] - pads[axis + rank]
        full[axis] = max(span, begin[axis] + out[axis])
    if min(out) < 1 or min(begin) < 0 or min(extra) < 0:
        raise ValueError(f"kernel {list(kernel)} and pads {list(pads)} leave no output of {list(spatial)}")
    zero = (0,) * rank
    windows = Windows(tuple(full), tuple(kernel), strides, dilations, zero, zero, tuple(spatial))
    return windows, begin, out


def _scatter(x: Array, weight: Array, windows: Windows, groups: int) -> Array:
    n, channels = x.shape[:2]
    per_group = weight.shape[1]
    total = np.zeros((n, groups, per_group, *windows.spatial), x.dtype)
    columns = x.reshape(n, groups, channels // groups, -1)
    matrix = np.ascontiguousarray(
        np.moveaxis(weight.reshape(groups, channels // groups, per_group, -1), (3, 2), (1, 2))
    )  # [groups, taps, M / groups, C / groups]
    taps = list(windows.taps())
    tap_bytes = n * groups * per_group * columns.shape[3] * x.itemsize
    step = max(1, min(len(taps), _SCRATCH_BYTES // max(tap_bytes, 1)))
    for start in range(0, len(taps), step):
        some = taps[start : start + step]
        rows = matrix[:, start : start + step].reshape(1, groups, len(some) * per_group, -1)
        products = np.matmul(rows, columns).reshape(n, groups, len(some), per_group, *windows.out)
        for index, tap in enumerate(some):
            total[(slice(None), slice(None), slice(None), *windows.tap_slices(tap))] += products[:, :, index]
    return total.reshape(n, groups * per_group, *windows.spatial)


KERNELS: Final[Mapping[str, Kernel]] = {"ConvTranspose": conv_transpose}
