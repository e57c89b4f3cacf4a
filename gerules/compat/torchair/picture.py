"""A graph as a picture: operators in rows by how far they are from the inputs, with a line for each value."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any, Final

from gerules.compat.torchair.error import ConfigError
from gerules.errors import table
from gerules.ir import Graph

_BOX: Final = (150, 26)
_GAP: Final = (20, 34)
_LONGEST: Final = 24
_MOST_PIXELS: Final = 120_000_000


def draw_graph(graph: Graph) -> bytes:
    """Return a PNG of a graph.

    Raises:
        ConfigError: E10009 when pillow is not installed, E10111 for a graph that is too large for a picture.
    """
    try:
        image_module: Any = import_module("PIL.Image")
        draw_module: Any = import_module("PIL.ImageDraw")
    except ImportError:
        raise ConfigError(
            table.PACKAGE_MISSING, what='graph_dump.type = "png"', package="pillow", extra="torch"
        ) from None
    rows = _rows(graph)
    width = max(len(row) for row in rows) * (_BOX[0] + _GAP[0]) + _GAP[0]
    height = len(rows) * (_BOX[1] + _GAP[1]) + _GAP[1]
    if width * height > _MOST_PIXELS:
        raise ConfigError(
            table.BAD_CONFIG_VALUE, path="config.debug.graph_dump.type", value="'png'",
            allowed="txt, py or pbtxt for a graph of this size",
        )  # fmt: skip
    places = {
        node: (_GAP[0] + at * (_BOX[0] + _GAP[0]), _GAP[1] + depth * (_BOX[1] + _GAP[1]))
        for depth, row in enumerate(rows)
        for at, node in enumerate(row)
    }
    image = image_module.new("RGB", (width, height), "white")
    draw = draw_module.Draw(image)
    for node in graph.nodes.values():
        for value in node.reads():
            start = places.get(graph.producer.get(value, value))
            if start is not None:
                left, top = places[node.id]
                line = (start[0] + _BOX[0] // 2, start[1] + _BOX[1], left + _BOX[0] // 2, top)
                draw.line(line, fill="gray")
    for key, (left, top) in places.items():
        node = graph.nodes.get(key)
        words = graph.values[key].name if node is None else node.op.removeprefix("ge::")
        shown = words.encode("ascii", "replace").decode()[:_LONGEST]
        fill = "lightyellow" if node is None else "lightblue" if node.origin.rules else "white"
        draw.rectangle((left, top, left + _BOX[0], top + _BOX[1]), outline="black", fill=fill)
        draw.text((left + 6, top + 7), shown, fill="black")
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _rows(graph: Graph) -> list[list[int]]:
    depth: dict[int, int] = dict.fromkeys(graph.inputs, 0)
    for node in graph.nodes.values():
        above = [depth.get(graph.producer.get(value, value), 0) for value in node.reads()]
        depth[node.id] = 1 + max(above, default=0)
    rows: list[list[int]] = [[] for _ in range(1 + max(depth.values(), default=0))]
    for key, row in depth.items():
        rows[row].append(key)
    return [row for row in rows if row] or [[]]
