"""Python functions and rules count with what they lead to."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import gerules
from gerules.dsl import FunctionTable, RuleBook
from gerules.errors import Source
from gerules.ir import Graph
from gerules.pipeline.cache.key import compile_key
from gerules.pipeline.cache.python_code import Uncacheable
from gerules.pipeline.model import CompiledModel
from tests.pipeline.cache.cached import OPTIONS, codes, make

EVEN = """\
import limits
import gerules

LIMIT = 2

@gerules.predicate
def is_small(n: int) -> bool:
    return n < LIMIT and n < limits.MOST
"""
USES = """\
gerules 1

extern predicate is_small(n: int)

rule small in my.moves "Relu of a small one":
    once
    match:
        y = Relu(x: T[N, ...])
    where:
        is_small(N)     else "it is large"
    rewrite:
        y = Mul(Relu(x), 1.0)
"""


def key_with_module(folder: Path, stem: Graph, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(folder))
    for name in ("smalls", "limits"):
        sys.modules.pop(name, None)
    import importlib

    importlib.invalidate_caches()
    module = importlib.import_module("smalls")
    table = FunctionTable()
    gerules.predicate(name="is_small", functions=table)(module.is_small)
    return compile_key(stem, gerules.load_rules(Source("uses.ger", USES), functions=table), OPTIONS)


def test_python_functions_count_with_what_they_lead_to(
    stem: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    plain = EVEN.replace("@gerules.predicate\n", "")
    keys = list[str]()
    for one, other in (
        (plain, "MOST = 9\n"),
        (plain.replace("n < LIMIT", "n <= LIMIT"), "MOST = 9\n"),
        (plain.replace("LIMIT = 2", "LIMIT = 3"), "MOST = 9\n"),
        (plain, "MOST = 8\n"),
        (plain, "MOST = 9\n"),
    ):
        (tmp_path / "smalls.py").write_text(one)
        (tmp_path / "limits.py").write_text(other)
        keys.append(key_with_module(tmp_path, stem, monkeypatch))
    assert len(set(keys)) == 4 and keys[0] == keys[4]


def test_what_a_python_function_closes_over_counts(stem: Graph) -> None:
    def key(most: object) -> str:
        def is_small(n: int) -> bool:
            return n < most  # type: ignore[operator]  # an object on purpose

        table = FunctionTable()
        gerules.predicate(functions=table)(is_small)
        return compile_key(stem, gerules.load_rules(Source("uses.ger", USES), functions=table), OPTIONS)

    assert key(1) != key(2) and key(1) == key(1)
    with pytest.raises(Uncacheable, match="most, a lock"):
        key(threading.Lock())


def test_a_function_without_digest_is_a_note_and_no_failure(stem: Graph, on: Path) -> None:
    lock = threading.Lock()

    def is_small(n: int) -> bool:
        return n < 2 and not lock.locked()

    table = FunctionTable()
    gerules.predicate(functions=table)(is_small)
    book = gerules.load_rules(Source("uses.ger", USES), functions=table)
    assert codes(make(stem, book, on)) == ["E10052"]
    assert not on.exists()


PASS = """
from gerules.compat import ge
from gerules.compat.ge.es.all import GEMM, MatMul


@ge.register_fusion_pass(name="ProductAndSumPass", stage=ge.PassStage.AFTER_INFER_SHAPE)
class ProductAndSumPass(ge.PatternFusionPass):
    \"\"\"MatMul(a, b) + c is GEMM(a, b, c).\"\"\"

    def __init__(self):
        super().__init__()
        self.ranks = [2]

    @ge.pattern
    def sum(self, inputs):
        a, b, c = inputs[:3]
        return MatMul(a, b) + c

    def meet_requirements(self, match_result):
        return len(match_result.get_matched_nodes()[0].get_output_desc(0).shape) in self.ranks

    def replacement(self, inputs):
        a, b, c = inputs[:3]
        return GEMM(a, b, c, 1.0, 1.0)
"""
SUM = """\
graph sum:
    opset 17
    input a: f32[4, 4]
    input c: f32[4, 4]
    b: const f32[4, 4] = random(1)
    p = MatMul(a, b)
    y = Add(p, c)
    return y
"""


ASKING = """
from gerules.compat import ge
from gerules.compat.ge.es.all import LeakyRelu, Relu


@ge.register_fusion_pass(name="SlopePass", stage=ge.PassStage.AFTER_INFER_SHAPE)
class SlopePass(ge.PatternFusionPass):
    \"\"\"A slope that is asked for.\"\"\"

    @ge.pattern
    def leaky(self, inputs):
        return LeakyRelu(inputs[0], negative_slope=0.5)

    def meet_requirements(self, match_result):
        return match_result.get_matched_nodes()[0].get_attr("negative_slope") in [2]

    def replacement(self, inputs):
        return Relu(inputs[0])
"""


@pytest.mark.parametrize("own", [PASS, ASKING])
def test_a_python_pass_is_kept_from_process_to_process(tmp_path: Path, own: str) -> None:
    (tmp_path / "sum.graph").write_text(SUM)
    says = "import gerules; print(gerules.compile('sum.graph', rules='p.py', cache=True).cache.is_hit)"

    def is_hit(seed: str) -> bool:
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(gerules.__file__).parents[1])}
        done = subprocess.run(
            [sys.executable, "-c", says], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip() == "True"

    (tmp_path / "p.py").write_text(own)
    assert not is_hit("1") and is_hit("2")
    (tmp_path / "p.py").write_text(own.replace("[2]", "[3]"))
    assert not is_hit("3")


class Limits:
    __slots__ = ("most", "other")

    def __init__(self, most: object) -> None:
        self.most, self.other = most, self


def power(n: int, exponent: int) -> int:
    return n**exponent


@pytest.mark.parametrize(
    "wrap", [Limits, lambda n: partial(power, exponent=n), lambda n: [{"a": (Limits(n),)}]]
)
def test_objects_count_with_what_they_hold(stem: Graph, wrap: Callable[[int], object]) -> None:
    def key(held: object) -> str:
        def is_small(n: int) -> bool:
            return n < id(held)

        table = FunctionTable()
        gerules.predicate(functions=table)(is_small)
        return compile_key(stem, gerules.load_rules(Source("uses.ger", USES), functions=table), OPTIONS)

    assert key(wrap(1)) == key(wrap(1)) != key(wrap(2))
    with pytest.raises(Uncacheable, match="most, a lock"):
        key(Limits(threading.Lock()))


def test_the_remedy_fits_the_reason(stem: Graph, book: RuleBook, on: Path) -> None:
    def hint(model: CompiledModel) -> str:
        assert model.cache is not None
        return model.cache.notes[0].hint

    assert "GERULES_CACHE_SIZE" in hint(make(stem, book, on, limit_bytes=10))
    lock = threading.Lock()

    def is_small(n: int) -> bool:
        return n < 2 and not lock.locked()

    table = FunctionTable()
    gerules.predicate(functions=table)(is_small)
    odd = gerules.load_rules(Source("uses.ger", USES), functions=table)
    assert "GERULES_CACHE_SIZE" not in hint(make(stem, odd, on))
