"""Reading MindIR, MindSpore's own model files: a file or bytes to a checked graph of ONNX operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from gerules.errors import Faults, table
from gerules.frontends.fault import ModelError
from gerules.frontends.mindir.evaluate import Evaluator
from gerules.frontends.mindir.items import Build, Item, Items, Monad, NodeFault, Tensor, new_build, tensors_in
from gerules.frontends.mindir.operands import Call
from gerules.frontends.mindir.records import GraphRecord, ModelRecord, PortRecord, TensorRecord, read_model
from gerules.frontends.mindir.tensors import TensorFault, read_array, type_of
from gerules.frontends.mindir.wire import WireFault
from gerules.frontends.onnx.external import DataFault, DataFiles, map_file
from gerules.frontends.onnx.findings import Findings
from gerules.ir import Graph, Origin
from gerules.ir.collector import paused_collector

OPSET: Final = 21
"""The version of ONNX that the graph is written in; the first whose GroupNormalization is MindSpore's."""


def load_mindir(
    source: str | Path | bytes, *, faults: Faults | None = None, folder: str | Path | None = None
) -> Graph:
    """Read a MindIR model of either generation of the format and check it.

    Weights are views into the file. Function graphs are expanded, branches and loops become If and Loop, and
    MindSpore's operators those of ONNX. Nodes are known by their scope: `Default/conv-Conv2d/Conv2D-op0`.

    Args:
        faults: Receives the faults.
        folder: Where weights lie that stand beside a model given as bytes; for a file, the file's folder.

    Raises:
        ModelError: With every fault found: E10001 and E10060 for the file, E10014 to E10028 for its graphs
            and tensors, E10061 for operators that are not read, E10062 for nodes that make no sense.

    Cost: linear in the nodes that the results follow from; weights are not touched.
    """
    findings = Findings(str(source) if isinstance(source, str | Path) else "the model", faults)
    path = None if isinstance(source, bytes) else Path(source)
    try:
        data = memoryview(source) if isinstance(source, bytes) else map_file(Path(source))
    except (OSError, ValueError) as fault:
        reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
        raise ModelError(table.FILE_NOT_FOUND, path=path, reason=reason) from None
    with paused_collector():
        try:
            model = read_model(data)
        except WireFault as fault:
            raise ModelError(table.NOT_MINDIR, path=findings.path, reason=str(fault)) from None
        except RecursionError:
            raise ModelError(table.NOT_MINDIR, path=findings.path, reason="it nests too deep") from None
        files = DataFiles(path, Path(folder) if folder is not None else None)
        return _Reader(model, files, findings).read()


class _Reader:
    """Fills the graph of one model."""

    def __init__(self, model: ModelRecord, files: DataFiles, findings: Findings) -> None:
        self._model = model
        self._files = files
        self._findings = findings

    def read(self) -> Graph:
        """Return the graph. Raises ModelError."""
        findings, main = self._findings, self._model.graph
        if main is None or not main.outputs:
            reason = "it holds no graph" if main is None else "its graph has no outputs"
            raise ModelError(table.NOT_MINDIR, path=findings.path, reason=reason)
        if not self._model.little_endian:
            raise ModelError(table.NOT_MINDIR, path=findings.path, reason="its numbers are big-endian")
        build = new_build(_plain(main.name) or "model", OPSET)
        build.editor.metadata = {
            f"mindir.{name}": text
            for name, text in (
                ("producer_name", self._model.producer),
                ("producer_version", self._model.producer_version or self._model.model_version),
            )
            if text
        }
        functions = {graph.name: graph for graph in (*self._model.functions, main) if graph.name}
        primitives = {primitive.name: primitive for primitive in self._model.primitives}
        evaluator = Evaluator(functions, primitives, self._files, findings)
        try:
            args = tuple(self._input(build, main, port) for port in main.inputs)
            frame = evaluator.frame(main, args, build)
            for graph in (main, *self._model.functions):
                for record in graph.parameters:
                    frame.names[record.name] = self._weight(build, graph, record)
            result = evaluator.run(frame)
            self._set_outputs(build, result)
        except NodeFault as fault:
            findings.add(table.MINDIR_NODE, op=main.name or "graph", reason=str(fault))
        findings.close()
        return build.finish()

    def _input(self, build: Build, graph: GraphRecord, port: PortRecord) -> Item:
        """An input of the model; a tuple of tensors is several, a token of side effects none."""
        name = _within(port.name, graph)
        if not port.tensors and port.attr is not None and port.attr.kind == "monad":
            return Monad()
        records = port.tensors or ([] if port.attr is None else _records(port))
        made: list[Item] = []
        for place, record in enumerate(records):
            try:
                kind = type_of(record)
            except TensorFault as fault:
                self._findings.add(table.BAD_TYPE, name=name, reason=str(fault))
                continue
            full = name if len(records) == 1 else f"{name}.{place}"
            made.append(Tensor(build, build.editor.add_input(kind, full)))
        if len(records) == 1 and len(made) == 1 and port.attr is None:
            return made[0]
        if not records:
            self._findings.add(table.BAD_TYPE, name=name, reason="it is no tensor")
        return Items(tuple(made)) if len(made) != 1 or port.attr is not None else made[0]

    def _weight(self, build: Build, graph: GraphRecord, record: TensorRecord) -> Item:
        name = record.ref_key or _within(record.name, graph)
        try:
            array = read_array(record, self._files)
        except TensorFault as fault:
            self._findings.add(table.BAD_TENSOR, place=graph.name, name=name, reason=str(fault))
        except DataFault as fault:
            self._findings.add(table.BAD_EXTERNAL_DATA, place=graph.name, name=name, reason=str(fault))
        else:
            return Tensor(build, build.editor.add_const(array, name))
        return Tensor(build, build.editor.add_value())

    def _set_outputs(self, build: Build, result: Item) -> None:
        """Outputs of the model are made by nodes, each its own."""
        writer = Call(build, "", (), {}, (), Origin())
        outputs: list[int] = []
        for leaf in tensors_in(result):
            value = writer.value_of(leaf)
            editor = build.editor
            if value in outputs or editor.producer(value) is None:
                kind = editor.values[value].type
                value = writer.add("Identity", [value])
                editor.set_type(value, kind)
            outputs.append(value)
        if not outputs:
            raise NodeFault("its results are no tensors")
        build.editor.set_outputs(outputs)
        _name_apart(build, outputs)


def _name_apart(build: Build, outputs: Sequence[int]) -> None:
    """Give outputs names that no input has: MindSpore names values after variables of Python."""
    editor = build.editor
    taken = {editor.values[value].name for value in editor.inputs}
    for value in outputs:
        wish = found = editor.values[value].name
        number = 0
        while found and found in taken:
            number += 1
            found = f"{wish}_{number}"
        taken.add(found)
        editor.values[value] = replace(editor.values[value], name=found)


def _records(port: PortRecord) -> list[TensorRecord]:
    """The tensors of an input that is a tuple."""
    found: list[TensorRecord] = []
    pending = [port.attr]
    while pending:
        attr = pending.pop()
        if attr is not None:
            found += attr.tensors
            pending += reversed(attr.values)
    return found


def _within(name: str, graph: GraphRecord) -> str:
    return name.removeprefix(f"{graph.name}:")


def _plain(name: str) -> str:
    """The name of a graph without the numbers before it: `38_20___main___Net_construct_12` is `Net`."""
    text = name.lstrip("0123456789_").removeprefix("main").lstrip("_")
    head, mark, _ = text.partition("_construct")
    return head if mark else text
