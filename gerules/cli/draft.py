"""`gerules draft`: a rule drafted from a region of a model, with its tests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gerules.cli.errors import CliError
from gerules.cli.guard import guarded
from gerules.cli.options import (
    DebugOption,
    DimOption,
    JsonOption,
    RulesOption,
    ShapesOption,
    check_ending,
    check_writable,
    read_dims,
    read_shapes,
)
from gerules.cli.output import show_json, show_text, tell
from gerules.errors import table


@guarded
def draft_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx, .mindir or .graph file.")],
    nodes: Annotated[
        list[str],
        typer.Option(
            "--nodes", "-n", metavar="A..B", help="All nodes from A to B, or A,B,C; may be repeated."
        ),
    ],
    op: Annotated[str, typer.Option("--op", metavar="NAME", help="The operator that replaces them.")] = "",
    name: Annotated[str, typer.Option("--rule", metavar="NAME", help="The name of the rule.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.ger", help="Where to write the rule.")
    ] = None,
    input_shape: ShapesOption = None,
    dim: DimOption = None,
    rules: RulesOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Draft a rule from nodes of a model: the pattern, an operator, tests.

    Nodes are called by their names or by what they make. The rule is checked,
    tested and run on the model before it is shown.

    \b
    Examples:
      gerules draft resnet50.onnx --nodes conv1..relu1
      gerules draft bert.onnx -n q,k,v --op my::Qkv -o qkv.ger
    """
    from gerules.errors.counts import count_text
    from gerules.report.draft import draft
    from gerules.text.files import write_files

    check_ending(output, wanted=(".ger",))
    check_writable([output], sources=[model, *(rules or ())])
    found = draft(
        model,
        nodes,
        op=op,
        name=name,
        rules=rules or (),
        input_shapes=read_shapes(input_shape) or None,
        dims=read_dims(dim) or None,
    )
    if output is not None:
        try:
            write_files([(output, lambda file: file.write(found.text.encode("utf-8")))])
        except OSError as error:
            reason = error.strerror or str(error)
            raise CliError(table.CANNOT_WRITE, path=output, reason=reason) from None
    if json:
        show_json(found.as_json())
        return
    if output is None:
        show_text(found.text)
    where = f" to {output}" if output is not None else ""
    tell(
        f"drafted {found.rule}{where}: {count_text(found.n_nodes, 'node')}, "
        f"{count_text(found.n_tests, 'test')} that hold, "
        f"fires at {count_text(found.n_places, 'place')} of the model"
    )
