"""The relative error that is allowed of a result unless the user says otherwise, by precision mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gerules.ir import DType

RTOL_BY_DTYPE: Final[Mapping[DType, float]] = {DType.F32: 1e-4, DType.F16: 2e-2, DType.BF16: 5e-2}
"""By the least precise type computed in.

A choice, not a bound: networks of some hundred operators stay well below it.
"""


def default_rtol(precision: str) -> float:
    """Return the relative error that is allowed for a precision mode, by the least precise type in it."""
    mode = precision.lower()
    if "bf" in mode:
        return RTOL_BY_DTYPE[DType.BF16]
    return RTOL_BY_DTYPE[DType.F16 if "16" in mode else DType.F32]


def reason_of_default(precision: str) -> str:
    """Return where the tolerance that nobody gave comes from."""
    return f"the default for {precision or 'fp32'}"
