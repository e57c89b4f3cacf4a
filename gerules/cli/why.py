"""`gerules why`: which rules made a node, and from what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gerules.cli.guard import guarded
from gerules.cli.options import DebugOption, JsonOption
from gerules.cli.output import show_json, show_lines
from gerules.cli.target import targeted

if TYPE_CHECKING:
    from gerules.pipeline.asking import Target


@guarded
@targeted
def why_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx, .mindir or .graph file.")],
    node: Annotated[
        str,
        typer.Argument(
            metavar="NODE", help="A node, a value it makes, an input or a constant: of MODEL, or as compiled."
        ),
    ],
    *,
    target: Target,
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

    story = why(model, node, **target)
    if json:
        show_json(story.as_json())
    else:
        show_lines(story_lines(story))
