"""The precision ledger: how much error each node, rule and Cast of a compiled graph adds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Literal

import numpy as np

from gerules.backend.ports import input_names
from gerules.engine.reasons import sources_of
from gerules.errors import GerulesError
from gerules.ir import Graph, Node, TensorType, dtype_of
from gerules.passes.casts import PHASE as PRECISION
from gerules.passes.format_costs import TRANSDATA
from gerules.passes.transdata import PHASE as FORMATS
from gerules.pipeline.compilation import Compilation
from gerules.runtime.compare import relative_error
from gerules.runtime.feeds import Item
from gerules.runtime.kernels import Array
from gerules.runtime.kernels.precision import saturating
from gerules.runtime.reference import evaluate
from gerules.runtime.widening import widened, widened_feeds
from gerules.target.cost import BodyOf

Cause = Literal["rule", "lowered", "cast", "model"]
"""Why a value may differ from the model's: a rule made its node; its node computes in a narrower type; a Cast
was inserted; or nothing but the kernel, for the node is the model's own."""

_HIDDEN: Final = 0.01
"""The part of an error that has to come through for it to count as felt."""

_CASTS: Final = ("Cast", "ge::Cast")


@dataclass(frozen=True, slots=True)
class Entry:
    """What one node adds.

    `error_in` is the largest error among its inputs, `error_out` that of what it makes: each the largest
    difference from the model's value over the largest magnitude of that. `value` is the value of the model
    that it makes, `sources` the nodes of the model that it stands for, `rule` the last rule that made it.
    """

    node: str
    op: str
    dtype: str
    cause: Cause
    rule: str
    sources: tuple[str, ...]
    value: str
    error_in: float
    error_out: float
    node_id: int
    value_id: int

    @property
    def added(self) -> float:
        """The error out minus the error in: below zero where errors cancel or fade."""
        return 0.0 if self.error_in == self.error_out else self.error_out - self.error_in

    def as_json(self) -> dict[str, object]:
        """Return the entry as plain values."""
        return {
            "node": self.node,
            "op": self.op,
            "dtype": self.dtype,
            "cause": self.cause,
            "rule": self.rule,
            "sources": list(self.sources),
            "value": self.value,
            "error_in": self.error_in,
            "error_out": self.error_out,
            "added": self.added,
        }


@dataclass(frozen=True, slots=True)
class Account:
    """Entries of one cause and one rule (of the model's own nodes and Casts: one operator) taken together.

    `added` sums what was added, `worst` is the entry that added most.
    """

    cause: Cause
    name: str
    dtype: str
    n_nodes: int
    added: float
    worst: Entry

    def as_json(self) -> dict[str, object]:
        """Return the account as plain values."""
        return {
            "cause": self.cause,
            "name": self.name,
            "dtype": self.dtype,
            "n_nodes": self.n_nodes,
            "added": self.added,
            "worst": self.worst.added,
            "worst_node": self.worst.node,
        }


@dataclass(frozen=True, slots=True)
class Ledger:
    """The errors of one compiled graph on one set of inputs.

    Attributes:
        truth: What errors are measured against: `float64`, or `as written` where the model does not run so.
        outputs: The error of each output, by name.
        entries: One for each node that makes a value of the model or casts one, in the order of the graph.
            What a rule makes on the way to such a value counts with the node that makes it.
    """

    model: str
    device: str
    precision: str
    truth: str
    outputs: Mapping[str, float]
    entries: tuple[Entry, ...]

    def accounts(self) -> tuple[Account, ...]:
        """Return what each rule, each operator of the model and the Casts add, most first."""
        found: dict[tuple[Cause, str, str], list[Entry]] = {}
        for entry in self.entries:
            name = entry.rule if entry.rule and entry.cause != "cast" else entry.op
            found.setdefault((entry.cause, name, entry.dtype), []).append(entry)
        accounts = [
            Account(*key, len(items), sum(max(0.0, item.added) for item in items), max(items, key=_added_by))
            for key, items in found.items()
        ]
        return tuple(sorted(accounts, key=lambda item: -item.added))

    def as_json(self) -> dict[str, object]:
        """Return the ledger as plain values."""
        return {
            "model": self.model,
            "device": self.device,
            "precision": self.precision,
            "truth": self.truth,
            "outputs": dict(self.outputs),
            "accounts": [item.as_json() for item in self.accounts()],
            "entries": [item.as_json() for item in self.entries],
        }


def _added_by(entry: Entry) -> float:
    return entry.added


def make_ledger(compiled: Compilation, feeds: Mapping[str, object]) -> Ledger:
    """Run a compiled graph and its model, each by meaning, and say where errors come from.

    The model runs in float64, so that its own rounding does not count.

    Args:
        feeds: Arrays by input name, as the model takes them.

    Raises:
        RunError: E20001 to E20006 for the feeds, E70001 and following for what cannot run.

    Cost: two runs that keep every value.
    """
    compiled = compiled.branch_for(feeds)
    found: dict[int, Item] = {}
    outputs = run_by_meaning(compiled, feeds, keep=found)
    truth, wanted, name = _truth(compiled, feeds)
    return Ledger(
        compiled.source.name,
        compiled.tools.device.name,
        compiled.tools.precision,
        name,
        {name: relative_error(array, wanted[name]) for name, array in outputs.items() if name in wanted},
        tuple(entries_of(compiled.graph, compiled.stages[0].graph, found, truth)),
    )


def run_by_meaning(
    compiled: Compilation, feeds: Mapping[str, object], *, keep: MutableMapping[int, Item] | None = None
) -> dict[str, Array]:
    """Run the graph that a compile left in the device's arithmetic, without a plan. Raises as `evaluate`."""
    tools = compiled.tools
    with saturating(tools.device.numbers.get("f16_overflow") == "saturate"):
        return evaluate(compiled.graph, feeds, body_of=tools.body_of, keep=keep)


def values_of_model(
    graph: Graph, feeds: Mapping[str, object], body_of: BodyOf
) -> tuple[dict[int, Item], dict[str, Item]]:
    """Run a model by meaning; return every value by id, inputs included, and the outputs by name."""
    values: dict[int, Item] = {}
    outputs = evaluate(graph, feeds, body_of=body_of, keep=values)
    for name, value in zip(input_names(graph), graph.inputs, strict=True):
        given = feeds.get(name)
        if isinstance(given, np.ndarray):
            values[value] = given
    return values, dict(outputs)


def _truth(
    compiled: Compilation, feeds: Mapping[str, object]
) -> tuple[dict[int, Item], dict[str, Item], str]:
    source, body_of = compiled.source, compiled.tools.body_of
    try:
        return *values_of_model(widened(source), widened_feeds(feeds), body_of), "float64"
    except GerulesError:  # an operator that takes no float64
        return *values_of_model(source, feeds, body_of), "as written"


def entries_of(
    graph: Graph, model: Graph, found: Mapping[int, Item], truth: Mapping[int, Item]
) -> Iterator[Entry]:
    """Yield what each node of a compiled graph adds, in its order.

    A value keeps its id and its meaning through all rules, so that both runs are compared value by value.
    Values that only the compiled graph has carry the error of what they are made from.

    Args:
        model: The graph before the rules, with its types.
        found: Values of a run of `graph`, by id.
        truth: Values of a run of the model.

    Cost: linear in elements.
    """
    meaning = _meanings(graph, truth)
    errors: dict[int, float] = {}
    for node in graph.nodes.values():
        error_in = max((errors.get(value, 0.0) for value in node.reads()), default=0.0)
        worst, error_out = None, 0.0
        for value in node.writes():
            item, true = found.get(value), truth.get(meaning.get(value, value))
            if not _is_same_shape(item, true):
                errors[value] = error_in
                continue
            errors[value] = relative_error(item, true)
            if worst is None or errors[value] > error_out:
                worst, error_out = value, errors[value]
        if worst is not None:
            true_id = meaning.get(worst, worst)
            yield _entry(graph, model, node, worst, true_id, found[worst], error_in, error_out)


def felt_errors(graph: Graph, entries: Iterable[Entry]) -> dict[int, float]:
    """Return, by node of an entry, how much of the error of its result comes through to an output.

    On a way to an output that is the least error of the values on it, and of several ways the largest
    counts. Where a finite error shrinks to less than `_HIDDEN` of itself, what is left is taken to be of
    something else: so a mask that saturates before Softmax is not felt. A value that is not compared hides
    nothing.

    Cost: linear in nodes.
    """
    error_of = {entry.node_id: entry.error_out for entry in entries}
    outputs = set(graph.outputs)
    through: dict[int, float] = {}
    felt: dict[int, float] = {}
    for node in reversed([*graph.nodes.values()]):
        made = [inf if value in outputs else through.get(value, 0.0) for value in node.writes()]
        own, comes_through = error_of.get(node.id, inf), max(made, default=0.0)
        error = min(own, comes_through)
        if own < inf and comes_through < _HIDDEN * own:
            error = 0.0
        for value in node.reads():
            through[value] = max(error, through.get(value, 0.0))
        if node.id in error_of:
            felt[node.id] = error
    return felt


def _meanings(graph: Graph, truth: Mapping[int, Item]) -> dict[int, int]:
    """Return, for values that the compiler's own conversions read or make, the value of the model."""
    nodes = [node for node in graph.nodes.values() if _is_inserted(node)]
    meaning: dict[int, int] = {}
    for node in reversed(nodes):  # what a graph output was before its type was given back
        one, two = node.inputs[0], node.outputs[0]
        if one is not None and two is not None and one not in truth:
            two = meaning.get(two, two)
            if two in truth:
                meaning[one] = two
    for node in nodes:
        one, two = node.inputs[0], node.outputs[0]
        if one is not None and two is not None and two not in truth:
            meaning.setdefault(two, meaning.get(one, one))
    return meaning


def _is_inserted(node: Node) -> bool:
    """Whether a node converts a value to another type or format, and no node of the model did so."""
    if node.op == TRANSDATA:
        return node.origin.phase == FORMATS
    return node.op in _CASTS and node.origin.phase == PRECISION and not node.origin.rules


def _is_same_shape(one: Item, two: Item) -> bool:
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return one.shape == two.shape
    return isinstance(one, list) and isinstance(two, list)


def _entry(
    graph: Graph,
    model: Graph,
    node: Node,
    value: int,
    meaning: int,
    item: Item,
    error_in: float,
    error_out: float,
) -> Entry:
    dtype = dtype_of(item) if isinstance(item, np.ndarray) else None
    known = model.values.get(meaning)
    written = known.type.dtype if known is not None and isinstance(known.type, TensorType) else dtype
    is_lowered = dtype is not None and dtype.is_float and dtype is not written
    rules, sources = node.origin.rules, sources_of(node)
    cause: Cause = "rule" if rules else "model"
    if node.op in _CASTS and node.origin.phase.startswith(PRECISION):
        cause = "cast"
    elif is_lowered:
        cause = "lowered"
    return Entry(
        called_by_users(node, sources, graph.values[value].name),
        node.op,
        "" if dtype is None else str(dtype),
        cause,
        rules[-1] if rules else "",
        sources,
        known.name if known is not None else graph.values[meaning].name,
        error_in,
        error_out,
        node.id,
        meaning,
    )


def called_by_users(node: Node, sources: Sequence[str], value: str) -> str:
    """Return the name of the node of the model whose result a node has, or else what it makes."""
    return sources[-1] if sources else node.name or value
