"""Where the compile cache lies, how large it may grow, and whether it is used."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gerules.errors import table
from gerules.pipeline.errors import PipelineError
from gerules.text.cache_folder import FOLDER, cache_folder
from gerules.text.sizes import parse_size

SWITCH: Final = "GERULES_CACHE"
"""`0` switches the cache off, `1` says that it is on, as it is unless set."""

_SWITCHES: Final = ("", "0", "1")

LIMIT: Final = "GERULES_CACHE_SIZE"

DEFAULT_LIMIT_BYTES: Final = 2 * 1024**3


def is_set_up() -> bool:
    """Whether the environment says something of the cache, so that somebody cares for what it keeps."""
    return any(os.environ.get(name, "").strip() for name in (SWITCH, LIMIT, FOLDER))


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
        PipelineError: E10003 for a `GERULES_CACHE_SIZE` that is no size, a `GERULES_CACHE` that is neither 0
            nor 1, a folder of an impossible name.
    """
    text = os.environ.get(LIMIT, "").strip()
    limit_bytes = parse_size(text) if text else DEFAULT_LIMIT_BYTES
    if limit_bytes is None:
        raise PipelineError(
            table.BAD_OPTION, option=LIMIT, value=text, reason="it is no size",
            remedy="write a number of bytes, or like 512MiB",
        )  # fmt: skip
    if folder is not None and (not str(folder) or "\0" in str(folder)):
        raise PipelineError(
            table.BAD_OPTION, option="cache", value=repr(folder), reason="it names no folder",
            remedy="give the path of a folder, or True for the one that the environment says",
        )  # fmt: skip
    switch = os.environ.get(SWITCH, "").strip()
    if switch not in _SWITCHES:
        raise PipelineError(
            table.BAD_OPTION, option=SWITCH, value=switch, reason="it switches the cache neither on nor off",
            remedy="set it to 0 or 1, or unset it; GERULES_CACHE_DIR names the folder",
        )  # fmt: skip
    if switch == "0":
        return CacheSettings(None, limit_bytes)
    return CacheSettings(Path(folder) if folder is not None else cache_folder(), limit_bytes)
