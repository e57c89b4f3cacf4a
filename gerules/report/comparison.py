"""Two runs compared, output by output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from gerules.ir import dtype_of

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """How far one output is from what it should be.

    `max_abs` is the largest difference of two elements; `max_rel` is that over the largest magnitude of
    what is wanted. Both are None where the arrays cannot be subtracted; `reason` then says why. Whatever
    is no real number must be equal.
    """

    name: str
    type: str
    max_abs: float | None
    max_rel: float | None
    rtol: float
    is_close: bool
    reason: str = ""

    def as_json(self) -> dict[str, object]:
        """Return the comparison as plain values."""
        return {
            "output": self.name,
            "type": self.type,
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
            "rtol": self.rtol,
            "close": self.is_close,
            "reason": self.reason,
        }


def unpack(values: Mapping[str, object]) -> dict[str, Array]:
    """Return the arrays of a run: those in a sequence as `name[0]`, `name[1]`; of what is absent, none."""
    found: dict[str, Array] = {}
    for name, value in values.items():
        if isinstance(value, list | tuple):
            items = cast("Sequence[object]", value)
            found |= unpack({f"{name}[{place}]": item for place, item in enumerate(items)})
        elif value is not None:
            found[name] = np.asarray(value)
    return found


def compare_outputs(
    got: Mapping[str, object], want: Mapping[str, object], *, rtol: float
) -> list[OutputDifference]:
    """Compare the outputs of two runs, sequences item by item.

    Outputs go together by name; by place when the names of the two sides are not the same.
    """
    got, want = unpack(got), unpack(want)
    if set(got) == set(want):
        return [compare_arrays(name, got[name], want[name], rtol=rtol) for name in want]
    pairs = list(zip(got.items(), want.items(), strict=False))
    found = [compare_arrays(name, mine, other, rtol=rtol) for (name, mine), (_, other) in pairs]
    for name, array in [*list(got.items())[len(pairs) :], *list(want.items())[len(pairs) :]]:
        reason = f"one run has {len(got)} outputs, the other {len(want)}"
        found.append(OutputDifference(name, _type_text(array), None, None, rtol, False, reason))
    return found


def compare_arrays(name: str, got: Array, want: Array, *, rtol: float) -> OutputDifference:
    """Compare one output; NaN equals NaN, an infinity only itself."""
    type = _type_text(got)
    if got.shape != want.shape:
        reason = f"the shape is {list(got.shape)}, not {list(want.shape)}"
        return OutputDifference(name, type, None, None, rtol, False, reason)
    if got.dtype.kind in "OUSTb" or want.dtype.kind in "OUSTb" or _is_integer(want):
        n_different = int(np.count_nonzero(got != want))
        reason = f"{n_different} of {want.size} elements differ" if n_different else ""
        span = (
            _largest(np.abs(np.subtract(_wide(got), _wide(want))))
            if _is_integer(want) and _is_integer(got)
            else None
        )
        return OutputDifference(name, type, span, None, rtol, not n_different, reason)
    return _compare_reals(name, type, _wide(got), _wide(want), rtol)


def _compare_reals(name: str, type: str, got: Array, want: Array, rtol: float) -> OutputDifference:
    strange = ~(np.isfinite(got) & np.isfinite(want))
    n_wrong = int(np.count_nonzero(strange & ~((got == want) | (np.isnan(got) & np.isnan(want)))))
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.where(strange, 0.0, np.abs(np.subtract(got, want)))
        size = _largest(np.where(strange, 0.0, np.abs(want)))
    max_abs = _largest(off)
    max_rel = max_abs / size if size else max_abs
    reason = f"{n_wrong} of {want.size} elements are NaN or infinite on one side only" if n_wrong else ""
    if want.size and not n_wrong and strange.all():
        reason = "no element is a finite number on either side"
    return OutputDifference(name, type, max_abs, max_rel, rtol, not n_wrong and max_rel <= rtol, reason)


def _wide(array: Array) -> Array:
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64)


def _largest(array: Array) -> float:
    return float(np.max(array, initial=0.0))


def _is_integer(array: Array) -> bool:
    return array.dtype.kind in "iu" or dtype_of(array).is_integer


def _type_text(array: Array) -> str:
    return f"{dtype_of(array)}{list(array.shape)}"
