"""Profiles: msprof's files, ranges of the script, and subscriptions to models."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np

from gerules.compat import acl
from tests.compat.acl_session import (
    SCALE,
    TWO,
    build,
    dataset_of,
    empty_outputs,
    good,
    got,
    loaded,
    session,
)

__all__ = ["session"]


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    (path,) = folder.glob(f"PROF_*/mindstudio_profiler_output/{name}_*.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_profile_is_written(session: int, tmp_path: Path) -> None:
    model, desc = loaded(build(TWO, tmp_path / "two.om"))
    inputs = dataset_of([np.ones((2, 3), np.float16), np.ones(3, np.int64)])
    outputs = empty_outputs(desc)
    config = acl.prof.create_config([0], 0xFF, 0, 0x1 | 0x2 | 0x80)
    assert acl.prof.start(config) == 100043
    good(acl.prof.init(str(tmp_path / "profile")))
    assert acl.prof.init(str(tmp_path / "other")) == 100042
    assert acl.prof.stop(config) == 100043
    good(acl.prof.start(config))
    assert acl.prof.start(config) == 100042
    stamp = acl.prof.create_stamp()
    good(acl.prof.set_stamp_trace_message(stamp, "two runs, and more", 8))
    number = got(acl.prof.range_start(stamp))
    for _ in range(2):
        good(acl.mdl.execute(model, inputs, outputs))
    good(acl.prof.range_stop(number))
    assert acl.prof.range_stop(number) == 100000
    assert acl.prof.pop() == 100000
    good(acl.prof.push(stamp))
    good(acl.prof.pop())
    good(acl.prof.stop(config))
    good(acl.mdl.execute(model, inputs, outputs))  # not recorded
    good(acl.prof.destroy_config(config))
    good(acl.prof.finalize())

    summary = rows(tmp_path / "profile", "op_summary")
    assert [row["OP Type"] for row in summary] == ["Add", "Mul"] * 2
    assert {row["Infer ID"] for row in summary} == {summary[0]["Infer ID"], summary[2]["Infer ID"]}
    add, mul = summary[:2]
    assert (add["Input Shapes"], add["Input Data Types"]) == ('"2,3;2,3"', "FLOAT16;FLOAT16")
    assert (mul["Output Shapes"], mul["Output Data Types"]) == ('"3"', "INT64")
    assert all(float(row["Task Duration(us)"]) > 0 for row in summary)
    starts = [float(row["Task Start Time(us)"]) for row in summary]
    assert starts == sorted(starts)

    statistic = {row["OP Type"]: row for row in rows(tmp_path / "profile", "op_statistic")}
    assert {name: row["Count"] for name, row in statistic.items()} == {"Add": "2", "Mul": "2"}
    assert abs(sum(float(row["Ratio(%)"]) for row in statistic.values()) - 100) < 0.01

    calls = {(row["Level"], row["API Name"]): row for row in rows(tmp_path / "profile", "api_statistic")}
    assert calls["acl", "acl.mdl.execute"]["Count"] == "2"
    assert calls["msproftx", "two runs"]["Count"] == "2"
    assert len(rows(tmp_path / "profile", "task_time")) == 4

    (trace,) = (tmp_path / "profile").glob("PROF_*/mindstudio_profiler_output/msprof_*.json")
    events = json.loads(trace.read_text(encoding="utf-8"))
    assert {event["ph"] for event in events} == {"M", "X"}
    assert sum(event["ph"] == "X" and "Task Id" in event["args"] for event in events) == 4


def test_init_takes_a_configuration_that_profiles(tmp_path: Path) -> None:
    path = build(SCALE, tmp_path / "scale.om")
    config = tmp_path / "acl.json"
    config.write_text(json.dumps({"profiler": {"switch": "on", "output": str(tmp_path / "profile")}}))
    good(acl.init(str(config)))
    good(acl.rt.set_device(0))
    model, desc = loaded(path)
    good(acl.mdl.execute(model, dataset_of([np.ones((2, 4), np.float32)]), empty_outputs(desc)))
    good(acl.finalize())
    assert [row["OP Type"] for row in rows(tmp_path / "profile", "op_summary")] == ["Mul"]


def test_a_disk_that_refuses_is_told(session: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert acl.prof.init(str(tmp_path / "file" / "inside")) == 100000
    assert "E10004" in (acl.get_recent_err_msg() or "")


def test_subscribers_read_operators_from_a_pipe(session: int, tmp_path: Path) -> None:
    model, desc = loaded(build(TWO, tmp_path / "two.om"))
    read_end, write_end = os.pipe()
    config = acl.prof.create_subscribe_config(1, 0xFF, write_end)
    assert acl.prof.create_subscribe_config(1, 0xFF, 99_999) == 0
    assert acl.prof.model_unsubscribe(model) == 100043
    good(acl.prof.model_subscribe(model, config))
    assert acl.prof.model_subscribe(model, config) == 100033
    inputs = dataset_of([np.ones((2, 3), np.float16), np.ones(3, np.int64)])
    good(acl.mdl.execute(model, inputs, empty_outputs(desc)))
    good(acl.prof.model_unsubscribe(model))
    data = b""
    while part := os.read(read_end, 1 << 16):  # the end of the file: the pipe was closed
        data += part
    os.close(read_end)
    size = got(acl.prof.get_op_desc_size())
    address = acl.util.bytes_to_ptr(data)
    assert got(acl.prof.get_op_num(address, len(data))) == len(data) // size == 2
    assert [got(acl.prof.get_op_type_v2(address, len(data), at)) for at in (0, 1)] == ["Add", "Mul"]
    assert got(acl.prof.get_op_type(address, len(data), 1, 2)) == "Mu"
    assert acl.prof.get_model_id(address, len(data), 1) == model
    begin, end = acl.prof.get_op_start(address, len(data), 1), acl.prof.get_op_end(address, len(data), 1)
    assert end - begin == acl.prof.get_op_duration(address, len(data), 1) > 0
    assert acl.prof.get_op_name_v2(address, len(data), 2)[1] == 100000
    assert acl.prof.get_op_num(address, len(data) + 1)[1] == 100000
