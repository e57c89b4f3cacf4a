"""The exception of the memory planner."""

from __future__ import annotations

from gerules.errors import GerulesError


class MemoryPlanError(GerulesError):
    """Values cannot be planned, or a plan cannot be read; codes E60003 to E60007."""
