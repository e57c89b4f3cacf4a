"""The exception of the Graph Engine's Python interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gerules.errors import GerulesError

T = TypeVar("T")


class GeError(GerulesError, RuntimeError):
    """What calls of `gerules.compat.ge` raise: every fault found, each with its code."""

    @property
    def message(self) -> str:
        """The message of the first fault."""
        return self.diagnostics[0].message

    @property
    def error_message(self) -> str:
        """All faults as text."""
        return str(self)


def told(act: Callable[[], T]) -> T:
    """Do something; what gerules raises becomes a GeError with the same faults."""
    try:
        return act()
    except GeError:
        raise
    except GerulesError as error:
        raise GeError(error.diagnostics) from error.__cause__
