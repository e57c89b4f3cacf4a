"""Profiles of hypothesis: quick at the desk; more examples, and always the same ones, where CI is set."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile("ci", max_examples=400, deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI", "").lower() in {"1", "true"} else "dev")

# What one test compiled must not answer another, and nobody's own cache is touched.
os.environ["GERULES_CACHE"] = "0"
