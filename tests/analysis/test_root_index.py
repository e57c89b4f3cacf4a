"""The index leaves out only pairs that do not unify, and most of very many rules."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from gerules.analysis import overlap
from gerules.analysis.analyse import Analysis
from gerules.analysis.merged import Reading, unifications
from gerules.analysis.root_index import RootIndex
from gerules.analysis.variants import variants
from gerules.engine.vocabulary import Vocabulary
from tests.analysis.rule_texts import SCHEMAS, analyse, load, rule

OPERANDS = ["x", "0", "1", "1.0", "c: const", "Neg(x)", "Neg(0)", "Neg(1)", "Abs(x)", "f@{Neg, Abs}(1)"]
ROOTS = ["Add({}, {})", "Sub({}, {})", "Add!({}, {})", "Add(Sub({}, 1), {})", "Sub(Add({}, {}), 0)"]


def readings() -> list[Reading]:
    patterns = [root.format(a, b.replace("x", "z").replace("f@", "g@"))
                for root in ROOTS for a, b in product(OPERANDS, OPERANDS) if a != b]  # fmt: skip
    text = "".join(rule(f"r{n}", f"y = {text}", "y = Relu(1)") for n, text in enumerate(patterns))
    book = load(text)
    vocabulary = Vocabulary(book.op_sets, book.patterns, {})
    return [
        Reading(one, variant, variant.producer[variant.values_of("y")[0]][0])
        for one in book.rules
        for variant in variants(one, vocabulary)
    ]


def test_pairs_that_unify_are_found() -> None:
    found = readings()
    index = RootIndex()
    for place, reading in enumerate(found):
        index.add(reading, place)
    near = [index.near([reading]) for reading in found]
    n_unify = n_near = 0
    for a, b in combinations(range(0, len(found), 3), 2):
        is_near = b in near[a]
        assert is_near == (a in near[b])
        n_near += is_near
        if next(unifications(found[a], found[b], SCHEMAS), None) is not None:
            n_unify += 1
            assert is_near, (found[a].rule.span.text, found[b].rule.span.text)
    assert 0 < n_unify < n_near


def of_numbers(pattern: str, n_rules: int) -> str:
    return "".join(f"rule r{n} in s: {pattern.format(n)} => Sub({n}, x)\n" for n in range(n_rules))


def overlaps(text: str) -> Analysis:
    return analyse(text, "overlap")


def test_rules_that_fix_their_operands_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MOST_PAIRS", 0)
    found = overlaps(of_numbers("Add(Neg(x), {})", 200))
    assert (found.diagnostics, found.is_cut) == ([], False)


@pytest.mark.parametrize(("limit", "is_cut"), [(44, True), (45, False)])
@pytest.mark.parametrize("name", ["MOST_PAIRS", "MOST_TRIED"])
def test_more_pairs_than_are_looked_at_are_told(
    monkeypatch: pytest.MonkeyPatch, name: str, limit: int, is_cut: bool
) -> None:
    monkeypatch.setattr(overlap, name, limit)
    assert overlaps(of_numbers("Add(x, {})", 10)).is_cut == is_cut
