"""Precision: the modes that let nodes compute in float16, and the lists that they go by."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from gerules.dsl.book import RuleBook, suggest
from gerules.errors import table
from gerules.ir import Graph
from gerules.ops import Extra, Schemas
from gerules.passes.casts import convert_graph
from gerules.passes.errors import PassError
from gerules.passes.precision_choice import Choice, Kept, Mode, PrecisionLists, PrecisionReport
from gerules.target import Device

__all__ = ["MODES", "PrecisionLists", "PrecisionReport", "read_lists", "set_precision"]

MODES: Final[Mapping[str, Mode]] = {
    "fp32": "fp32",
    "origin": "must_keep_origin_dtype",
    "must_keep_origin_dtype": "must_keep_origin_dtype",
    "fp16": "fp16",
    "force_fp16": "fp16",
    "mixed_float16": "mixed_float16",
    "allow_mix_precision": "mixed_float16",
    "allow_mix_precision_fp16": "mixed_float16",
    "allow_fp32_to_fp16": "allow_fp32_to_fp16",
}
"""The names of modes. Source: `--precision_mode` and `--precision_mode_v2` of ATC."""


def find_mode(name: str) -> Mode:
    """Return the mode that a name of `MODES` stands for.

    Raises:
        PassError: E50014 for a name that is none.
    """
    found = MODES.get(name)
    if found is None:
        known = ", ".join(sorted(MODES))
        raise PassError(table.UNKNOWN_PRECISION, mode=name, known=known, notes=suggest(name, MODES))
    return found


def read_lists(
    book: RuleBook,
    *,
    white: Collection[str] = (),
    black: Collection[str] = (),
    gray: Collection[str] = (),
) -> PrecisionLists:
    """Return the lists that a book declares as PRECISION_WHITE and PRECISION_BLACK, with changes.

    Args:
        white: Operators that become white whatever the book says; likewise `black` and `gray`.
    """
    moved = {*white, *black, *gray}
    return PrecisionLists(
        (book.op_sets.get("PRECISION_WHITE", frozenset()) - moved) | frozenset(white),
        (book.op_sets.get("PRECISION_BLACK", frozenset()) - moved) | frozenset(black),
        book.op_sets.get("GE_CUBE", frozenset()) | book.op_sets.get("ONNX_CUBE", frozenset()),
    )


def set_precision(
    graph: Graph,
    mode: str,
    *,
    device: Device,
    schemas: Schemas,
    lists: PrecisionLists | None = None,
    keep: Collection[str] = (),
    origin_ops: Mapping[str, str] | None = None,
    extra: Extra | None = None,
) -> tuple[Graph, PrecisionReport]:
    """Let nodes compute in float16 as a mode says, with one Cast for each value and type.

    Inputs and outputs of the graph keep their types. Constants are converted here and now, finite
    numbers to finite numbers. float64 becomes float32, other types stay. Bodies of fused operators are
    converted inside; If, Loop and Scan keep their types at the border and are converted within.

    Args:
        mode: A name of `MODES`.
        device: A node is lowered only if some engine of the device takes it in float16.
        lists: White and black list of `mixed_float16`.
        keep: Nodes that keep their types: names of nodes of the model as read, which a fused node
            still answers to, or `OpType::Name`.
        origin_ops: Operator by node name of the model as read. With it `OpType::Name` is honoured for
            nodes that were fused, and names of `keep` that are in no model are a fault.
        extra: Inference for operators that only a higher floor knows.

    Raises:
        PassError: E50014 unknown mode, E50015 for each name of `keep` that names nothing.

    Cost: linear in nodes.
    """
    found = find_mode(mode)
    report = PrecisionReport()
    kept = Kept(keep, origin_ops or {}, report)
    if origin_ops is not None:
        kept.check(graph)
    if found in ("fp32", "must_keep_origin_dtype"):
        return graph, report
    choice = Choice(found, device, schemas, lists or PrecisionLists(), kept, extra, report)
    done = convert_graph(choice, graph, keeps_border=True)
    report.unmatched = kept.unmatched()
    return done, report
