"""Every piece of syntax inside a rule or a definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import cast

from gerules.dsl.expressions import Syntax


def pieces_in(item: object) -> Iterator[Syntax]:
    """Yield an item and every piece of syntax inside; the tests of a rule are left out."""
    if isinstance(item, tuple):
        for child in cast("tuple[object, ...]", item):
            yield from pieces_in(child)
    elif isinstance(item, Syntax):
        yield item
        for part in fields(item):
            if part.name not in ("span", "tests"):
                yield from pieces_in(getattr(item, part.name))
