"""The exception of exports."""

from __future__ import annotations

from gerules.errors import GerulesError


class ExportError(GerulesError):
    """Rules cannot be written as passes of the Graph Engine."""
