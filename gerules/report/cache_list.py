"""The compile cache as a table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from gerules.errors.counts import count_text
from gerules.pipeline.cache import Entry, EntryStore
from gerules.report.quantities import bytes_text
from gerules.report.tables import Column, Grid

_SHOWN: Final = 12


def cache_grid(store: EntryStore, entries: Sequence[Entry]) -> Grid:
    """Return the entries in the order given, with their sum against the limit."""
    columns = (Column("entry", style="bold"), Column("size", "right"), Column("last used"))
    rows = [
        (
            entry.key[:_SHOWN],
            bytes_text(entry.size_bytes),
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.used_s)),
        )
        for entry in entries
    ]
    used_bytes = sum(entry.size_bytes for entry in entries)
    used, limit = bytes_text(used_bytes), bytes_text(store.limit_bytes)
    notes = [f"{count_text(len(entries), 'entry')}, {used} of {limit}"]
    if used_bytes > store.limit_bytes:
        notes.append("over the limit: what was not used for longest goes when the next result is kept")
    return Grid(columns, rows, f"Compile cache in {store.folder}", notes)
