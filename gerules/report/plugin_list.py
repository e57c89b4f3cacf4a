"""The plugins that were found, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gerules.errors.counts import count_text
from gerules.pipeline.plugins import SWITCH, Plugin
from gerules.report.tables import Column, Grid

_MOST_NAMED: Final = 8
"""Names of rules that a row shows."""


def plugin_grid(plugins: Sequence[Plugin]) -> Grid:
    """Return a row for each plugin: its group and name, its package, what it gives, what came of it."""
    heads = ("group", "package", "is", "gives")
    columns = (Column("plugin", style="bold"), *(Column(head) for head in heads))
    rows = [(item.name, item.group, item.distribution, item.status, _gives(item)) for item in plugins]
    notes = (f"switched off by {SWITCH}=0",) if any(item.status == "off" for item in plugins) else ()
    return Grid(columns, rows, notes=notes)


def _gives(plugin: Plugin) -> str:
    names = plugin.gives
    more = f" and {count_text(len(names) - _MOST_NAMED, 'other')}" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more or "-"
