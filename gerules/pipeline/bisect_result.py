"""What bisect finds: causes, where each begins, and what takes the outputs back into tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gerules.pipeline.suspects import Suspect

Verdict = Literal["within tolerance", "found", "not the rules", "the plan", "interrupted", "cut short"]
"""How it ended. `not the rules`: with nothing applied outputs are out of tolerance too, so that the reader,
the folding of constants or a kernel is at fault; `the plan`: the graph is right, and the offline model that
was made from it is not; `interrupted` by Ctrl-C, or `cut short` when no more compiles were allowed: what is
there is the best so far."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The error of one value of the model without a cause and with it; `node` makes it with the cause."""

    value: str
    node: str
    op: str
    dtype: str
    rule: str
    before: float | None
    after: float

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "value": self.value,
            "node": self.node,
            "op": self.op,
            "dtype": self.dtype,
            "rule": self.rule,
            "before": self.before,
            "after": self.after,
        }


@dataclass(frozen=True, slots=True)
class Cause:
    """A smallest set of rewrites and lowerings with which outputs are out of tolerance.

    Attributes:
        parts: What is at fault, the most effective first.
        needs: What made the nodes that the parts work on; without fault of its own.
        is_sum: They add up: none of them makes the error jump.
        is_minimal: Without any one of the parts outputs are within tolerance: that was tried for each.
        errors_without_one: By part, the largest relative error of an output with all of the set but this
            part; None where that was not tried or came to nothing.
        error_with, error_without: The largest relative error of an output with the parts and with nothing but
            what they need.
        start: Where the error begins: the first node whose error is out of tolerance with the parts and not
            without, as far as outputs can feel it. None of a sum, and where no value can be compared.
        growth: The nodes around it.
    """

    parts: tuple[Suspect, ...]
    needs: tuple[Suspect, ...]
    is_sum: bool
    is_minimal: bool
    errors_without_one: tuple[float | None, ...]
    error_with: float | None
    error_without: float | None
    start: Growth | None = None
    growth: tuple[Growth, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return the cause as plain values."""
        return {
            "parts": [item.as_json() for item in self.parts],
            "needs": [item.as_json() for item in self.needs],
            "is_sum": self.is_sum,
            "is_minimal": self.is_minimal,
            "errors_without_one": list(self.errors_without_one),
            "error_with": self.error_with,
            "error_without": self.error_without,
            "start": None if self.start is None else self.start.as_json(),
            "growth": [item.as_json() for item in self.growth],
        }


@dataclass(frozen=True, slots=True)
class BisectResult:
    """What takes a model out of tolerance, and what takes it back.

    Attributes:
        error: The largest relative error of an output of the compile as asked.
        error_bare: The same with nothing applied; None when that was not tried or came to nothing.
        n_rewrites, n_lowered: Suspects: sites of rules, and groups of nodes that share a node of the model.
        n_applied: How often each rule at fault was applied in the compile.
        rtol, rtol_reason: The largest error that is within tolerance, and who says so.
        rules_off, keep_dtype: The remedy, the most effective first.
        is_remedy_minimal: Without any one part of the remedy outputs are out of tolerance: that was tried for
            each.
        switch_file, profile: The remedy as texts of a `fusion_switch.cfg` and a `.ger` file; empty when no
            rule is to be switched off. They cannot name one site: a rule goes off everywhere.
        error_remedied: The error after the remedy; of the texts, where there are any.
    """

    model: str
    device: str
    precision: str
    against: str
    rtol: float
    rtol_reason: str
    verdict: Verdict
    error: float | None
    error_bare: float | None
    n_rewrites: int
    n_lowered: int
    causes: tuple[Cause, ...]
    n_applied: Mapping[str, int]
    rules_off: tuple[str, ...]
    keep_dtype: tuple[str, ...]
    switch_file: str
    profile_name: str
    profile: str
    error_remedied: float | None
    is_remedy_minimal: bool
    n_compiles: int
    took_s: float

    @property
    def is_remedied(self) -> bool:
        """Whether a compile with the remedy was run and is within tolerance."""
        return self.error_remedied is not None and self.error_remedied <= self.rtol

    def as_json(self) -> dict[str, object]:
        """Return the result as plain values."""
        return {
            "model": self.model,
            "device": self.device,
            "precision": self.precision,
            "against": self.against,
            "rtol": self.rtol,
            "rtol_reason": self.rtol_reason,
            "verdict": self.verdict,
            "error": self.error,
            "error_bare": self.error_bare,
            "n_rewrites": self.n_rewrites,
            "n_lowered": self.n_lowered,
            "causes": [item.as_json() for item in self.causes],
            "n_applied": dict(self.n_applied),
            "rules_off": list(self.rules_off),
            "keep_dtype": list(self.keep_dtype),
            "switch_file": self.switch_file,
            "profile_name": self.profile_name,
            "profile": self.profile,
            "error_remedied": self.error_remedied,
            "is_remedied": self.is_remedied,
            "is_remedy_minimal": self.is_remedy_minimal,
            "n_compiles": self.n_compiles,
            "took_s": round(self.took_s, 3),
        }
