"""`gerules lsp`: the language server that editors start."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import sys
from typing import Annotated

import typer

from gerules.cli.errors import CliError
from gerules.cli.guard import FAULT, guarded
from gerules.errors import table


@guarded
def lsp_command(
    log: Annotated[
        bool, typer.Option("--log", help="Write every message of the protocol to stderr.")
    ] = False,
) -> None:
    """Answer an editor about rule files and graph texts, over stdin and stdout.

    Editors start this themselves; see docs/editors.md. It needs the package
    `pygls`, which the extra `editor` of gerules brings. Ends with exit code 0
    when the editor says goodbye as the protocol asks, and 1 otherwise.
    """
    if importlib.util.find_spec("pygls") is None:
        raise CliError(table.PACKAGE_MISSING, package="pygls", what="the language server", extra="editor")
    from gerules.lsp.features import make_server
    from gerules.lsp.streams import BoundedInput, take_stdout

    if sys.stdin.isatty():
        print("a language server speaks to an editor, not to people; Ctrl-C ends it", file=sys.stderr)
    # Reading from stdin cannot be interrupted by an exception, so the process ends here and now.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: os._exit(128 + number))
    logging.basicConfig(level=logging.DEBUG if log else logging.ERROR, stream=sys.stderr)
    if not log:
        # It writes a traceback for every answer that says why something cannot be done.
        logging.getLogger("pygls").setLevel(logging.CRITICAL)
    output = take_stdout()
    server = make_server()
    server.start_io(BoundedInput(), output)
    if not server.is_shut_down:
        print("the editor left without `shutdown`", file=sys.stderr)
        raise typer.Exit(FAULT)
