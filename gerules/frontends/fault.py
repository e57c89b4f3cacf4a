"""The exception of the front ends."""

from __future__ import annotations

from typing import ClassVar

from gerules.errors import GerulesError


class ModelError(GerulesError):
    """A model file cannot be read, is no sound model, or a graph cannot be written as one."""

    exit_code: ClassVar[int] = 1
