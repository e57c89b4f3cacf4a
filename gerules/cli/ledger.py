"""`gerules ledger`: how much error each rule, Cast and node of a compiled model adds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gerules.cli.guard import guarded
from gerules.cli.options import (
    DebugOption,
    InputsOption,
    JsonOption,
    SeedOption,
)
from gerules.cli.output import show, show_json
from gerules.cli.target import targeted

if TYPE_CHECKING:
    from gerules.pipeline.asking import Target


@guarded
@targeted
def ledger_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx, .mindir or .graph file.")],
    inputs: InputsOption = None,
    seed: SeedOption = 0,
    nodes: Annotated[
        int, typer.Option("--nodes", "-n", metavar="N", min=0, help="Nodes shown one by one.")
    ] = 10,
    *,
    target: Target,
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
    from gerules.cli.model_feeds import target_feeds
    from gerules.pipeline import load
    from gerules.report.ledger_report import accounts_grid, entries_grid

    graph = load(model, rules=target.get("rules", ()))
    feeds = target_feeds(graph, inputs or (), target, seed=seed)
    compiled = compile_model(model, is_quiet=json, **target)
    found = compiled.model.ledger(feeds)
    if json:
        show_json(found.as_json())
        return
    show(accounts_grid(found))
    if nodes:
        show("", entries_grid(found, nodes))
