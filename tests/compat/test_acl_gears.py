"""Models with gears by pyACL: which gears there are, choosing one, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gerules
from gerules.compat import acl
from tests.compat.acl_session import (
    OPEN,
    Array,
    empty_outputs,
    good,
    got,
    loaded,
    on_device,
    read_output,
    session,
)

__all__ = ["session"]

SHAPE_INPUT = "ascend_mbatch_shape_data"

IMAGE = """graph image:
    opset 17
    input x: f32[1, 2, H, W]
    k: const f32[] = 3.0
    y: f32[1, 2, H, W] = Mul(x, k)
    return y
"""

DIMS = """graph dims:
    opset 17
    input a: f32[N, 4]
    input b: f32[2, M]
    y: f32[N, 4] = Relu(a)
    z: f32[2, M] = Neg(b)
    return y, z
"""


def data_set(desc: int, arrays: list[Array]) -> tuple[int, int]:
    """Return a data set with room for the largest gear, holding arrays, and the place that chooses a gear."""
    found = acl.mdl.create_dataset()
    chooser = got(acl.mdl.get_input_index_by_name(desc, SHAPE_INPUT))
    assert chooser == len(arrays) == acl.mdl.get_num_inputs(desc) - 1
    for at in range(len(arrays) + 1):
        size = acl.mdl.get_input_size_by_index(desc, at)
        data = arrays[at].tobytes() if at < len(arrays) else b""
        address = on_device(data.ljust(size, b"\0"))
        good(acl.mdl.add_dataset_buffer(found, acl.create_data_buffer(address, size))[1])
    return found, chooser


def test_a_batch_is_chosen_for_each_run(session: int, tmp_path: Path) -> None:
    path = tmp_path / "batch.om"
    gerules.compile(gerules.parse_graph(OPEN), dynamic_batch_size="1,2,8").save(path)
    model, desc = loaded(str(path))
    assert got(acl.mdl.get_dynamic_batch(desc)) == {"batchCount": 3, "batch": [1, 2, 8]}
    assert got(acl.mdl.get_input_dims(desc, 0))["dims"] == [-1, 4]
    assert got(acl.mdl.get_input_dims_range(desc, 0))["range"] == [[1, 8], [4, 4]]
    assert acl.mdl.get_input_size_by_index(desc, 0) == acl.mdl.get_output_size_by_index(desc, 0) == 128
    outputs = empty_outputs(desc)
    for batch in (2, 8, 1):
        x = np.random.default_rng(batch).normal(size=(batch, 4)).astype(np.float32)
        inputs, chooser = data_set(desc, [x])
        assert acl.mdl.execute(model, inputs, outputs) == 145013  # none is chosen
        good(acl.mdl.set_dynamic_batch_size(model, inputs, chooser, batch))
        good(acl.mdl.execute(model, inputs, outputs))
        assert got(acl.mdl.get_cur_output_dims(desc, 0))["dims"] == [batch, 4]
        np.testing.assert_array_equal(read_output(outputs, 0, np.float32)[: x.size], 2 * x.reshape(-1))


def test_what_is_no_gear_is_refused(session: int, tmp_path: Path) -> None:
    path = tmp_path / "batch.om"
    gerules.compile(gerules.parse_graph(OPEN), dynamic_batch_size=[1, 2, 8]).save(path)
    model, desc = loaded(str(path))
    inputs, chooser = data_set(desc, [np.zeros((8, 4), np.float32)])
    assert acl.mdl.set_dynamic_batch_size(model, inputs, chooser, 3) == 145013
    message = acl.get_recent_err_msg() or ""
    assert "E71009" in message
    assert "1; 2; 8" in message
    assert acl.mdl.set_dynamic_batch_size(model, inputs, 0, 2) == 100000
    assert acl.mdl.set_dynamic_hw_size(model, inputs, chooser, 2, 2) == 100019
    assert "choose its batch instead" in (acl.get_recent_err_msg() or "")
    buffer = acl.mdl.get_dataset_buffer(inputs, chooser)
    address = acl.get_data_buffer_addr(buffer)
    good(acl.update_data_buffer(buffer, address, 2))
    assert acl.mdl.set_dynamic_batch_size(model, inputs, chooser, 2) == 145012
    good(acl.rt.free(address))
    good(acl.update_data_buffer(buffer, address, 4))
    assert acl.mdl.set_dynamic_batch_size(model, inputs, chooser, 2) == 145011


def test_the_size_of_an_image_is_chosen(session: int, tmp_path: Path) -> None:
    path = tmp_path / "image.om"
    gerules.compile(gerules.parse_graph(IMAGE), dynamic_image_size="4,4;2,6").save(path)
    model, desc = loaded(str(path))
    assert got(acl.mdl.get_dynamic_hw(desc, -1)) == {"hwCount": 2, "hw": [[4, 4], [2, 6]]}
    x = np.random.default_rng(0).normal(size=(1, 2, 2, 6)).astype(np.float32)
    inputs, chooser = data_set(desc, [x])
    outputs = empty_outputs(desc)
    assert acl.mdl.set_dynamic_hw_size(model, inputs, chooser, 6, 2) == 145013
    good(acl.mdl.set_dynamic_hw_size(model, inputs, chooser, 2, 6))
    good(acl.mdl.execute(model, inputs, outputs))
    assert got(acl.mdl.get_cur_output_dims(desc, 0))["dims"] == [1, 2, 2, 6]
    np.testing.assert_array_equal(read_output(outputs, 0, np.float32)[: x.size], 3 * x.reshape(-1))


@pytest.mark.parametrize("as_listed", [True, False])
def test_all_open_dimensions_are_chosen(session: int, tmp_path: Path, as_listed: bool) -> None:
    path = tmp_path / "dims.om"
    gerules.compile(gerules.parse_graph(DIMS), dynamic_dims="1,3;5,2").save(path)
    model, desc = loaded(str(path))
    assert got(acl.mdl.get_input_dynamic_gear_count(desc, -1)) == 2
    gears = got(acl.mdl.get_input_dynamic_dims(desc, -1, 2))
    assert [gear["dims"] for gear in gears] == [[1, 4, 2, 3], [5, 4, 2, 2]]
    a, b = np.full((5, 4), -1, np.float32), np.arange(4, dtype=np.float32).reshape(2, 2)
    inputs, chooser = data_set(desc, [a, b])
    outputs = empty_outputs(desc)
    wrong = {"name": "", "dimCount": 4, "dims": [2, 4, 2, 2]}
    assert acl.mdl.set_input_dynamic_dims(model, inputs, chooser, wrong) == 145013
    assert acl.mdl.set_input_dynamic_dims(model, inputs, chooser, {"dims": 3}) == 100000
    chosen = gears[1] if as_listed else {"name": "", "dimCount": 2, "dims": [5, 2]}
    good(acl.mdl.set_input_dynamic_dims(model, inputs, chooser, chosen))
    good(acl.mdl.execute(model, inputs, outputs))
    np.testing.assert_array_equal(read_output(outputs, 0, np.float32)[:20], np.zeros(20))
    np.testing.assert_array_equal(read_output(outputs, 1, np.float32)[:4], -b.reshape(-1))


def test_a_hybrid_model_runs_other_shapes_too(session: int, tmp_path: Path) -> None:
    path = tmp_path / "hybrid.om"
    gerules.compile(gerules.parse_graph(OPEN), dynamic_batch_size="1,2", compile_hybrid_mode=True).save(path)
    model, desc = loaded(str(path))
    x = np.ones((7, 4), np.float32)
    inputs, outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    for data in (x.tobytes(), bytes(4)):
        buffer = acl.create_data_buffer(on_device(data), len(data))
        good(acl.mdl.add_dataset_buffer(inputs, buffer)[1])
    good(acl.mdl.add_dataset_buffer(outputs, acl.create_data_buffer(0, 0))[1])
    good(acl.mdl.set_dataset_tensor_desc(inputs, acl.create_tensor_desc(0, [7, 4], 2), 0)[1])
    good(acl.mdl.execute(model, inputs, outputs))
    np.testing.assert_array_equal(read_output(outputs, 0, np.float32), 2 * x.reshape(-1))
    assert acl.mdl.get_num_inputs(desc) == 2
