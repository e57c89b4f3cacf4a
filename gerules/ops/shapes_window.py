"""Types of what moves a window over space: convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gerules.ir import Dim, DType, Shape, TensorType, ValueType
from gerules.ops.call import Call, Rule, bad_attr, misfit, unknown_shape
from gerules.ops.dims import add_dims, ceildiv_dim, floordiv_dim, mul_dims

_LARGEST_STEP: Final = 2**31
"""Strides, dilations, kernels and pads beyond it are faults; sums of them stay far from int64's end."""


def conv(call: Call) -> list[ValueType]:
    """`X[N, C, ...] * W[M, C/g, ...] -> [N, M, ...]`."""
    return [_convolved(call, call.shape(0), call.shape(1), bias=call.shape(2))]


def _conv_integer(call: Call) -> list[ValueType]:
    return [_convolved(call, call.shape(0), call.shape(1), bias=None)]


def _qlinear_conv(call: Call) -> list[ValueType]:
    return [_convolved(call, call.shape(0), call.shape(3), bias=call.shape(8))]


def _convolved(call: Call, data: Shape | None, weight: Shape | None, bias: Shape | None) -> TensorType:
    rank = _common_rank(data, weight)
    if rank is None:
        return TensorType(call.dtypes[0])
    data = data if data is not None else unknown_shape(rank)
    weight = weight if weight is not None else unknown_shape(rank)
    groups = _groups(call)
    channels, width, n_out = data[1], weight[1], weight[0]
    if isinstance(channels, int) and isinstance(width, int) and channels != width * groups:
        raise misfit(
            f"the input has {channels} channels, the weight takes {width} in each of {groups} groups"
        )
    if isinstance(n_out, int) and n_out % groups:
        raise misfit(f"{n_out} output channels do not divide into {groups} groups")
    _check_bias(bias, n_out)
    window = _Window(call, rank - 2, weight[2:])
    spatial = [window.size(place, dim) for place, dim in enumerate(data[2:])]
    return TensorType(call.dtypes[0], (data[0], n_out, *spatial))


def _conv_transpose(call: Call) -> list[ValueType]:
    data, weight = call.shape(0), call.shape(1)
    rank = _common_rank(data, weight)
    if rank is None:
        return [TensorType(call.dtypes[0])]
    data = data if data is not None else unknown_shape(rank)
    weight = weight if weight is not None else unknown_shape(rank)
    groups = _groups(call)
    channels, n_in = data[1], weight[0]
    if isinstance(channels, int) and isinstance(n_in, int) and channels != n_in:
        raise misfit(f"the input has {channels} channels, the weight takes {n_in}")
    n_out = mul_dims(weight[1], groups)
    _check_bias(call.shape(2), n_out)
    window = _Window(call, rank - 2, weight[2:])
    n = rank - 2
    wanted = call.ints_attr("output_shape")
    if wanted is not None:
        if len(wanted) == rank:
            wanted = wanted[2:]
        if len(wanted) != n or any(size < 0 for size in wanted):
            raise bad_attr("output_shape", f"must be {n} sizes")
        return [TensorType(call.dtypes[0], (data[0], n_out, *wanted))]
    extra = _per_axis(call, "output_padding", n, 0, lowest=0)
    spatial: list[Dim] = []
    for place, dim in enumerate(data[2:]):
        stride, kernel = window.strides[place], window.kernel[place]
        if window.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            reaches = isinstance(kernel, int) and window.dilations[place] * (kernel - 1) + 1 >= stride
            # The window leaves gaps otherwise, and onnx and onnxruntime do not agree how many of them stay.
            spatial.append(mul_dims(dim, stride) if reaches else "?")
            continue
        if not isinstance(kernel, int):
            spatial.append("?")
            continue
        reach = window.dilations[place] * (kernel - 1) + 1
        more = reach + extra[place] - window.pads[place] - window.pads[place + n] - stride
        size = add_dims(mul_dims(dim, stride), more)
        if isinstance(size, int) and size < 0:
            raise misfit(f"the pads leave {size} of spatial axis {place}")
        spatial.append(size)
    return [TensorType(call.dtypes[0], (data[0], n_out, *spatial))]


def pool(call: Call) -> list[ValueType]:
    """A pool with `kernel_shape`; MaxPool may give indices too."""
    data = call.shape(0)
    kernel = call.ints_attr("kernel_shape")
    if kernel is None:
        raise bad_attr("kernel_shape", "is missing")
    if data is None:
        shape = None
    else:
        if len(data) != len(kernel) + 2:
            raise misfit(f"the input has rank {len(data)}, the window has {len(kernel)} axes")
        window = _Window(call, len(kernel), ("?",) * len(kernel))
        shape = (*data[:2], *(window.size(place, dim) for place, dim in enumerate(data[2:])))
    return [TensorType(call.dtypes[0], shape), TensorType(DType.I64, shape)]


def _global_pool(call: Call) -> list[ValueType]:
    data = call.shape(0)
    if data is not None and len(data) < 2:
        raise misfit(f"the input has rank {len(data)}, at least 2 are needed")
    return [TensorType(call.dtypes[0], None if data is None else (*data[:2], *((1,) * (len(data) - 2))))]


class _Window:
    """Kernel, strides, dilations and pads, checked and filled with their defaults."""

    __slots__ = ("auto_pad", "dilations", "is_ceil", "kernel", "pads", "strides")

    def __init__(self, call: Call, n: int, kernel: Sequence[Dim]) -> None:
        self.strides = _per_axis(call, "strides", n, 1, lowest=1)
        self.dilations = _per_axis(call, "dilations", n, 1, lowest=1)
        self.pads = _per_axis(call, "pads", 2 * n, 0, lowest=-_LARGEST_STEP)
        self.auto_pad = call.text_attr("auto_pad", "NOTSET")
        if self.auto_pad not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", ""):
            raise bad_attr("auto_pad", f"cannot be {self.auto_pad}")
        if self.auto_pad not in ("NOTSET", ""):
            self.pads = (0,) * (2 * n)
        self.is_ceil = bool(call.int_attr("ceil_mode", 0))
        given = call.ints_attr("kernel_shape")
        if given is None:
            self.kernel = tuple(kernel)
            if any(isinstance(size, int) and not 1 <= size <= _LARGEST_STEP for size in kernel):
                raise misfit(f"the kernel {list(kernel)} has a size that is no window")
        else:
            _check_steps("kernel_shape", given, n, lowest=1)
            if any(isinstance(dim, int) and dim != size for dim, size in zip(kernel, given, strict=True)):
                raise bad_attr("kernel_shape", f"is {list(given)}, but the weight has {list(kernel)}")
            self.kernel = given

    def size(self, place: int, dim: Dim) -> Dim:
        """Return how many steps the window makes along one spatial axis."""
        stride = self.strides[place]
        if self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            return ceildiv_dim(dim, stride)
        kernel = self.kernel[place]
        if not isinstance(kernel, int):
            return "?"
        before, after = self.pads[place], self.pads[place + len(self.strides)]
        reach = self.dilations[place] * (kernel - 1) + 1
        if not isinstance(dim, int):
            if self.is_ceil and stride != 1:
                return "?"
            return floordiv_dim(add_dims(dim, before + after - reach + stride), stride)
        room = dim + before + after - reach
        size = (-(-room // stride) if self.is_ceil else room // stride) + 1
        if self.is_ceil and (size - 1) * stride >= dim + before:
            # A last window that would start in the end padding is left out.
            size -= 1
        if size <= 0:
            raise misfit(f"the window reaches over {reach}, spatial axis {place} has {dim + before + after}")
        return size


def _per_axis(call: Call, name: str, n: int, default: int, *, lowest: int) -> tuple[int, ...]:
    given = call.ints_attr(name)
    if given is None:
        return (default,) * n
    _check_steps(name, given, n, lowest=lowest)
    return given


def _check_steps(name: str, given: Sequence[int], n: int, *, lowest: int) -> None:
    if len(given) != n:
        raise bad_attr(name, f"has {len(given)} entries, {n} are needed")
    if n and not (lowest <= min(given) and max(given) <= _LARGEST_STEP):
        raise bad_attr(name, f"is {list(given)}; each must be {lowest} to {_LARGEST_STEP}")


def _groups(call: Call) -> int:
    groups = call.int_attr("group", 1)
    if groups < 1:
        raise bad_attr("group", f"is {groups}")
    return groups


def _common_rank(data: Shape | None, weight: Shape | None) -> int | None:
    known = data if data is not None else weight
    if known is None:
        return None
    if len(known) < 2:
        raise misfit(f"rank {len(known)} leaves no batch and channels")
    if data is not None and weight is not None and len(data) != len(weight):
        raise misfit(f"the input has rank {len(data)}, the weight {len(weight)}")
    return len(known)


def _check_bias(bias: Shape | None, n_out: Dim) -> None:
    if bias is None:
        return
    if len(bias) != 1 or (isinstance(bias[0], int) and isinstance(n_out, int) and bias[0] != n_out):
        raise misfit(f"the bias has the shape {list(bias)}, [{n_out}] is needed")


RULES: Final[dict[str, Rule]] = {
    "Conv": conv,
    "ConvInteger": _conv_integer,
    "QLinearConv": _qlinear_conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": pool,
    "AveragePool": pool,
    "LpPool": pool,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "GlobalLpPool": _global_pool,
}
