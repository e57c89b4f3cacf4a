"""What all tests share: profiles of hypothesis, one thread, no compile cache, a heap that is walked once."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import settings

# Quick at the desk; more examples, and always the same ones, where CI is set.
settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile("ci", max_examples=400, deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI", "").lower() in {"1", "true"} else "dev")

# Each process of pytest-xdist has a core; a second thread would spin while it waits for the other's.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What one test compiled must not answer another, and nobody's own cache is touched.
os.environ["GERULES_CACHE"] = "0"


@pytest.fixture(scope="module", autouse=True)
def frozen_heap() -> None:
    """Spare the cycle collector what stands before a module begins: rule books, code and tests, which stay.

    Measured on the golden tests: a seventh of the time.
    """
    gc.collect()
    gc.freeze()
