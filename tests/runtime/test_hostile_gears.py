"""Files whose gears were tampered with: an error that says what is wrong, or the run that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gerules.backend.emit_gears import CASE, MAP_INDEX, OPEN_TYPE, SHAPE_DATA, TABLE
from gerules.backend.om import OmAttr, OmGraph, OmModel, OmOp, TensorValue, ints, read_om
from gerules.backend.om.write import om_chunks
from gerules.errors import GerulesError
from gerules.runtime.executor import Executor
from tests.runtime.gear_models import compiled, reload

TEXT = """
graph g:
    opset 17
    input x: f32[N, 4]
    W: const f32[4, 4] = random(1)
    y = MatMul(x, W)
    return y
"""
MODEL = reload(compiled(TEXT, input_shapes="x:-1,4", dynamic_batch_size="1,2,4"))
TASKS = MODEL.tasks.tasks
BYTES = b"".join(om_chunks(MODEL))


def with_op(model: OmModel, name: str, change: Callable[[OmOp], OmOp | None], graph: int = 0) -> OmModel:
    """Change, or with None remove, one operator."""
    graphs = list(model.graphs)
    ops = [change(op) if op.name == name else op for op in graphs[graph].ops]
    graphs[graph] = replace(graphs[graph], ops=tuple(op for op in ops if op is not None))
    return replace(model, graphs=tuple(graphs))


def with_case(**attrs: OmAttr) -> OmModel:
    return with_op(MODEL, CASE, lambda op: replace(op, attrs={**op.attrs, **attrs}))


def without_branch(model: OmModel) -> OmModel:
    return replace(model, graphs=tuple(graph for graph in model.graphs if graph.name != "Batch_1"))


def other_table(op: OmOp) -> OmOp:
    """The table of gears, its bytes those of another constant."""
    value = op.attrs["value"]
    weight = next(op for op in MODEL.graphs[1].ops if op.type == "Const").attrs["value"]
    assert isinstance(value, TensorValue) and isinstance(weight, TensorValue)
    desc = replace(value.desc, data_offset=weight.desc.data_offset)
    return replace(op, attrs={"value": replace(value, desc=desc)})


def with_branches(*names: str) -> OmModel:
    return with_op(MODEL, CASE, lambda op: replace(op, subgraphs=names))


def renumbered(graph: OmGraph) -> OmGraph:
    ops = [
        replace(op, attrs={**op.attrs, "index": 3}) if op.name == SHAPE_DATA or op.type != "Data" else
        replace(op, attrs={**op.attrs, "index": 7})
        for op in graph.ops
    ]  # fmt: skip
    return replace(graph, ops=tuple(ops))


@pytest.mark.parametrize(
    ("model", "code"),
    [
        (with_case(mbatch_dynamic_type=9), "E80034"),
        (with_case(_batch_num=0), "E80034"),
        (with_case(_batch_num=1 << 40), "E80034"),
        (with_case(_batch_num=2), "E80034"),
        (with_case(_batch_num="three"), "E80034"),
        (with_case(_pred_value_1=ints([3])), "E80034"),
        (with_case(_pred_value_1=ints([])), "E80034"),
        (with_case(_pred_value_1="2"), "E80034"),
        (with_case(_gerules_bodies=ints([1])), "E80013"),
        (with_branches("Batch_0", "Batch_1"), "E80033"),
        (with_branches("Batch_0", "Batch_0", "Batch_0"), "E80033"),
        (with_branches("Batch_1", "Batch_0", "Batch_2"), "E80034"),
        (without_branch(MODEL), "E80033"),
        (with_op(MODEL, TABLE, other_table), "E80034"),
        (with_op(MODEL, "x", lambda op: replace(op, attrs={"index": 0})), "E80034"),
        (with_op(MODEL, "x", lambda op: replace(op, attrs={**op.attrs, OPEN_TYPE: "[]"})), "E80034"),
        (replace(MODEL, graphs=(renumbered(MODEL.root), *MODEL.graphs[1:])), "E80010"),
        (replace(MODEL, interface=replace(MODEL.interface, inputs=MODEL.inputs[:1])), "E80012"),
        (replace(MODEL, memory_size_bytes=16), "E80031"),
        (replace(MODEL, tasks=replace(MODEL.tasks, tasks=TASKS[1:])), "E80032"),
        (replace(MODEL, tasks=replace(MODEL.tasks, tasks=(*TASKS, replace(TASKS[0], op_id=999)))), "E80032"),
    ],
)  # fmt: skip
def test_gears_that_contradict_are_refused(model: OmModel, code: str) -> None:
    with pytest.raises(GerulesError) as caught:
        Executor(model)
    assert code in {item.code.code for item in caught.value.diagnostics}


def test_what_chooses_is_not_believed_when_it_is_gone() -> None:
    """The runtime chooses by shapes; a file without the operators that a device chooses by is damaged."""
    model = with_op(MODEL, MAP_INDEX, lambda _: None)
    with pytest.raises(GerulesError) as caught:
        Executor(model)
    assert caught.value.code in ("E80032", "E80033", "E80034")


def survives(source: bytes) -> None:
    try:
        executor = Executor(read_om(source), limit_bytes=1 << 22)
        for batch in (1, 2, 3):
            executor.run({"x": np.ones((batch, 4), np.float32)})
    except GerulesError:
        pass


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, len(BYTES) - 1), st.integers(0, 255))
def test_a_byte_changed_anywhere(at: int, byte: int) -> None:
    survives(BYTES[:at] + bytes([byte]) + BYTES[at + 1 :])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, len(BYTES)))
def test_a_file_cut_off_anywhere(at: int) -> None:
    survives(BYTES[:at])
