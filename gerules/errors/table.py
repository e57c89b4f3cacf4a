"""The table of error codes: every fault gerules can report, with its cause and its remedy.

Families: E1 files and options, E2 switches and run-time inputs, E3 types, shapes and formats,
E4 texts, rules and graphs, E5 operators and engines, E6 memory, E7 running, E8 `.om` files,
E9 gerules itself.
A code never changes its meaning; a code that goes out of use is not given out again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One kind of fault.

    `message` and `hint` are format strings over the facts given when it is raised; `cause` says in
    general words why it arises. The heading `## E... slug` in `docs/errors.md` explains it at length.
    """

    code: str
    slug: str
    message: str
    cause: str
    hint: str


# ---------------------------------------------------------------- E1: files and options
FILE_NOT_FOUND: Final = ErrorCode(
    "E10001", "file-not-found", "{path} cannot be read: {reason}",
    "The file does not exist, is a directory, or may not be read.",
    "check the path and the permissions",
)
UNKNOWN_FILE_KIND: Final = ErrorCode(
    "E10002", "unknown-file-kind", "{path} is not a kind of file gerules reads",
    "The name's ending and the first bytes fit no reader.",
    "give an .onnx, .om, .graph or .ger file",
)
BAD_OPTION: Final = ErrorCode(
    "E10003", "bad-option", "{option} cannot be {value}: {reason}",
    "An option has a value outside what it accepts.",
    "{remedy}",
)
CANNOT_WRITE: Final = ErrorCode(
    "E10004", "cannot-write", "{path} cannot be written: {reason}",
    "The folder is missing or read-only, or the disk is full. Nothing was left half-written.",
    "free space or choose another output path",
)
FILE_TOO_LARGE: Final = ErrorCode(
    "E10005", "file-too-large", "{path} has {size_bytes} bytes; at most {limit_bytes} are read",
    "Texts from outside are bounded, so that a hostile file cannot exhaust the machine.",
    "split the file",
)

# ---------------------------------------------------------------- E4: texts, rules and graphs
SYNTAX: Final = ErrorCode(
    "E40001", "syntax", "{found} does not fit here",
    "The text does not follow the grammar.",
    "{expected}",
)
UNDEFINED_NAME: Final = ErrorCode(
    "E40003", "undefined-name", "{name} is not defined",
    "A name is used that nothing above it defines.",
    "define it above its first use",
)

# ---------------------------------------------------------------- E9: gerules itself
INTERNAL: Final = ErrorCode(
    "E90001", "internal", "gerules met a fault of its own: {reason}",
    "This is a defect of gerules, not of your input.",
    "run again with --debug and report the traceback",
)


def _collect() -> dict[str, ErrorCode]:
    found = [value for value in globals().values() if isinstance(value, ErrorCode)]
    table = {item.code: item for item in found}
    if len(table) != len(found):
        raise AssertionError("two entries of the error table share a code")
    return table


TABLE: Final = _collect()
"""Every code, by its text."""
