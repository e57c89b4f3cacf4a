"""Choice: which nodes a precision mode lowers, by lists, by name and by what the device has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from gerules.dsl.book import suggest
from gerules.errors import Faults, table
from gerules.ir import Graph, Node, ValueType
from gerules.ops import Extra, Schemas
from gerules.passes.errors import PassError
from gerules.target import Device, Engine

Mode = Literal["fp32", "must_keep_origin_dtype", "fp16", "mixed_float16", "allow_fp32_to_fp16"]

_OP_TYPE: Final = "OpType::"


@dataclass(frozen=True, slots=True)
class PrecisionLists:
    """Operators by what `mixed_float16` does with them; what is in neither list follows its predecessors."""

    white: frozenset[str] = frozenset()
    black: frozenset[str] = frozenset()
    cube: frozenset[str] = frozenset()
    """Operators of the cube unit; `allow_fp32_to_fp16` prefers float16 for them."""


@dataclass(slots=True)
class PrecisionReport:
    """What a precision mode did.

    `reasons` says for each node (by id, bodies included) why it computes in the type it does.
    `saturated` names constants with numbers beyond float16's range, `raised` those that would have
    become zero.
    """

    n_low: int = 0
    n_kept: int = 0
    n_casts: int = 0
    n_converted_consts: int = 0
    saturated: list[str] = field(default_factory=list[str])
    raised: list[str] = field(default_factory=list[str])
    unmatched: list[str] = field(default_factory=list[str])
    reasons: dict[int, str] = field(default_factory=dict[int, str])


class Kept:
    """The nodes that keep their types, by name and by operator."""

    def __init__(self, keep: Collection[str], origin_ops: Mapping[str, str], report: PrecisionReport) -> None:
        self.ops = {name.removeprefix(_OP_TYPE) for name in keep if name.startswith(_OP_TYPE)}
        self.names = {name for name in keep if not name.startswith(_OP_TYPE)}
        self.origin_ops = origin_ops
        self._met: set[str] = set()

    def check(self, graph: Graph) -> None:
        faults = Faults()
        known = {*self.origin_ops, *(node.name for node in graph.nodes.values())}
        ops = {*self.origin_ops.values(), *(node.op for node in graph.nodes.values())}
        short = {op.rpartition("::")[2] for op in ops}
        for name in sorted(self.names - known):
            faults.add(table.UNKNOWN_KEEP, name=name, notes=suggest(name, known))
        for op in sorted(self.ops - ops - short):
            faults.add(table.UNKNOWN_KEEP, name=_OP_TYPE + op, notes=suggest(op, ops | short))
        faults.raise_if_any(PassError)

    def holds(self, node: Node) -> bool:
        """Whether a node, or one that it was made from, is to keep its types."""
        for op in (node.op, node.op.rpartition("::")[2]):
            if op in self.ops:
                self._met.add(_OP_TYPE + op)
                return True
        for source in (*node.origin.sources, node.name):
            if source in self.names:
                self._met.add(source)
                return True
            if self.origin_ops.get(source, "").rpartition("::")[2] in self.ops:
                return True
        return False

    def unmatched(self) -> list[str]:
        """Return the names that no node answered to."""
        return sorted({*self.names, *(_OP_TYPE + op for op in self.ops)} - self._met)


class Choice:
    """What conversion of a graph and its bodies shares: the mode, the device, the lists, the report."""

    def __init__(
        self,
        mode: Mode,
        device: Device,
        schemas: Schemas,
        lists: PrecisionLists,
        kept: Kept,
        extra: Extra | None,
        report: PrecisionReport,
    ) -> None:
        self.mode = mode
        self.device = device
        self.schemas = schemas
        self.lists = lists
        self.kept = kept
        self.extra = extra
        self.report = report
        self._engines: dict[str, list[Engine]] = {}

    def wants_low(self, node: Node, follows: bool) -> bool:
        """Whether a node should compute in float16; why is noted. `follows`: its predecessors do."""
        low, reason = self._decide(node, follows)
        self.report.reasons[node.id] = reason
        return low

    def _decide(self, node: Node, follows: bool) -> tuple[bool, str]:
        if self.kept.holds(node):
            return False, "it is kept by name"
        if self.mode == "fp16":
            return True, "float16 is forced"
        if self.mode == "allow_fp32_to_fp16":
            if node.op in self.lists.cube:
                return True, "the cube unit prefers float16"
            return False, "float32 is kept where it is supported"
        if node.op in self.lists.black:
            return False, "it is on the black list"
        if node.op in self.lists.white:
            return True, "it is on the white list"
        return (True, "it follows its predecessors") if follows else (False, "its predecessors keep float32")

    def is_supported(
        self, node: Node, inputs: Sequence[ValueType | None], outputs: Sequence[ValueType]
    ) -> bool:
        """Whether some engine takes the node with these types."""
        if node.op not in self._engines:
            self._engines[node.op] = self.device.engines_of(node.op)
        return any(
            engine.where is None or engine.where(node.op, inputs, outputs, node.attrs)
            for engine in self._engines[node.op]
        )
