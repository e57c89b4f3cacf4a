"""Passes that an environment variable names: Python files, and folders of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gerules.compat.aliases import lend_names
from gerules.compat.ge.error import GeError, told
from gerules.errors import table
from gerules.pipeline.python_rules import SUFFIX, import_rules

VARIABLE: Final = "ASCEND_GE_PY_PASS_PATH"
"""Files and folders, separated by `:`. Source: hicann/ge."""


def load_passes() -> list[str]:
    """Run the files that ASCEND_GE_PY_PASS_PATH names, each once, and return them.

    Raises:
        GeError: E10001 for what is not there, E40129 for what a file raises.
    """
    files: list[Path] = []
    for part in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        path = Path(part)
        if path.is_dir():
            files += sorted(path.glob(f"*{SUFFIX}"))
        elif path.is_file():
            files.append(path)
        else:
            raise GeError(table.FILE_NOT_FOUND, path=part, reason=f"{VARIABLE} names it, and it is not there")
    lend_names()
    for path in files:
        told(lambda path=path: import_rules(path))
    return [str(path) for path in files]
