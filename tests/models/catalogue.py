"""Model files for tests; without the `models` extra its models are skipped, except in CI."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench import zoo


def find(name: str) -> Path:
    """Return the file of a model; skips the test when its packages are missing and nobody requires them."""
    try:
        return zoo.path(name)
    except zoo.ModelsExtraMissing as missing:
        if os.environ.get("GERULES_REQUIRE_MODELS"):
            raise
        pytest.skip(str(missing))
