"""What pyACL refuses: memory, handles, order of calls, files; always by a code, never by an exception."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gerules
from gerules.compat import acl
from tests.compat.acl_session import D2D, D2H, H2D, H2H, OPEN, SCALE, build, good, got, on_device, session

__all__ = ["session"]

# ---------------------------------------------------------------- memory


def test_sizes_are_checked(session: int) -> None:
    device, host = got(acl.rt.malloc(16, 0)), got(acl.rt.malloc_host(16))
    assert acl.rt.memcpy(device, 16, host, 16, H2D) == 0
    assert acl.rt.memcpy(device, 8, host, 16, H2D) == 107000
    assert acl.rt.memcpy(device, 17, host, 17, H2D) == 107000
    assert "takes 17 bytes; there are 16" in (acl.get_recent_err_msg() or "")
    assert acl.rt.memcpy(device + 8, 8, host + 8, 8, H2D) == 0
    assert acl.rt.memcpy(device + 8, 16, host, 9, H2D) == 107000
    acl.get_recent_err_msg()
    assert acl.rt.memcpy(device, 16, host, 0, H2D) == 107000
    assert "count is 0: there is nothing to copy" in (acl.get_recent_err_msg() or "")
    assert acl.rt.memset(device, 16, 0, 17) == 107000
    assert acl.rt.memset(device + 15, 1, 0, 1) == 0
    assert acl.rt.malloc(0, 0)[1] == 100000
    assert acl.rt.malloc(1 << 60, 0)[1] == 207001
    assert acl.util.ptr_to_bytes(host, 17) == b""
    assert acl.util.ptr_to_numpy(host, (5,), 11).size == 0


@pytest.mark.parametrize(
    ("kind", "target", "source", "code"),
    [
        (H2D, "device", "host", 0),
        (D2H, "host", "device", 0),
        (H2H, "host", "host", 0),
        (D2D, "device", "device", 0),
        (4, "device", "host", 0),
        (H2D, "host", "device", 107000),
        (D2H, "device", "host", 107000),
        (H2H, "device", "host", 107000),
        (D2D, "device", "host", 107000),
        (9, "device", "host", 100000),
        (-1, "device", "host", 100000),
    ],
)
def test_kinds_of_copies_are_checked(session: int, kind: int, target: str, source: str, code: int) -> None:
    blocks = {"device": got(acl.rt.malloc(8, 0)), "host": got(acl.rt.malloc_host(8))}
    others = {"device": got(acl.rt.malloc(8, 0)), "host": got(acl.rt.malloc_host(8))}
    assert acl.rt.memcpy(blocks[target], 8, others[source], 8, kind) == code


def test_memory_is_freed_once_and_where_it_lies(session: int) -> None:
    device, host = got(acl.rt.malloc(16, 0)), got(acl.rt.malloc_host(16))
    assert acl.rt.free(host) == 107000
    assert acl.rt.free_host(device) == 107000
    assert acl.rt.free(device + 4) == 107000
    assert acl.rt.free(0) == 100000
    good(acl.rt.free(device))
    assert acl.rt.free(device) == 107000
    assert acl.rt.memcpy(device, 16, host, 16, H2D) == 107000
    message = acl.get_recent_err_msg() or ""
    assert message.count("its 16 bytes were freed") == 2
    assert acl.get_recent_err_msg() is None


def test_foreign_addresses_are_not_touched(session: int) -> None:
    host = got(acl.rt.malloc_host(16))
    mine = np.arange(16, dtype=np.uint8)
    address = mine.ctypes.data
    assert acl.rt.memcpy(address, 16, host, 16, H2H) == 107000
    assert mine.tolist() == list(range(16))
    assert acl.util.ptr_to_bytes(address, 16) == b""
    assert acl.rt.memcpy(0xDEADBEEF, 16, host, 16, H2H) == 107000
    assert acl.rt.free_host(address) == 107000
    assert acl.util.numpy_to_ptr(mine) == address
    good(acl.rt.memcpy(host, 16, address, 16, H2H))
    assert acl.util.ptr_to_bytes(host, 16) == bytes(range(16))
    assert acl.rt.free_host(address) == 107000  # it is the array's, and stays so
    assert acl.util.numpy_to_ptr(np.arange(16).reshape(4, 4).T) == 0
    assert "do not lie in order" in (acl.get_recent_err_msg() or "")
    assert acl.util.numpy_to_ptr(np.array([object()])) == 0
    frozen = np.arange(4)
    frozen.flags.writeable = False
    assert acl.rt.memset(acl.util.numpy_to_ptr(frozen), 8, 0, 8) == 107000


def test_overlapping_arrays_are_all_known(session: int) -> None:
    whole = np.arange(64, dtype=np.uint8)
    part = whole[8:12]
    at_whole, at_part = acl.util.numpy_to_ptr(whole), acl.util.numpy_to_ptr(part)
    host = got(acl.rt.malloc_host(64))
    good(acl.rt.memcpy(host, 64, at_whole, 64, H2H))
    good(acl.rt.memcpy(host, 64, at_whole + 10, 50, H2H))
    good(acl.rt.memcpy(host, 64, at_part, 4, H2H))


def test_addresses_of_many_objects_stay_known_while_they_are_held(session: int) -> None:
    host = got(acl.rt.malloc_host(8))
    held = [np.full(8, at % 251, np.uint8) for at in range(800)]
    addresses = [acl.util.numpy_to_ptr(array) for array in held]
    for at in range(800):  # and as many that nobody holds
        acl.util.bytes_to_ptr(at.to_bytes(8, "little"))
    for array, address in zip(held, addresses, strict=True):
        good(acl.rt.memcpy(host, 8, address, 8, H2H))
        assert acl.util.ptr_to_bytes(host, 8) == array.tobytes()


def test_memory_counts(session: int) -> None:
    free, total, code = acl.rt.get_mem_info(1)
    assert code == 0
    assert 0 < free <= total
    address = got(acl.rt.malloc(1 << 20, 0))
    assert acl.rt.get_mem_info(1)[0] == free - (1 << 20)
    good(acl.rt.free(address))
    assert acl.rt.get_mem_info(0)[0] == free


# ---------------------------------------------------------------- handles and order


def test_handles_are_of_one_kind_and_end(session: int, tmp_path: Path) -> None:
    dataset, desc = acl.mdl.create_dataset(), acl.mdl.create_desc()
    stream, event = got(acl.rt.create_stream()), got(acl.rt.create_event())
    assert acl.mdl.destroy_dataset(desc) == 100000
    assert "it stands for a ModelDesc" in (acl.get_recent_err_msg() or "")
    assert acl.mdl.add_dataset_buffer(dataset, dataset) == (dataset, 100000)
    assert acl.rt.record_event(stream, event) == 107000
    assert acl.mdl.get_num_inputs(desc) == 0
    assert "acl.mdl.get_desc" in (acl.get_recent_err_msg() or "")
    good(acl.mdl.destroy_dataset(dataset))
    assert acl.mdl.destroy_dataset(dataset) == 100000
    assert "it was destroyed" in (acl.get_recent_err_msg() or "")
    assert acl.mdl.get_dataset_num_buffers(dataset) == 0
    assert acl.rt.set_context(stream) == 107002


def test_calls_have_an_order() -> None:
    assert acl.rt.set_device(0) == 100001
    assert acl.mdl.load_from_file("x.om") == (0, 100001)
    assert acl.mdl.create_dataset() == 0
    good(acl.init())
    assert acl.init() == 100002
    assert acl.rt.create_stream() == (0, 107002)
    assert acl.rt.set_device(7) == 107001
    good(acl.rt.set_device(0))
    good(acl.rt.reset_device(0))
    assert acl.rt.get_context() == (0, 107002)
    good(acl.finalize())
    assert acl.finalize() == 100037
    assert acl.rt.malloc(8, 0) == (0, 100001)
    assert "init" in (acl.get_recent_err_msg() or "")


def test_finalize_frees_everything(tmp_path: Path) -> None:
    path = build(SCALE, tmp_path / "scale.om")
    good(acl.init())
    good(acl.rt.set_device(0))
    model = got(acl.mdl.load_from_file(path))
    address, dataset = got(acl.rt.malloc(1 << 20, 0)), acl.mdl.create_dataset()
    stream = got(acl.rt.create_stream())
    good(acl.rt.subscribe_report(threading.get_ident(), stream))
    good(acl.rt.launch_callback(print, [], 1, stream))  # nobody will ever run it
    good(acl.finalize())
    good(acl.init())
    good(acl.rt.set_device(0))
    assert acl.mdl.unload(model) == 145003
    assert acl.rt.free(address) == 107000
    assert acl.mdl.destroy_dataset(dataset) == 100000
    free, total, _ = acl.rt.get_mem_info(0)
    assert free == total
    good(acl.finalize())


def test_a_configuration_is_read(tmp_path: Path) -> None:
    cases = {"{": 100006, "[]": 100006, '{"profiler": 3}': 100006, '{"dump": {"dump_path": "."}}': 100009}
    for at, (text, code) in enumerate(cases.items()):
        path = tmp_path / f"acl{at}.json"
        path.write_text(text)
        assert acl.init(str(path)) == code
    assert acl.init(str(tmp_path / "none.json")) == 100003
    (tmp_path / "good.json").write_text("{}")
    good(acl.init(str(tmp_path / "good.json")))
    good(acl.finalize())


# ---------------------------------------------------------------- what comes from outside


def test_files_that_are_no_models(session: int, tmp_path: Path) -> None:
    data = Path(build(SCALE, tmp_path / "scale.om")).read_bytes()
    cases = {
        "empty": (b"", 145000),
        "text": (b"hello, I am no model" * 40, 145000),
        "cut": (data[: len(data) // 2], 145006),
        "longer": (data + b"\0", 145006),
        "torn": (data[:300] + bytes(200) + data[500:], None),
    }
    for name, (content, code) in cases.items():
        path = tmp_path / f"{name}.om"
        path.write_bytes(content)
        model, found = acl.mdl.load_from_file(str(path))
        assert model == 0
        assert found == code if code else found >= 100000
    assert acl.mdl.load_from_file(str(tmp_path)) == (0, 145002)
    assert acl.mdl.load_from_file(str(tmp_path / "none.om")) == (0, 145002)
    assert acl.mdl.load_from_file("a\0b")[1] == 100000
    assert "E10001" in (acl.get_recent_err_msg() or "")


def run_blindly(model: int) -> int:
    """Run a model on what it says it wants; return the first code that is not 0."""
    desc = acl.mdl.create_desc()
    good(acl.mdl.get_desc(desc, model))
    sides = (
        (acl.mdl.get_num_inputs(desc), acl.mdl.get_input_size_by_index, acl.mdl.get_input_dims),
        (acl.mdl.get_num_outputs(desc), acl.mdl.get_output_size_by_index, acl.mdl.get_cur_output_dims),
    )
    datasets: list[int] = []
    for count, size_of, dims_of in sides:
        datasets.append(acl.mdl.create_dataset())
        for at in range(count):
            dims_of(desc, at)
            address, code = acl.rt.malloc(max(1, size_of(desc, at)), 0)
            if code != 0:
                return code
            buffer = acl.create_data_buffer(address, size_of(desc, at))
            good(acl.mdl.add_dataset_buffer(datasets[-1], buffer)[1])
    return acl.mdl.execute(model, *datasets)


@pytest.mark.parametrize("gears", ["", "1,2,8"])
def test_damaged_models_give_codes(session: int, tmp_path: Path, gears: str) -> None:
    path = tmp_path / "model.om"
    if gears:
        gerules.compile(gerules.parse_graph(OPEN), dynamic_batch_size=gears).save(path)
    else:
        build(SCALE, path)
    data = path.read_bytes()
    chosen = random.Random(7)
    codes: list[int] = []
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(chosen.randint(1, 4)):
            damaged[chosen.randrange(len(damaged))] = chosen.randrange(256)
        content = bytes(damaged)
        model, code = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(content), len(content))
        if code == 0:
            code = run_blindly(model)
            good(acl.mdl.unload(model))
        codes.append(code)
    assert len(set(codes)) > 3


WILD: list[object] = [
    None, -1, 0, 1, 1 << 63, 1 << 64, -(1 << 70), 0x10000, "", "x", b"", b"ab", 1.5, float("nan"), True, [],
    [1], {}, {"dims": [1]}, {"dims": "x"}, (), object(), np.zeros(3), np.int64(5), print,
]  # fmt: skip
WAITS = {"process_report", "finalize", "init", "start_thread", "stop_thread"}


def calls() -> list[Callable[..., object]]:
    modules = (acl, acl.rt, acl.mdl, acl.util, acl.prof)
    found = [getattr(module, name) for module in modules for name in dir(module) if name not in WAITS]
    return [call for call in found if callable(call)]


@pytest.mark.parametrize("call", calls(), ids=lambda call: call.__name__)
def test_no_argument_raises(session: int, call: Callable[..., object]) -> None:
    chosen = random.Random(call.__name__)
    n_parameters = len(inspect.signature(call).parameters)
    stream, dataset = got(acl.rt.create_stream()), acl.mdl.create_dataset()
    known = [
        session,
        stream,
        dataset,
        on_device(bytes(16)),
        got(acl.rt.malloc_host(16)),
        acl.mdl.create_desc(),
    ]
    for _ in range(40):
        call(*(chosen.choice([*WILD, *known]) for _ in range(n_parameters)))
    acl.get_recent_err_msg()
