"""`gerules demo`: ResNet-50 compiled, run and checked for two devices, in one go."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gerules.cli.guard import DIFFERENT, guarded
from gerules.cli.options import DebugOption, JsonOption
from gerules.cli.output import show, show_json

if TYPE_CHECKING:
    from gerules.cli.demo_runs import DemoRun

_FOLDER = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="Keep the files here; default: none is kept."),
]


@guarded
def demo_command(output: _FOLDER = None, json: JsonOption = False, debug: DebugOption = False) -> None:
    """Compile, run and check ResNet-50 for ascend910b in fp16 and for this CPU in fp32.

    The network is the one in the onnx package, its weights are drawn from
    a seed. Each .om runs by its own plan, every freed byte spoiled, and must
    give what the ONNX model gives. Needs no device and no download.

    \b
    Examples:
      gerules demo
      gerules demo -o demo/
    """
    from gerules.cli.compiling import make_folder
    from gerules.cli.demo_runs import run_demo

    if output is not None:
        make_folder(output)
        runs = run_demo(output, is_quiet=json)
    else:
        with tempfile.TemporaryDirectory(prefix="gerules-demo-") as folder:
            runs = run_demo(Path(folder), is_quiet=json)
    if json:
        show_json({"runs": [run.as_json() for run in runs]})
    else:
        show("ResNet-50 as in the onnx package; its weights and the picture are drawn from seed 0", "")
        for run in runs:
            _show(run)
        if output is not None:
            show(f"kept in {output}; go on with: gerules show {output / 'ascend910b_fp16.om'}")
    if not all(check.is_good for run in runs for check in run.checks):
        raise typer.Exit(DIFFERENT)


def _show(run: DemoRun) -> None:
    from gerules.report.run_report import check_grid
    from gerules.report.tables import facts

    show(run.compiled.stage_grid(), "", facts(run.facts()), "", check_grid(run.checks), "")
