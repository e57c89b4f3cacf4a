"""Offline models run as their graphs mean: random graphs through file, arena, poison, streams and threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gerules.backend.emit import emit
from gerules.backend.om import OmModel, read_om, write_om
from gerules.backend.om.write import om_chunks
from gerules.backend.plans import Plans, make_plans
from gerules.backend.schedule import EngineRule, StreamOptions
from gerules.frontends.onnx import load_onnx
from gerules.ir import Graph, broken_invariants, print_graph
from gerules.ops import infer_graph
from gerules.runtime.compare import compare
from gerules.runtime.executor import Executor, load_om
from gerules.runtime.kernels import RunError
from gerules.runtime.program import OpTime
from gerules.runtime.reference import evaluate
from tests.models.catalogue import find
from tests.models.oracle import assert_close
from tests.runtime.drawn_graphs import SCHEMAS, Feeds, graphs
from tests.runtime.onnx_cases import assert_wanted, model_cases
from tests.runtime.test_reference import RANDOM, SMALL, zoo_feeds

TWO_ENGINES = StreamOptions(rules={"b": EngineRule(max_parallel=2)})


def compile_graph(
    graph: Graph,
    *,
    engines: dict[int, str] | None = None,
    streams: StreamOptions | None = None,
    **options: bool,
) -> tuple[OmModel, Plans]:
    plans = make_plans(graph, engines or {}, streams=streams, **options)
    return emit(graph, plans, engines=engines or {}, schemas=SCHEMAS), plans


def reload(model: OmModel) -> OmModel:
    return read_om(b"".join(om_chunks(model)))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.data())
def test_random_graphs_run_as_they_mean(case: tuple[Graph, Feeds], data: st.DataObject) -> None:
    graph, feeds = case
    engines = {node: data.draw(st.sampled_from("abc")) for node in graph.nodes}
    options = {name: data.draw(st.booleans()) for name in ("keeps_ports", "keeps_order")}
    model, plans = compile_graph(graph, engines=engines, streams=TWO_ENGINES, **options)
    executor = Executor(reload(model))
    want = evaluate(graph, feeds)
    for how in ({"poison": True}, {"threads": True}, {}):
        got = executor.run(feeds, **how)
        result = compare(got, want)
        assert result.is_close(2e-3 if "f16" in print_graph(graph) else 1e-5), (how, result)
    assert executor.memory_bytes == plans.memory.peak_bytes


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_the_file_holds_the_whole_graph(case: tuple[Graph, Feeds]) -> None:
    graph, feeds = case
    model, _ = compile_graph(graph, streams=StreamOptions(is_single=True))
    again = Executor(reload(model)).graph
    assert broken_invariants(again) == []
    assert (again.name, again.opsets) == (graph.name, graph.opsets)
    assert [str(again.type_of(v)) for v in again.outputs] == [str(graph.type_of(v)) for v in graph.outputs]
    assert [again.values[v].name for v in again.inputs] == [graph.values[v].name for v in graph.inputs]
    assert _known_by(again) == _known_by(graph)
    assert compare(evaluate(again, feeds), evaluate(graph, feeds)).max_rel == 0


def _known_by(graph: Graph) -> list[tuple[object, ...]]:
    nodes = graph.nodes.values()
    return sorted((n.op, n.name, repr(dict(n.attrs)), repr(n.origin), len(n.inputs)) for n in nodes)


@pytest.mark.parametrize("part", range(8))
def test_onnx_node_cases_run_from_files(part: int) -> None:
    n_run = 0
    for case in model_cases()[part::8]:
        if case.name in RANDOM:
            continue
        graph = infer_graph(load_onnx(case.model), SCHEMAS)
        try:
            executor = Executor(reload(compile_graph(graph)[0]))
        except RunError as error:
            assert error.code == "E70001"
            continue
        except Exception as error:
            # Element types that the files have no number for.
            assert getattr(error, "code", "") == "E80020", case.name
            continue
        for feeds, want in case.data:
            got = executor.run(feeds, poison=True)
            assert_wanted(got, want, 5e-3 if "fp16" in case.name else case.rtol, case.atol)
            n_run += 1
    assert n_run > 190


@pytest.mark.parametrize("name", SMALL)
def test_models_run_from_files(name: str, tmp_path: Path) -> None:
    path = find(name)
    graph = infer_graph(load_onnx(path), SCHEMAS)
    feeds = zoo_feeds(path)
    write_om(compile_graph(graph)[0], tmp_path / "m.om")
    executor = load_om(tmp_path / "m.om")
    want = evaluate(graph, feeds)
    assert_close(executor.run(feeds, poison=True), want, 1e-6)
    assert_close(executor.run(feeds), want, 1e-6)


def test_io_profile_and_faults() -> None:
    graph = infer_graph(load_onnx(model_cases()[0].model), SCHEMAS)
    executor = Executor(reload(compile_graph(graph)[0]))
    (port,) = executor.io.inputs
    assert str(port.type) == str(graph.type_of(graph.inputs[0]))
    feeds = model_cases()[0].data[0][0]
    times: list[OpTime] = []
    seen: list[int] = []
    executor.run(feeds, profile=times, keep=lambda value, item: seen.append(value))
    assert [item.op for item in times] == [node.op for node in executor.graph.nodes.values()]
    assert all(item.took_us > 0 for item in times)
    assert len(seen) == len(times)
    with pytest.raises(RunError) as caught:
        executor.run({"nothing": np.zeros(1)})
    assert sorted(item.code.code for item in caught.value.diagnostics) == ["E20001", "E20002"]


def test_outputs_are_not_overwritten_by_the_next_run() -> None:
    graph = infer_graph(load_onnx(model_cases()[0].model), SCHEMAS)
    executor = Executor(reload(compile_graph(graph)[0]))
    (port,) = executor.io.inputs
    shape = port.type.static_shape
    one = executor.run({port.name: np.ones(shape, np.float32)})
    before = {name: item.copy() for name, item in one.items()}
    executor.run({port.name: np.full(shape, -3, np.float32)})
    for name, item in one.items():
        np.testing.assert_array_equal(item, before[name])
