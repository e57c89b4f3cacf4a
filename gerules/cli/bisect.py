"""`gerules bisect`: which rewrites and lowerings take a model out of tolerance, and where it begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from gerules.cli.guard import DIFFERENT, guarded
from gerules.cli.interrupts import interrupted_code
from gerules.cli.options import (
    DebugOption,
    InputsOption,
    JsonOption,
    SeedOption,
    check_writable,
)
from gerules.cli.output import show, show_json
from gerules.cli.target import rule_files, targeted

if TYPE_CHECKING:
    from gerules.pipeline.asking import Target

NOT_THE_RULES: Final = 4
"""Outputs are out of tolerance, and neither rules nor lowering are at fault."""

_SEARCH = "What to look for"


@guarded
@targeted
def bisect_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx, .mindir or .graph file.")],
    inputs: InputsOption = None,
    seed: SeedOption = 0,
    rtol: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0.0,
            help="Largest error over the largest magnitude; default: by precision, as of compile --validate.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Compare with the compile in this precision mode; default: the model itself.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    most_compiles: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Compiles before the best so far.", rich_help_panel=_SEARCH),
    ] = 300,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write fusion_switch.cfg and bisected.ger there, with the rules at fault off.",
            rich_help_panel="Output",
        ),
    ] = None,
    *,
    target: Target,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Find the smallest set of rewrites and lowerings that takes outputs out of tolerance.

    The model is compiled and run again and again with a part of what the
    compile did, by delta debugging. Told are rule, site, the node where the
    error begins, and a remedy that was tried. Ctrl-C shows the best so far.

    Exit codes: 0 within tolerance, 3 something is at fault, 4 neither rules
    nor lowering are: outputs are out of tolerance with nothing applied too.

    \b
    Examples:
      gerules bisect bert.onnx -d ascend910b --precision fp16
      gerules bisect model.onnx --rules mine.ger --input in.npz -o fix/
      gerules bisect model.onnx --precision fp16 --against fp32 --json
    """
    from rich.text import Text

    from gerules.cli.compiling import make_folder
    from gerules.cli.errors import CliError
    from gerules.cli.feeds import feed_paths
    from gerules.cli.model_feeds import target_feeds
    from gerules.cli.progress import Steps
    from gerules.errors import Diagnostic, table
    from gerules.errors.printable import printable_line
    from gerules.pipeline import load
    from gerules.pipeline.bisect import bisect
    from gerules.report.bisect_report import PROFILE_FILE, SWITCH_FILE, bisect_lines
    from gerules.runtime.tolerances import default_rtol
    from gerules.text.files import write_files

    targets = [] if output is None else [output / SWITCH_FILE, output / PROFILE_FILE]
    if output is not None:
        make_folder(output)
    if there := [path for path in targets if path.exists()]:
        reason = "there is one already, which may be yours"
        raise CliError([Diagnostic(table.CANNOT_WRITE, {"path": path, "reason": reason}) for path in there])
    check_writable(targets, sources=[model, *feed_paths(inputs or ()), *rule_files(target)])
    with Steps(f"bisecting {model.name}", is_quiet=json) as steps:
        steps.begin("reading")
        graph = load(model, rules=target.get("rules", ()))
        feeds = target_feeds(graph, inputs or (), target, seed=seed)
        found = bisect(
            graph,
            feeds,
            rtol=rtol,
            against=against,
            most_compiles=most_compiles,
            tell=steps.begin,
            **target,
        )
    written: list[Path] = []
    if targets and found.profile:
        texts = (found.switch_file, found.profile)
        write_files([(path, _writer(text)) for path, text in zip(targets, texts, strict=True)])
        written = targets
    if json:
        show_json(found.as_json() | {"written": [str(path) for path in written]})
    else:
        lines = bisect_lines(found)
        show(*(Text(printable_line(item)) if isinstance(item, str) else item for item in lines))
        asked = default_rtol(found.precision)
        if found.verdict == "within tolerance" and found.error is not None and asked < found.error:
            validate = f"`compile --validate` allows {asked:g} for {found.precision}"
            show(Text(f"{validate}: ask with --rtol {asked:g}"))
        if written:
            show(Text(f"written: {', '.join(printable_line(str(path)) for path in written)}"))
    code = {"within tolerance": 0, "not the rules": NOT_THE_RULES, "the plan": NOT_THE_RULES}.get(
        found.verdict, interrupted_code() if found.verdict == "interrupted" else DIFFERENT
    )
    if code:
        raise typer.Exit(code)


def _writer(text: str) -> Callable[[BinaryIO], object]:
    return lambda file: file.write(text.encode())
