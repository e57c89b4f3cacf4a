"""Bisect: which rewrites and lowerings take the outputs of a model out of tolerance, and where it begins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter
from typing import Final, Unpack

from gerules.errors import Source, table
from gerules.errors.arguments import checked
from gerules.pipeline.api import Model, graph_of
from gerules.pipeline.asking import Target, options_of, toolchain_of
from gerules.pipeline.bisect_result import BisectResult, Cause, Growth, Verdict
from gerules.pipeline.delta import find_smallest, leave_out, shortest
from gerules.pipeline.errors import PipelineError
from gerules.pipeline.experiment import Experiment, OutOfTrialsError, Trial
from gerules.pipeline.fusion_switch import parse_fusion_switch
from gerules.pipeline.ledger import Entry, felt_errors
from gerules.pipeline.options import CompileOptions
from gerules.pipeline.remedy import Remedy, profile_name, profile_text, switch_text
from gerules.pipeline.suspects import Suspect, Suspects
from gerules.pipeline.toolchain import RuleInput, shipped_rules
from gerules.runtime.tolerances import default_rtol, reason_of_default

_FEW: Final = 4
"""As many suspects may share a fault. Of more, none of which makes the error jump, none is at fault."""

_JUMP: Final = 2.0
"""What one suspect must multiply the error by for that to be a jump."""

_MOST_CAUSES: Final = 16
"""Causes looked for one after the other, each with those before it taken away."""

_AROUND: Final = 4
"""Nodes shown before and after the one where an error begins."""

Tell = Callable[[str], None]
"""Told what is tried next."""


@checked("model")
def bisect(
    model: Model,
    feeds: Mapping[str, object],
    *,
    rtol: float | None = None,
    against: str | None = None,
    most_compiles: int = 300,
    tell: Tell | None = None,
    **target: Unpack[Target],
) -> BisectResult:
    """Find the smallest set of rewrites and lowerings that takes the outputs of a model out of tolerance.

    The model is compiled with some of what the compile did, and run, until no part of the set can be left
    out. Then the same again without it, for there may be more than one cause. At last the remedy is tried
    as a user would.

    An error is the largest difference of an output over the largest magnitude of what is wanted, infinite
    for NaN and infinities on one side only.

    Args:
        model: As `gerules.compile` takes it.
        feeds: Arrays by input name.
        rtol: The largest error that is within tolerance; without it what `gerules compile --validate` allows
            for the precision mode, or for the one of `against` where that is more.
        against: A precision mode: the model compiled in it says what is wanted. Without it, the model as it
            is, run by meaning.
        most_compiles: Compiles after which the best so far is returned.
        tell: Told what is tried next. Ctrl-C ends the search; the best so far is returned.

    Raises:
        PipelineError: E10003 for a tolerance that is none, E20007 when nothing wanted is a finite number.
        GerulesError: what the compile as asked, or running it or the model, raises.

    Cost: for `k` culprits among `n` suspects at most `2 k log2 n` compiles and runs, and a few more; one
    that stands out takes about eight. A sum, and a remedy of several parts, take one or two more for each
    part, of which no more are tried than half of the compiles that are left.
    """
    if rtol is not None and not rtol >= 0:
        raise PipelineError(
            table.BAD_OPTION, option="rtol", value=rtol, reason="it is no number from zero on",
            remedy="give the largest relative error that is allowed, such as 1e-3",
        )  # fmt: skip
    if most_compiles < 1:
        raise PipelineError(
            table.BAD_OPTION, option="most_compiles", value=most_compiles, reason="nothing could be tried",
            remedy="give a whole number above zero",
        )  # fmt: skip
    options = options_of(target)
    rules = target.get("rules", ())
    book = shipped_rules(rules)
    started = perf_counter()
    graph = graph_of(model, book)
    reason = "given"
    if rtol is None:
        precisions = (toolchain_of(book, graph, options).precision, against or "")
        loosest = max(precisions, key=default_rtol)
        rtol, reason = default_rtol(loosest), reason_of_default(loosest)
    lab = Experiment(graph, book, options, feeds, rtol=rtol, against=against, most_compiles=most_compiles)
    search = _Search(lab, tell or _tell_nobody)
    try:
        search.run()
        search.reduce_remedy()
        search.check_remedy(rules)
    except KeyboardInterrupt:
        search.give_up("interrupted")
    except OutOfTrialsError:
        search.give_up("cut short")
    return search.result(against or "the model", reason, perf_counter() - started)


def _tell_nobody(_: str) -> None:
    pass


@dataclass(slots=True)
class _Search:
    lab: Experiment
    tell: Tell
    verdict: Verdict = "interrupted"
    first: Trial | None = None
    suspects: Suspects | None = None
    """Those of the compile as asked."""
    error_bare: float | None = None
    causes: list[Cause] = field(default_factory=list[Cause])
    remedied: list[Suspect] = field(default_factory=list[Suspect])
    """What the remedy is against, the most effective first."""
    error_remedied: float | None = None
    is_remedy_minimal: bool = False
    switch_file: str = ""
    profile: str = ""
    best: tuple[Suspects, frozenset[int], float | None] | None = None
    """The smallest set known to fail in the search under way."""

    @property
    def remedy(self) -> Remedy:
        """The remedy so far."""
        return Remedy().plus(self.remedied)

    def run(self) -> None:
        """Look for one cause after the other until the compile is within tolerance, or none is left."""
        for _ in range(_MOST_CAUSES):
            options = self.remedy.applied_to(self.lab.options)
            self.tell("as asked" if self.first is None else "with the remedy so far")
            trial = self.lab.run(options, keeps_values=True)
            if trial.fault is not None:
                if self.first is None:
                    raise trial.fault
                break
            suspects = self.lab.suspects_of(trial)
            if self.first is None:
                self.first, self.suspects = trial, suspects
            elif not self.lab.fails(trial):
                self.error_remedied = trial.error
            if not self.lab.fails(trial):
                self.verdict = "found" if self.causes else self.within(options)
                return
            self.best = suspects, frozenset(range(len(suspects.all))), trial.error
            self.tell("nothing applied")
            bare = self.lab.run_with(suspects, (), options)
            if not self.causes:
                self.error_bare = bare.error
            if self.lab.fails(bare) or not suspects.all:
                self.verdict = "found" if self.causes else "not the rules"
                return
            entries = self.lab.entries_of(trial)
            ranked = suspects.ranked(entries, felt_errors(trial.graph, entries))
            cause = self.cause(suspects, ranked, options, bare, trial)
            self.causes.append(cause)
            self.best = None
            known = self.remedy
            if cause.is_sum:
                self.remedied += self.remedy_of_sum(suspects, ranked, cause)
                trial = self.lab.run(self.remedy.applied_to(self.lab.options))
                self.error_remedied = trial.error
                break
            self.remedied += cause.parts
            if self.remedy == known:
                break
        self.verdict = "found"

    def within(self, options: CompileOptions) -> Verdict:
        """The graph is right; is the offline model, run by its plan?"""
        self.tell("the offline model by its plan")
        error = self.lab.plan_error(options)
        return "within tolerance" if error <= self.lab.rtol else "the plan"

    # ------------------------------------------------------------ one cause
    def cause(
        self, suspects: Suspects, ranked: Sequence[int], options: CompileOptions, bare: Trial, full: Trial
    ) -> Cause:
        errors: dict[frozenset[int], float | None] = {}

        def fails(places: Collection[int]) -> bool:
            tried = suspects.closed(places)
            if tried not in errors:
                n_best = len(suspects.all) if self.best is None else len(self.best[1])
                self.tell(f"{len(tried)} of {len(suspects.all)} suspects; the fewest that fail are {n_best}")
                trial = self.lab.run_with(suspects, tried, options)
                errors[tried] = trial.error
                if self.lab.fails(trial) and len(tried) < n_best:
                    self.best = suspects, tried, trial.error
            return not (errors[tried] or 0.0) <= self.lab.rtol

        def is_gradual(passing: Sequence[int], failing: Sequence[int]) -> bool:
            if len(failing) <= _FEW:
                return False
            one, two = (errors.get(suspects.closed(places)) or 0.0 for places in (passing, failing))
            return one * _JUMP > two

        errors[frozenset()] = bare.error
        errors[frozenset(ranked)] = full.error
        found = find_smallest(ranked, fails, is_gradual=is_gradual)
        # What the culprits need came along; one of those may be at fault alone.
        whole = suspects.closed(found.items)
        least = leave_out(
            [place for place in ranked if place in whole],
            fails,
            may_go=lambda places: [place for place in places if place in suspects.tops(places)],
            most_trials=self.lab.n_left // 2,
        )
        whole = frozenset(least.items)
        without = {part: errors.get(whole - {part}) for part in suspects.tops(whole) or whole}
        return self.told(
            suspects, whole, without, options, is_sum=not found.is_minimal, is_minimal=least.is_minimal
        )

    def told(
        self,
        suspects: Suspects,
        whole: frozenset[int],
        without: Mapping[int, float | None],
        options: CompileOptions,
        *,
        is_sum: bool,
        is_minimal: bool,
    ) -> Cause:
        """Compare a run with the parts and one without, value by value.

        Args:
            without: The parts, each with the error of outputs without it.
        """
        parts = sorted(without, key=lambda part: (_or_worst(without[part]), part))
        self.tell("where it begins")
        one = self.lab.run_with(suspects, whole, options, keeps_values=True)
        two = self.lab.run_with(
            suspects, () if is_sum else whole - without.keys(), options, keeps_values=True
        )
        is_run = one.compiled is not None and two.compiled is not None
        entries = self.lab.entries_of(one) if is_run else []
        growth = _growth(entries, self.lab.entries_of(two) if is_run else [])
        felt = felt_errors(one.graph, entries) if is_run else {}
        at = None if is_sum else _start_of(growth, [felt[item.node_id] for item in entries], self.lab.rtol)
        around = [] if at is None else growth[max(0, at - _AROUND) : at + _AROUND + 1]
        return Cause(
            tuple(suspects.all[place] for place in parts),
            tuple(suspects.all[place] for place in sorted(whole - without.keys())),
            is_sum,
            is_minimal,
            tuple(without[place] for place in parts),
            one.error,
            two.error,
            None if at is None else growth[at],
            tuple(around),
        )

    def remedy_of_sum(self, suspects: Suspects, ranked: Sequence[int], cause: Cause) -> list[Suspect]:
        """Leave out as many as it takes, those first that add most."""
        # What rules round is nothing beside float16; only where no node was lowered they are left out.
        kind = "lowered" if any(item.kind == "lowered" for item in cause.parts) else "rule"
        worst = [suspects.all[place] for place in ranked if suspects.all[place].kind == kind]

        def passes(n: int) -> bool:
            self.tell(f"without the {n} of {len(worst)} suspects that add most")
            remedy = self.remedy.plus(worst[:n])
            return self.lab.passes(self.lab.run(remedy.applied_to(self.lab.options)))

        return worst[: shortest(len(worst), passes)]

    # ------------------------------------------------------------ the remedy
    def reduce_remedy(self) -> None:
        """Leave out of the remedy what it takes not, and put the most effective first."""
        if self.error_remedied is None or not self.error_remedied <= self.lab.rtol:
            return
        # Of a rule all applications go, so that one of its suspects stands for all.
        units = list({item.rule or item.keeps: item for item in self.remedied}.values())
        errors: dict[frozenset[Suspect], float | None] = {}

        def passes(items: Sequence[Suspect]) -> bool:
            n_best = len(self.remedied)
            self.tell(f"a remedy of {len(items)} parts; the fewest that suffice are {n_best}")
            trial = self.lab.run(Remedy().plus(items).applied_to(self.lab.options))
            errors[frozenset(items)] = trial.error
            if self.lab.passes(trial):
                self.remedied, self.error_remedied = list(items), trial.error
            return self.lab.passes(trial)

        least = leave_out(units, passes, most_trials=self.lab.n_left // 2)
        whole = frozenset(least.items)
        self.remedied = sorted(least.items, key=lambda item: -_or_worst(errors.get(whole - {item})))
        self.is_remedy_minimal = least.is_minimal

    def check_remedy(self, rules: Sequence[RuleInput]) -> None:
        """Compile with the switch file and with the profile, as a user would."""
        if self.error_remedied is None or not self.remedy.rules or self.first is None:
            return
        lab, tools = self.lab, self.first.finished.tools
        self.error_remedied = None
        self.switch_file = switch_text(lab.book, self.remedy.rules)
        self.profile = profile_text(
            lab.book,
            self.remedy.rules,
            base=str(tools.selection.scope.names["profile"]),
            precision=tools.precision,
        )
        keeping = Remedy((), self.remedy.keep_dtype).applied_to(lab.options)
        switch = parse_fusion_switch(Source("fusion_switch.cfg", self.switch_file))
        self.tell("with the switch file")
        one = lab.run(replace(keeping, fusion_switch=switch))
        self.tell("with the profile")
        name, book = profile_name(lab.book), lab.book
        lab.book = shipped_rules([*rules, Source("bisected.ger", self.profile)])
        two = lab.run(replace(keeping, profile=name, precision=None))
        lab.book = book
        if one.error is not None and two.error is not None:
            self.error_remedied = max(one.error, two.error)

    def give_up(self, verdict: Verdict) -> None:
        """Keep the smallest set that failed as a cause, unproved."""
        self.verdict = verdict
        if self.best is not None:
            suspects, places, error = self.best
            parts = suspects.tops(places)
            self.causes.append(
                Cause(
                    tuple(suspects.all[place] for place in parts),
                    tuple(suspects.all[place] for place in sorted(places.difference(parts))),
                    len(parts) > _FEW,
                    is_minimal=False,
                    errors_without_one=(None,) * len(parts),
                    error_with=error,
                    error_without=None,
                )
            )

    def result(self, against: str, rtol_reason: str, took_s: float) -> BisectResult:
        """Return what was found."""
        lab = self.lab
        tools = None if self.first is None else self.first.finished.tools
        counts = {} if self.first is None else self.first.finished.trace.rules
        guilty = dict.fromkeys(item.rule for cause in self.causes for item in cause.parts if item.rule)
        everything = self.suspects.all if self.suspects is not None else ()
        return BisectResult(
            model=lab.graph.name,
            device=lab.options.device,
            precision=tools.precision if tools is not None else lab.options.precision or "",
            against=against,
            rtol=lab.rtol,
            rtol_reason=rtol_reason,
            verdict=self.verdict,
            error=None if self.first is None else self.first.error,
            error_bare=self.error_bare,
            n_rewrites=sum(item.kind == "rule" for item in everything),
            n_lowered=sum(item.kind == "lowered" for item in everything),
            causes=tuple(self.causes),
            n_applied={name: counts[name].applications for name in guilty if name in counts},
            rules_off=self.remedy.rules,
            keep_dtype=self.remedy.keep_dtype,
            switch_file=self.switch_file,
            profile_name=profile_name(lab.book) if self.profile else "",
            profile=self.profile,
            error_remedied=self.error_remedied,
            is_remedy_minimal=self.is_remedy_minimal,
            n_compiles=lab.n_compiles,
            took_s=took_s,
        )


def _growth(entries: Sequence[Entry], others: Sequence[Entry]) -> list[Growth]:
    """The entries of one run, each beside the error that its value has in another."""
    before: dict[int, float] = {}
    for entry in others:
        before[entry.value_id] = max(entry.error_out, before.get(entry.value_id, 0.0))
    return [
        Growth(
            item.value, item.node, item.op, item.dtype, item.rule, before.get(item.value_id), item.error_out
        )
        for item in entries
    ]


def _start_of(growth: Sequence[Growth], felt: Sequence[float], rtol: float) -> int | None:
    """The first node out of tolerance that was not so before; else the one whose error grew most.

    Args:
        felt: As much of each error after as comes through to an output; no more of it counts.
    """
    for place, (item, error) in enumerate(zip(growth, felt, strict=True)):
        if not error <= rtol and (item.before is None or item.before <= rtol):
            return place
    rise = [min(_rise(item), error) for item, error in zip(growth, felt, strict=True)]
    most = max(rise, default=0.0)
    return rise.index(most) if most > 0 else None


def _or_worst(error: float | None) -> float:
    return inf if error is None else error


def _rise(item: Growth) -> float:
    return 0.0 if item.after == item.before else item.after - (item.before or 0.0)


__all__ = ["BisectResult", "Cause", "Growth", "Suspect", "bisect"]
