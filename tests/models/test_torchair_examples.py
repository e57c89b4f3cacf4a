"""The scripts of examples/compat that are written for TorchAir, each in a process and a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.torch_nets import torch

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "compat"

PRINTED = {
    "torchair_cache.py": ["[3, 8]", "[1, 8]", "2 models in the cache"],
    "torchair_compile.py": ["largest difference below 0.0001"],
    "torchair_converter.py": ["equal"],
    "torchair_export.py": [],
    "torchair_gears.py": [
        "2 rows: equal",
        "4 rows: equal",
        "8 rows: equal",
        "5 rows: error[E10094]: dimension 0 of argument {at} is 5, which is none of its gears [2, 4, 8]",
    ],
    "torchair_replacement.py": ["aten.add.Tensor aten.relu.default aten.mul.Tensor"],
}


def test_every_script_is_run_here() -> None:
    assert sorted(path.name for path in FOLDER.glob("torchair_*.py")) == sorted(PRINTED)


def test_a_script_runs_unchanged(tmp_path: Path) -> None:
    text = (FOLDER / "torchair_converter.py").read_text(encoding="utf-8")
    script = tmp_path / "script.py"
    plain = text.replace("from gerules.compat import torchair", "import torchair")
    script.write_text(plain, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "gerules.compat", str(script)],
        env=os.environ | {"PYTHONPATH": str(FOLDER.parents[1])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (run.returncode, run.stdout) == (0, "equal\n"), run.stderr[-3000:]


@pytest.mark.parametrize("name", PRINTED)
def test_a_script(name: str, tmp_path: Path) -> None:
    assert torch.__version__
    run = subprocess.run(
        [sys.executable, str(FOLDER / name)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(FOLDER.parents[1]), "GERULES_CACHE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    # Torch decides on the names of arguments.
    printed = [re.sub(r"argument args_\d+", "argument {at}", line) for line in run.stdout.splitlines()]
    assert printed == PRINTED[name]
    made = {path.name.partition("_graph_")[0] for path in tmp_path.iterdir()}
    assert made == {
        "torchair_cache.py": {"cache"},
        "torchair_compile.py": {"dynamo_original", "dynamo_optimized"},
        "torchair_export.py": {"export_file"},
    }.get(name, set())
    if name == "torchair_export.py":
        assert {path.name for path in (tmp_path / "export_file").iterdir()} == {
            "export.om",
            "export.onnx",
            "dynamo.pbtxt",
        }
