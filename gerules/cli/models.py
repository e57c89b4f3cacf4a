"""Model files of every kind, opened for a look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gerules.backend.om.header import MAGIC
from gerules.backend.ports import input_names, output_names
from gerules.ir import Attr, Graph, Marks, print_graph


@dataclass(frozen=True, slots=True)
class Model:
    """A graph ready to be shown: with marks by node id and lines about the whole."""

    graph: Graph
    marks: Marks = field(default_factory=dict[int, Mapping[str, Attr]])
    facts: tuple[str, ...] = ()


def is_om(path: Path) -> bool:
    """Whether a file is an offline model, by its ending or by its first bytes."""
    if path.name.lower().endswith((".onnx", ".graph", ".mindir")):
        return False
    if path.name.lower().endswith(".om"):
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def open_model(path: Path) -> Model:
    """Read a model of any kind. Raises what its reader raises."""
    if not is_om(path):
        from gerules.pipeline import load

        return Model(load(path))
    from gerules.backend.om import read_om
    from gerules.report.om_graph import om_as_graph

    text = om_as_graph(read_om(path))
    return Model(text.graph, text.marks, text.facts)


def compile_until(
    path: Path,
    stage: str,
    *,
    device: str,
    precision: str | None,
    profile: str | None,
    rules: Sequence[Path],
    enable: Sequence[str],
    disable: Sequence[str],
    input_shapes: Mapping[str, Sequence[int | str]],
) -> Model:
    """Compile a model up to a stage and return what it leaves.

    The name of a pipeline, such as `fusion`, stands for its last phase.

    Raises:
        GerulesError: what the compile raises.
    """
    from gerules.cli.compiling import compile_model
    from gerules.pipeline import shipped_rules

    pipelines = shipped_rules(rules).pipelines
    if stage in pipelines:
        stage = pipelines[stage].phases[-1].name
    compiled = compile_model(
        path,
        device=device,
        precision=precision,
        profile=profile,
        rules=rules,
        enable=enable,
        disable=disable,
        input_shapes=input_shapes,
        stop_after=stage,
    )
    last = compiled.model.stages[-1]
    return Model(last.graph, last.marks, (f"{path.name} after {last.name}, for {device}",))


def summarize(model: Model) -> dict[str, object]:
    """Return a model as plain values: its interface, its operators counted, its text."""
    graph = model.graph
    counts = Counter(node.op for node in graph.nodes.values())
    return {
        "name": graph.name,
        "facts": list(model.facts),
        "inputs": [
            {"name": name, "type": str(graph.type_of(value))}
            for name, value in zip(input_names(graph), graph.inputs, strict=True)
        ],
        "outputs": [
            {"name": name, "type": str(graph.type_of(value))}
            for name, value in zip(output_names(graph), graph.outputs, strict=True)
        ],
        "n_nodes": len(graph.nodes),
        "operators": dict(counts.most_common()),
        "text": print_graph(graph, marks=model.marks),
    }
