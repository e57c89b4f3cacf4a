"""`gerules run`: an `.om` executed by its own plan, and compared with what it was made from."""

from __future__ import annotations


def demo_command(): ...
