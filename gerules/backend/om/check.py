"""What must hold between the operators of a stored model, on reading and, more strictly, on writing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gerules.backend.om.error import is_full
from gerules.backend.om.model import (
    Edge,
    FloatLists,
    ListKind,
    OmAttr,
    OmGraph,
    OmList,
    OmModel,
    OmOp,
    OmTensor,
    TensorValue,
)
from gerules.errors import Faults, table


def check_graphs(graphs: Sequence[OmGraph], faults: Faults, place: str) -> None:
    """Record every graph or operator whose name is taken, and every edge to something that is not there.

    Faults are E80010. Cost: O(operators + edges).
    """
    names = [graph.name for graph in graphs]
    known = set(names)
    if len(known) != len(names):
        _bad(faults, place, "", "two graphs of the model have one name")
    for graph in graphs:
        n_outputs: dict[str, int] = {}
        for op in graph.ops:
            if op.name in n_outputs:
                _bad(faults, place, graph.name, f"two operators are named {op.name!r}")
            n_outputs[op.name] = len(op.output_descs)
        for op in graph.ops:
            if is_full(faults):
                return
            for edge in op.inputs:
                # Some tools leave out the descriptions of single outputs.
                if edge is None:
                    continue
                n_made = n_outputs.get(edge.producer)
                if n_made is None or not 0 <= edge.index < max(1, n_made):
                    what = "operator" if n_made is None else "output"
                    _bad(faults, place, graph.name, f"{op.name!r} reads {edge}, an {what} that is not there")
            for name in op.control_inputs:
                if name not in n_outputs:
                    _bad(faults, place, graph.name, f"{op.name!r} waits for {name!r}, which is not there")
            for name in op.subgraphs:
                if name not in known:
                    _bad(faults, place, graph.name, f"{op.name!r} calls graph {name!r}, which is not there")


def check_writable(model: OmModel, faults: Faults) -> None:
    """Record what loaders or viewers would refuse in a model that is to be written.

    Beyond `check_graphs`: descriptions run parallel to inputs, a consumer describes what its producer
    makes (element type and count), names are free of NUL, attributes are of kinds viewers survive.
    Faults are E80010 and E80021. Cost: O(operators + edges + attributes).
    """
    if not model.graphs:
        faults.add(table.OM_CANNOT_HOLD, what=f"model {model.name}", reason="it has no graph")
    check_graphs(model.graphs, faults, model.name)
    for graph in model.graphs:
        made = {op.name: op.output_descs for op in graph.ops}
        _check_attrs(graph.attrs, faults, graph.name)
        for op in graph.ops:
            if is_full(faults):
                return
            _check_op(op, made, graph.name, faults)


def _check_op(op: OmOp, made: Mapping[str, tuple[OmTensor, ...]], graph: str, faults: Faults) -> None:
    if not op.name or not op.type:
        _bad(faults, graph, graph, f"operator {op.name or op.id!r} has no name or no type")
    _check_attrs(op.attrs, faults, op.name)
    for desc in (*op.input_descs, *op.output_descs):
        _check_attrs(desc.attrs, faults, op.name)
    if op.input_descs and len(op.input_descs) != len(op.inputs):
        n_descs, n_inputs = len(op.input_descs), len(op.inputs)
        _bad(faults, graph, graph, f"{op.name!r} has {n_inputs} inputs but describes {n_descs}")
    for position, (edge, desc) in enumerate(zip(op.inputs, op.input_descs, strict=False)):
        source = _source_of(edge, made)
        if source is not None and (source.dtype, source.n_elements) != (desc.dtype, desc.n_elements):
            _bad(
                faults, graph, graph,
                f"input {position} of {op.name!r} is described as {desc}, but {edge} is {source}",
            )  # fmt: skip
    value = op.attrs.get("value")
    if op.type == "Const" and not isinstance(value, TensorValue):
        _bad(faults, graph, graph, f"constant {op.name!r} has no tensor as its value")


def _source_of(edge: Edge | None, made: Mapping[str, tuple[OmTensor, ...]]) -> OmTensor | None:
    if edge is None:
        return None
    descs = made.get(edge.producer, ())
    return descs[edge.index] if edge.index < len(descs) else None


def _check_attrs(attrs: Mapping[str, OmAttr], faults: Faults, owner: str) -> None:
    for name, value in attrs.items():
        reason = ""
        if not name or name.startswith("\0"):
            reason = "a name that begins with NUL counts as compressed"
        elif isinstance(value, OmTensor | FloatLists):
            reason = "viewers fail on an attribute of this kind"
        elif isinstance(value, OmList) and value.kind is ListKind.NONE:
            reason = "loaders drop a list that does not say what it holds"
        if reason and not is_full(faults):
            faults.add(table.OM_CANNOT_HOLD, place=owner, what=f"attribute {name!r}", reason=reason)


def _bad(faults: Faults, place: str, graph: str, reason: str) -> None:
    if not is_full(faults):
        faults.add(table.OM_BAD_GRAPH, place=place, graph=graph, reason=reason)


def ops_of(graphs: Iterable[OmGraph]) -> Iterable[OmOp]:
    """Yield the operators of all graphs."""
    for graph in graphs:
        yield from graph.ops
