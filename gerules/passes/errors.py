"""The faults that passes report."""

from __future__ import annotations

from gerules.errors import GerulesError


class PassError(GerulesError):
    """A pass cannot do what was asked of it: codes E10040 to E10059, E50001 and E50014 to E50049."""
