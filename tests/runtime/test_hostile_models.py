"""Damaged and made-up offline models: they run, or they end in an error of ours; nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gerules.backend.emit import emit
from gerules.backend.om import OmError, OmGraph, OmList, OmModel, OmOp, OmTensor, ints, read_om, texts
from gerules.backend.om.model import OmAttr
from gerules.backend.om.write import om_chunks
from gerules.backend.plans import make_plans
from gerules.errors import GerulesError
from gerules.ir import Body, GraphEditor, parse_graph
from gerules.runtime.executor import Executor
from gerules.runtime.kernels import RunError

TEXT = """
graph victim:
    opset "" 18
    input x: f32[2, 8]
    input k: i64[1]
    W: const f32[8, 8] = fill(0.5)
    s: const i64[2] = [4, 4]
    a: f32[2, 8] = MatMul(x, W)
    b: f32[4, 4] = Reshape(a, s)
    c: f32[4, 4] @FRACTAL_NZ = Softmax(b, axis=1)
    i: f32[N, 4] = Gather(c, k, axis=0)
    d: f32[4, 4] = Clip(c, none, none)
    return d, i
"""
FEEDS = {"x": np.ones((2, 8), np.float32), "k": np.zeros(1, np.int64)}


def _model() -> OmModel:
    graph = parse_graph(TEXT)
    inner = parse_graph(
        "graph b:\n    input p: f32[4, 4]\n    q: f32[4, 4] = Tanh(p)\n    r: f32[4, 4] = Neg(q)\n"
        "    return r\n"
    )
    editor = GraphEditor(graph)
    last = graph.outputs[0]
    node = editor.add_node("ge::Fused", [last], bodies={"body": Body(inner)}, name="fused")
    editor.set_type(node.outputs[0], graph.type_of(last))
    editor.set_outputs([node.outputs[0], graph.outputs[1]])
    graph = editor.commit()
    return emit(graph, make_plans(graph, {}), engines={})


MODEL = _model()
BYTES = b"".join(om_chunks(MODEL))


def _survives(source: bytes | OmModel) -> None:
    """Load and run; errors of ours are fine, anything else is not."""
    try:
        model = read_om(source) if isinstance(source, bytes) else source
        executor = Executor(model, limit_bytes=1 << 24)
        feeds = {}
        for port in executor.io.inputs:
            feeds[port.name] = FEEDS.get(port.name, np.zeros((2, 8), np.float32))
        executor.run(feeds, poison=True)
    except GerulesError:
        pass


def test_the_model_itself_runs() -> None:
    assert set(Executor(read_om(BYTES)).run(FEEDS)) == {"output_0", "i"}


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, len(BYTES) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_changed_bytes(changes: list[tuple[int, int]]) -> None:
    data = bytearray(BYTES)
    for at, byte in changes:
        data[at] = byte
    _survives(bytes(data))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, len(BYTES)), st.binary(max_size=8), st.integers(0, 8))
def test_cut_and_spliced_bytes(at: int, piece: bytes, skip: int) -> None:
    _survives(BYTES[:at])
    _survives(BYTES[:at] + piece + BYTES[at + skip :])


_NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([2**31, 2**62, -(2**63), 511, 512, 1023, 4096]))
_SHAPES = st.lists(_NUMBERS, max_size=5).map(tuple)
_ATTRS: st.SearchStrategy[OmAttr] = st.one_of(
    _NUMBERS, st.text(max_size=6), st.booleans(), st.floats(), st.binary(max_size=4),
    st.lists(_NUMBERS, max_size=3).map(ints), st.lists(st.text(max_size=3), max_size=3).map(texts),
    st.sampled_from(["Conv", "If", "Loop", "Scan", "ge::Fused", "MatMul", "SequenceMap", "Resize"]),
    st.sampled_from(['{"a":["c",9]}', '{"axis":["i",99]}', '["tensor"]', '{"a":["l",[["l",[]]]]}']),
    st.just("[" * 5000),
)  # fmt: skip


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_changed_records(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(MODEL.graphs) - 1))
    graph = MODEL.graphs[at]
    place = data.draw(st.integers(0, len(graph.ops) - 1))
    op = _changed_op(data, graph.ops[place], graph)
    changed = replace(graph, ops=(*graph.ops[:place], op, *graph.ops[place + 1 :]))
    graphs = (*MODEL.graphs[:at], changed, *MODEL.graphs[at + 1 :])
    size = data.draw(st.one_of(st.just(MODEL.memory_size_bytes), _NUMBERS))
    has_tasks = data.draw(st.booleans())
    tasks = MODEL.tasks if has_tasks else replace(MODEL.tasks, is_stored=False)
    _survives(replace(MODEL, graphs=graphs, memory_size_bytes=size, tasks=tasks))


def _changed_op(data: st.DataObject, op: OmOp, graph: OmGraph) -> OmOp:
    kinds = ["offset", "shape", "attr", "dtype", "edge", "type", "format", "subgraph", "weights", "workspace"]
    match data.draw(st.sampled_from(kinds)):
        case "offset":
            return replace(op, output_offsets=tuple(data.draw(st.lists(_NUMBERS, max_size=3))))
        case "shape":
            return replace(op, output_descs=tuple(_shaped(data, d) for d in op.output_descs))
        case "dtype":
            number = data.draw(st.integers(0, 45))
            return replace(op, output_descs=tuple(replace(d, dtype=number) for d in op.output_descs))
        case "format":
            layout = data.draw(
                st.sampled_from(["FRACTAL_Z", "NC1HWC0", "NHWC", "nothing", "RESERVED", "FRACTAL_Z_3D"])
            )
            groups = data.draw(st.sampled_from([0, 1, 3, 65535]))
            descs = tuple(replace(d, layout=layout, sub_format=groups) for d in op.output_descs)
            return replace(op, output_descs=descs)
        case "edge":
            other = data.draw(st.sampled_from(graph.ops))
            index = data.draw(st.integers(-1, 2))
            edges = tuple(
                None if e is None else replace(e, producer=other.name, index=index) for e in op.inputs
            )
            return replace(op, inputs=edges)
        case "type":
            return replace(op, type=data.draw(st.sampled_from(["Data", "Const", "NetOutput", "Relu", ""])))
        case "subgraph":
            names = [item.name for item in MODEL.graphs]
            return replace(op, subgraphs=tuple(data.draw(st.lists(st.sampled_from(names), max_size=2))))
        case "workspace":
            return replace(
                op, workspace=tuple(replace(w, offset_bytes=data.draw(_NUMBERS)) for w in op.workspace)
            )
        case "weights" if "value" in op.attrs:
            value = op.attrs["value"]
            desc = replace(value.desc, data_offset=data.draw(_NUMBERS), shape=data.draw(_SHAPES))
            return replace(op, attrs={**op.attrs, "value": replace(value, desc=desc)})
        case _:
            names = [*op.attrs, "_gerules_op", "_gerules_attrs", "_gerules_n_inputs", "_gerules_default_of"]
            name = data.draw(st.sampled_from(names))
            return replace(op, attrs={**op.attrs, name: data.draw(_ATTRS)})


def _shaped(data: st.DataObject, desc: OmTensor) -> OmTensor:
    shape = data.draw(_SHAPES)
    return replace(desc, shape=shape, origin_shape=shape)


def test_models_of_others_are_told_apart() -> None:
    with pytest.raises(OmError) as caught:
        Executor(replace(MODEL, attrs={}))
    assert caught.value.code == "E80030"
    with pytest.raises(OmError) as caught:
        Executor(replace(MODEL, attrs={**MODEL.attrs, "_gerules_form": 99}))
    assert caught.value.code == "E80030"


def test_an_arena_beyond_the_limit_is_refused() -> None:
    with pytest.raises(RunError) as caught:
        Executor(replace(MODEL, memory_size_bytes=1 << 50))
    assert caught.value.code == "E70007"
    assert f"{1 << 36} are allowed" in str(caught.value)


def test_an_arena_beyond_the_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1024}.__getitem__)
    Executor(MODEL)
    with pytest.raises(RunError, match="this machine has 4194304") as caught:
        Executor(replace(MODEL, memory_size_bytes=4194305))
    assert caught.value.code == "E70007"


def test_every_fault_is_told_at_once() -> None:
    ops = [
        replace(op, output_offsets=(10**9,)) if op.type not in ("Const", "NetOutput") else op
        for op in MODEL.root.ops
    ]
    with pytest.raises(OmError) as caught:
        Executor(replace(MODEL, graphs=(replace(MODEL.root, ops=tuple(ops)), *MODEL.graphs[1:])))
    assert len(caught.value.diagnostics) >= 6


def test_bodies_that_call_themselves_end() -> None:
    body = MODEL.graphs[1]
    looped = replace(body, ops=tuple(
        replace(op, attrs={**op.attrs, "_gerules_bodies": texts(["body"])}, subgraphs=(body.name,))
        if op.type not in ("Data", "NetOutput") else op
        for op in body.ops
    ))  # fmt: skip
    with pytest.raises(OmError):
        Executor(replace(MODEL, graphs=(MODEL.root, looped)))


def test_definitions_that_are_none_are_refused() -> None:
    for text in ("rule", "gerules 99\n", "gerules 1\ndefine ge::A(x) -> y:\n    y = ge::A(x)\n", "\0"):
        try:
            Executor(replace(MODEL, attrs={**MODEL.attrs, "_gerules_defines": texts([text])}))
        except GerulesError:
            continue
    assert isinstance(MODEL.attrs["_gerules_defines"], OmList)
