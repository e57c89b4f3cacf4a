"""The exception of the scheduler."""

from __future__ import annotations

from gerules.errors import GerulesError


class ScheduleError(GerulesError):
    """Tasks cannot be scheduled as asked; codes E60020 to E60023."""
