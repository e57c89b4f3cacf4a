"""`gerules compile`: a model becomes an `.om`, and a table tells what happened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gerules.cli.errors import CliError
from gerules.cli.guard import DIFFERENT, guarded, warn
from gerules.cli.options import (
    BatchGearsOption,
    DebugOption,
    DimsGearsOption,
    HybridOption,
    ImageGearsOption,
    JsonOption,
    check_ending,
    check_writable,
    read_size,
)
from gerules.cli.output import show, show_json
from gerules.cli.target import rule_files, targeted
from gerules.errors import Diagnostic, table

if TYPE_CHECKING:
    from gerules.pipeline.asking import Target

_PLAN = "The plan"


@guarded
@targeted
def compile_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx, .mindir or .graph file.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT.om",
            help="The file to write; default: MODEL's name, .om, in the current folder.",
        ),
    ] = None,
    *,
    target: Target,
    dynamic_batch_size: BatchGearsOption = None,
    dynamic_image_size: ImageGearsOption = None,
    dynamic_dims: DimsGearsOption = None,
    compile_hybrid_mode: HybridOption = 0,
    fusion_switch_file: Annotated[
        Path | None,
        typer.Option(
            "--fusion-switch-file",
            "--fusion_switch_file",
            metavar="FILE",
            help="A fusion switch file of the Graph Engine, as it is.",
            rich_help_panel="Which rules",
        ),
    ] = None,
    streams: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Most streams; default: the device's.", rich_help_panel=_PLAN),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            "--memory-limit",
            metavar="SIZE",
            help="Largest arena, in bytes or like 512MiB; default: the device's memory.",
            rich_help_panel=_PLAN,
        ),
    ] = None,
    validate: Annotated[
        bool,
        typer.Option(
            "--validate",
            help="Run the .om on made-up inputs, and compare with the model.",
            rich_help_panel="Output",
        ),
    ] = False,
    dump: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the graph after each stage as text.", rich_help_panel="Output"
        ),
    ] = None,
    fusion_result: Annotated[
        Path | None,
        typer.Option(
            "--fusion-result",
            metavar="FILE",
            help="Write how often each pass matched, as the Graph Engine's fusion_result.json.",
            rich_help_panel="Output",
        ),
    ] = None,
    fusion_sites: Annotated[
        Path | None,
        typer.Option(
            "--fusion-sites",
            metavar="FILE",
            help="The same, with where each rule was applied, and why not elsewhere.",
            rich_help_panel="Output",
        ),
    ] = None,
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache",
            help="Neither take the result from the compile cache nor keep it.",
            rich_help_panel="Output",
        ),
    ] = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Compile a model to an .om file, and tell what happened, stage by stage.

    Nothing is written when the compile fails; a file is written whole or not
    at all. What was compiled before, from the same model with the same rules
    and options, is taken from the cache: see `gerules cache`. Ends with exit
    code 3 when --validate finds a difference.

    \b
    Examples:
      gerules compile resnet50.onnx -d ascend910b --precision fp16
      gerules compile bert.onnx -o bert.om --input-shape ids=1,128 --validate
      gerules compile net.onnx --input-shape x:-1,3,64,64 --dynamic-batch-size 1,4
      gerules compile model.onnx --rules my_rules/ --dump stages/ --json
      gerules compile model.onnx --fusion-switch-file fusion_switch.cfg
    """
    from gerules.cli.compiling import compile_model, make_folder
    from gerules.passes.gear_options import GearOptions
    from gerules.pipeline import save_fusion_result
    from gerules.pipeline.cache.settings import is_set_up
    from gerules.report.stage_dump import dump_stages
    from gerules.report.tables import facts

    limit_bytes = None if memory_limit is None else read_size("--memory-limit", memory_limit)
    # Of no name, and of a folder's, the reader says what is wrong.
    om_path = output if output is not None else Path(f"{model.stem}.om")
    check_ending(om_path, wanted=[".om"])
    if model.suffix.lower() == ".om" and model.is_file():
        raise CliError(
            table.UNKNOWN_FILE_KIND, path=model, verb="compiled",
            remedy="an .om is compiled already: run or show it, or give the model that it was made from",
        )  # fmt: skip
    sources = [model, fusion_switch_file, *rule_files(target)]
    check_writable([om_path, fusion_result, fusion_sites], sources=sources)
    if dump is not None:
        make_folder(dump)
    compiled = compile_model(
        model,
        gears=GearOptions(
            dynamic_batch_size, dynamic_image_size, dynamic_dims, is_hybrid=compile_hybrid_mode == 1
        ),
        fusion_switch_file=fusion_switch_file,
        n_streams=streams,
        memory_limit_bytes=limit_bytes,
        cache=not no_cache,
        is_quiet=json,
        **target,
    )
    om_bytes = compiled.model.save(om_path)
    dumped = [] if dump is None else dump_stages(compiled.model.stages, dump)
    if fusion_result is not None:
        save_fusion_result(compiled.model, fusion_result)
    if fusion_sites is not None:
        save_fusion_result(compiled.model, fusion_sites, with_sites=True)
    report = compiled.report(str(om_path), om_bytes)
    cached = compiled.model.cache
    notes = cached.notes if cached is not None else ()
    if not is_set_up():  # nobody asked for the cache: that it keeps nothing this time is of no interest
        notes = [item for item in notes if item.code is not table.CACHE_NOT_KEPT]
    warnings = [*compiled.model.warnings, *notes]
    if cached is not None and cached.is_hit and dump is not None:
        facts_lacking = {"what": "the graphs of the stages that --dump asks for"}
        warnings.append(Diagnostic(table.CACHE_LACKS, facts_lacking, severity="warning"))
    check = None
    if validate:
        from gerules.cli.running import validate_om

        check = validate_om(om_path, model, is_quiet=json)
    if json:
        more = {
            "warnings": [item.as_json() for item in warnings],
            "cache": None if cached is None else cached.as_json(),
            "dumped": [str(path) for path in dumped],
            "check": None if check is None else check.as_json(),
        }
        show_json(report.as_json() | more)
    else:
        warn(warnings)
        show(report.stage_grid(), "", *report.gear_parts(), facts(report.facts()))
        if check is not None:
            from gerules.report.run_report import check_grid

            show("", check_grid([check]))
    if check is not None and not check.is_good:
        raise typer.Exit(DIFFERENT)
