"""Quantities, tables, comparisons and dumps: the small parts that reports are made of."""

from __future__ import annotations

import doctest
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rich.console import Console

import gerules.report.compile_report
import gerules.report.quantities
from gerules.frontends import load_graph_text
from gerules.ir import parse_graph, print_graph
from gerules.pipeline.stages import StageReport
from gerules.pipeline.summary import Summary
from gerules.report.comparison import compare_arrays, compare_outputs
from gerules.report.compile_report import CompileReport
from gerules.report.quantities import bytes_text, time_text
from gerules.report.run_report import describe_arrays
from gerules.report.stage_dump import CONSTANTS, dump_stages
from gerules.report.tables import Column, Grid

SUMMARY = Summary(
    "net", "board", "fp16", 10, 4, {"b": 3, "a": 1}, 2, 1, 1, 2, 1, 2048, 1024, 4096, 1.5e6
)  # fmt: skip


@pytest.mark.parametrize("module", [gerules.report.quantities, gerules.report.compile_report])
def test_examples_in_docstrings_hold(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted > 0 and found.failed == 0


@given(st.integers(0, 2**60))
def test_sizes_keep_three_digits(size_bytes: int) -> None:
    number, unit = bytes_text(size_bytes).split()
    scale = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[unit]
    assert float(number) * scale == pytest.approx(size_bytes, rel=0.06, abs=0.5)


@given(st.floats(0, 1e12))
def test_times_are_not_rounded_away(took_us: float) -> None:
    number, unit = time_text(took_us).split()
    assert float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit] == pytest.approx(took_us, rel=0.06, abs=0.51)


# ---------------------------------------------------------------- comparison
FLOATS = arrays(np.float32, (3, 4), elements=st.floats(-1e6, 1e6, width=32))


@given(FLOATS)
def test_a_run_equals_itself(array: np.ndarray) -> None:
    found = compare_arrays("y", array, array.copy(), rtol=0.0)
    assert found.is_close and found.max_abs == 0 and found.max_rel == 0


@given(FLOATS, st.integers(0, 11), st.floats(1e-3, 1e3))
def test_the_error_is_the_largest_difference_over_the_largest_magnitude(
    want: np.ndarray, at: int, off: float
) -> None:
    got = want.astype(np.float64)
    got.flat[at] += off
    found = compare_arrays("y", got, want, rtol=1e-4)
    largest = max(abs(float(item)) for item in want.flat)
    assert found.max_abs == pytest.approx(off, rel=1e-6)
    assert found.max_rel == pytest.approx(off / largest if largest else off, rel=1e-6)
    assert found.is_close == (found.max_rel <= 1e-4)


def test_nan_and_infinity_must_be_where_they_should_be() -> None:
    want = np.array([1.0, np.nan, np.inf, -np.inf])
    assert compare_arrays("y", want.copy(), want, rtol=0).is_close
    for at, wrong in ((0, np.nan), (1, 1.0), (2, -np.inf), (3, 7.0)):
        got = want.copy()
        got[at] = wrong
        found = compare_arrays("y", got, want, rtol=1.0)
        assert not found.is_close and "1 of 4 elements" in found.reason


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, object])
def test_what_is_no_real_number_must_be_equal(dtype: type) -> None:
    want = np.array([0, 1, 1], dtype)
    assert compare_arrays("y", want.copy(), want, rtol=1.0).is_close
    got = want.copy()
    got[0] = 1
    assert not compare_arrays("y", got, want, rtol=1.0).is_close


def test_shapes_and_missing_outputs_are_differences() -> None:
    one, two = np.zeros((2, 3)), np.zeros((3, 2))
    assert "shape" in compare_arrays("y", one, two, rtol=1).reason
    found = compare_outputs({"a": one}, {"a": one, "b": one}, rtol=1)
    assert [item.is_close for item in found] == [True, False]


def test_outputs_go_together_by_name_or_else_by_place() -> None:
    one, two = np.zeros(2), np.ones(2)
    assert all(item.is_close for item in compare_outputs({"b": two, "a": one}, {"a": one, "b": two}, rtol=0))
    assert all(item.is_close for item in compare_outputs({"x": one, "y": two}, {"a": one, "b": two}, rtol=0))


def test_extremes_are_those_of_finite_elements() -> None:
    (row,) = describe_arrays({"y": np.array([np.nan, -2.0, np.inf, 4.0], np.float16)})
    assert (row.least, row.mean, row.most, row.n_not_finite) == (-2.0, 1.0, 4.0, 2)
    (nothing,) = describe_arrays({"y": np.zeros((0, 3), np.float32)})
    assert nothing.least is None and nothing.type == "f32[0, 3]"


# ---------------------------------------------------------------- compile report
def stage(name: str, before: int, after: int, **detail: object) -> StageReport:
    graph = parse_graph("graph g:\n    input x: f32[2]\n    y = Relu(x)\n    return y\n")
    return StageReport(name, 1500.0, before, after, detail, graph)


def test_stages_tell_what_they_counted() -> None:
    stages = [
        stage("prepare", 10, 8, n_folded=2, n_merged=1, n_dynamic=0),
        stage("fuse", 8, 4, fusions={"b": 3, "a": 1}),
        stage("quiet", 4, 4, fusions={}),
        stage("precision", 4, 6, mode="fp16", n_low=4, n_kept=0, n_casts=2, saturated=["w"]),
        stage("formats", 6, 7, n_transdata=1),
        stage("partition", 7, 7, n_clusters=1, engines={"cube": 5, "host": 2}),
        stage("plan", 7, 7, n_streams=2, n_events=1, peak_bytes=2048, lower_bound_bytes=1024, n_in_place=3),
        stage("emit", 7, 7, weight_bytes=4096),
    ]
    report = CompileReport(SUMMARY, stages, "net.om", 5000)
    grid = report.stage_grid()
    assert grid.title == "net for board, fp16"
    assert [tuple(row[1:3]) for row in grid.rows] == [
        ("10 -> 8", "2 folded, 1 merged"),
        ("8 -> 4", "b x3, a x1"),
        ("4", "-"),
        ("4 -> 6", "fp16, 4 lowered, 0 kept, 2 Casts, 1 constant beyond the range"),
        ("6 -> 7", "1 TransData"),
        ("7", "1 cluster, cube 5, host 2"),
        ("7", "2 streams, 1 event, arena 2 KiB, 2.000 x the lower bound, 3 in place"),
        ("7", "weights 4 KiB, .om 4.9 KiB"),
    ]
    assert dict(report.facts())["rewrites"] == "4 by 2 rules"
    assert dict(report.facts())["written"] == "net.om, 4.9 KiB"
    assert [tuple(row) for row in report.rule_grid().rows] == [("b", "3", "fuse"), ("a", "1", "fuse")]
    assert report.as_json()["output"] == {"path": "net.om", "size_bytes": 5000}


@pytest.mark.parametrize(
    ("n_inserted", "n_before", "n_after", "n_left", "told", "since"),
    [
        (
            19, 2, 21, 10,
            "19 Casts beside 2 of the model", "21 Casts after precision; since then 11 merged or fused",
        ),
        (1, 0, 1, 3, "1 Cast", "1 Cast after precision; since then 2 added"),
        (2, 0, 2, 2, "2 Casts", None),
    ],
)  # fmt: skip
def test_counts_of_casts_add_up(
    n_inserted: int, n_before: int, n_after: int, n_left: int, told: str, since: str | None
) -> None:
    counts = {"n_casts": n_inserted, "n_casts_before": n_before, "n_casts_after": n_after}
    stages = [stage("precision", 4, 6, mode="fp16", **counts)]
    report = CompileReport(replace(SUMMARY, n_casts=n_left), stages)
    ((_, _, what, _),) = report.stage_grid().rows
    assert what == f"fp16, 0 lowered, 0 kept, {told}"
    facts = report.facts()
    assert (("", since) in facts) is (since is not None)
    assert n_before + n_inserted == n_after


# ---------------------------------------------------------------- tables
def test_texts_of_models_are_never_markup() -> None:
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(Grid((Column("[red]head"),), [("[bold]x[/bold] [/]",)], "[title]", ("[note]",)))
    text = console.export_text()
    assert all(part in text for part in ("[red]head", "[bold]x[/bold] [/]", "[title]", "[note]"))


# ---------------------------------------------------------------- dumps
def test_stages_share_constants_and_read_back(tmp_path: Path) -> None:
    text = (
        "graph g:\n    input x: f32[2, 100]\n    W: const f32[100, 100] = random(3)\n"
        "    y: f32[2, 100] = MatMul(x, W)\n    return y\n"
    )
    graph = parse_graph(text)
    stages = [StageReport(name, 0.0, 1, 1, {}, graph) for name in ("one", "two/three")]
    paths = dump_stages(stages, tmp_path)
    assert [path.name for path in paths] == ["00_one.graph", "01_two_three.graph"]
    assert (tmp_path / CONSTANTS).stat().st_size == 100 * 100 * 4
    for path in paths:
        assert print_graph(load_graph_text(path)) == print_graph(graph)


def test_sequences_are_compared_and_described_item_by_item() -> None:
    one, two = np.ones((2, 3), np.float32), np.zeros(4, np.int64)
    assert all(item.is_close for item in compare_outputs({"s": [one, two]}, {"s": [one, two]}, rtol=0))
    assert [item.is_close for item in compare_outputs({"s": [one, two]}, {"s": [one, two + 1]}, rtol=0)] == [
        True, False,
    ]  # fmt: skip
    assert not all(item.is_close for item in compare_outputs({"s": [one]}, {"s": [one, one]}, rtol=0))
    assert [row.name for row in describe_arrays({"s": [one, [two]]})] == ["s[0]", "s[1][0]"]
    assert [row.type for row in describe_arrays({"s": [], "o": None})] == ["an empty sequence", "none"]
