"""Drafts that hold: a rule drafted from a region of a model, tested, and seen to fire on the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import prod
from typing import Final

from gerules.dsl import RuleBook, check_rules
from gerules.dsl.formatting import format_rules
from gerules.dsl.load import load_rules
from gerules.dsl.syntax import Rule
from gerules.engine.rewrite import rewrite
from gerules.errors import GerulesError, Source, table
from gerules.errors.arguments import checked
from gerules.ir import Dim, Graph
from gerules.ops import Schemas, infer_graph
from gerules.passes.bind import bind_shapes
from gerules.pipeline.api import Model, Rules, book_of, graph_of
from gerules.pipeline.drafting import Draft, draft_region, rule_name, usual_op
from gerules.pipeline.errors import PipelineError
from gerules.pipeline.region import Region, refusal, select_region
from gerules.pipeline.size_ties import SizeRefusal, first_refusal
from gerules.pipeline.toolchain import Toolchain, make_toolchain
from gerules.report.rule_tests import test_rules

_SMALL: Final = (4, 6, 8, 5, 7, 9, 10, 12)
"""Sizes of dimensions in tests; one that is smaller already stays."""

_BATCH: Final = 2
_SLOW_ELEMENTS: Final = 1 << 22
"""Inputs of a test that are larger than this together are tried at small sizes only."""


@dataclass(frozen=True, slots=True)
class DraftedRule:
    """A rule with its `define` and its tests, as the text of a rule file in canonical layout.

    It is checked, its tests hold, and it fires at `n_places` of the model, that of the draft among them.
    """

    text: str
    rule: str
    op: str
    n_nodes: int
    n_places: int
    n_tests: int

    def as_json(self) -> dict[str, object]:
        """Return the draft as plain values."""
        return {
            "rule": self.rule,
            "op": self.op,
            "n_nodes": self.n_nodes,
            "n_places": self.n_places,
            "n_tests": self.n_tests,
            "text": self.text,
        }


@checked("model")
def draft(
    model: Model,
    nodes: str | Sequence[str],
    *,
    op: str = "",
    name: str = "",
    rules: RuleBook | Rules | None = None,
    input_shapes: Mapping[str, Sequence[Dim]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> DraftedRule:
    """Draft a rule that replaces a region of a model, and what looks like it, by one operator of its own.

    Args:
        nodes: `first..last` for all nodes on the paths between two, or names of nodes or of values they make.
        op: The operator that replaces them; without it `my::Fused` and theirs.
        name: Of the rule; without it as the operator is called.
        rules: What defines operators of the model; without it the rules of gerules.

    Returns:
        The text. It passes `gerules rules check`, `rules test` and `fmt --check`.

    Raises:
        PipelineError: E10006 for a name that no node has, E10008 when no rule can replace the region.
        GerulesError: what reading the model raises.

    Cost: a reading of the model, and some runs of the rule's tests.
    """
    book = book_of(rules)
    graph = bind_shapes(graph_of(model, book), input_shapes, dims)
    tools = make_toolchain(book, graph.opsets)
    graph = infer_graph(graph, tools.schemas, extra=tools.extra)
    chosen = [nodes] if isinstance(nodes, str) else list(nodes)
    region = select_region(graph, chosen)
    op = _free(_qualified(op) if op else usual_op(region), tools.schemas, is_given=bool(op))
    name = name or rule_name(op)
    if name in book.rule_by_name:
        name = next(one for n in count(2) if (one := f"{name}_{n}") not in book.rule_by_name)
    note = f"Drafted from {graph.name}, nodes {', '.join(chosen)}."
    found = draft_region(region, op=op, rule=name, schemas=tools.schemas, infer=tools.infer, note=note)
    maker = _Maker(book, tools, found)
    held = maker.make()
    return DraftedRule(held.text, name, op, len(region.nodes), maker.n_places(held, region), held.n_tests)


def _qualified(op: str) -> str:
    op = op if "::" in op else f"my::{op}"
    if not re.fullmatch(r"[^\W\d][\w.]*::[^\W\d]\w*", op):
        raise PipelineError(
            table.BAD_OPTION, option="--op", value=op, reason="it is no name of an operator",
            remedy="write it like my::FusedConvRelu",
        )  # fmt: skip
    return op


def _free(op: str, schemas: Schemas, *, is_given: bool) -> str:
    if schemas.get(op) is None:
        return op
    if is_given:
        raise PipelineError(
            table.BAD_OPTION, option="--op", value=op, reason="there is an operator of this name",
            remedy="give another name",
        )  # fmt: skip
    return next(f"{op}{n}" for n in count(2) if schemas.get(f"{op}{n}") is None)


@dataclass(frozen=True, slots=True)
class _Held:
    """A text whose tests hold, its rule, and a book that has it."""

    text: str
    n_tests: int
    book: RuleBook
    rule: Rule


class _Maker:
    """Turns a draft into a text that holds: sizes for its tests are tried until they do."""

    def __init__(self, book: RuleBook, tools: Toolchain, draft: Draft) -> None:
        self._book, self._tools, self._draft = book, tools, draft
        self._reason = ""

    def make(self) -> _Held:
        """Return the text with tests that hold. Raises E10008 when no sizes do."""
        draft = self._draft
        order = sorted(draft.sizes, key=lambda name: -draft.sizes[name])
        small = dict(zip(order[::-1], _small_sizes([draft.sizes[name] for name in order[::-1]]), strict=True))
        if (found := self._try(small)) is not None:
            return found
        sizes = {name: size or _BATCH for name, size in draft.sizes.items()}
        # Sizes that are pinned by what constants say are seldom those of a picture.
        outer = {dim for leaf in draft.leaves if leaf.const is None for dim in (leaf.dims or ())[2:]}
        outer -= {dim for leaf in draft.leaves if leaf.const is not None for dim in leaf.dims or ()}
        if outer and (found := self._try(sizes | {name: small[name] for name in outer & small.keys()})):
            return found
        trial = self._shrunk(sizes, small, order)
        if _n_elements(draft, trial) <= _SLOW_ELEMENTS and (found := self._try(trial)) is not None:
            return found
        if _n_elements(draft, sizes) <= _SLOW_ELEMENTS and (best := self._try(sizes)) is not None:
            for name in order:
                trial = sizes | {name: small[name]}
                if trial != sizes and (better := self._try(trial)) is not None:
                    sizes, best = trial, better
            return best
        raise refusal(f"its test does not hold: {self._reason}", "choose fewer nodes")

    def _shrunk(
        self, sizes: Mapping[str, int], small: Mapping[str, int], order: Sequence[str]
    ) -> Mapping[str, int]:
        """Return the sizes with as many small ones as the operators of the region take together."""
        for name in order:
            trial = {**sizes, name: small[name]}
            if self._refusal(trial) is None:
                sizes = trial
        return sizes

    def _refusal(self, sizes: Mapping[str, int]) -> SizeRefusal | None:
        """The first node of the region that does not take the sizes."""
        region = self._draft.region
        axes = {
            (leaf.value, axis): sizes[dim]
            for leaf in self._draft.leaves
            for axis, dim in enumerate(leaf.dims or ())
            if dim in sizes
        }
        return first_refusal(region.graph, region.nodes, axes, self._tools.infer)

    def _try(self, sizes: Mapping[str, int]) -> _Held | None:
        """Return the text with tests at these sizes; None when one does not hold."""
        if (refused := self._refusal(sizes)) is not None:
            self._reason = refused.error.diagnostics[0].message
            return None
        try:
            text = format_rules(Source("the draft", self._draft.text(sizes)))
            book, rule = self._load(text)
            report = test_rules(book, [rule], schemas=self._schemas(book))
        except GerulesError as error:
            self._reason = error.diagnostics[0].message
            return None
        if report.is_good and report.n_compared:
            return _Held(text, report.n_tests, book, rule)
        self._reason = report.failures[0].reason if report.failures else "nothing was compared"
        return None

    def _load(self, text: str) -> tuple[RuleBook, Rule]:
        """The rule, checked, and a book that has it. Raises what is wrong with it."""
        book = load_rules([Source("the draft", text)], schemas=None, base=self._book)
        rule = book.rule_by_name[self._draft.rule]
        # All else was checked when it was read; the draft speaks of operators only.
        alone = replace(
            book, rules=(rule,), consts={}, params={}, ops={}, op_sets={}, patterns={}, rulesets={},
            phases={}, pipelines={}, profiles={}, tables=(), devices={},
        )  # fmt: skip
        check_rules(alone, Schemas(), book.functions).raise_if_any(PipelineError)
        return book, rule

    def _schemas(self, book: RuleBook) -> Schemas:
        return make_toolchain(book, {}).schemas

    def n_places(self, held: _Held, region: Region) -> int:
        """Return at how many places of the model the rule fires. Raises E10008 when not at the region."""
        tools = make_toolchain(held.book, region.graph.opsets)
        after, trace = rewrite(
            region.graph, [held.rule], schemas=tools.schemas, infer=tools.infer, context=tools.context
        )
        if not _is_replaced(after, region, self._draft.op):
            counted = trace.count(held.rule.name.name)
            why = next(iter(counted.refusals), counted.best.reason if counted.best else "nothing matches")
            raise refusal(f"the rule does not fire there: {why}", "choose other nodes")
        return trace.count(held.rule.name.name).applications


def _is_replaced(after: Graph, region: Region, op: str) -> bool:
    makers = {after.producer.get(value) for value in region.outputs}
    return all(maker is not None and after.nodes[maker].op == op for maker in makers)


def _small_sizes(sizes: Sequence[int]) -> list[int]:
    """Small sizes for dimensions in rising order, different for different ones, none larger than it was."""
    found: list[int] = []
    for size in sizes:
        fits = (small for small in _SMALL if small not in found and (small < size or not size))
        # Only a batch of one has a name; two show what broadcasting hides.
        found.append(_BATCH if size == 1 else size if 1 < size <= _SMALL[0] else next(fits, size or _BATCH))
    return found


def _n_elements(draft: Draft, sizes: Mapping[str, int]) -> int:
    return sum(
        prod(int(sizes.get(dim, dim)) if dim in sizes or dim.isdigit() else 1 for dim in leaf.dims or ())
        for leaf in draft.leaves
    )
