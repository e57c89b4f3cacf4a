"""Which values have one element type because schemas of operators say so."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from gerules.engine.constants import param_at
from gerules.ops import OpSchema


class TypeForest:
    """Values in groups that share an element type, whatever it is."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def __contains__(self, item: Hashable) -> bool:
        return item in self._above

    def add(self, item: Hashable) -> None:
        """Know a value; it is alone unless it is known already."""
        self._above.setdefault(item, item)

    def join(self, items: Sequence[Hashable | None]) -> None:
        """Let values have one type; None stands for one of which nothing is known."""
        known = [item for item in items if item is not None]
        for item in known:
            self.add(item)
            self._above[self._root(item)] = self._root(known[0])

    def join_operands(self, schema: OpSchema, items: Sequence[Hashable | None], result: Hashable) -> None:
        """Join the operands of a node, and its first result, as type variables of the schema say."""
        self.add(result)
        params = [param_at(schema, place) for place in range(len(items))]
        # Operands that commute may stand at each other's places.
        is_tied_anyhow = not schema.is_commutative or len({p.type_var for p in params if p is not None}) == 1
        output = schema.outputs[0].type_var if schema.outputs else ""
        for var in {param.type_var for param in params if param is not None and param.type_var}:
            if is_tied_anyhow:
                tied = [
                    item
                    for item, param in zip(items, params, strict=True)
                    if param is not None and param.type_var == var
                ]
                self.join([*tied, *([result] if output == var else [])])

    def is_one(self, first: Hashable, second: Hashable) -> bool:
        """Whether two values are known to have one type."""
        return first in self and second in self and self._root(first) == self._root(second)

    def _root(self, item: Hashable) -> Hashable:
        while self._above.get(item, item) != item:
            item = self._above[item]
        return item
