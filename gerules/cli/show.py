"""`gerules show`: any model as graph text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gerules.cli.guard import guarded
from gerules.cli.options import (
    DebugOption,
    DeviceOption,
    DisableOption,
    EnableOption,
    JsonOption,
    PrecisionOption,
    ProfileOption,
    RulesOption,
    ShapesOption,
    check_ending,
    check_writable,
    read_shapes,
)
from gerules.cli.output import show_json, show_text
from gerules.errors.printable import printable_line


@guarded
def show_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An .om, .onnx or .graph file.")],
    stage: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compile up to this stage, and show what it leaves.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="OUT.graph", help="Write a file, large constants beside it in a .bin."
        ),
    ] = None,
    device: DeviceOption = "host",
    precision: PrecisionOption = None,
    profile: ProfileOption = None,
    rules: RulesOption = None,
    enable: EnableOption = None,
    disable: DisableOption = None,
    input_shape: ShapesOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show a model as graph text: types, operators, and the plan beside them.

    An .om of any tool is shown in the same words. Constants of more than 64
    elements are left out on the screen; a file written with -o has them, and
    can be read back.

    \b
    Examples:
      gerules show model.om
      gerules show model.onnx --stage fuse_ops --device ascend910b | less
      gerules show model.onnx -o model.graph
    """
    from gerules.cli.models import open_model, summarize
    from gerules.frontends import save_graph_text
    from gerules.ir import print_graph

    check_ending(output, wanted=[".graph"])
    check_writable([output], sources=[file, *(rules or ())])
    if stage is None:
        model = open_model(file)
    else:
        from gerules.cli.models import compile_until

        model = compile_until(
            file,
            stage,
            device=device,
            precision=precision,
            profile=profile,
            rules=rules or (),
            enable=enable or (),
            disable=disable or (),
            input_shapes=read_shapes(input_shape),
        )
    if output is not None:
        save_graph_text(model.graph, output, marks=model.marks)
    if json:
        show_json(summarize(model) | ({} if output is None else {"written": str(output)}))
    elif output is None:
        lines = [f"# {printable_line(fact)}" for fact in model.facts]
        show_text("\n".join([*lines, print_graph(model.graph, marks=model.marks)]))
