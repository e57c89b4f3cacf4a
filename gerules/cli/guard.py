"""What surrounds every command: faults become coded errors and exit codes, never tracebacks."""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Final, NoReturn, ParamSpec

import typer

from gerules.cli.errors import CliError
from gerules.cli.interrupts import interrupted_code, let_commands_hear, tell_interrupted
from gerules.cli.output import show_json
from gerules.errors import Diagnostic, GerulesError, render, table

OK: Final = 0
FAULT: Final = 1
"""The input, or what it asks for, is at fault; or gerules is, and says so with E90001."""
DIFFERENT: Final = 3
"""A check or a test found a difference. Exit code 2 is wrong usage."""

_P = ParamSpec("_P")


def guarded(command: Callable[_P, None]) -> Callable[_P, None]:
    """Make a command end with an exit code whatever happens in it.

    The command's own options `json` and `debug` say how faults are written.
    """
    signature = inspect.signature(command)

    @functools.wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        given = signature.bind(*args, **kwargs).arguments
        is_json, is_debug = bool(given.get("json")), bool(given.get("debug"))
        try:
            let_commands_hear()
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            interrupted()
        except GerulesError as error:
            if is_debug:
                traceback.print_exc()
            fail(error.diagnostics, is_json=is_json, code=error.exit_code)
        except OSError as error:
            if is_broken_pipe(error):
                silence_stdout()
                raise typer.Exit(FAULT) from None
            _fail_internally(error, is_json, is_debug)
        except Exception as error:  # told with E90001; a traceback helps nobody unless asked for
            _fail_internally(error, is_json, is_debug)

    return run


def fail(diagnostics: Sequence[Diagnostic], *, is_json: bool = False, code: int = FAULT) -> NoReturn:
    """Write faults, to stderr or as JSON to stdout, and end."""
    try:
        if is_json:
            show_json({"errors": [item.as_json() for item in diagnostics]})
        else:
            print(render(diagnostics), file=sys.stderr)
    except CliError as error:  # stdout takes no more; stderr may
        print(render(error.diagnostics), file=sys.stderr)
    raise typer.Exit(code)


def warn(diagnostics: Sequence[Diagnostic]) -> None:
    """Write warnings to stderr."""
    if diagnostics:
        print(render(diagnostics), file=sys.stderr)


def interrupted() -> NoReturn:
    """Say that an interrupt was heard, and end."""
    tell_interrupted()
    raise typer.Exit(interrupted_code())


def is_broken_pipe(error: OSError) -> bool:
    """Whether the reader of our output is gone, as `head` is after its lines."""
    return isinstance(error, BrokenPipeError) or error.errno in (errno.EPIPE, errno.ESHUTDOWN)


def silence_stdout() -> None:
    """Send what Python would still flush at its end nowhere."""
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)


def _fail_internally(error: Exception, is_json: bool, is_debug: bool) -> NoReturn:
    if is_debug:
        traceback.print_exc()
    if isinstance(error, MemoryError):
        reason = "the memory of this machine does not suffice"
    else:
        reason = f"{type(error).__name__}: {error}"
    fail([Diagnostic(table.INTERNAL, {"reason": reason})], is_json=is_json)
