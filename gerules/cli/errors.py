"""The command line's own error class."""

from __future__ import annotations

from gerules.errors import GerulesError


class CliError(GerulesError):
    """An option or a file on the command line cannot be used."""
