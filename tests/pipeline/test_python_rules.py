"""Python beside rule texts: files given as rules, functions that fail, patterns that take part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import gerules
from gerules.dsl import FUNCTIONS, FunctionError, RuleError
from gerules.errors import Source

GRAPH = gerules.parse_graph(
    "graph g:\n    opset 20\n    input x: f32[2, 6]\n    k: const f32[6] = random(1)\n"
    "    m = Cos(x)\n    y = Sin(m)\n    z = Mul(y, k)\n    return z\n"
)
FILE = """\
import gerules


@gerules.predicate
def is_six(n: int) -> bool:
    if n == 7:
        raise ValueError("seven is right out")
    return n == 6


@gerules.function
def axis_of(n: int) -> int:
    return 1 // (n - 6)


@gerules.register_fusion_pattern(ruleset="mine")
def sin_of_cos(p):
    x = p.input("x", "f32[N, C]")
    p.where(is_six, "C", otherwise="the value has not six columns")
    p.replace(p.op("Sin", p.op("Cos", x)), p.op("Cos", p.op("Cos", x)))
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    yield path
    gerules.unregister_fusion_pattern("sin_of_cos")
    for name in ("is_six", "axis_of"):
        FUNCTIONS.discard(name)


def test_a_python_file_is_given_as_rules(file: Path) -> None:
    after, trace = gerules.rewrite(GRAPH, file, pipeline="custom")
    assert [node.op for node in after.nodes.values()] == ["Cos", "Cos", "Mul"]
    (done,) = trace.applications
    assert (done.rule, done.phase) == ("sin_of_cos", "custom")
    span = gerules.load_rules(file).rule_by_name["sin_of_cos"].span
    assert Path(span.source.name).name == "mine.py"
    assert FILE.splitlines()[int(str(span).split(":")[1]) - 1].startswith("@gerules.register_fusion_pattern")
    gerules.unregister_fusion_pattern("sin_of_cos")
    assert "sin_of_cos" not in gerules.load_rules().rule_by_name


@pytest.mark.parametrize(
    "part",
    [
        "    where: axis_of(C) == 1\n    rewrite: y = Abs(x)\n",
        "    fold: a = axis_of(C)\n    rewrite: y = Softmax(x, axis=a)\n",
        "    rewrite: y = Softmax(x, axis=axis_of(C))\n",
        "    annotate: y.mark = axis_of(C)\n",
    ],
)
def test_a_function_that_fails_ends_the_rewrite_wherever_it_is_called(file: Path, part: str) -> None:
    gerules.load_rules(file)
    gerules.unregister_fusion_pattern("sin_of_cos")
    text = (
        f"extern function axis_of(n: int) -> int\nrule r in mine:\n    match: y = Sin(x: f32[N, C])\n{part}"
    )
    with pytest.raises(FunctionError) as caught:
        gerules.rewrite(GRAPH, Source("r.ger", text), pipeline="custom")
    (fault,) = caught.value.diagnostics
    assert fault.code.code == "E40127" and "raised ZeroDivisionError" in fault.message
    assert fault.span is not None and fault.span.text == "axis_of(C)"


def test_a_python_file_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import gerules\n\n1 / 0\n", encoding="utf-8")
    for _ in range(2):  # it is not taken for read
        with pytest.raises(RuleError) as caught:
            gerules.load_rules(path)
        (fault,) = caught.value.diagnostics
        assert fault.code.code == "E40129" and fault.place == f"{path}:3"
        assert "ZeroDivisionError: division by zero" in fault.message
    with pytest.raises(RuleError, match="E10001"):
        gerules.load_rules(tmp_path / "missing.py")
