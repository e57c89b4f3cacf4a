"""Python files given as rules: run once, for the functions and patterns that they register."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

from gerules.dsl import RuleError
from gerules.errors import GerulesError, table

SUFFIX: Final = ".py"

_MODULE: Final = "gerules_rules_of"


Context = Callable[[], AbstractContextManager[None]]

_CONTEXTS: Final[list[Context]] = []


def while_importing(context: Context) -> None:
    """Let all Python files given as rules run inside a context, once each is registered."""
    if context not in _CONTEXTS:
        _CONTEXTS.append(context)


def import_rules(path: Path) -> None:
    """Run a Python file, unless it was run before. What it registers takes part in all compiles.

    Raises:
        RuleError: E10001 when there is no such file, E40129 for what it raises.
    """
    full = path.resolve()
    # The same in every process: the name is part of what the compile cache goes by.
    told = hashlib.blake2b(str(full).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    name = f"{_MODULE}_{full.stem}_{told}"
    if name in sys.modules:
        return
    if not full.is_file():
        raise RuleError(table.FILE_NOT_FOUND, place=str(path), path=path, reason="there is no such file")
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise RuleError(table.FILE_NOT_FOUND, place=str(path), path=path, reason="it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with ExitStack() as stack:
            for context in _CONTEXTS:
                stack.enter_context(context())
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, GerulesError) or not isinstance(error, Exception | SystemExit):
            raise
        line = _line_of(error, full)
        raise RuleError(
            table.RULES_NOT_IMPORTED, place=f"{path}:{line}" if line else str(path), path=path,
            reason=f"{type(error).__name__}: {error}",
        ) from None  # fmt: skip


def _line_of(error: BaseException, file: Path) -> int:
    """The last line of a file that an exception went through; 0 when it did not."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
