"""`gerules explain`: why a rule did not fire on a model, and which rules almost did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gerules.cli.guard import guarded
from gerules.cli.options import DebugOption, JsonOption
from gerules.cli.output import show, show_json, show_lines
from gerules.cli.target import targeted

if TYPE_CHECKING:
    from gerules.pipeline.asking import Target


@guarded
@targeted
def explain_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx, .mindir or .graph file.")],
    rule: Annotated[
        str | None,
        typer.Option("--rule", "-r", metavar="RULE", help="A rule, or an alias; default: all rules."),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option("--node", "-n", metavar="NODE", help="Only attempts at this node of the model."),
    ] = None,
    *,
    target: Target,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say why a rule did not fire on a model, or which rules almost did.

    With --rule: every place where it was tried, how far the match went, what
    stood in its way, and what would have to change. Without: the nearest
    misses of all rules.

    \b
    Examples:
      gerules explain bert.onnx
      gerules explain resnet50.onnx --rule conv_bn -d ascend910b
      gerules explain bert.onnx --rule attention --node layer0/softmax --json
    """
    from gerules.pipeline.explain import explain
    from gerules.report.explain_report import explanation_lines, near_misses_grid

    found = explain(model, rule, node=node, **target)
    if json:
        show_json(found.as_json())
    elif rule is None:
        show(near_misses_grid(found))
    else:
        show_lines(explanation_lines(found))
