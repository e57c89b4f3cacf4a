"""A memory plan as JSON, and back; what comes back is checked, for it may come from anywhere."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gerules.backend.memory.check import check_plan, lower_bound
from gerules.backend.memory.errors import MemoryPlanError
from gerules.backend.memory.lifetimes import Lifetime, check_lifetimes
from gerules.backend.memory.plan import MemoryPlan, Method
from gerules.errors import Diagnostic, table

_Step = Annotated[int, Field(ge=-(2**62), le=2**62)]
_Bytes = Annotated[int, Field(ge=0, le=2**62)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: _Step
    offset: _Bytes
    size_bytes: _Bytes
    life_start: _Step
    life_end: _Step
    last_read: _Step | None = None
    is_kept: bool = False


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1]
    align_bytes: Annotated[int, Field(gt=0, le=2**62)]
    peak_bytes: _Bytes
    lower_bound_bytes: _Bytes
    is_optimal: bool
    method: Method
    n_tries: Annotated[int, Field(ge=0)]
    values: list[_Row]


def as_json(plan: MemoryPlan) -> str:
    """Return the plan as JSON text: its figures and one row for each value, in the order planned."""
    rows = [
        _Row(
            id=life.id,
            offset=plan.offsets[life.id],
            size_bytes=life.size_bytes,
            life_start=life.first,
            life_end=life.last,
            last_read=life.last_read,
            is_kept=life.is_kept,
        )
        for life in plan.lifetimes
    ]
    return _Document(
        version=1,
        align_bytes=plan.align_bytes,
        peak_bytes=plan.peak_bytes,
        lower_bound_bytes=plan.lower_bound_bytes,
        is_optimal=plan.is_optimal,
        method=plan.method,
        n_tries=plan.n_tries,
        values=rows,
    ).model_dump_json(indent=1)


def from_json(text: str | bytes) -> MemoryPlan:
    """Read a plan back and check that it holds: no overlaps, aligned, below its peak.

    Raises:
        MemoryPlanError: E60006 with every reason why not; E60004 for lifetimes that make no sense.
    """
    try:
        document = _Document.model_validate_json(text)
    except ValidationError as error:
        reasons = [
            f"{'.'.join(map(str, item['loc'])) or 'document'}: {item['msg']}" for item in error.errors()
        ]
        raise _bad(reasons) from None
    lifetimes = tuple(
        Lifetime(row.id, row.size_bytes, row.life_start, row.life_end, row.last_read, row.is_kept)
        for row in document.values
    )
    check_lifetimes(lifetimes)
    offsets = {row.id: row.offset for row in document.values}
    align = document.align_bytes
    flaws = check_plan(lifetimes, offsets, align_bytes=align, limit_bytes=document.peak_bytes)
    reasons = [
        f"value {flaw.id}: {flaw.kind}" + (f" with value {flaw.other}" if flaw.other is not None else "")
        for flaw in flaws
    ]
    bound = lower_bound(lifetimes, align)
    if document.lower_bound_bytes != bound:
        reasons.append(
            f"lower_bound_bytes is {document.lower_bound_bytes}, but {bound} bytes are alive at one step"
        )
    if reasons:
        raise _bad(reasons)
    return MemoryPlan(
        lifetimes=lifetimes,
        offsets=MappingProxyType(offsets),
        align_bytes=align,
        peak_bytes=document.peak_bytes,
        lower_bound_bytes=bound,
        is_optimal=document.is_optimal,
        method=document.method,
        n_tries=document.n_tries,
    )


def _bad(reasons: list[str]) -> MemoryPlanError:
    return MemoryPlanError([Diagnostic(table.BAD_MEMORY_PLAN, {"reason": reason}) for reason in reasons])
