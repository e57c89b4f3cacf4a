"""MindIR files that are damaged or made to harm: always a code, never a traceback or a hang."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gerules
from gerules.frontends import load_mindir
from gerules.frontends.mindir import evaluate
from tests.frontends.mindir.messages import (
    data,
    export_of,
    exported,
    graph,
    model,
    number,
    old_attr,
    old_node,
    port,
    varint,
)

KNOWN = {
    "E10014", "E10015", "E10016", "E10023", "E10024", "E10025", "E10027", "E10028", "E10030", "E10060",
    "E10061", "E10062",
}  # fmt: skip

SMALL = sorted(exported(), key=lambda name: len(export_of(name)))[:10]


def codes_of(raw: bytes) -> set[str]:
    """Load a file; what it raises is codes of the front end, or nothing."""
    try:
        load_mindir(raw)
    except gerules.GerulesError as error:
        return {item.code.code for item in error.diagnostics}
    return set()


@functools.cache
def cached(name: str) -> bytes:
    return export_of(name)


@given(draw=st.data())
def test_flipped_bytes_give_codes(draw: st.DataObject) -> None:
    raw = bytearray(cached(draw.draw(st.sampled_from(SMALL))))
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(raw) - 1))
        raw[at] ^= draw.draw(st.integers(1, 255))
    assert codes_of(bytes(raw)) <= KNOWN


@given(draw=st.data())
def test_files_that_are_cut_give_codes(draw: st.DataObject) -> None:
    raw = cached(draw.draw(st.sampled_from(SMALL)))
    cut = raw[: draw.draw(st.integers(0, len(raw) - 1))]
    assert codes_of(cut) <= KNOWN


@given(raw=st.binary(max_size=400))
def test_any_bytes_give_codes(raw: bytes) -> None:
    assert codes_of(raw) <= KNOWN
    assert codes_of(data(1, "0.1.0") + data(7, raw)) <= KNOWN


@settings(max_examples=60)
@given(draw=st.data())
def test_what_survives_damage_still_compiles_or_says_why(draw: st.DataObject) -> None:
    raw = bytearray(cached(draw.draw(st.sampled_from(SMALL[:4]))))
    at = draw.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= 1 << draw.draw(st.integers(0, 7))
    try:
        gerules.compile(load_mindir(bytes(raw)), stop_after="prepare")
    except gerules.GerulesError as error:
        assert all(item.code.code != "E90001" for item in error.diagnostics)


def test_attributes_within_attributes_end() -> None:
    inner = old_attr("value", 1)
    for _ in range(5000):
        inner = data(1, "value") + data(17, inner) + number(16, 20)
    node = data(2, "y") + data(4, "Constant") + data(5, inner)
    assert codes_of(model(graph("g", [node], [], [port("y", ())]))) == {"E10060"}


def call(name: str, target: str, args: list[str]) -> bytes:
    return (
        b"".join(data(1, item) for item in args) + data(2, name) + data(3, name) + data(4, f"REF::{target}")
    )


def function(name: str, nodes: list[bytes]) -> bytes:
    return graph(name, nodes, [port(f"{name}:x", (1,))], [port(f"{name}:y", (1,))])


def test_a_function_that_only_calls_itself_is_refused() -> None:
    main = graph("g", [call("y", "f", ["x"])], [port("x", (1,))], [port("y", (1,))])
    own = function("f", [call("f:y", "f", ["f:x"])])
    assert codes_of(model(main, [own])) == {"E10062"}


def test_functions_that_call_each_other_without_end_are_refused() -> None:
    main = graph("g", [call("y", "f", ["x"])], [port("x", (1,))], [port("y", (1,))])
    first, second = function("f", [call("f:y", "h", ["f:x"])]), function("h", [call("h:y", "f", ["h:x"])])
    assert codes_of(model(main, [first, second])) == {"E10062"}


def test_a_long_chain_of_calls_is_bounded() -> None:
    main = graph("g", [call("y", "f0", ["x"])], [port("x", (1,))], [port("y", (1,))])
    chain = [function(f"f{n}", [call(f"f{n}:y", f"f{n + 1}", [f"f{n}:x"])]) for n in range(2000)]
    last = function("f2000", [old_node("ReLU", ["f2000:x"], "f2000:y", (1,))])
    assert codes_of(model(main, [*chain, last])) == {"E10025"}


def test_calls_that_double_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "_MOST_NODES", 10_000)
    main = graph("g", [call("y", "f0", ["x"])], [port("x", (1,))], [port("y", (1,))])
    doubling = [
        function(
            f"f{n}",
            [call(f"f{n}:a", f"f{n + 1}", [f"f{n}:x"]), call(f"f{n}:y", f"f{n + 1}", [f"f{n}:a"])],
        )
        for n in range(28)
    ]
    last = function("f28", [old_node("ReLU", ["f28:x"], "f28:y", (1,))])
    assert codes_of(model(main, [*doubling, last])) == {"E10027"}


def test_a_long_line_of_nodes_needs_no_stack() -> None:
    nodes = [old_node("ReLU", [f"v{n}"], f"v{n + 1}", (1,)) for n in range(20_000)]
    raw = model(graph("g", nodes[::-1], [port("v0", (1,))], [port("v20000", (1,))]))
    assert len(load_mindir(raw).nodes) == 20_000


def test_a_number_without_end_is_told() -> None:
    raw = data(1, "0.1.0") + varint(7 << 3 | 2) + b"\xff" * 20
    with pytest.raises(gerules.GerulesError, match="more than 64 bits"):
        load_mindir(raw)


def test_a_length_beyond_the_file_is_told() -> None:
    raw = data(1, "0.1.0") + varint(7 << 3 | 2) + varint(1 << 62)
    with pytest.raises(gerules.GerulesError, match="has 0 left"):
        load_mindir(raw)


def test_a_file_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    path.write_bytes(export_of("loop"))
    assert gerules.load(path).name == "Loop"
