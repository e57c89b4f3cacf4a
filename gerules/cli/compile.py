"""`gerules compile`: a model becomes an `.om`, and a table tells what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gerules.cli.guard import guarded, warn
from gerules.cli.options import (
    DebugOption,
    DeviceOption,
    DimOption,
    DisableOption,
    EnableOption,
    JsonOption,
    KeepOption,
    PrecisionOption,
    ProfileOption,
    RulesOption,
    SetOption,
    ShapesOption,
    check_writable,
    read_dims,
    read_params,
    read_shapes,
)
from gerules.cli.output import show, show_json


@guarded
def compile_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx or .graph file.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="OUT.om", help="The file to write; default: MODEL's name, .om"
        ),
    ] = None,
    device: DeviceOption = "host",
    precision: PrecisionOption = None,
    profile: ProfileOption = None,
    input_shape: ShapesOption = None,
    dim: DimOption = None,
    keep_dtype: KeepOption = None,
    rules: RulesOption = None,
    enable: EnableOption = None,
    disable: DisableOption = None,
    param: SetOption = None,
    dump: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the graph after each stage as text.", rich_help_panel="Output"
        ),
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Compile a model to an .om file, and tell what happened, stage by stage.

    Nothing is written when the compile fails; a file is written whole or not
    at all.

    \b
    Examples:
      gerules compile resnet50.onnx -d ascend910b --precision fp16
      gerules compile bert.onnx -o bert.om --input-shape ids=1,128
      gerules compile model.onnx --rules my_rules/ --dump stages/ --json
    """
    from gerules.cli.compiling import compile_model, make_folder
    from gerules.report.stage_dump import dump_stages
    from gerules.report.tables import facts

    shapes, dims, params = read_shapes(input_shape), read_dims(dim), read_params(param)
    target = output if output is not None else Path(model.with_suffix(".om").name)
    check_writable([target])
    if dump is not None:
        make_folder(dump)
    compiled = compile_model(
        model,
        device=device,
        precision=precision,
        profile=profile,
        rules=rules or (),
        enable=enable or (),
        disable=disable or (),
        input_shapes=shapes,
        dims=dims,
        keep_dtype=keep_dtype or (),
        params=params,
        is_quiet=json,
    )
    om_bytes = compiled.model.save(target)
    dumped = [] if dump is None else dump_stages(compiled.model.stages, dump)
    report = compiled.report(str(target), om_bytes)
    if json:
        warnings = [item.as_json() for item in compiled.model.warnings]
        show_json(report.as_json() | {"warnings": warnings, "dumped": [str(path) for path in dumped]})
        return
    warn(compiled.model.warnings)
    show(report.stage_grid(), "", facts(report.facts()))
