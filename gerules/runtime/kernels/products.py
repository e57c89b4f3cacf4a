"""Matrix products on BLAS: MatMul, Gemm, Einsum, and integers exactly through floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_flag, read_float, read_text
from gerules.runtime.kernels.contract import Array, Kernel, KernelContext, normalize_axis, optional, required
from gerules.runtime.kernels.precision import F32, F64, round_to, widen

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]

_EXACT_F32: Final = 1 << 24
_EXACT_F64: Final = 1 << 53


def matmul(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """MatMul as numpy defines it."""
    a, b = required(inputs, 0), required(inputs, 1)
    if a.dtype.kind in "iu":
        return [round_to(multiply_integers(a, b), a.dtype)]
    return [round_to(multiply(widen(a), widen(b), context), a.dtype)]


def multiply(a: Array, b: Array, context: KernelContext) -> Array:
    """Return `a @ b` of one float type."""
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous:
        # One large product instead of one for each leading index.
        flat = a.reshape(-1, a.shape[-1]) if a.size else a.reshape(int(np.prod(a.shape[:-1])), a.shape[-1])
        out = context.destination((*a.shape[:-1], b.shape[-1]), a.dtype)
        if out.flags.c_contiguous:
            np.matmul(flat, b, out=out.reshape(flat.shape[0], b.shape[-1]))
            return out
    if a.ndim == 2 and b.ndim == 2:
        return np.matmul(a, b, out=context.destination((a.shape[0], b.shape[1]), a.dtype))
    return np.asarray(np.matmul(a, b))


def multiply_integers(a: Array, b: Array) -> Array:
    """Return `a @ b` of integers as i64, exact: by BLAS where a float holds every partial sum."""
    depth = a.shape[-1]
    bound = largest_magnitude(a) * largest_magnitude(b) * max(depth, 1)
    if bound >= _EXACT_F64:
        return np.asarray(np.matmul(a.astype(np.int64), b.astype(np.int64)))
    kind = exact_float(bound)
    return np.asarray(np.matmul(a.astype(kind), b.astype(kind))).astype(np.int64)


def exact_float(bound: int) -> np.dtype[np.floating]:
    """Return the narrowest float type that holds all integers up to `bound`. Raises ValueError."""
    if bound >= _EXACT_F64:
        raise ValueError("the sums may exceed what f64 holds exactly")
    return F32 if bound < _EXACT_F32 else F64


def largest_magnitude(array: Array) -> int:
    """Return the largest absolute value, 0 for an empty array."""
    return max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0


def gemm(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Gemm: alpha * A' @ B' + beta * C."""
    a, b, c = required(inputs, 0), required(inputs, 1), optional(inputs, 2)
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"{list(a.shape)} and {list(b.shape)} are not two matrices")
    left = a.T if read_flag(attrs, "transA") else a
    right = b.T if read_flag(attrs, "transB") else b
    alpha, beta = read_float(attrs, "alpha", 1.0), read_float(attrs, "beta", 1.0)
    if a.dtype.kind in "iu":
        total = multiply_integers(left, right) * alpha + (0 if c is None else c * beta)
        return [round_to(total, a.dtype)]
    product = multiply(widen(left), widen(right), context)
    if alpha != 1:
        product *= alpha
    if c is not None and beta != 0:
        product += widen(c) if beta == 1 else widen(c) * product.dtype.type(beta)
    return [round_to(product, a.dtype)]


def einsum(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Einsum; products of two go to BLAS where they are matrix products."""
    arrays = [required(inputs, index) for index in range(len(inputs))]
    equation = read_text(attrs, "equation", "").replace(" ", "")
    result = np.einsum(equation, *(widen(array) for array in arrays), optimize=True)
    return [round_to(np.asarray(result), arrays[0].dtype)]


def det(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Det of the last two axes."""
    x = required(inputs, 0)
    return [round_to(np.asarray(np.linalg.det(widen(x))), x.dtype)]


def matmul_integer(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """MatMulInteger: i32 product after subtracting the zero points of rows of A and columns of B."""
    a, b = without_zero_points(inputs, 0, 2), required(inputs, 1).astype(np.int32)
    b_zero = optional(inputs, 3)
    if b_zero is not None:
        b = b - b_zero.astype(np.int32)
    return [multiply_integers(a, b).astype(np.int32)]


def without_zero_points(inputs: Inputs, array: int, zero: int) -> Array:
    """Return the left operand in i32 minus its zero point: a scalar, or one for each row."""
    values = required(inputs, array).astype(np.int32)
    zero_point = optional(inputs, zero)
    if zero_point is None:
        return values
    shift = zero_point.astype(np.int32)
    if shift.ndim == 1 and shift.size > 1 and values.ndim > 1:
        shift = shift.reshape(-1, 1)
    return values - shift


def cumulative_sum(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """CumSum along one axis, from either end, with or without the element itself."""
    return [_accumulate(inputs, attrs, np.add, 0)]


def cumulative_product(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """CumProd along one axis, from either end, with or without the element itself."""
    return [_accumulate(inputs, attrs, np.multiply, 1)]


def _accumulate(inputs: Inputs, attrs: Attrs, ufunc: np.ufunc, start: int) -> Array:
    x = required(inputs, 0)
    axis = normalize_axis(int(required(inputs, 1).reshape(-1)[0]), x.ndim)
    backward = (slice(None),) * axis + (slice(None, None, -1),)
    wide = widen(x)
    wide = wide[backward] if read_flag(attrs, "reverse") else wide
    total = ufunc.accumulate(wide, axis=axis, dtype=wide.dtype)
    if read_flag(attrs, "exclusive"):
        shifted = np.full_like(total, start)
        shifted[(slice(None),) * axis + (slice(1, None),)] = total[(slice(None),) * axis + (slice(None, -1),)]
        total = shifted
    return round_to(total[backward] if read_flag(attrs, "reverse") else total, x.dtype)


KERNELS: Final[Mapping[str, Kernel]] = {
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": einsum,
    "Det": det,
    "MatMulInteger": matmul_integer,
    "CumSum": cumulative_sum,
    "CumProd": cumulative_product,
}
