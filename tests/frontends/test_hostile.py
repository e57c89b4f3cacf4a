"""Files from outside: whatever their bytes, a reader gives a graph or a coded error, and soon."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import onnx
import pytest

from gerules.errors import GerulesError
from gerules.frontends import ModelError, load, load_onnx
from gerules.frontends.onnx.wire import varint_bytes
from tests.frontends.models import MODELS, model_of

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
SEEDS = [maker()[0].SerializeToString() for maker in MODELS.values()]
SEEDS += [(LIGHT / "light_zfnet512.onnx").read_bytes(), (LIGHT / "light_squeezenet.onnx").read_bytes()]


def mutate(draw: random.Random) -> bytes:
    data = bytearray(draw.choice(SEEDS))
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        if not data:
            break
        place = draw.randrange(len(data))
        match draw.randrange(6):
            case 0:
                data[place] = draw.randrange(256)
            case 1:
                data[place] ^= 1 << draw.randrange(8)
            case 2:
                del data[place : place + draw.randrange(1, 20)]
            case 3:
                data[place] = draw.choice((0, 1, 127, 128, 255))
            case 4:
                other = draw.choice(SEEDS)
                start = draw.randrange(len(other))
                data[place:place] = other[start : start + draw.randrange(1, 40)]
            case _:
                del data[place:]
    return bytes(data)


@pytest.mark.parametrize("seed", range(6))
def test_mutated_files_never_break_the_reader(seed: int) -> None:
    draw = random.Random(seed)
    n_refused = 0
    for _ in range(150):
        start = time.process_time()
        try:
            load_onnx(mutate(draw))
        except GerulesError as fault:
            n_refused += 1
            assert str(fault)
        assert time.process_time() - start < 5
    assert 0 < n_refused < 150


def test_every_cut_is_refused_or_read() -> None:
    data = SEEDS[0]
    for size in range(len(data)):
        with pytest.raises(ModelError):
            load_onnx(data[:size])


def test_a_name_that_is_no_text_is_refused() -> None:
    base = model_of(
        "g (float[dim] xx) => (float[dim] yy) <float[1] ww = {1}> { yy = Conv <group=1> (xx, ww) }"
    )
    base.producer_name = "pp"
    data = base.SerializeToString()
    for name in (b"dim", b"xx", b"yy", b"ww", b"Conv", b"group", b"pp"):
        with pytest.raises(ModelError):
            load_onnx(data.replace(name, b"\xff" * len(name)))


def nested(levels: int) -> bytes:
    """If within If, written from the inside out."""
    graph = onnx.GraphProto(name="b")
    graph.node.add(op_type="Identity", input=["x"], output=["y"])
    graph.output.add(name="y")
    data = graph.SerializeToString()
    for _ in range(levels):
        attribute = b"\x0a\x0bthen_branch\xa0\x01\x05\x32" + varint_bytes(len(data)) + data
        node = b"\x0a\x01c\x12\x01y\x22\x02If\x2a" + varint_bytes(len(attribute)) + attribute
        data = b"\x0a" + varint_bytes(len(node)) + node + b"\x12\x01b\x62\x03\x0a\x01y"
    return b"\x08\x08\x3a" + varint_bytes(len(data)) + data + b"\x42\x04\x0a\x00\x10\x11"


@pytest.mark.parametrize("levels", [40, 5000])
def test_bodies_nested_without_end_are_refused(levels: int) -> None:
    with pytest.raises(ModelError) as caught:
        load_onnx(nested(levels))
    assert caught.value.code == "E10010"
    assert "nest more than 100 deep" in str(caught.value)


def chain_of_functions(n_functions: int, calls_each: int) -> onnx.ModelProto:
    model = model_of("g (float[3] x) => (float[3] y) { y = f.F0 (x) }", opsets='["" : 17, "f" : 1]')
    for level in range(n_functions):
        function = model.functions.add(name=f"F{level}", domain="f", input=["x"], output=["y"])
        function.opset_import.add(domain="", version=17)
        function.opset_import.add(domain="f", version=1)
        last, is_leaf = "x", level == n_functions - 1
        for call in range(calls_each):
            made = "y" if call == calls_each - 1 else f"v{call}"
            op, domain = ("Relu", "") if is_leaf else (f"F{level + 1}", "f")
            function.node.add(op_type=op, domain=domain, input=[last], output=[made])
            last = made
    return model


def test_functions_that_multiply_are_bounded() -> None:
    start = time.process_time()
    with pytest.raises(ModelError) as caught:
        load_onnx(chain_of_functions(40, 4))
    assert caught.value.code == "E10027"
    assert time.process_time() - start < 60


def test_bodies_and_long_names_in_functions_count() -> None:
    heavy_body = chain_of_functions(1, 1)
    branch = heavy_body.functions[0].node.add(op_type="If", input=["x"], output=["z"])
    attribute = branch.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH)
    for index in range(5000):
        attribute.g.node.add(op_type="Relu", input=["x"], output=[f"v{index}"])
    long_name = chain_of_functions(1, 1)
    long_name.functions[0].node[0].name = "n" * 1_000_000
    for model in (heavy_body, long_name):
        for index in range(200):
            model.graph.node.add(op_type="F0", domain="f", input=["x"], output=[f"u{index}"])
        start = time.process_time()
        with pytest.raises(ModelError) as caught:
            load_onnx(model.SerializeToString())
        assert "E10027" in {item.code.code for item in caught.value.diagnostics}
        assert time.process_time() - start < 30


def test_functions_that_nest_without_end_are_refused() -> None:
    with pytest.raises(ModelError) as caught:
        load_onnx(chain_of_functions(500, 1))
    assert "E10025" in {item.code.code for item in caught.value.diagnostics}
    assert len(load_onnx(chain_of_functions(40, 1)).nodes) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    for read in (load, load_onnx):
        with pytest.raises(ModelError) as caught:
            read(tmp_path / "pipe.onnx")
        assert caught.value.code == "E10001"


def test_empty_and_foreign_files_are_refused(tmp_path: Path) -> None:
    for name, data in (
        ("empty.onnx", b""),
        ("text.onnx", b"hello, world\n" * 500),
        ("zip.onnx", b"PK\3\4" * 99),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ModelError) as caught:
            load_onnx(tmp_path / name)
        assert caught.value.code == "E10010"
        assert name in str(caught.value)
