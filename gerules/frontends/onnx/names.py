"""Names for a file: unique where ONNX wants them so, and as the graph has them wherever possible."""

from __future__ import annotations

from collections.abc import Iterable

from gerules.ir import Graph


class Names:
    """The names in use in a graph and in those around it.

    A body must not use a name that the graph around it defines anywhere, even further down; two bodies
    beside each other may use the same ones.
    """

    def __init__(self, outer: Names | None = None) -> None:
        self._used: list[set[str]] = [set(), *(outer._used if outer is not None else ())]
        self._next: dict[str, int] = {}

    def pick(self, hint: str) -> str:
        """Return the hint, or when it is empty or taken a name like it, and take it."""
        name = hint or "v"
        if hint and not self._is_taken(name):
            self._used[0].add(name)
            return name
        number = self._next.get(name, 0)
        while True:
            number += 1
            candidate = f"{name}_{number}"
            if not self._is_taken(candidate):
                break
        self._next[name] = number
        self._used[0].add(candidate)
        return candidate

    def _is_taken(self, name: str) -> bool:
        return any(name in used for used in self._used)

    def of_values(self, graph: Graph, given: Iterable[tuple[int, str]] = ()) -> dict[int, str]:
        """Return a name for each value; inputs and outputs choose first. `given` are names from outside."""
        names = dict(given)
        values, pick = graph.values, self.pick
        for value in (*graph.inputs, *graph.outputs):
            if value not in names:
                names[value] = pick(values[value].name)
        for value, record in values.items():
            if value not in names:
                names[value] = pick(record.name)
        return names
