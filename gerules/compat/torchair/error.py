"""The exception of TorchAir's face: a fault with a code, and a ValueError as TorchAir raises it."""

from __future__ import annotations

from gerules.errors import GerulesError


class ConfigError(GerulesError, ValueError):
    """A configuration, or a call of this face, cannot be what it is asked to be."""
