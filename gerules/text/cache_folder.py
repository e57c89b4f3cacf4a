"""The folder of everything that is kept between runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FOLDER: Final = "GERULES_CACHE_DIR"
"""The environment variable that names it."""


def cache_folder() -> Path | None:
    """Return the folder, which need not exist; None when nobody's home is known.

    It is `GERULES_CACHE_DIR`, or `gerules` where the system keeps caches: `XDG_CACHE_HOME`, or `~/.cache`.
    """
    if named := os.environ.get(FOLDER, "").strip():
        return Path(named)
    root = os.environ.get("XDG_CACHE_HOME", "").strip()
    # A relative one does not count. Source: XDG Base Directory Specification.
    if root and Path(root).is_absolute():
        return Path(root) / "gerules"
    try:
        return Path.home() / ".cache" / "gerules"
    except RuntimeError:
        return None
