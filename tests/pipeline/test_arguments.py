"""Arguments of wrong types: every public function says which, and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gerules
from gerules.errors import GerulesError
from gerules.errors.arguments import checked
from gerules.ir import Graph

TEXT = "graph g:\n    opset 17\n    input x: f32[N, 4]\n    y = Relu(x)\n    return y\n"

Call = Callable[[Graph, Any], object]


@pytest.fixture(scope="module")
def relu() -> Graph:
    return gerules.parse_graph(TEXT)


def said(call: Callable[[], object]) -> str:
    with pytest.raises(GerulesError) as caught:
        call()
    assert caught.value.diagnostics[0].hint
    return str(caught.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("dynamic_batch_size", 5), ("device", None), ("rules", 5), ("rules", ["a.ger", 5]), ("enable", 3),
        ("input_shapes", 5), ("input_shapes", ["x:-1,4"]), ("input_shapes", {"x": None}), ("cache", 5),
        ("input_shapes", {3: [1]}), ("input_shapes", {"x": "-1,4"}), ("input_shapes", {"x": [[1], 4]}),
        ("cache", "\0x"), ("cache", ""), ("dims", 5), ("dims", {"N": "2"}), ("dims", {3: 2}), ("params", 5),
        ("n_streams", "2"), ("n_streams", 0), ("n_streams", True), ("memory_limit_bytes", -1),
        ("memory_limit_bytes", 2.5), ("stop_after", 5), ("observe", 5), ("precision", b"fp16"),
        ("fusion_switch_file", 5), ("keep_dtype", {"a": 1}), ("compile_hybrid_mode", 7),
        ("dynamic_dims", [[1.5]]), ("pipeline", None),
    ],
)  # fmt: skip
def test_options_of_a_compile(relu: Graph, option: str, value: Any) -> None:
    message = said(lambda: gerules.compile(relu, **{option: value}))
    assert message.startswith(f"error[E10003]: {option} cannot be ") and "hint: give" in message


def test_what_is_taken_is_taken(relu: Graph) -> None:
    for shapes in ({"x": np.array([2, 4])}, {"x": (None, 4)}, {"x": [np.int64(2), 4]}, "x:-1,4"):
        gerules.compile(relu, input_shapes=shapes)  # type: ignore[arg-type]  # wider than what is declared
    gerules.compile(relu, dims={"N": np.int64(3)}, enable=[], disable=("fuse",), compile_hybrid_mode=0)  # type: ignore[dict-item]  # a number of numpy


def test_all_are_told_at_once_in_words(relu: Graph) -> None:
    message = said(lambda: gerules.compile(relu, device=5, input_shapes=7))  # type: ignore[arg-type]  # on purpose
    assert "device cannot be 5" in message and "input_shapes cannot be 7" in message
    assert "give a text, None or a mapping of texts to lists of sizes" in message


@pytest.mark.parametrize(
    "call",
    [
        lambda g, no: gerules.load(no),
        lambda g, no: gerules.load_rules(no),
        lambda g, no: gerules.load_rules((), functions=no),
        lambda g, no: gerules.rewrite(no),
        lambda g, no: gerules.rewrite(g, rules=no),
        lambda g, no: gerules.rewrite(g, max_growth="x"),  # type: ignore[arg-type]  # on purpose
        lambda g, no: gerules.save(no, "x.onnx"),
        lambda g, no: gerules.save(g, no),
        lambda g, no: gerules.compile(no),
        lambda g, no: gerules.compile(g).save(no),
        lambda g, no: gerules.compile(g).run(no),
        lambda g, no: gerules.compile(g).ledger(no),
        lambda g, no: gerules.draft(g, no),
        lambda g, no: gerules.draft(no, "y"),
        lambda g, no: gerules.find(g, no),
        lambda g, no: gerules.find(g, "Relu(x)", where=no),
        lambda g, no: gerules.bisect(g, no),
        lambda g, no: gerules.bisect(g, {}, rtol="x"),  # type: ignore[arg-type]  # on purpose
        lambda g, no: gerules.bisect(g, {}, most_compiles=0),
        lambda g, no: gerules.bisect(g, {}, devise="host"),
        lambda g, no: gerules.parse_graph(no),
        lambda g, no: gerules.print_graph(no),
        lambda g, no: gerules.predicate(name=no)(lambda n: True),
        lambda g, no: gerules.function(no),
        lambda g, no: gerules.register_fusion_pattern(name=no)(lambda: ""),
        lambda g, no: gerules.unregister_fusion_pattern(no),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [5, object(), {3: 4}])
def test_every_public_function(relu: Graph, call: Call, value: Any) -> None:
    said(lambda: call(relu, value))


def test_a_value_that_cannot_be_shown_is_told(tmp_path: Path) -> None:
    class Odd:
        def __repr__(self) -> str:
            raise OSError("no")

    @checked()
    def takes(n: int) -> int:
        return n

    assert "a Odd, which cannot be shown (OSError)" in said(lambda: takes(Odd()))  # type: ignore[arg-type]  # on purpose
    assert takes(4) == 4 and takes.__name__ == "takes"
