"""`gerules ledger`: how much error each rule, Cast and node of a compiled model adds."""

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
    InputsOption,
    JsonOption,
    KeepOption,
    PrecisionOption,
    ProfileOption,
    RulesOption,
    SeedOption,
    SetOption,
    ShapesOption,
    read_dims,
    read_params,
    read_shapes,
)
from gerules.cli.output import show, show_json


@guarded
def ledger_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx, .mindir or .graph file.")],
    inputs: InputsOption = None,
    seed: SeedOption = 0,
    nodes: Annotated[
        int, typer.Option("--nodes", "-n", metavar="N", min=0, help="Nodes shown one by one.")
    ] = 10,
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
    """Say how much error each rule, Cast and node of a compiled model adds.

    The compiled graph runs in its own types, the model in float64; values are
    compared where both have them. What a node adds is the error of its result
    less the largest error of its inputs.

    \b
    Examples:
      gerules ledger bert.onnx -d ascend910b --precision fp16
      gerules ledger resnet50.onnx --input in.npz --nodes 30
      gerules ledger model.onnx --precision mixed_float16 --json
    """
    from gerules.cli.compiling import compile_model
    from gerules.cli.feeds import model_feeds
    from gerules.pipeline import load
    from gerules.report.ledger_report import accounts_grid, entries_grid

    shapes, dims = read_shapes(input_shape), read_dims(dim)
    graph = load(model, rules=rules or ())
    feeds = model_feeds(graph, inputs or (), shapes=shapes, dims=dims, seed=seed)
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
        params=read_params(param),
        is_quiet=json,
    )
    found = compiled.model.ledger(feeds)
    if json:
        show_json(found.as_json())
        return
    show(accounts_grid(found))
    if nodes:
        show("", entries_grid(found, nodes))
