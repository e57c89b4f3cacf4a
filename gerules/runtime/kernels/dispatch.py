"""Running one operator by name: the kernel of this package, else `onnx.reference`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

import numpy as np
import onnx.defs

from gerules.errors import table
from gerules.ir import NO_ATTRS, Attr
from gerules.runtime.kernels.activation import KERNELS as ACTIVATION
from gerules.runtime.kernels.attention import KERNELS as ATTENTION
from gerules.runtime.kernels.contract import (
    DEFAULT_LIMIT_BYTES,
    Array,
    Kernel,
    KernelContext,
    RunError,
    UnsupportedCaseError,
)
from gerules.runtime.kernels.conversion import KERNELS as CONVERSION
from gerules.runtime.kernels.convolution import KERNELS as CONVOLUTION
from gerules.runtime.kernels.elementwise import ALIAS_SAFE
from gerules.runtime.kernels.elementwise import KERNELS as ELEMENTWISE
from gerules.runtime.kernels.indexing import KERNELS as INDEXING
from gerules.runtime.kernels.normalization import KERNELS as NORMALIZATION
from gerules.runtime.kernels.pooling import KERNELS as POOLING
from gerules.runtime.kernels.precision import saturate
from gerules.runtime.kernels.products import KERNELS as PRODUCTS
from gerules.runtime.kernels.quantization import KERNELS as QUANTIZATION
from gerules.runtime.kernels.recurrence import KERNELS as RECURRENCE
from gerules.runtime.kernels.reduction import KERNELS as REDUCTION
from gerules.runtime.kernels.reference import has_reference, run_reference
from gerules.runtime.kernels.resizing import KERNELS as RESIZING
from gerules.runtime.kernels.shaping import KERNELS as SHAPING
from gerules.runtime.kernels.transposed_convolution import KERNELS as TRANSPOSED_CONVOLUTION

KERNELS: Final[Mapping[str, Kernel]] = {
    **ACTIVATION,
    **ATTENTION,
    **CONVERSION,
    **CONVOLUTION,
    **ELEMENTWISE,
    **INDEXING,
    **NORMALIZATION,
    **POOLING,
    **PRODUCTS,
    **QUANTIZATION,
    **RECURRENCE,
    **REDUCTION,
    **RESIZING,
    **SHAPING,
    **TRANSPOSED_CONVOLUTION,
}
"""The operators of the ONNX domain that have a kernel here, by name."""


def has_kernel(op: str, *, opset: int | None = None) -> bool:
    """Whether `run_kernel` can run an operator; those with bodies (If, Loop, Scan) it never can.

    Args:
        opset: Version of the ONNX domain; the newest known when absent.
    """
    return op in KERNELS or has_reference(op, onnx.defs.onnx_opset_version() if opset is None else opset)


def run_kernel(
    op: str,
    inputs: Sequence[Array | None],
    attrs: Mapping[str, Attr] = NO_ATTRS,
    *,
    opset: int,
    n_outputs: int = 1,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> list[Array]:
    """Compute the results of one operator.

    The inputs are not written to. A result may be a view of an input, or read-only (a broadcast);
    copy before writing. A sequence is a Python list of arrays, among inputs and results alike, and an
    optional that holds nothing is None.

    Args:
        op: `Conv`, or `domain::Name` for another domain.
        opset: Version of the ONNX domain.
        n_outputs: Results asked for, absent ones before the last included.
        limit_bytes: Largest result that an operator may make whose size is in its data.

    Raises:
        RunError: E70001 when neither this package nor `onnx.reference` knows the operator; E70002 when
            the inputs or attributes do not fit it.
    """
    return _run(op, inputs, attrs, KernelContext(opset, n_outputs, None, limit_bytes))


def run_into(
    op: str,
    inputs: Sequence[Array | None],
    attrs: Mapping[str, Attr],
    out: Array,
    *,
    opset: int,
    n_outputs: int = 1,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> list[Array]:
    """As `run_kernel`, with the first result written into `out`, which is then returned as the first.

    `out` may overlap the inputs. It is written directly where the kernel can, and copied to otherwise.

    Raises:
        RunError: E70001 and E70002 as `run_kernel`; E70003 when the result has another shape or type.
    """
    is_free = op in ALIAS_SAFE or not any(
        isinstance(item, np.ndarray) and np.may_share_memory(item, out) for item in inputs
    )
    results = _run(op, inputs, attrs, KernelContext(opset, n_outputs, out if is_free else None, limit_bytes))
    first = results[0]
    if first.shape != out.shape or first.dtype != out.dtype:
        raise RunError(
            table.RESULT_DOES_NOT_FIT,
            op=op,
            found=f"{first.dtype}{list(first.shape)}",
            planned=f"{out.dtype}{list(out.shape)}",
        )
    if first is not out:
        np.copyto(out, first)
        results[0] = out
    return results


def _run(
    op: str, inputs: Sequence[Array | None], attrs: Mapping[str, Attr], context: KernelContext
) -> list[Array]:
    name = op.removeprefix("ai.onnx::")
    kernel = KERNELS.get(name)
    if kernel is not None:
        try:
            with np.errstate(all="ignore"):
                return [_as_array(result, inputs) for result in kernel(inputs, attrs, context)]
        except UnsupportedCaseError:
            pass
        except _REFUSALS as fault:
            raise RunError(table.KERNEL_REFUSED, op=op, reason=_reason(fault)) from fault
    if not has_reference(name, context.opset):
        raise RunError(table.NO_KERNEL, op=op, opset=context.opset)
    try:
        return run_reference(name, inputs, attrs, context.opset, context.n_outputs)
    except Exception as fault:  # onnx.reference raises whatever its code meets
        raise RunError(table.KERNEL_REFUSED, op=op, reason=_reason(fault)) from fault


def _as_array(result: object, inputs: Sequence[Array | None]) -> Array:
    # numpy gives scalars for what has no axes; Identity may be given a list, or None.
    if isinstance(result, list) or result is None:
        return cast(Array, result)
    return saturate(np.asarray(result), inputs)


def _reason(fault: BaseException) -> str:
    text = str(fault).strip().splitlines()
    return text[0] if text else type(fault).__name__


_REFUSALS: Final = (
    ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError, MemoryError, RuntimeError,
)  # fmt: skip
"""What numpy and the readers of attributes raise for inputs that do not fit."""
