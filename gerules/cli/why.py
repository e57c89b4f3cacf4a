"""`gerules why`: which rules made a node, and from what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gerules.cli.guard import guarded
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
    read_dims,
    read_params,
    read_shapes,
)
from gerules.cli.output import show_json, show_lines


@guarded
def why_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx, .mindir or .graph file.")],
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="A node, or a value it makes: of MODEL, or as compiled.")
    ],
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
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say which rules made a node, from which nodes of the model, or what became of one.

    \b
    Examples:
      gerules why stem.graph c
      gerules why bert.onnx layer0/softmax -d ascend910b --precision fp16
    """
    from gerules.pipeline.explain import why
    from gerules.report.explain_report import story_lines

    story = why(
        model,
        node,
        device=device,
        precision=precision,
        profile=profile,
        rules=rules or (),
        enable=enable or (),
        disable=disable or (),
        input_shapes=read_shapes(input_shape) or None,
        dims=read_dims(dim) or None,
        keep_dtype=keep_dtype or (),
        params=read_params(param),
    )
    if json:
        show_json(story.as_json())
    else:
        show_lines(story_lines(story))
