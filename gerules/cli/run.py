"""`gerules run`: an `.om` executed by its own plan, and compared with what it was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gerules.cli.guard import DIFFERENT, guarded
from gerules.cli.options import DebugOption, JsonOption, check_writable, choose, read_dims
from gerules.cli.output import show, show_json

_INPUTS = "Inputs"
_PLAN = "The plan"
_CHECK = "Check"


@guarded
def run_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An .om; or an .onnx or .graph, by meaning.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=FILE.npy",
            help="An input, or all.npz with all of them. Without any, inputs are made up.",
            rich_help_panel=_INPUTS,
        ),
    ] = None,
    random: Annotated[
        bool, typer.Option("--random", help="Make up what --input leaves out.", rich_help_panel=_INPUTS)
    ] = False,
    seed: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="What made-up inputs follow from.", rich_help_panel=_INPUTS),
    ] = 0,
    dim: Annotated[
        list[str] | None,
        typer.Option(
            "--dim",
            metavar="N=2",
            help="A symbolic dimension of made-up inputs; default: the first of 1, 2, 4, ... that fits.",
            rich_help_panel=_INPUTS,
        ),
    ] = None,
    gear: Annotated[
        str | None,
        typer.Option(
            metavar="8",
            help="The gear of made-up inputs; default: the first that fits.",
            rich_help_panel=_INPUTS,
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL", help="Compare with this model, run another way.", rich_help_panel=_CHECK
        ),
    ] = None,
    against: Annotated[
        str, typer.Option(metavar="JUDGE", help="reference, or onnxruntime.", rich_help_panel=_CHECK)
    ] = "reference",
    rtol: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0.0,
            help="Largest error over the largest magnitude; default: 1e-4 for fp32, 2e-2 for fp16.",
            rich_help_panel=_CHECK,
        ),
    ] = None,
    poison: Annotated[
        bool,
        typer.Option("--poison", help="Spoil bytes as soon as the plan frees them.", rich_help_panel=_PLAN),
    ] = False,
    streams: Annotated[
        bool, typer.Option("--streams", help="Run each stream on its own thread.", rich_help_panel=_PLAN)
    ] = False,
    profile_ops: Annotated[
        bool, typer.Option("--profile-ops", help="Time each launch.", rich_help_panel=_PLAN)
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="OUT.npz", help="Write the outputs.", rich_help_panel="Output"
        ),
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run an .om by its own order and offsets, in one arena.

    A wrong plan gives wrong numbers: --check compares them with the model
    that the .om was made from, and ends with exit code 3 when they differ.

    \b
    Examples:
      gerules run resnet50.om --check resnet50.onnx --poison
      gerules run bert.om --input ids=ids.npy --input mask=mask.npy -o out.npz
      gerules run model.om --check model.onnx --against onnxruntime --json
    """
    from gerules.cli.feeds import feed_paths, read_feeds
    from gerules.cli.made_up import dims_of, run_made_up
    from gerules.cli.progress import Steps
    from gerules.cli.running import JUDGES, check_outputs, open_program, timed, write_outputs
    from gerules.report.run_report import RunReport, check_grid, describe_arrays
    from gerules.runtime.program import OpTime

    choose("--against", against, JUDGES)
    dims = read_dims(dim, least=0)
    check_writable([output], sources=[file, check, *feed_paths(inputs or ())])
    times: list[OpTime] = []
    with Steps(f"running {file.name}", 3 if check is not None else 2, is_quiet=json) as steps:
        steps.begin("reading")
        program = open_program(file, poison=poison, threads=streams, times=times if profile_ops else None)
        feeds = read_feeds(inputs or (), list(program.inputs))
        source = dict.fromkeys(feeds, "file")
        if random or not inputs:
            types = program.types_for(feeds, gear=gear, has_dims=bool(dims))
            rest = {
                name: type
                for name, type in types.items()
                if name not in feeds and name not in program.optional
            }
            steps.begin("running")
            tried = run_made_up(
                rest,
                lambda given: timed(program.run, given),
                dims=dims_of(types, feeds, rest) | dims,
                ranges=program.ranges,
                seed=seed,
                beside=feeds,
            )
            source |= dict.fromkeys(rest, f"seed {seed}")
            feeds, (outputs, took_us) = tried.feeds, tried.result
        else:
            steps.begin("running")
            outputs, took_us = timed(program.run, feeds)
        verdict = None
        if check is not None:
            steps.begin("checking")
            verdict = check_outputs(
                outputs, feeds, check, against=against, precision=program.precision, rtol=rtol
            )
    if output is not None:
        write_outputs(outputs, output)
    report = RunReport(
        str(file),
        ", ".join(filter(None, (program.how, program.gear_of(feeds)))),
        took_us,
        describe_arrays(feeds, source),
        describe_arrays(outputs),
        verdict,
        times,
    )
    if json:
        show_json(report.as_json() | ({} if output is None else {"written": str(output)}))
    else:
        show(report.array_grid())
        if times:
            show("", report.op_grid(), "", report.launch_grid())
        if verdict is not None:
            show("", check_grid([verdict]))
    if verdict is not None and not verdict.is_good:
        raise typer.Exit(DIFFERENT)
