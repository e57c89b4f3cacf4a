"""`gerules phase`: one phase, or a named pipeline of phases, on one graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gerules.cli.guard import guarded, warn
from gerules.cli.options import (
    DebugOption,
    DeviceOption,
    DisableOption,
    EnableOption,
    JsonOption,
    PrecisionOption,
    ProfileOption,
    RulesOption,
    SetOption,
    ShapesOption,
    check_ending,
    check_writable,
    read_params,
    read_shapes,
)
from gerules.cli.output import show_json, show_text, tell


@guarded
def phase_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A phase, or a pipeline such as fusion.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .graph or .onnx file.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT.graph",
            help="Write a file, large constants beside it in a .bin; or OUT.onnx, for any ONNX runtime.",
        ),
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Tell each application on stderr.")] = False,
    device: DeviceOption = "host",
    precision: PrecisionOption = None,
    profile: ProfileOption = None,
    rules: RulesOption = None,
    enable: EnableOption = None,
    disable: DisableOption = None,
    param: SetOption = None,
    input_shape: ShapesOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run one phase of the rules on a graph, and show the graph it leaves.

    The graph goes to stdout, what was done to stderr. Graphs of phases can be
    chained through files.

    \b
    Examples:
      gerules phase fusion stem.graph
      gerules phase fuse_ops stem.graph --disable fuse.conv --trace -o fused.graph
    """
    from gerules.frontends import save_graph_text
    from gerules.ir import print_graph
    from gerules.ops import infer_graph
    from gerules.passes.bind import bind_shapes
    from gerules.pipeline import load, make_toolchain, phase_names, run_phases, save, shipped_rules
    from gerules.report.trace_report import trace_grid

    check_ending(output, wanted=[".graph", ".onnx"])
    check_writable([output], sources=[file, *(rules or ())])
    graph = load(file)
    tools = make_toolchain(
        shipped_rules(rules or ()),
        graph.opsets,
        device=device,
        precision=precision,
        profile=profile,
        enable=enable or (),
        disable=disable or (),
        params=read_params(param),
    )
    names = phase_names(tools.book, name)
    graph = bind_shapes(graph, read_shapes(input_shape))
    graph = infer_graph(graph, tools.schemas, extra=tools.extra, names_sizes=True)
    graph, done = run_phases(tools, graph, names)
    if output is not None:
        if output.suffix.lower() == ".onnx":
            save(graph, output, rules=tools.book)
        else:
            save_graph_text(graph, output)
    text = print_graph(graph)
    warnings = (*tools.book.warnings, *done.warnings)
    if json:
        written = {} if output is None else {"written": str(output)}
        told = {"warnings": [item.as_json() for item in warnings]}
        show_json({"phase": name, "graph": text, "trace": done.as_json()} | told | written)
        return
    warn(warnings)
    if trace:
        tell(done.render())
    tell(trace_grid(done, name))
    if output is None:
        show_text(text)
