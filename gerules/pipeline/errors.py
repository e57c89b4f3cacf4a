"""The exception of the pipeline."""

from __future__ import annotations

from gerules.errors import GerulesError


class PipelineError(GerulesError):
    """A compile was asked for something that does not exist or does not go together."""
