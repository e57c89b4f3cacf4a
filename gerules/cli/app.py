"""The program `gerules`: its commands in groups, and what surrounds all of them."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from gerules.cli.bisect import bisect_command
from gerules.cli.cache import cache_app
from gerules.cli.compile import compile_command
from gerules.cli.demo import demo_command
from gerules.cli.devices import devices_command
from gerules.cli.draft import draft_command
from gerules.cli.explain import explain_command
from gerules.cli.export_pass import export_pass_command
from gerules.cli.find import find_command
from gerules.cli.fmt import fmt_command
from gerules.cli.guard import FAULT, is_broken_pipe, silence_stdout
from gerules.cli.interrupts import interrupted_code, tell_interrupted
from gerules.cli.ledger import ledger_command
from gerules.cli.lsp import lsp_command
from gerules.cli.output import cannot_show, open_streams
from gerules.cli.phase import phase_command
from gerules.cli.plugins import plugins_command
from gerules.cli.rules import rules_app
from gerules.cli.run import run_command
from gerules.cli.show import show_command
from gerules.cli.why import why_command
from gerules.errors import render

_MODELS: Final = "Models"
_INSIDE: Final = "Look inside"
_RULES: Final = "Rules and devices"

app = typer.Typer(
    name="gerules",
    help="Compile neural networks as Ascend's Graph Engine does, with every decision written as text.",
    epilog="Exit codes: 0 done, 1 a fault of the input, 2 wrong usage, 3 a check or test found a difference.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("compile", rich_help_panel=_MODELS)(compile_command)
app.command("run", rich_help_panel=_MODELS)(run_command)
app.add_typer(cache_app, name="cache", rich_help_panel=_MODELS)
app.command("demo", rich_help_panel=_MODELS)(demo_command)
app.command("show", rich_help_panel=_INSIDE)(show_command)
app.command("phase", rich_help_panel=_INSIDE)(phase_command)
app.command("explain", rich_help_panel=_INSIDE)(explain_command)
app.command("why", rich_help_panel=_INSIDE)(why_command)
app.command("find", rich_help_panel=_INSIDE)(find_command)
app.command("bisect", rich_help_panel=_INSIDE)(bisect_command)
app.command("ledger", rich_help_panel=_INSIDE)(ledger_command)
app.add_typer(rules_app, name="rules", rich_help_panel=_RULES)
app.command("draft", rich_help_panel=_RULES)(draft_command)
app.command("export-pass", rich_help_panel=_RULES)(export_pass_command)
app.command("fmt", rich_help_panel=_RULES)(fmt_command)
app.command("devices", rich_help_panel=_RULES)(devices_command)
app.command("lsp", rich_help_panel=_RULES)(lsp_command)
app.command("plugins", rich_help_panel=_RULES)(plugins_command)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"gerules {importlib.metadata.version('gerules')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Compile neural networks as Ascend's Graph Engine does, with every decision written as text."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    open_streams()
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding lacks is escaped, never a crash.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        app(list(arguments) if arguments is not None else None, standalone_mode=True)
    except SystemExit as end:
        code = end.code
        return _flush(code if isinstance(code, int) else FAULT if code else 0)
    except KeyboardInterrupt:
        tell_interrupted()
        return interrupted_code()
    except OSError as error:
        return _end_of_stdout(error, 0)
    return _flush(0)


def _flush(code: int) -> int:
    """Flush now, so that a reader who went away is noticed here and not in Python's last breath."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _end_of_stdout(error, code)
    return code


def _end_of_stdout(error: OSError, code: int) -> int:
    """Say why stdout took no more, unless its reader left; return the exit code."""
    silence_stdout()
    if is_broken_pipe(error):
        return code or FAULT
    if code == 0:  # what went wrong before was told already
        print(render([cannot_show(error)]), file=sys.stderr)
    return FAULT
