"""The exception of the `.om` reader and writer."""

from __future__ import annotations

from typing import Final

from gerules.errors import Faults, GerulesError

MAX_FAULTS: Final = 100
"""Faults of one file that are listed; a file with more is beyond repair by hand."""


class OmError(GerulesError):
    """An `.om` file cannot be read, or a model cannot be written as one."""


def is_full(faults: Faults) -> bool:
    """Whether so many faults were found that looking for more helps nobody."""
    return len(faults) >= MAX_FAULTS
