"""Whole flows of pyACL against numpy: synchronous, by streams, with callbacks, open shapes, bundles."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import gerules
from gerules.backend.om import write_bundle
from gerules.compat import acl
from tests.compat.acl_session import (
    H2D,
    OPEN,
    SCALE,
    TWO,
    build,
    dataset_of,
    empty_outputs,
    good,
    got,
    loaded,
    on_device,
    read_output,
    session,
)

__all__ = ["session"]

SCALES = np.array([1, 2, 3, 4], np.float32)


def test_a_model_runs_on_data_sets(session: int, tmp_path: Path) -> None:
    model, desc = loaded(build(TWO, tmp_path / "two.om"))
    assert (acl.mdl.get_num_inputs(desc), acl.mdl.get_num_outputs(desc)) == (2, 2)
    assert [acl.mdl.get_input_name_by_index(desc, at) for at in (0, 1)] == ["a", "b"]
    assert [acl.mdl.get_input_data_type(desc, at) for at in (0, 1)] == [1, 9]
    assert [acl.mdl.get_output_size_by_index(desc, at) for at in (0, 1)] == [12, 24]
    assert acl.mdl.get_input_format(desc, 0) == 2
    assert got(acl.mdl.get_output_index_by_name(desc, "d")) == 1
    assert got(acl.mdl.get_cur_output_dims(desc, 0)) == {"name": "c", "dimCount": 2, "dims": [2, 3]}
    a = np.arange(6, dtype=np.float16).reshape(2, 3)
    b = np.array([2, -3, 1 << 20], np.int64)
    inputs, outputs = dataset_of([a, b]), empty_outputs(desc)
    good(acl.mdl.execute(model, inputs, outputs))
    np.testing.assert_array_equal(read_output(outputs, 0, np.float16), (a + a).reshape(-1))
    np.testing.assert_array_equal(read_output(outputs, 1, np.int64), b * b)
    good(acl.mdl.unload(model))
    assert acl.mdl.execute(model, inputs, outputs) == 145003


def test_sizes_are_those_of_the_file(session: int, tmp_path: Path) -> None:
    path = build(SCALE, tmp_path / "scale.om")
    om = gerules.compile(gerules.parse_graph(SCALE)).om
    assert acl.mdl.query_size(path) == (om.memory_size_bytes, om.weights.size_bytes, 0)
    assert acl.mdl.query_size(str(tmp_path / "none.om")) == (0, 0, 145002)


@pytest.mark.parametrize("where", ["host", "device", "bytes"])
def test_a_model_loads_from_memory(session: int, tmp_path: Path, where: str) -> None:
    data = Path(build(SCALE, tmp_path / "scale.om")).read_bytes()
    if where == "device":
        address = on_device(data)
    else:
        address = acl.util.bytes_to_ptr(data)
        if where == "host":
            host = got(acl.rt.malloc_host(len(data)))
            good(acl.rt.memcpy(host, len(data), address, len(data), 0))
            address = host
    assert acl.mdl.load_from_mem(address, len(data) - 1)[1] == 145006
    assert acl.mdl.load_from_mem(address, len(data) + (1 << 20))[1] == 145007
    model = got(acl.mdl.load_from_mem(address, len(data)))
    if where == "host":  # the model keeps nothing of the caller's memory
        good(acl.rt.memset(address, len(data), 0xFF, len(data)))
    desc = acl.mdl.create_desc()
    good(acl.mdl.get_desc(desc, model))
    x = np.ones((2, 4), np.float32)
    outputs = empty_outputs(desc)
    good(acl.mdl.execute(model, dataset_of([x]), outputs))
    np.testing.assert_array_equal(read_output(outputs, 0, np.float32), (x * SCALES).reshape(-1))


def test_streams_run_in_order_and_callbacks_see_what_ran_before(session: int, tmp_path: Path) -> None:
    model, desc = loaded(build(SCALE, tmp_path / "scale.om"))
    stream = got(acl.rt.create_stream())
    is_over = threading.Event()
    seen: list[tuple[int, np.ndarray]] = []

    def work(arguments: object) -> None:
        context, timeout = arguments  # type: ignore[misc]  # what start_thread hands on is one list
        good(acl.rt.set_context(context))
        while not is_over.is_set():
            acl.rt.process_report(timeout)

    def on_result(arguments: object) -> None:
        at, outputs = arguments  # type: ignore[misc]  # as above
        seen.append((at, read_output(outputs, 0, np.float32)))

    thread = got(acl.util.start_thread(work, [session, 20]))
    good(acl.rt.subscribe_report(thread, stream))
    assert acl.rt.subscribe_report(thread, stream) == 100033
    for at in range(5):
        outputs = empty_outputs(desc)
        inputs = dataset_of([np.full((2, 4), at, np.float32)])
        good(acl.mdl.execute_async(model, inputs, outputs, stream))
        good(acl.rt.launch_callback(on_result, [at, outputs], 1, stream))
    good(acl.rt.synchronize_stream(stream))
    assert [at for at, _ in seen] == [0, 1, 2, 3, 4]
    for at, values in seen:
        np.testing.assert_array_equal(values, np.tile(SCALES * at, 2))
    good(acl.rt.unsubscribe_report(thread, stream))
    is_over.set()
    good(acl.util.stop_thread(thread))
    assert acl.util.stop_thread(thread) == 100000
    good(acl.rt.destroy_stream(stream))
    assert acl.rt.synchronize_stream(stream) == 107000


def test_callbacks_need_somebody_who_listens(session: int) -> None:
    stream = got(acl.rt.create_stream())
    assert acl.rt.launch_callback(print, [], 1, stream) == 107015
    assert acl.rt.process_report(0) == 100000
    assert acl.rt.process_report(10) == 107012
    me = threading.get_ident()
    good(acl.rt.subscribe_report(me, stream))
    assert acl.rt.process_report(10) == 507012

    def fails(_: object) -> None:
        raise ValueError("on purpose")

    good(acl.rt.launch_callback(fails, [], 0, stream))
    assert acl.rt.process_report(2000) == 500001
    assert "ValueError: on purpose" in (acl.get_recent_err_msg() or "")
    good(acl.rt.launch_callback(print, [], 0, stream))
    good(acl.rt.unsubscribe_report(me, stream))
    assert acl.rt.unsubscribe_report(me, stream) == 107012


def test_what_fails_in_a_stream_is_told_when_it_is_synchronized(session: int, tmp_path: Path) -> None:
    model, desc = loaded(build(SCALE, tmp_path / "scale.om"))
    stream = got(acl.rt.create_stream())
    inputs, outputs = dataset_of([np.ones((2, 4), np.float32)]), empty_outputs(desc)
    address = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(outputs, 0))
    good(acl.rt.free(address))
    good(acl.mdl.execute_async(model, inputs, outputs, stream))
    assert acl.rt.synchronize_stream(stream) == 145007
    assert "were freed" in (acl.get_recent_err_msg() or "")
    good(acl.rt.synchronize_stream(stream))


def test_events_order_streams_and_measure(session: int, tmp_path: Path) -> None:
    first, second = got(acl.rt.create_stream()), got(acl.rt.create_stream())
    begin, end = got(acl.rt.create_event()), got(acl.rt.create_event())
    assert acl.rt.event_elapsed_time(begin, end) == (0.0, 107006)
    data = np.arange(1 << 20, dtype=np.uint8)
    source, middle = on_device(data.tobytes()), got(acl.rt.malloc(data.nbytes, 0))
    target = got(acl.rt.malloc_host(data.nbytes))
    good(acl.rt.record_event(begin, first))
    good(acl.rt.memcpy_async(middle, data.nbytes, source, data.nbytes, 3, first))
    good(acl.rt.record_event(end, first))
    good(acl.rt.stream_wait_event(second, end))
    good(acl.rt.memcpy_async(target, data.nbytes, middle, data.nbytes, 2, second))
    good(acl.rt.synchronize_stream(second))
    assert acl.util.ptr_to_bytes(target, data.nbytes) == data.tobytes()
    good(acl.rt.synchronize_event(end))
    took_ms, code = acl.rt.event_elapsed_time(begin, end)
    assert code == 0
    assert took_ms > 0
    good(acl.rt.destroy_event(begin))
    assert acl.rt.event_elapsed_time(begin, end)[1] == 107000


def test_open_shapes_are_described_and_outputs_allocated_by_the_run(session: int, tmp_path: Path) -> None:
    model, desc = loaded(build(OPEN, tmp_path / "open.om"))
    assert acl.mdl.get_input_size_by_index(desc, 0) == 0
    assert got(acl.mdl.get_input_dims_v2(desc, 0))["dims"] == [-1, 4]
    assert got(acl.mdl.get_input_dims_range(desc, 0)) == {"rangeCount": 2, "range": [[1, -1], [4, 4]]}
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    inputs, outputs = dataset_of([x]), empty_outputs(desc)
    assert acl.mdl.execute(model, inputs, outputs) == 145021
    for dtype, shape, code in ((1, [3, 4], 145022), (0, [3, 5], 145006), (0, [1, 5], 145021), (0, [3, 4], 0)):
        good(acl.mdl.set_dataset_tensor_desc(inputs, acl.create_tensor_desc(dtype, shape, 2), 0)[1])
        assert acl.mdl.execute(model, inputs, outputs) == code
    np.testing.assert_array_equal(read_output(outputs, 0, np.float32), 2 * x.reshape(-1))
    told = acl.mdl.get_dataset_tensor_desc(outputs, 0)
    sizes = [acl.get_tensor_desc_dim_v2(told, at) for at in range(acl.get_tensor_desc_num_dims(told))]
    assert sizes == [(3, 0), (4, 0)]
    assert acl.get_tensor_desc_size(told) == x.nbytes
    assert got(acl.mdl.get_cur_output_dims(desc, 0))["dims"] == [3, 4]
    good(acl.rt.free(acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(outputs, 0))))


FLAT = """graph flat:
    opset 17
    input x: f32[8]
    y: f32[8] = Neg(x)
    return y
"""


def test_what_one_model_gives_another_one_takes(session: int, tmp_path: Path) -> None:
    first, desc = loaded(build(SCALE, tmp_path / "scale.om"))
    second, flat_desc = loaded(build(FLAT, tmp_path / "flat.om"))
    opened, open_desc = loaded(build(OPEN, tmp_path / "open.om"))
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    inputs, between, after, last = (
        dataset_of([x]), empty_outputs(desc), empty_outputs(flat_desc), empty_outputs(open_desc),
    )  # fmt: skip
    good(acl.mdl.execute(first, inputs, between))
    # The run left the shape [2, 4]; the next model takes the same bytes as [8].
    good(acl.mdl.execute(second, between, after))
    scaled = x * np.arange(1, 5, dtype=np.float32)
    np.testing.assert_array_equal(read_output(after, 0, np.float32), -scaled.reshape(-1))
    # Of open shape it is what a run left there, as far as the model takes it; what the caller says is newer.
    good(acl.mdl.execute(opened, between, last))
    np.testing.assert_array_equal(read_output(last, 0, np.float32), 2 * scaled.reshape(-1))
    assert acl.mdl.execute(opened, after, last) == 145021
    good(acl.mdl.set_dataset_tensor_desc(after, acl.create_tensor_desc(0, [1, 4], 2), 0)[1])
    good(acl.mdl.execute(opened, after, last))
    np.testing.assert_array_equal(read_output(last, 0, np.float32)[:4], -2 * scaled[0])
    # To a model that knows its shape, a description says nothing.
    good(acl.mdl.execute(second, after, between))


def test_a_bundle_holds_several_models(session: int, tmp_path: Path) -> None:
    models = [gerules.compile(gerules.parse_graph(text)).om for text in (TWO, SCALE)]
    path = tmp_path / "bundle.om"
    assert write_bundle(models, path) == path.stat().st_size
    bundle = got(acl.mdl.bundle_load_from_file(str(path)))
    assert got(acl.mdl.bundle_get_model_num(bundle)) == 2
    model = got(acl.mdl.bundle_get_model_id(bundle, 1))
    assert acl.mdl.bundle_get_model_id(bundle, 2)[1] == 100000
    desc = acl.mdl.create_desc()
    good(acl.mdl.get_desc(desc, model))
    x = np.ones((2, 4), np.float32)
    outputs = empty_outputs(desc)
    good(acl.mdl.execute(model, dataset_of([x]), outputs))
    np.testing.assert_array_equal(read_output(outputs, 0, np.float32), (x * SCALES).reshape(-1))
    # A bundle is no single model.
    assert acl.mdl.load_from_file(str(path))[1] == 545002
    good(acl.mdl.bundle_unload(bundle))
    assert acl.mdl.bundle_unload(bundle) == 100011
    assert acl.mdl.get_desc(desc, model) == 145003


def test_data_sets_have_to_fit(session: int, tmp_path: Path) -> None:
    model, desc = loaded(build(TWO, tmp_path / "two.om"))
    a, b = np.zeros((2, 3), np.float16), np.zeros(3, np.int64)
    fitting, outputs = dataset_of([a, b]), empty_outputs(desc)
    assert acl.mdl.execute(model, dataset_of([a]), outputs) == 100017
    assert acl.mdl.execute(model, fitting, acl.mdl.create_dataset()) == 100018
    assert acl.mdl.execute(model, dataset_of([a, b[:2]]), outputs) == 145006
    host = acl.util.numpy_to_ptr(b)
    buffer = acl.mdl.get_dataset_buffer(fitting, 1)
    good(acl.update_data_buffer(buffer, host, b.nbytes))
    assert acl.mdl.execute(model, fitting, outputs) == 145007
    assert "host memory" in (acl.get_recent_err_msg() or "")
    good(acl.update_data_buffer(buffer, on_device(b.tobytes()) + 8, b.nbytes))
    assert acl.mdl.execute(model, fitting, outputs) == 145007


def test_gears_of_a_model_without(session: int, tmp_path: Path) -> None:
    model, desc = loaded(build(SCALE, tmp_path / "scale.om"))
    inputs = dataset_of([np.zeros((2, 4), np.float32)])
    assert got(acl.mdl.get_dynamic_batch(desc)) == {"batchCount": 0, "batch": []}
    assert got(acl.mdl.get_dynamic_hw(desc, -1)) == {"hwCount": 0, "hw": []}
    assert got(acl.mdl.get_input_dynamic_gear_count(desc, -1)) == 0
    assert acl.mdl.get_input_index_by_name(desc, "ascend_mbatch_shape_data")[1] == 100000
    assert acl.mdl.set_dynamic_batch_size(model, inputs, 0, 1) == 100019
    assert acl.mdl.set_dynamic_hw_size(model, inputs, 0, 1, 1) == 100019
    dims = {"name": "", "dimCount": 2, "dims": [2, 4]}
    assert acl.mdl.set_input_dynamic_dims(model, inputs, 0, dims) == 100019


def test_threads_have_contexts_of_their_own(session: int) -> None:
    codes: list[int] = []

    def work() -> None:
        codes.append(acl.rt.malloc(16, 0)[1])
        codes.append(acl.rt.get_context()[1])
        codes.append(acl.rt.set_context(session))
        codes.append(acl.rt.malloc(16, 0)[1])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert codes == [107002, 107002, 0, 0]
    other = got(acl.rt.create_context(0))
    assert got(acl.rt.get_context()) == other
    stream = got(acl.rt.create_stream())
    good(acl.rt.set_context(session))
    assert acl.rt.synchronize_stream(stream) == 107003
    good(acl.rt.destroy_context(other))
    assert acl.rt.set_context(other) == 107002
    assert acl.rt.synchronize_stream(stream) == 107000


def test_arrays_on_the_way_in_and_out(session: int) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    size = array.nbytes
    host = got(acl.rt.malloc_host(size))
    good(acl.rt.memcpy(host, size, acl.util.numpy_to_ptr(array), size, 0))
    view = acl.util.ptr_to_numpy(host, (2, 3), 11)
    np.testing.assert_array_equal(view, array)
    view[0, 0] = 7  # a view, not a copy
    assert np.frombuffer(acl.util.ptr_to_bytes(host, 4), np.float32)[0] == 7
    good(acl.rt.free_host(host))
    assert view[0, 0] == 7  # what a script still holds stays readable
    # Results may be copied into bytes, as scripts do.
    target = bytes(size)
    device = on_device(array.tobytes())
    good(acl.rt.memcpy(acl.util.bytes_to_ptr(target), size, device, size, 2))
    assert target == array.tobytes()
    assert H2D == 1
