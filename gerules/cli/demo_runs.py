"""What the demo does: one network, two devices, each compiled, run by its plan and judged."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from gerules.cli.compiling import compile_model
from gerules.cli.demo_model import SEED, make_demo_model
from gerules.cli.errors import CliError
from gerules.cli.feeds import make_feeds
from gerules.cli.progress import Steps
from gerules.cli.running import JUDGES, ONNXRUNTIME, REFERENCE, judge, open_program, timed
from gerules.errors import table
from gerules.report.comparison import Array, compare_outputs
from gerules.report.compile_report import CompileReport
from gerules.report.quantities import time_text
from gerules.report.run_report import Check
from gerules.runtime.tolerances import default_rtol, reason_of_default
from gerules.text.files import write_files

TARGETS: Final = (("ascend910b", "fp16"), ("host", "fp32"))


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One device: what the compile did, how long the run took, how the outputs compare."""

    compiled: CompileReport
    run_us: float
    top: tuple[int, int]
    """The class that wins by the `.om`, and by the reference."""
    checks: tuple[Check, ...]

    def facts(self) -> list[tuple[str, str]]:
        """Return the sum of compile and run as names and values."""
        mine, wanted = self.top
        verdict = f"class {mine}, as by the reference" if mine == wanted else f"class {mine}, not {wanted}"
        return [
            *self.compiled.facts(),
            ("run on this CPU", f"{time_text(self.run_us)}, every freed byte spoiled"),
            ("first choice", verdict),
        ]

    def as_json(self) -> dict[str, object]:
        """Return the run as plain values: `compile`, `run_us`, `top_class`, `checks`."""
        return {
            "compile": self.compiled.as_json(),
            "run_us": round(self.run_us, 1),
            "top_class": {"om": self.top[0], "reference": self.top[1]},
            "checks": [check.as_json() for check in self.checks],
        }


def run_demo(folder: Path, *, is_quiet: bool) -> list[DemoRun]:
    """Write the network and an `.om` for each device into a folder; run and judge them.

    Raises:
        GerulesError: what making, writing, compiling or running raises.
    """
    path = folder / "resnet50.onnx"
    with Steps("demo", 2, is_quiet=is_quiet) as steps:
        steps.begin("drawing weights")
        data = make_demo_model().SerializeToString()
        try:
            write_files([(path, lambda file: file.write(data))])
        except OSError as error:
            raise CliError(table.CANNOT_WRITE, path=path, reason=error.strerror or str(error)) from None
        steps.begin("running the ONNX model")
        judges = [REFERENCE, *([ONNXRUNTIME] if importlib.util.find_spec(ONNXRUNTIME) else [])]
        feeds = _picture(path)
        wanted = {name: judge(path, feeds, name) for name in JUDGES if name in judges}
    return [
        _run_one(path, device, precision, feeds, wanted, is_quiet=is_quiet) for device, precision in TARGETS
    ]


def _run_one(
    path: Path,
    device: str,
    precision: str,
    feeds: Mapping[str, Array],
    wanted: Mapping[str, Mapping[str, Array]],
    *,
    is_quiet: bool,
) -> DemoRun:
    om_path = path.with_name(f"{device}_{precision}.om")
    compiled = compile_model(path, device=device, precision=precision, is_quiet=is_quiet)
    report = compiled.report(om_path.name, compiled.model.save(om_path))
    with Steps(f"running {om_path.name}", 1, is_quiet=is_quiet):
        program = open_program(om_path, poison=True, threads=False, times=None)
        outputs, run_us = timed(program.run, feeds)
    rtol, reason = default_rtol(precision), reason_of_default(precision)
    checks = [
        Check(path.name, against, reason, compare_outputs(outputs, want, rtol=rtol))
        for against, want in wanted.items()
    ]
    top = (_winner(outputs), _winner(wanted[REFERENCE]))
    return DemoRun(report, run_us, top, tuple(checks))


def _picture(path: Path) -> dict[str, Array]:
    program = open_program(path, poison=False, threads=False, times=None)
    return make_feeds(program.inputs, {}, SEED)


def _winner(outputs: Mapping[str, Array]) -> int:
    return int(np.argmax(next(iter(outputs.values()))))
