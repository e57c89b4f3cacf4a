"""What a configuration for debugging writes: graphs as text or picture, operators counted, values of runs."""

from __future__ import annotations

import csv
import io
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from gerules.compat.torchair.picture import draw_graph
from gerules.dynamo.tensors import as_array
from gerules.ir import Graph, print_graph
from gerules.pipeline import CompiledModel, save
from gerules.runtime.executor import Executor
from gerules.text.files import write_files

_LARGE_BYTES: Final = 256
"""Weights that a pbtxt leaves out."""


class GraphDump:
    """Writes graphs in one form; nothing when there is none."""

    def __init__(self, form: str | None, folder: Path) -> None:
        self._form, self._folder = form, folder

    def write_original(self, graph: Any, number: int) -> None:
        """Write a graph of aten operators as torch gave it; as pbtxt and picture it is told by its nodes."""
        if self._form in ("txt", "py"):
            text = str(graph.graph) if self._form == "txt" else str(graph.code)
            self._write("original", number, self._form, text.encode())

    def write_compiled(self, model: CompiledModel, number: int) -> None:
        """Write a compiled graph, and the one it was made from where torch's has no such form."""
        if self._form in ("pbtxt", "png"):
            self._write("original", number, self._form, _rendered(model.source, self._form))
        if self._form is not None:
            self._write("optimized", number, self._form, _rendered(model.graph, self._form))

    def _write(self, which: str, number: int, form: str, data: bytes) -> None:
        stamp = time.time_ns() // 1000
        name = f"dynamo_{which}_graph_{number}_rank_0_pid_{os.getpid()}_ts_{stamp}.{form}"
        write_files([(self._folder / name, lambda file: file.write(data))])


def _rendered(graph: Graph, form: str) -> bytes:
    if form == "txt":
        return print_graph(graph).encode("utf-8", "backslashreplace")
    if form == "png":
        return draw_graph(graph)
    return (as_python(graph) if form == "py" else as_pbtxt(graph)).encode("utf-8", "backslashreplace")


def as_python(graph: Graph) -> str:
    """Return a graph as one line for each operator, `name = ge.Op(inputs, attr=value)`, for people."""

    def name_of(value: int | None) -> str:
        if value is None:
            return "None"
        return re.sub(r"\W", "_", graph.values[value].name or f"v{value}")

    lines = [f"# graph {graph.name}"]
    lines += [f"{name_of(value)} = ge.Data()  # {graph.type_of(value)}" for value in graph.inputs]
    lines += [f"{name_of(value)} = ge.Const()  # {const.type}" for value, const in graph.consts.items()]
    for node in graph.nodes.values():
        outputs = ", ".join(name_of(value) for value in node.outputs)
        words = [name_of(value) for value in node.inputs]
        words += [f"{key}={value!r}" for key, value in node.attrs.items()]
        comment = f"  # {', '.join(node.origin.sources)}" if node.origin.sources else ""
        lines.append(f"{outputs} = ge.{node.op.removeprefix('ge::')}({', '.join(words)}){comment}")
    lines.append(f"ge.NetOutput({', '.join(name_of(value) for value in graph.outputs)})")
    return "\n".join(lines) + "\n"


def as_pbtxt(graph: Graph) -> str:
    """Return a graph as the text form of its ONNX model, without the elements of large weights."""
    import onnx
    from google.protobuf import text_format

    with tempfile.TemporaryDirectory(prefix="gerules-") as folder:
        path = Path(folder) / "graph.onnx"
        save(graph, path)
        model = onnx.ModelProto.FromString(path.read_bytes())
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > _LARGE_BYTES:
            tensor.raw_data = b""
            tensor.doc_string = "elements are left out"
    return text_format.MessageToString(model)


# ---------------------------------------------------------------- a summary of operators
_COLUMNS: Final = ("target", "kind", "support status", "call count", "inputs", "outputs")


def summarize(graph: Any, number: int) -> None:
    """Write `fx_summary_<number>.csv` into the working folder: each kind of operator with its types."""
    exported: Any = import_module("torch.onnx._internal.exporter._registration")
    counts: Counter[tuple[str, str, str, str, str]] = Counter()
    translated: set[str] = set(exported.ONNXRegistry.from_torchlib().functions)
    for node in graph.graph.nodes:
        if node.op != "call_function":
            continue
        name = getattr(node.target, "name", None)
        status = (
            "supported" if name is not None and name() in translated else "by decomposition or not at all"
        )
        inputs = "; ".join(_type_of(item) for item in node.all_input_nodes)
        counts[(str(node.target), node.op, status, inputs, _type_of(node))] += 1
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(_COLUMNS)
    for (target, kind, status, inputs, output), count in sorted(counts.items()):
        rows.writerow((target, kind, status, count, inputs, output))
    data = out.getvalue().encode()
    write_files([(Path(f"fx_summary_{number}.csv"), lambda file: file.write(data))])


def _type_of(node: Any) -> str:
    value: Any = node.meta.get("val")
    shape: Any = getattr(value, "shape", None)
    if shape is None:
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(str(dim) for dim in shape)}]"


# ---------------------------------------------------------------- values of runs
def _file_name(text: str) -> str:
    return re.sub(r"[^\w.\-]+", "_", text).strip("_")


class ValueDump:
    """Writes what nodes read and make, a folder for each run.

    Args:
        accepts: Which nodes of torch's graph are written.
        mode: `all`, `input` or `output`.
        steps: Runs that are written, such as `0|1|2-5`; None is all.
        layers: Names of nodes that are written, with blanks between; None is all.
        is_statistic: Write statistics of each value, as a line of text, instead of its elements.
    """

    def __init__(
        self,
        folder: Path,
        *,
        accepts: Callable[[Any], object] | None = None,
        mode: str = "all",
        steps: str | None = None,
        layers: str | None = None,
        is_statistic: bool = False,
    ) -> None:
        self._folder, self._accepts, self._mode = folder, accepts, mode
        self._steps = None if steps is None else _steps_of(steps)
        self._layers = None if layers is None else set(layers.split())
        self._is_statistic = is_statistic
        self._runs: Counter[int] = Counter()

    def run_graph(self, graph: Any, args: Sequence[Any], number: int) -> Sequence[Any]:
        """Run a graph of aten operators by torch and write its values."""
        step = self._next(number)
        if step is None:
            return graph(*args)
        torch: Any = import_module("torch")
        dump = self

        interpreter: Any = torch.fx.Interpreter

        class Writer(interpreter):
            def run_node(self, n: Any) -> Any:
                result: Any = interpreter.run_node(self, n)
                if n.op == "call_function" and dump._wants(n, n.name):
                    kept: dict[Any, Any] = getattr(self, "env", {})
                    inputs = [kept.get(item) for item in n.all_input_nodes]
                    dump._write_node(number, step, f"{n.name}-{n.target}", inputs, [result])
                return result

        # Values are kept until the end, so that inputs can be written with the node that reads them.
        return Writer(graph, garbage_collect_values=False).run(*args)

    def run_model(self, model: CompiledModel, feeds: Mapping[str, Any], number: int) -> Mapping[str, Any]:
        """Run a compiled model and write the values of its graph."""
        step = self._next(number)
        executor = Executor(model.om)
        graph = executor.graph
        inputs = {port.name: value for port, value in zip(executor.io.inputs, graph.inputs, strict=True)}
        known: dict[int, Any] = {inputs[name]: item for name, item in feeds.items()}
        known |= {value: const.array for value, const in graph.consts.items()}
        found = executor.run(feeds, keep=lambda value, item: known.__setitem__(value, np.array(item)))
        if step is not None:
            for node in graph.nodes.values():
                if self._wants(None, node.name):
                    reads = [known.get(value) for value in node.inputs if value is not None]
                    writes = [known.get(value) for value in node.writes()]
                    self._write_node(number, step, f"{node.name}-{node.op.replace('::', '.')}", reads, writes)
        return found

    def _next(self, number: int) -> int | None:
        step = self._runs[number]
        self._runs[number] += 1
        is_written = self._steps is None or any(step in item for item in self._steps)
        return step if is_written else None

    def _wants(self, node: Any, name: str) -> bool:
        if self._layers is not None and name not in self._layers:
            return False
        return node is None or self._accepts is None or bool(self._accepts(node))

    def _write_node(
        self, number: int, step: int, name: str, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        folder = self._folder / "worldsize1_global_rank0" / f"graph_{number}" / str(step)
        folder.mkdir(parents=True, exist_ok=True)
        name = _file_name(name)
        if self._mode != "output":
            self._write_values(folder, f"{name}.INPUT", inputs)
        if self._mode != "input":
            self._write_values(folder, f"{name}.OUTPUT", outputs)

    def _write_values(self, folder: Path, name: str, items: Sequence[Any]) -> None:
        torch: Any = import_module("torch")
        flat: list[Any] = []
        for item in items:
            flat += cast("Sequence[Any]", item) if isinstance(item, tuple | list) else [item]
        for at, item in enumerate(flat):
            if item is None or not hasattr(item, "shape"):
                continue
            array = as_array(torch, item) if isinstance(item, torch.Tensor) else np.asarray(item)
            stamp = time.time_ns() // 1000
            if self._is_statistic:
                data = _statistics(array).encode()
                path = folder / f"{name}.{at}.{stamp}.txt"
            else:
                data = _as_npy(array)
                path = folder / f"{name}.{at}.{stamp}.npy"
            write_files([(path, lambda file, data=data: file.write(data))])


def _as_npy(array: Any) -> bytes:
    out = io.BytesIO()
    # Types that npy files cannot name, such as bfloat16, are widened.
    plain = array if array.dtype.kind in "biufc" else array.astype(np.float32)
    np.save(out, plain, allow_pickle=False)
    return out.getvalue()


def _statistics(array: Any) -> str:
    wide = np.asarray(array, np.float64)
    if not wide.size:
        return f"{array.dtype}{list(array.shape)} empty\n"
    return f"{array.dtype}{list(array.shape)} min {wide.min():g} mean {wide.mean():g} max {wide.max():g}\n"


def _steps_of(text: str) -> tuple[range, ...]:
    found: list[range] = []
    for part in text.split("|"):
        first, _, last = part.partition("-")
        found.append(range(int(first), int(last or first) + 1))
    return tuple(found)
