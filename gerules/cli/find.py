"""`gerules find`: where a pattern of the rule language matches in a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gerules.cli.guard import guarded, warn
from gerules.cli.options import (
    DebugOption,
    DeviceOption,
    DimOption,
    JsonOption,
    RulesOption,
    ShapesOption,
    read_dims,
    read_shapes,
)
from gerules.cli.output import show_json, show_lines


@guarded
def find_command(
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="A pattern, or the lines of a match; quote it.")
    ],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx, .mindir or .graph file.")],
    where: Annotated[
        list[str] | None,
        typer.Option("--where", "-w", metavar="EXPR", help="A condition on its names; may be repeated."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Match as in a rule: default attributes, no reader outside.")
    ] = False,
    near: Annotated[bool, typer.Option("--near", help="Tell also where it almost matches.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=0, metavar="N", help="Most places shown.")] = 100,
    device: DeviceOption = "host",
    input_shape: ShapesOption = None,
    dim: DimOption = None,
    rules: RulesOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Find a pattern in a model, as it is written.

    Every place is told with its nodes, their types, and what the names of
    the pattern stand for. Attributes not mentioned may be anything.

    \b
    Examples:
      gerules find 'Relu(Conv(...))' resnet50.onnx
      gerules find 'Mul(x, k: const)' bert.onnx --where 'numel(k) == 1'
      gerules find 'Softmax(s, axis=k)' bert.onnx --near --json
    """
    from gerules.pipeline.finding import find
    from gerules.report.find_report import finding_lines

    found = find(
        model,
        pattern,
        where=where or (),
        strict=strict,
        near=near,
        rules=rules or (),
        device=device,
        input_shapes=read_shapes(input_shape) or None,
        dims=read_dims(dim) or None,
    )
    if json:
        show_json(found.as_json())
        return
    warn(found.warnings)
    show_lines(finding_lines(found, limit=limit))
