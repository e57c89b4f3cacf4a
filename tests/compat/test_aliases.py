"""Scripts that say `import acl` and `import ge` run unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import sys

import acl
import numpy as np
from beside import NAME
from ge.error import GeError
from ge.es.all import Relu
from ge.es.graph_builder import GraphBuilder, TensorHolder
from ge.graph.types import DataType
from ge.offline_compile import build_finalize, build_initialize, build_model, save_model

builder = GraphBuilder(NAME)
x = builder.create_input(index=0, name="x", data_type=DataType.DT_FLOAT, shape=[2, 3])
y = Relu(x) * 2.0
assert isinstance(y, TensorHolder)
builder.set_graph_output(y, 0)
build_initialize({"ge.socVersion": acl.get_soc_name()})
save_model(sys.argv[1], build_model(builder.build_and_reset(), {"input_format": "ND"}))
build_finalize()
assert "bytes_to_ptr" in dir(acl.util)
assert acl.init() == 0
assert acl.rt.set_device(0) == 0
model, ret = acl.mdl.load_from_file(sys.argv[1] + ".om")
print(__name__, ret, acl.finalize(), issubclass(GeError, RuntimeError))
"""


def run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gerules.compat", *map(str, arguments)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


def test_a_script_runs_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "script.py").write_text(SCRIPT)
    (folder / "beside.py").write_text('NAME = "net"\n')
    found = run("scripts/script.py", "net", cwd=tmp_path)
    assert (found.stdout, found.stderr, found.returncode) == ("__main__ 0 0 True\n", "", 0)


def test_a_script_that_is_not_there_is_told(tmp_path: Path) -> None:
    found = run("none.py", cwd=tmp_path)
    assert (found.returncode, found.stdout) == (2, "")
    assert "none.py cannot be read" in found.stderr
    assert run(cwd=tmp_path).returncode == 2
