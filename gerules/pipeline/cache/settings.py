"""Where the compile cache lies, how large it may grow, and whether it is used."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gerules.errors import table
from gerules.pipeline.errors import PipelineError
from gerules.text.cache_folder import cache_folder
from gerules.text.sizes import parse_size

SWITCH: Final = "GERULES_CACHE"
"""`0` switches the cache off."""

LIMIT: Final = "GERULES_CACHE_SIZE"

DEFAULT_LIMIT_BYTES: Final = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The folder of a cache and the most bytes that it keeps; `folder` None: no cache is used."""

    folder: Path | None
    limit_bytes: int = DEFAULT_LIMIT_BYTES


def cache_settings(folder: str | Path | None = None) -> CacheSettings:
    """Return what the environment says, the folder unless it is given.

    The folder is `GERULES_CACHE_DIR`, or `gerules` where the system keeps caches (`XDG_CACHE_HOME`, or
    `~/.cache`).

    Raises:
        PipelineError: E10003 for a `GERULES_CACHE_SIZE` that is no size.
    """
    text = os.environ.get(LIMIT, "").strip()
    limit_bytes = parse_size(text) if text else DEFAULT_LIMIT_BYTES
    if limit_bytes is None:
        raise PipelineError(
            table.BAD_OPTION, option=LIMIT, value=text, reason="it is no size",
            remedy="write a number of bytes, or like 512MiB",
        )  # fmt: skip
    if os.environ.get(SWITCH, "").strip() == "0":
        return CacheSettings(None, limit_bytes)
    return CacheSettings(Path(folder) if folder is not None else cache_folder(), limit_bytes)
