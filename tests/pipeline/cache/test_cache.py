"""The compile cache: what counts as the same compile, and that no state of its folder changes a result."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gerules
from gerules.dsl import RuleBook
from gerules.errors import Source
from gerules.ir import Graph, parse_graph
from gerules.pipeline import CompileOptions, compile_graph, shipped_rules
from gerules.pipeline.cache import CacheSettings, EntryStore, KeptModel, cache_settings, compile_cached
from gerules.pipeline.cache.kept import parts_of, read_kept
from gerules.pipeline.cache.key import compile_key
from gerules.pipeline.fusion_switch import parse_fusion_switch
from gerules.pipeline.model import CompiledModel
from tests.pipeline.cache.cached import OPTIONS, STEM, codes, make

SCALED = """\
gerules 1

rule scaled in my.moves "Relu(k * x) = k * Relu(x) for a positive number k":
    inexact "one rounding moves"
    once
    match:
        y = Relu(Mul(x, k: const))
    where:
        is_scalar(k) and scalar(k) > 0      else "the factor is not one positive number"
    rewrite:
        y = Mul(Relu(x), k)
"""


@pytest.fixture(scope="module")
def compiled(stem: Graph, book: RuleBook) -> CompiledModel:
    return CompiledModel(compile_graph(stem, book, OPTIONS))


def saved(model: CompiledModel, path: Path) -> bytes:
    assert model.save(path) == path.stat().st_size
    return path.read_bytes()


# ---------------------------------------------------------------- a hit
def test_a_hit_gives_what_the_compile_gave(
    stem: Graph, book: RuleBook, compiled: CompiledModel, on: Path, tmp_path: Path
) -> None:
    first, second = make(stem, book, on), make(stem, book, on)
    assert first.cache is not None and not first.cache.is_hit
    assert second.cache is not None and second.cache.is_hit and second.cache.key == first.cache.key
    assert isinstance(second, KeptModel) and "compilation" not in vars(second)
    plain = saved(compiled, tmp_path / "plain.om")
    assert plain == saved(first, tmp_path / "first.om") == saved(second, tmp_path / "second.om")
    assert second.summary() == first.summary()
    assert [item.as_json() for item in second.stage_counts] == [item.as_json() for item in first.stages]
    for with_sites in (False, True):
        assert second.fusion_result(with_sites=with_sites) == first.fusion_result(with_sites=with_sites)
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8), np.float32)
    np.testing.assert_array_equal(second.run({"x": x})["y"], first.run({"x": x})["y"])
    assert "compilation" not in vars(second), "nothing so far needed a compile"
    assert [item.as_json() for item in second.trace.applications] == [
        item.as_json() for item in first.trace.applications
    ]
    assert len(second.stages) == len(first.stages) and second.memory_plan is not None


def test_the_library_uses_no_cache_unless_told(on: Path, tmp_path: Path) -> None:
    model = tmp_path / "stem.graph"
    model.write_text(STEM)
    assert gerules.compile(model, dims={"N": 1}).cache is None
    assert not on.exists()
    assert not use_of(gerules.compile(model, dims={"N": 1}, cache=True))
    assert use_of(gerules.compile(model, dims={"N": 1}, cache=True)) and on.is_dir()
    other = tmp_path / "other"
    assert not use_of(gerules.compile(model, dims={"N": 1}, cache=other))
    assert use_of(gerules.compile(model, dims={"N": 1}, cache=str(other)))


def use_of(model: CompiledModel) -> bool:
    assert model.cache is not None
    return model.cache.is_hit


def test_a_compile_that_stops_early_is_not_kept(stem: Graph, book: RuleBook, on: Path) -> None:
    options = dataclasses.replace(OPTIONS, stop_after="prepare")
    assert compile_cached(stem, book, options, CacheSettings(on)).cache is None
    assert not on.exists()


def test_warnings_of_a_switch_file_are_those_of_the_compile(stem: Graph, book: RuleBook, on: Path) -> None:
    switch = parse_fusion_switch(Source("fusion.cfg", "NoSuchPass:off\n"))
    options = dataclasses.replace(OPTIONS, fusion_switch=switch)
    first, second = (compile_cached(stem, book, options, CacheSettings(on)) for _ in range(2))
    assert use_of(second) and [item.code.code for item in second.warnings] == ["E21010"]
    assert first.warnings == second.warnings


# ---------------------------------------------------------------- the key
OTHER_OPTIONS = {
    "device": "ascend310",
    "precision": "fp16",
    "profile": "strict",
    "enable": ("conv_bias",),
    "disable": ("conv_bias",),
    "params": {"MAX": 3},
    "pipeline": "fusion",
    "input_shapes": {"x": (1, 3, 8, 8)},
    "dims": {"N": 2},
    "keep_dtype": ("c",),
    "fusion_switch": parse_fusion_switch(Source("fusion.cfg", "ConvBatchnormFusionPass:off\n")),
    "folds": False,
    "n_streams": 2,
    "memory_limit_bytes": 1 << 20,
    "stop_after": "plan",
}


@pytest.mark.parametrize("field", [item.name for item in dataclasses.fields(CompileOptions)])
def test_each_option_counts(stem: Graph, book: RuleBook, field: str) -> None:
    known = OTHER_OPTIONS.get(field, "a value of a field that this test does not know")
    other = dataclasses.replace(OPTIONS, **{field: known})
    assert compile_key(stem, book, other) != compile_key(stem, book, OPTIONS)


def test_the_text_of_a_switch_file_is_digested_once(
    stem: Graph, book: RuleBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"NoSuchPass{n}:off\n" for n in range(1000))
    fed: list[bytes] = []

    class Counted:
        def __init__(self, *content: bytes, digest_size: int) -> None:
            self.state = blake2b(*content, digest_size=digest_size)

        def update(self, content: bytes) -> None:
            fed.append(content)
            self.state.update(content)

        def digest(self) -> bytes:
            return self.state.digest()

        def hexdigest(self) -> str:
            return self.state.hexdigest()

    monkeypatch.setattr("hashlib.blake2b", Counted)
    options = dataclasses.replace(OPTIONS, fusion_switch=parse_fusion_switch(Source("fusion.cfg", text)))
    compile_key(stem, book, options)
    assert sum(text.encode() in content for content in fed) == 1


def test_each_part_of_a_graph_counts(book: RuleBook) -> None:
    edits = [
        ("random(1)", "random(2)"), ("3.0, 4.0]", "3.0, 4.5]"), ("f32[N", "f32[M"), ("pads=[1", "pads=[2"),
        ("opset 17", "opset 16"), ("Relu(s)", "Sigmoid(s)"), ("return y", "return y, s"),
        ("graph stem", "graph t"),
        ("    c = Conv(x, W, pads=[1, 1, 1, 1])", "    c = Conv(x, W, pads=[1, 1, 1, 1])  {name=\"c1\"}"),
        ("input x: f32[N, 3, 8, 8]", "input x: f16[N, 3, 8, 8]"),
    ]  # fmt: skip
    keys = {compile_key(parse_graph(text), book, OPTIONS) for text in edited(STEM, edits)}
    assert len(keys) == len(edits) + 1


def edited(text: str, edits: list[tuple[str, str]]) -> Iterator[str]:
    yield text
    for old, new in edits:
        assert old in text
        yield text.replace(old, new)


def test_an_equal_graph_has_an_equal_key(stem: Graph, book: RuleBook) -> None:
    assert compile_key(parse_graph(STEM), book, CompileOptions(dims={"N": 1})) == compile_key(
        stem, book, OPTIONS
    )


def test_every_byte_of_a_rule_file_counts(stem: Graph, tmp_path: Path) -> None:
    rules, keys = tmp_path / "scaled.ger", list[str]()
    for text in (SCALED, SCALED.replace("> 0 ", "> 1 "), SCALED + "# said\n", SCALED + " \n", SCALED):
        rules.write_text(text)
        keys.append(compile_key(stem, shipped_rules([rules]), OPTIONS))
    assert len(set(keys)) == 4 and keys[0] == keys[4]
    assert compile_key(stem, shipped_rules(), OPTIONS) not in keys


def test_a_file_that_is_included_counts(stem: Graph, tmp_path: Path) -> None:
    (tmp_path / "top.ger").write_text('gerules 1\n\ninclude "scaled.ger"\n')
    keys = set[str]()
    for text in (SCALED, SCALED.replace("> 0 ", "> 1 ")):
        (tmp_path / "scaled.ger").write_text(text)
        keys.add(compile_key(stem, shipped_rules([tmp_path / "top.ger"]), OPTIONS))
    assert len(keys) == 2


def test_weights_beside_a_model_count(book: RuleBook, tmp_path: Path) -> None:
    weights = np.arange(108, dtype=np.float32)
    text = STEM.replace("random(1)", 'file("w.bin", 0)')
    (tmp_path / "stem.graph").write_text(text)
    keys = set[str]()
    for value in (1.0, 2.0):
        weights[5] = value
        (tmp_path / "w.bin").write_bytes(weights.tobytes())
        keys.add(compile_key(gerules.load(tmp_path / "stem.graph"), book, OPTIONS))
    assert len(keys) == 2


# ---------------------------------------------------------------- entries that are not as written
def entry_of(folder: Path) -> Path:
    (found,) = EntryStore(folder, 1 << 30).entries()
    return found.path


@pytest.mark.parametrize("place", [0, 30, 200, 0.5, -1])
def test_a_damaged_entry_is_deleted_and_made_again(
    stem: Graph, book: RuleBook, on: Path, place: float
) -> None:
    make(stem, book, on)
    path = entry_of(on)
    good = path.read_bytes()
    at = int(len(good) * place) if isinstance(place, float) else place
    bad = bytearray(good)
    bad[at] ^= 1
    path.write_bytes(bad)
    again = make(stem, book, on)
    assert codes(again) == ["E10050"] and not use_of(again)
    assert path.read_bytes() != bytes(bad)
    assert use_of(make(stem, book, on))


@settings(max_examples=60)
@given(data=st.data())
def test_no_bytes_in_a_place_of_an_entry_are_believed(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = EntryStore(tmp_path_factory.getbasetemp() / "fuzzed", 1 << 20)
    key = "ab" * 32
    store.keep(key, [("one", 3, [b"abc"]), ("two", 40, [b"x" * 40])])
    good = store.path_of(key).read_bytes()
    kind = data.draw(st.sampled_from(["cut", "flip", "random", "longer"]))
    if kind == "cut":
        bad = good[: data.draw(st.integers(0, len(good) - 1))]
    elif kind == "flip":
        at, bit = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(0, 7))
        bad = good[:at] + bytes([good[at] ^ (1 << bit)]) + good[at + 1 :]
    elif kind == "longer":
        bad = good + data.draw(st.binary(min_size=1, max_size=20))
    else:
        bad = data.draw(st.binary(max_size=200))
    store.path_of(key).write_bytes(bad)
    found = store.find(key)
    assert found.parts is None and found.damage
    assert store.find(key).damage == "" and not store.entries()


def forged(report: object) -> dict[str, memoryview]:
    return {"report.json": memoryview(json.dumps(report).encode()), "model.om": memoryview(b"no om")}


@pytest.mark.parametrize(
    "report", [{}, [], None, {"summary": {}}, {"summary": {}, "stages": 3}, {"summary": None, "stages": [[]]}]
)
def test_a_forged_report_is_damage(report: object) -> None:
    with pytest.raises(ValueError, match="its report is not as it was written"):
        read_kept(forged(report))


def test_an_entry_of_another_key_is_damage(stem: Graph, book: RuleBook, on: Path) -> None:
    make(stem, book, on)
    path, store = entry_of(on), EntryStore(on, 1 << 30)
    other = "0" * 64
    store.path_of(other).parent.mkdir()
    path.replace(store.path_of(other))
    assert store.find(other).damage == "it is the entry of another key"


def test_nothing_that_runs_code_reads_an_entry() -> None:
    import gerules.pipeline.cache as package

    for path in Path(package.__file__).parent.glob("*.py"):
        assert not {"pickle", "marshal", "eval", "exec"} & set(path.read_text().replace("(", " ").split()), (
            path
        )


# ---------------------------------------------------------------- the folder
def test_a_read_only_folder_is_a_note_and_no_failure(
    stem: Graph, book: RuleBook, on: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)  # what root may do, the test runner's user may not
        model = make(stem, book, on)
    assert codes(model) == ["E10051"] and model.om.graphs
    on.write_text("a file where the folder belongs")
    assert codes(make(stem, book, on)) == ["E10051"]


def test_a_full_disk_is_a_note_and_leaves_nothing(
    compiled: CompiledModel, stem: Graph, book: RuleBook, on: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    class Full(io.RawIOBase):
        def write(self, _: object) -> int:
            raise OSError(28, "No space left on device")

        def writable(self) -> bool:
            return True

    real = Path.open

    def opened(self: Path, mode: str = "r", *args: object, **kwargs: object) -> object:
        if mode == "xb":
            self.touch()
            return Full()
        return real(self, mode, *args, **kwargs)  # type: ignore[arg-type]  # handed through

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        model = make(stem, book, on)
    assert model.cache is not None
    assert [note.message for note in model.cache.notes] == [
        f"the compile cache in {on} cannot be used: No space left on device"
    ]
    assert not [path for path in on.rglob("*") if path.is_file()]


def test_what_is_too_large_is_not_kept(stem: Graph, book: RuleBook, on: Path) -> None:
    model = make(stem, book, on, limit_bytes=1000)
    assert codes(model) == ["E10052"] and not on.exists()


def test_entries_longest_unused_are_dropped(tmp_path: Path) -> None:
    store = EntryStore(tmp_path, 1300)
    keys = [f"{n:064x}" for n in range(5)]
    for place, key in enumerate(keys[:3]):
        store.keep(key, [("part", 200, [bytes(200)])])
        os.utime(store.path_of(key), (place + 1, place + 1))
    assert store.find(keys[0]).parts is not None, "used now, so it is no longer the oldest"
    store.keep(keys[3], [("part", 200, [bytes(200)])])
    assert {entry.key for entry in store.entries()} == {keys[0], keys[2], keys[3]}
    assert sum(entry.size_bytes for entry in store.entries()) <= 1300


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    store = EntryStore(tmp_path, 1000)
    old, young = tmp_path / "ab" / ".1.tmp", tmp_path / "ab" / ".2.tmp"
    old.parent.mkdir()
    for path in (old, young):
        path.touch()
    os.utime(old, (1, 1))
    store.keep("ab" * 32, [("part", 1, [b"x"])])
    assert not old.exists() and young.exists()


def test_files_of_others_in_the_folder_stay(tmp_path: Path) -> None:
    mine = [tmp_path / "notes.txt", tmp_path / "ab" / "notes.txt", tmp_path / "deep" / f"{'0' * 64}.entry"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    store = EntryStore(tmp_path, 300)
    store.keep("ab" * 32, [("part", 1, [b"x"])])
    assert store.clear() == 1 and all(path.exists() for path in mine)


def write_and_read(folder: str, seed: int) -> list[str]:
    """In a process of its own: keep, find and drop, many times, a few keys among several writers."""
    store, faults = EntryStore(Path(folder), 4000), list[str]()
    rng = np.random.default_rng(seed)
    for _ in range(150):
        n = int(rng.integers(8))
        content = bytes([n]) * 700
        store.keep(f"{n:064x}", [("part", 700, [content])])
        found = store.find(f"{int(rng.integers(8)):064x}")
        if found.damage:
            faults.append(found.damage)
        elif found.parts is not None and len({*bytes(found.parts["part"])}) != 1:
            faults.append("mixed")
    return faults


def test_processes_share_a_folder(tmp_path: Path) -> None:
    with get_context("spawn").Pool(3) as pool:
        faults = pool.starmap(write_and_read, [(str(tmp_path), seed) for seed in range(3)])
    assert faults == [[], [], []]
    store = EntryStore(tmp_path, 4000)
    assert store.verify() == [] and not list(tmp_path.rglob("*.tmp"))


# ---------------------------------------------------------------- settings
def test_the_environment_says_where_and_how_much(
    monkeypatch: pytest.MonkeyPatch, on: Path, tmp_path: Path
) -> None:
    assert cache_settings() == CacheSettings(on, 2 * 1024**3)
    monkeypatch.setenv("GERULES_CACHE_SIZE", "1.5 MiB")
    assert cache_settings(tmp_path) == CacheSettings(tmp_path, 1536 * 1024)
    monkeypatch.delenv("GERULES_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_settings().folder == tmp_path / "xdg" / "gerules"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_settings().folder == tmp_path / ".cache" / "gerules"
    monkeypatch.setenv("GERULES_CACHE", "0")
    assert cache_settings(tmp_path).folder is None
    monkeypatch.setenv("GERULES_CACHE_SIZE", "much")
    with pytest.raises(gerules.GerulesError, match="GERULES_CACHE_SIZE cannot be much"):
        cache_settings()


def test_what_is_kept_can_be_read_back(compiled: CompiledModel, tmp_path: Path) -> None:
    parts = {
        name: memoryview(b"".join(bytes(chunk) for chunk in chunks)) for name, _, chunks in parts_of(compiled)
    }
    assert {name: len(parts[name]) for name in parts} == {name: size for name, size, _ in parts_of(compiled)}
    assert read_kept(parts).om == saved(compiled, tmp_path / "a.om")
