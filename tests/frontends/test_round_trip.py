"""A model that is read and written again computes what it computed before."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from gerules.errors import Faults
from gerules.frontends import load_onnx, save_onnx, to_onnx
from gerules.frontends.onnx.structure import structure_digest
from gerules.ir.verify import broken_invariants
from tests.frontends.conftest import Run
from tests.frontends.models import MODELS, model_of

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def assert_same(got: list[object], want: list[object]) -> None:
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "resnet50"])
@pytest.mark.parametrize("external_data", [False, True], ids=["one_file", "external"])
def test_light_models_compute_the_same(name: str, external_data: bool, tmp_path: Path, run: Run) -> None:
    source = LIGHT / f"light_{name}.onnx"
    faults = Faults()
    graph = load_onnx(source, faults=faults)
    assert not broken_invariants(graph)
    assert not faults.diagnostics
    path = tmp_path / "model.onnx"
    save_onnx(graph, path, external_data=external_data)
    onnx.checker.check_model(path, full_check=True)
    (given,) = list(onnx.load(path).graph.input)
    shape = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
    x = np.random.default_rng(0).random(shape, np.float32)
    assert_same(run(path, {given.name: x}), run(source, {given.name: x}))
    assert structure_digest(load_onnx(path)) == structure_digest(graph)


@pytest.mark.parametrize("name", MODELS)
def test_every_construct_computes_the_same(name: str, tmp_path: Path, run: Run) -> None:
    model, feeds = MODELS[name]()
    onnx.checker.check_model(model)
    graph = load_onnx(model.SerializeToString())
    assert broken_invariants(graph) == []
    written = to_onnx(graph)
    onnx.checker.check_model(written, full_check=True)
    want = run(model, feeds)
    assert_same(run(written, feeds), want)
    save_onnx(graph, tmp_path / "m.onnx")
    assert_same(run(tmp_path / "m.onnx", feeds), want)
    assert structure_digest(load_onnx(written)) == structure_digest(graph)
    assert [item.name for item in written.graph.output] == [item.name for item in model.graph.output]
    assert [item.name for item in written.graph.input] == [item.name for item in model.graph.input]


def test_all_node_tests_survive() -> None:
    """Every operator of ONNX: sound, valid by the checker when the original is, and read back the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    assert len(cases) > 1000
    for case in cases:
        graph = load_onnx(case.model.SerializeToString())
        assert broken_invariants(graph) == [], case.name
        written = to_onnx(graph)
        try:
            onnx.checker.check_model(case.model)
        except onnx.checker.ValidationError:
            continue
        onnx.checker.check_model(written)
        assert structure_digest(load_onnx(written)) == structure_digest(graph), case.name
        counts = [sum(node.op_type != "Constant" for node in m.graph.node) for m in (case.model, written)]
        assert case.model.functions or counts[0] == counts[1], case.name


def test_names_and_metadata_are_kept() -> None:
    model, _ = MODELS["functions"]()
    model.producer_name, model.doc_string, model.model_version = "wer", "wozu", 7
    helper.set_model_props(model, {"Schlüssel": "Wert"})
    written = to_onnx(load_onnx(model))
    assert (written.producer_name, written.doc_string, written.model_version) == ("wer", "wozu", 7)
    assert {entry.key: entry.value for entry in written.metadata_props} == {"Schlüssel": "Wert"}


def test_names_are_unique_where_onnx_wants_them_so() -> None:
    model, _ = MODELS["branches"]()
    written = to_onnx(load_onnx(model))

    def check(graph: onnx.GraphProto, outer: frozenset[str]) -> None:
        here = [item.name for item in (*graph.input, *graph.initializer)]
        here += [name for node in graph.node for name in node.output if name]
        assert len(here) == len(set(here))
        assert not outer & set(here)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    check(attribute.g, outer | set(here))

    check(written.graph, frozenset())
    # Branches beside each other keep the names that the model gave them.
    texts = onnx.printer.to_text(written)
    assert len(re.findall(r"\bdeep = ", texts)) == 2


def test_inlined_nodes_tell_where_they_come_from() -> None:
    model, _ = MODELS["functions"]()
    model.graph.node[0].name = "call"
    graph = load_onnx(model)
    sources = {source for node in graph.nodes.values() for source in node.origin.sources}
    assert "call/y" in sources
    assert "call/a/t" in sources
    assert not any(node.op.startswith("local::") for node in graph.nodes.values())


def test_old_ir_makes_listed_initializers_constants() -> None:
    model, _ = MODELS["defaults"]()
    assert len(load_onnx(model).defaults) == 1
    model.ir_version = 3
    old = load_onnx(model)
    assert (len(old.inputs), len(old.defaults), len(old.consts)) == (1, 0, 2)


def test_a_function_may_return_its_input(run: Run) -> None:
    """onnxruntime refuses the original; expanded it is an Identity."""
    model = model_of(
        "g (float[3] x) => (float[3] y) { y = local.Pass (x) }",
        opsets='["" : 17, "local" : 1]',
        functions='<domain: "local", opset_import: ["" : 17]> Pass (x) => (x) { unused = Neg(x) }',
    )
    x = np.array([1.0, 2.0, 3.0], np.float32)
    assert_same(run(to_onnx(load_onnx(model)), {"x": x}), [x])


def test_nodes_may_come_in_any_order(run: Run) -> None:
    model, feeds = MODELS["branches"]()
    want = run(model, feeds)
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    graph = load_onnx(model)
    assert broken_invariants(graph) == []
    assert_same(run(to_onnx(graph), feeds), want)
