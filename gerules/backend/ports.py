"""Names of inputs and outputs: what a caller uses, one name for each, whatever the values are called."""

from __future__ import annotations

from collections.abc import Iterable

from gerules.ir import Graph


def input_names(graph: Graph) -> list[str]:
    """Return the name of each graph input: its value's, made unique; `input_<i>` where it has none.

    Cost: linear in the inputs.
    """
    return unique_names(graph.values[value].name or f"input_{at}" for at, value in enumerate(graph.inputs))


def output_names(graph: Graph) -> list[str]:
    """Return the name of each graph output: its value's, made unique; `output_<i>` where it has none.

    Cost: linear in the outputs.
    """
    return unique_names(graph.values[value].name or f"output_{at}" for at, value in enumerate(graph.outputs))


def unique_names(names: Iterable[str]) -> list[str]:
    """Return the names with `_1`, `_2`, ... after each that came before.

    >>> unique_names(["y", "y", "y_1"])
    ['y', 'y_1', 'y_1_1']
    """
    namer = Namer()
    return [namer.name(wish) for wish in names]


class Namer:
    """Gives each wish a name that was not given before; linear even when all wishes are one name."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def name(self, wish: str) -> str:
        """Return the wish itself if it is free, else with a number behind."""
        found = wish
        while found in self._taken:
            self._counts[wish] = self._counts.get(wish, 0) + 1
            found = f"{wish}_{self._counts[wish]}"
        self._taken.add(found)
        return found
