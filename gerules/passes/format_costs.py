"""Costs of a choice of formats: kernels, and one conversion for each value and format that somebody needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from gerules.ir import Format, Graph, Node, TensorType, ValueType
from gerules.passes.format_options import HEAVY, Option
from gerules.target import CostModel

TRANSDATA: Final = "ge::TransData"


def steps_between(source: Format, target: Format) -> list[tuple[Format, Format]]:
    """Return the conversions from one format to another.

    Between two formats in blocks the way leads through the plain one. Source: the Graph Engine's table
    of conversions (NC1HWC0 to FRACTAL_Z and FRACTAL_NZ by way of NCHW).
    """
    if source is target:
        return []
    if source in HEAVY and target in HEAVY:
        return [(source, Format.ND), (Format.ND, target)]
    return [(source, target)]


class FormatState:
    """The option of each node, and what the choice costs in microseconds."""

    def __init__(
        self,
        graph: Graph,
        model: CostModel,
        border: Mapping[int, Format],
        alike: Mapping[int, int] | None = None,
    ) -> None:
        """Start with graph inputs in the formats of `border`; nodes alike cost the same."""
        self.graph = graph
        self.model = model
        self.option: dict[int, Option] = {}
        self.made: dict[int, Format] = dict(border)
        """The format in which each value is produced."""
        self.needed: dict[int, Counter[Format]] = {}
        """How many readers need each value in each format; constants have any format for nothing."""
        self._conversion_us: dict[tuple[ValueType, Format, Format], float] = {}
        self._node_us: dict[tuple[int, Option], float] = {}
        self._alike: Mapping[int, int] = alike or {}

    def need(self, value: int, format: Format) -> None:
        """Note a reader that stays as it is, such as a graph output."""
        self.needed.setdefault(value, Counter())[format] += 1

    def choose(self, node: Node, option: Option) -> None:
        """Let a node run by an option, instead of the one it had."""
        before = self.option.get(node.id)
        if before is option:
            return
        for place, value in enumerate(node.inputs):
            if value is None or value in self.graph.consts:
                continue
            needed = self.needed.get(value)
            if needed is None:
                needed = self.needed[value] = Counter()
            if before is not None:
                needed[before.inputs[place]] -= 1
                if not needed[before.inputs[place]]:
                    del needed[before.inputs[place]]
            needed[option.inputs[place]] += 1
        for place, value in enumerate(node.outputs):
            if value is not None:
                self.made[value] = option.outputs[place]
        self.option[node.id] = option

    def around(self, node: Node) -> set[int]:
        """Return the values whose conversions depend on a node's option."""
        return {value for value in (*node.inputs, *node.outputs) if value is not None}

    def conversions_us(self, values: Iterable[int]) -> float:
        """Return what the conversions of some values cost."""
        total = 0.0
        for value in values:
            needed = self.needed.get(value)
            if not needed or value in self.graph.consts:
                continue
            source = self.made.get(value, Format.ND)
            steps = {step for target in needed for step in steps_between(source, target)}
            total += sum(self.conversion_us(self.graph.type_of(value), *step) for step in steps)
        return total

    def conversion_us(self, type: ValueType, source: Format, target: Format) -> float:
        """Return what one conversion costs."""
        key = type, source, target
        found = self._conversion_us.get(key)
        if found is None:
            found = 0.0
            if isinstance(type, TensorType):
                node = Node(-1, TRANSDATA, (0,), (1,))
                ends = [type.with_format(source)], [type.with_format(target)]
                found = self.model.node(node, *ends).time
            self._conversion_us[key] = found
        return found

    def node_us(self, node: Node, option: Option) -> float:
        """Return what a node costs by an option."""
        key = self._alike.get(node.id, node.id), option
        found = self._node_us.get(key)
        if found is None:
            inputs = [
                None if value is None else in_format(self.graph.type_of(value), option.inputs[place])
                for place, value in enumerate(node.inputs)
            ]
            outputs = [
                in_format(self.graph.type_of(value), option.outputs[place])
                for place, value in enumerate(node.outputs)
                if value is not None
            ]
            found = self._node_us[key] = self.model.node(node, inputs, outputs).time * option.cost
        return found


def in_format(type: ValueType, format: Format, groups: int = 1) -> ValueType:
    """Return a type in a format; sequences and the like have none."""
    return type.with_format(format, groups) if isinstance(type, TensorType) else type
