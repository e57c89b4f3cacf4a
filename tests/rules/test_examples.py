"""The samples in `examples/`: no faults, as short as their page says, and right on real ONNX files."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import gerules
from gerules.dsl import RuleBook
from gerules.ir import Graph, TensorType
from tests.models.oracle import Array, assert_close, ort_outputs

FOLDER: Final = Path(__file__).parents[2] / "examples"
SAMPLES: Final = sorted(path.stem for path in FOLDER.glob("*.graph"))
PAGE: Final = (FOLDER / "README.md").read_text(encoding="utf-8")
MOST_LINES: Final = 300
SIZES: Final = {"B": 2}
"""Sizes of the dimensions that a sample leaves open."""

MADE: Final = {
    "conv_to_nhwc": {"ge::ConvNhwc": 2, "Transpose": 1, "Conv": 0},
    "drop_add_of_zeros": {"Add": 1},
    "drop_add_of_zeros_custom": {"ge::AddCustom": 1},
    "drop_tile_before_matmul": {"Tile": 0, "MatMul": 1, "Reshape": 1, "Transpose": 1},
    "flatten_batch_matmul": {"Flatten": 1, "MatMul": 1, "Reshape": 1},
    "grouped_conv_to_convs": {"Split": 1, "Conv": 3, "Concat": 1},
    "matmul_add_to_gemm": {"Gemm": 1, "MatMul": 0, "Add": 0},
    "matmul_add_to_gemm_captured": {"Gemm": 1, "MatMul": 0, "Transpose": 0},
    "matmul_add_to_gemm_configured": {"Gemm": 1, "MatMul": 2, "Add": 1},
    "merge_expert_matmuls": {"MatMul": 4, "Unsqueeze": 3, "Concat": 1, "Split": 1, "Squeeze": 3},
    "merge_matmuls_of_one_input": {"MatMul": 2, "Split": 1},
    "nhwc_by_name": {"ge::ConvNhwc": 1, "Transpose": 1, "Relu": 1},
    "relu_before_concat": {"Relu": 3, "Concat": 1},
    "thin_matmul_to_sum": {"MatMul": 0, "Transpose": 0, "Mul": 1, "ReduceSum": 1},
}
"""How many operators of a kind each sample's graph has when its rules are through."""


def lines_of(path: Path) -> int:
    """Lines of a rule file that are no test, no comment and not blank."""
    count, is_test = 0, False
    for line in path.read_text(encoding="utf-8").splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent <= 4:
            is_test = bool(re.match(r"    test( \"[^\"]*\")?:$", line))
        count += bool(line.strip()) and not line.lstrip().startswith("#") and not is_test
    return count


def rows() -> Iterator[tuple[str, str, str]]:
    """What the page's table has: the cell that names the file, our lines, the C++ lines."""
    for row in re.findall(r"^\|(.+)\|$", PAGE, re.M)[2:]:
        _, here, lines, cpp = (cell.strip().strip("*") for cell in row.split("|"))
        yield here, lines, cpp


def feeds_of(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    found: dict[str, Array] = {}
    for value in graph.inputs:
        type = graph.type_of(value)
        assert isinstance(type, TensorType) and type.shape is not None
        shape = [dim if isinstance(dim, int) else SIZES[str(dim)] for dim in type.shape]
        found[graph.values[value].name] = rng.uniform(-1, 1, shape).astype(type.dtype.numpy)
    return found


@pytest.fixture(scope="module")
def book() -> RuleBook:
    return gerules.load_rules([FOLDER])


def test_the_samples_load_without_warnings(book: RuleBook) -> None:
    assert book.warnings == ()


def test_every_rule_has_a_test_that_matches_or_a_reason_not_to(book: RuleBook) -> None:
    names = {rule.name.name for rule in book.rules if rule.ruleset == "samples"}
    tested = {
        rule.name.name
        for rule in book.rules
        if rule.ruleset == "samples" and any(test.expects_match for test in rule.tests)
    }
    # A test cannot name the values of its graph, which the rule asks for; `test_sample` below does.
    assert names - tested == {"nhwc_by_name"}


def test_the_page_counts_right() -> None:
    total = cpp_total = 0
    named: set[str] = set()
    *samples, last = rows()
    for here, lines, cpp in samples:
        name = re.findall(r"\((\w+)\.ger\)", here)[0]
        assert int(lines) == (0 if "as it stands" in here else lines_of(FOLDER / f"{name}.ger")), name
        named.add(name)
        total, cpp_total = total + int(lines), cpp_total + int(cpp or 0)
    assert named == {path.stem for path in FOLDER.glob("*.ger")}
    assert last == ("", str(total), str(cpp_total))
    assert len(samples) == 16, "fifteen samples and the operators they share"
    assert total < MOST_LINES


def test_every_sample_has_a_graph_to_try_it_on() -> None:
    assert {*SAMPLES, "operators"} == {path.stem for path in FOLDER.glob("*.ger")}
    assert set(MADE) == set(SAMPLES)


def test_commands(tmp_path: Path) -> None:
    """What the page says to type works as it stands; so do the checks and the layout."""
    shutil.copytree(FOLDER, tmp_path / "examples")
    shown = next(body for body in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S))
    layout = f"gerules fmt --check {' '.join(f'examples/{path.name}' for path in FOLDER.glob('*.ger'))}"
    for line in (*shown.splitlines(), "gerules rules check examples", layout):
        program, *arguments = shlex.split(line)
        assert program == "gerules"
        command = [sys.executable, "-m", "gerules.cli", *arguments]
        environment = os.environ | {"PYTHONPATH": str(FOLDER.parent)}
        run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "warning" not in run.stderr


@pytest.mark.parametrize("name", SAMPLES)
def test_sample(name: str, tmp_path: Path) -> None:
    """From an ONNX file to an ONNX file; onnxruntime judges both."""
    rules = [FOLDER / f"{name}.ger"]
    source = gerules.load(FOLDER / f"{name}.graph", rules=rules)
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    gerules.save(source, before, rules=rules)
    profile = "named_nhwc" if name == "nhwc_by_name" else None
    model = gerules.load(before, rules=rules)
    rewritten, trace = gerules.rewrite(model, rules, pipeline="custom", profile=profile)
    gerules.save(rewritten, after, rules=rules)
    assert trace.applications
    ops = [node.op for node in rewritten.nodes.values()]
    assert {op: ops.count(op) for op in MADE[name]} == MADE[name]
    feeds = feeds_of(source)
    assert_close(ort_outputs(after, feeds), ort_outputs(before, feeds), 1e-5)
    model = gerules.load(after, rules=rules)
    again, more = gerules.rewrite(model, rules, pipeline="custom", profile=profile)
    assert not more.applications
    assert len(again.nodes) == len(rewritten.nodes)
