"""Where commands write: one console for results, one for the rest, both plain when nobody looks at them."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO, cast

from rich.console import Console, RenderableType

from gerules.cli.errors import CliError
from gerules.errors import Diagnostic, table
from gerules.errors.printable import printable_line

_WIDE: Final = 4096
"""Columns where no terminal says how many: names are never cut in a file or a pipe."""

_INDENT: Final = 2


def open_streams() -> None:
    """Give the program a stdout and a stderr where it was started without, as by `>&-`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - never closed


def cannot_show(error: OSError) -> Diagnostic:
    """Return the fault of a stdout that takes no more, such as a file on a full disk."""
    return Diagnostic(table.CANNOT_WRITE, {"path": "stdout", "reason": error.strerror or str(error)})


@contextmanager
def _showing() -> Generator[None]:
    """Make a fault of stdout one with a code. A reader who leaves is none."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.ESHUTDOWN):
            raise
        raise CliError([cannot_show(error)]) from None


def show(*items: RenderableType) -> None:
    """Write results to stdout: in colour and to its width on a terminal, plain and uncut elsewhere.

    Raises:
        CliError: E10004 when stdout takes no more.
    """
    with _showing():
        _write(items, sys.stdout)


def tell(*items: RenderableType) -> None:
    """Write what is no result (progress, summaries of filters) to stderr, as `show` does."""
    _write(items, sys.stderr)


def show_text(text: str) -> None:
    """Write a text to stdout as it is. Raises CliError E10004 when stdout takes no more."""
    with _showing():
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()


def show_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout, each on one line whatever names from outside hold.

    Raises CliError E10004 when stdout takes no more.
    """
    show_text("\n".join(printable_line(line) for line in lines))


def show_json(value: object) -> None:
    """Write plain values to stdout as JSON; numbers that JSON lacks (NaN, infinities) become null."""
    show_text(json.dumps(_finite(value), indent=_INDENT, ensure_ascii=False, allow_nan=False))


def _write(items: Iterable[RenderableType], stream: TextIO) -> None:
    if stream.isatty():
        console = Console(file=stream)
        for item in items:
            console.print(item, soft_wrap=isinstance(item, str), highlight=False)
        return
    for item in items:
        buffer = io.StringIO()
        console = Console(file=buffer, width=_WIDE, color_system=None, force_terminal=False)
        console.print(item, soft_wrap=isinstance(item, str), highlight=False)
        # Tables pad their last column; nobody wants blanks at the end of lines in a file.
        stream.write("".join(line.rstrip() + "\n" for line in buffer.getvalue().splitlines()))
    stream.flush()


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value)
        return {str(key): _finite(item) for key, item in items.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("Iterable[object]", value)]
    return value
