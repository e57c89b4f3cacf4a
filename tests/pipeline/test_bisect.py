"""Bisect: the wrong rule, site, pair of rules, or lowered node is named, and the remedy works."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gerules
from gerules.errors import GerulesError, Source
from gerules.pipeline import compiler
from gerules.pipeline.bisect import bisect
from gerules.pipeline.bisect_result import BisectResult
from gerules.pipeline.ledger import felt_errors
from tests.pipeline.planted import Arrays, written, wrong_rule

CASES = [
    ("residual", "Relu", "r2", "ascend910b", "fp32"),
    ("residual", "Relu", "r1", "ascend910b", "fp16"),
    ("residual", "Relu", "r0", "host", "fp32"),
    ("attention", "Softmax", "weights1", "ascend910b", "fp32"),
    ("attention", "Erf", "e0", "ascend910b", "fp16"),
    ("attention", "Erf", "e1", "host", "fp32"),
]


def few(found: BisectResult) -> float:
    """The compiles that are allowed: `2 k log2 n`, some for each culprit, and some for what is done once."""
    k = sum(len(cause.parts) for cause in found.causes)
    return 2 * k * log2(found.n_rewrites + found.n_lowered) + 6 * len(found.causes) + 5


@pytest.mark.parametrize(("model", "op", "site", "device", "precision"), CASES)
def test_a_rule_wrong_at_one_site_is_named_with_the_site(
    tmp_path: Path, model: str, op: str, site: str, device: str, precision: str
) -> None:
    path, feeds = written(tmp_path, model)
    rules = [wrong_rule(op, site, error="0.5")]
    found = bisect(path, feeds, rtol=0.02, device=device, precision=precision, rules=rules)
    assert found.verdict == "found"
    (cause,) = found.causes
    (part,) = cause.parts
    assert (part.kind, part.rule, part.values) == ("rule", "wrong", (site,))
    assert cause.start is not None and cause.start.value == site
    assert cause.start.before is not None and cause.start.before <= 0.02 < cause.start.after
    assert cause.start in cause.growth
    assert found.is_remedied and found.rules_off == ("wrong",) and found.keep_dtype == ()
    assert found.n_compiles <= few(found)


def test_a_model_that_gives_no_number_is_told(tmp_path: Path) -> None:
    path, feeds = written(tmp_path, "residual")
    blind = {name: np.full_like(array, np.nan) for name, array in feeds.items()}
    with pytest.raises(GerulesError, match="E20007"):
        bisect(path, blind, rtol=0.02, device="ascend910b", rules=[wrong_rule("Relu", error="0.5")])


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_rule_wrong_everywhere_is_named_once(tmp_path: Path, precision: str) -> None:
    path, feeds = written(tmp_path, "residual")
    rule = wrong_rule("Relu", error="0.5")
    found = bisect(path, feeds, rtol=0.02, device="ascend910b", precision=precision, rules=[rule])
    assert [part.rule for cause in found.causes for part in cause.parts] == ["wrong"]
    assert found.n_applied == {"wrong": 3} and found.is_remedied


PAIR = """
graph pair:
    opset 17
    input x: f32[2, 3]
    input low: f32[2, 3]
    input deep: f32[2, 3]
    p = Relu(low)
    q = Relu(deep)
    a = Tanh(x)
    m = Mul(p, q)
    y = Add(a, m)
    z = Sigmoid(y)
    return z
"""


def test_two_rules_that_are_wrong_only_together_are_named_together(tmp_path: Path) -> None:
    path = tmp_path / "pair.graph"
    path.write_text(PAIR, encoding="utf-8")
    negative = np.full((2, 3), -5.0, np.float32)
    feeds = {"x": np.ones((2, 3), np.float32), "low": negative, "deep": negative}
    rules = [
        wrong_rule("Relu", "p", name="one", error="1.0"),
        wrong_rule("Relu", "q", name="two", error="1.0"),
    ]
    alone = bisect(path, feeds, rules=rules[:1])
    assert alone.verdict == "within tolerance"
    found = bisect(path, feeds, rules=rules)
    (cause,) = found.causes
    assert [(part.rule, part.values) for part in cause.parts] == [("one", ("p",)), ("two", ("q",))]
    assert cause.error_without is not None and cause.error_without <= 1e-3 < (cause.error_with or 0.0)
    assert found.is_remedied and found.n_compiles <= few(found)


LARGE = """
graph large:
    opset 17
    input x: f32[2, 16]
    W: const f32[16, 16] = random(1)
    h = MatMul(x, W)
    r = Relu(h)
    a = Mul(r, r)
    square = Mul(x, x)
    return a, square
"""


def _large(folder: Path) -> tuple[Path, Arrays]:
    path = folder / "large.graph"
    path.write_text(LARGE, encoding="utf-8")
    feeds = {"x": np.linspace(-300, 300, 32, dtype=np.float32).reshape(2, 16)}
    feeds["x"][:, 1:] /= 100
    return path, feeds


def test_a_node_that_overflows_in_float16_is_named(tmp_path: Path) -> None:
    path, feeds = _large(tmp_path)
    found = bisect(path, feeds, rtol=0.02, device="ascend910b", precision="fp16")
    (cause,) = found.causes
    (part,) = cause.parts
    assert (part.kind, part.sources, part.keeps) == ("lowered", ("square",), ("square",))
    assert cause.start is not None and (cause.start.value, cause.start.dtype) == ("square", "f16")
    assert found.keep_dtype == ("square",) and found.rules_off == () and found.profile == ""
    assert found.is_remedied
    kept = gerules.compile(path, device="ascend910b", precision="fp16", keep_dtype=found.keep_dtype)
    np.testing.assert_allclose(kept.run(feeds)["square"], feeds["x"] ** 2, rtol=0.02)


@pytest.mark.parametrize("model", ["residual", "attention"])
def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path, model: str) -> None:
    path, feeds = written(tmp_path, model)
    found = bisect(path, feeds, device="ascend910b", precision="fp32")
    assert (found.verdict, found.causes, found.n_compiles) == ("within tolerance", (), 2)


def test_rounding_that_adds_up_is_told_as_a_sum(tmp_path: Path) -> None:
    path, feeds = written(tmp_path, "attention")
    plain = bisect(path, feeds, rtol=1.0, device="ascend910b", precision="fp16")
    assert plain.error is not None
    found = bisect(path, feeds, rtol=plain.error / 1.2, device="ascend910b", precision="fp16")
    assert found.verdict == "found" and found.is_remedied
    assert {part.kind for cause in found.causes for part in cause.parts} <= {"lowered", "rule"}
    assert found.keep_dtype and not found.rules_off
    for cause in found.causes:
        assert cause.is_minimal and len(cause.errors_without_one) == len(cause.parts)
        if len(cause.parts) > 1:
            assert all(error is not None and error <= found.rtol for error in cause.errors_without_one)
    assert found.is_remedy_minimal
    kept = [part for cause in found.causes for part in cause.parts if set(part.keeps) & {*found.keep_dtype}]
    for part in kept:
        others = [name for name in found.keep_dtype if name not in part.keeps]
        again = bisect(path, feeds, rtol=found.rtol, device="ascend910b", precision="fp16", keep_dtype=others)
        assert again.error is not None and again.error > found.rtol


MASKED = """
graph masked:
    opset 17
    input x: f32[4, 64]
    input seen: bool[64]
    A: const f32[64, 64] = random(1)
    B: const f32[64, 64] = random(2)
    zero: const f32[] = 0.0
    low: const f32[] = -3.0e38
    mask = Where(seen, zero, low)
    h = MatMul(x, A)
    scores = Add(h, mask)
    weights = Softmax(scores)
    y = MatMul(weights, B)
    return y
"""


def test_a_mask_that_saturates_is_not_blamed(tmp_path: Path) -> None:
    path = tmp_path / "masked.graph"
    path.write_text(MASKED, encoding="utf-8")
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    feeds = {"x": x, "seen": np.arange(64) < 40}
    target: Any = {"device": "ascend910b", "precision": "fp16"}
    plain = bisect(path, feeds, rtol=1.0, **target)
    assert plain.error is not None and plain.error > 0
    ledger = gerules.compile(path, **target).ledger(feeds)
    (mask,) = (entry for entry in ledger.entries if entry.value == "mask")
    assert mask.error_out == 1.0
    for divisor in (1.05, 1.5, 3.0):
        found = bisect(path, feeds, rtol=plain.error / divisor, **target)
        assert found.verdict == "found" and found.is_remedied
        assert "mask" not in found.keep_dtype
        for cause in found.causes:
            assert "mask" not in {name for part in cause.parts for name in part.keeps}
            assert cause.start is None or cause.start.value != "mask"


def test_only_what_comes_through_to_an_output_is_felt(tmp_path: Path) -> None:
    path = tmp_path / "masked.graph"
    path.write_text(MASKED, encoding="utf-8")
    feeds = {"x": np.ones((4, 64), np.float32), "seen": np.arange(64) < 40}
    done = gerules.compile(path, device="ascend910b", precision="fp16")
    ledger = done.ledger(feeds)
    felt = felt_errors(done.graph, ledger.entries)
    errors = {entry.value: (entry.error_out, felt[entry.node_id]) for entry in ledger.entries}
    assert errors["mask"] == (1.0, 0.0)
    assert errors["y"][0] == errors["y"][1] > 0


@pytest.mark.parametrize(("precision", "rtol"), [("fp32", 1e-4), ("fp16", 2e-2)])
def test_the_tolerance_is_that_of_the_precision(tmp_path: Path, precision: str, rtol: float) -> None:
    path, feeds = written(tmp_path, "residual")
    found = bisect(path, feeds, device="ascend910b", precision=precision)
    assert (found.verdict, found.rtol, found.rtol_reason) == (
        "within tolerance",
        rtol,
        f"the default for {precision}",
    )
    assert bisect(path, feeds, rtol=0.5, device="ascend910b").rtol_reason == "given"


def test_the_remedy_holds_as_files(tmp_path: Path) -> None:
    path, feeds = written(tmp_path, "residual")
    mine = tmp_path / "mine.ger"
    mine.write_text(wrong_rule("Relu", "r1", error="0.5", alias="PlantedFusionPass").text, encoding="utf-8")
    found = bisect(path, feeds, device="ascend910b", precision="fp32", rules=[mine])
    assert json.loads(found.switch_file) == {"Switch": {"GraphFusion": {"PlantedFusionPass": "off"}}}
    switch, profile = tmp_path / "fusion_switch.cfg", tmp_path / "bisected.ger"
    switch.write_text(found.switch_file, encoding="utf-8")
    profile.write_text(found.profile, encoding="utf-8")
    wanted = gerules.compile(path, device="ascend910b", precision="fp32").run(feeds)["s2"]
    target: Any = {"device": "ascend910b", "precision": "fp32"}
    one = gerules.compile(path, rules=[mine], fusion_switch_file=switch, **target)
    np.testing.assert_allclose(one.run(feeds)["s2"], wanted, rtol=1e-5, atol=1e-5)
    two = gerules.compile(path, device="ascend910b", rules=[mine, profile], profile=found.profile_name)
    np.testing.assert_allclose(two.run(feeds)["s2"], wanted, rtol=1e-5, atol=1e-5)
    wrong = gerules.compile(path, device="ascend910b", precision="fp32", rules=[mine]).run(feeds)["s2"]
    assert np.abs(wrong - wanted).max() > 0.1


def test_two_wrong_rules_are_two_causes(tmp_path: Path) -> None:
    path, feeds = written(tmp_path, "attention")
    rules = [
        wrong_rule("Softmax", "weights0", name="one", error="0.5"),
        wrong_rule("Erf", "e1", name="two", error="0.5"),
    ]
    found = bisect(path, feeds, device="ascend910b", precision="fp32", rules=rules)
    assert sorted(part.rule for cause in found.causes for part in cause.parts) == ["one", "two"]
    assert len(found.causes) == 2 and found.is_remedied and found.n_compiles <= few(found)


def test_against_another_mode_only_the_difference_counts(tmp_path: Path) -> None:
    path, feeds = written(tmp_path, "residual")
    rule = wrong_rule("Relu", error="0.5")
    target: Any = {"device": "ascend910b", "precision": "fp16", "rules": [rule]}
    assert bisect(path, feeds, rtol=0.02, **target).verdict == "found"
    found = bisect(path, feeds, rtol=0.02, against="fp32", **target)
    assert found.verdict == "within tolerance"


def test_against_another_mode_a_lowering_is_named(tmp_path: Path) -> None:
    path, feeds = _large(tmp_path)
    found = bisect(path, feeds, rtol=0.02, against="fp32", device="ascend910b", precision="fp16")
    assert [part.sources for cause in found.causes for part in cause.parts] == [("square",)]
    assert found.is_remedied


def test_what_nothing_applied_has_too_is_not_blamed_on_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folded.graph"
    path.write_text(
        """
graph folded:
    opset 17
    input x: f32[3]
    k: const f32[3] = [1.0, 2.0, 3.0]
    e = Exp(k)
    y = Mul(x, e)
    return y
""",
        encoding="utf-8",
    )
    fold = compiler.evaluate_node

    def wrong(*args: Any, **kwargs: Any) -> Sequence[Any]:
        return [array + array.dtype.type(1) for array in fold(*args, **kwargs)]

    monkeypatch.setattr(compiler, "evaluate_node", wrong)
    found = bisect(path, {"x": np.ones(3, np.float32)}, rules=[wrong_rule("Relu")])
    assert (found.verdict, found.causes) == ("not the rules", ())


@pytest.mark.parametrize(("n_told", "has_cause"), [(1, False), (2, True), (6, True)])
def test_an_interrupt_keeps_the_best_so_far(tmp_path: Path, n_told: int, has_cause: bool) -> None:
    path, feeds = written(tmp_path, "residual")
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        if len(told) == n_told:
            raise KeyboardInterrupt

    rules = [wrong_rule("Relu", "r0", error="0.5")]
    found = bisect(path, feeds, device="ascend910b", rules=rules, tell=tell)
    assert found.verdict == "interrupted" and bool(found.causes) is has_cause
    assert not found.is_remedied
    for cause in found.causes:
        assert "wrong" in {part.rule for part in (*cause.parts, *cause.needs)}


def test_the_number_of_compiles_can_be_limited(tmp_path: Path) -> None:
    path, feeds = written(tmp_path, "residual")
    rules = [wrong_rule("Relu", "r0", error="0.5")]
    found = bisect(path, feeds, device="ascend910b", rules=rules, most_compiles=3)
    assert (found.verdict, found.n_compiles) == ("cut short", 3) and found.causes


def test_nan_is_out_of_tolerance(tmp_path: Path) -> None:
    path, feeds = written(tmp_path, "residual")
    text = wrong_rule("Relu", "r2").text.replace("Add(Relu(x, **a), 0.01)", "Sqrt(Add(Relu(x, **a), -9.0))")
    found = bisect(path, feeds, rules=[Source("nan.ger", text)])
    assert [part.values for cause in found.causes for part in cause.parts] == [("r2",)]
    assert found.error == float("inf") and found.is_remedied
    assert json.dumps(found.as_json())


def test_faults_of_the_compile_come_as_they_are(tmp_path: Path) -> None:
    path, feeds = written(tmp_path, "residual")
    with pytest.raises(GerulesError, match="E50010"):
        bisect(path, feeds, device="ascend999")
    with pytest.raises(GerulesError, match="E10003"):
        bisect(path, feeds, rtol=float("nan"))
    with pytest.raises(GerulesError, match="E50014"):
        bisect(path, feeds, against="fp17")
    with pytest.raises(GerulesError, match=r"E2000\d"):
        bisect(path, {"other": feeds["x"]})


def test_a_rule_inside_a_body_is_named_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "branch.graph"
    path.write_text(
        """
graph branch:
    opset 17
    input flag: bool[]
    input x: f32[4]
    y: f32[4] = If(flag):
        then_branch:
            capture a: f32[4] = x
            r: f32[4] = Relu(a)
            return r
        else_branch:
            capture b: f32[4] = x
            s: f32[4] = Neg(b)
            return s
    return y
""",
        encoding="utf-8",
    )
    feeds: Mapping[str, object] = {"flag": np.array(True), "x": np.ones(4, np.float32)}
    found = bisect(path, feeds, rules=[wrong_rule("Relu", error="0.5")])
    (part,) = found.causes[0].parts
    assert (part.rule, part.graph, part.values) == ("wrong", "y.then_branch", ("r",))
