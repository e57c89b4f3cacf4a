"""A functional graph of torch with the shapes of one run as a graph of gerules, parameters as constants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gerules.dynamo.tensors import as_array
from gerules.frontends import load_onnx
from gerules.frontends.torch.exporting import export_program
from gerules.frontends.torch.inputs import Arguments
from gerules.ir import Const, Graph


@dataclass(frozen=True, slots=True)
class Output:
    """Where one result of the graph comes from: a result of the model, an argument, or a plain value."""

    kind: str
    at: int = 0
    value: Any = None


@dataclass(frozen=True, slots=True)
class Converted:
    """A graph, which argument each of its inputs is, and where each result of the original comes from."""

    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[Output, ...]


def convert(
    torch: Any,
    graph_module: Any,
    args: Sequence[Any],
    frozen: Collection[int],
    translations: Mapping[Any, Callable[..., Any]],
    name: str,
) -> Converted:
    """Return the graph that `graph_module` is for arguments of these shapes.

    Args:
        args: Tensors, and numbers where torch has sizes; the latter become constants.
        frozen: Which arguments become constants, with the values they have.
        translations: What makes ONNX of operators, before torch's own.

    Raises:
        ModelError: E10080 for operators that torch cannot export, and what reading ONNX raises.
    """
    outputs: list[Output] = []
    specialized = _specialize(torch, graph_module, args, outputs)
    tensors = [at for at, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    arguments = Arguments(tuple(args[at].detach() for at in tensors))
    # Torch calls with dispatch keys excluded that tracing needs; they are those of one thread.
    proto = _in_thread(lambda: export_program(torch, specialized, arguments, name, translations=translations))
    graph = replace(load_onnx(proto), name=name)
    consts = dict(graph.consts)
    kept: list[int] = []
    inputs: list[int] = []
    for at, value in zip(tensors, graph.inputs, strict=True):
        if at in frozen:
            consts[value] = Const(as_array(torch, args[at]))
        else:
            kept.append(at)
            inputs.append(value)
    graph = replace(graph, inputs=tuple(inputs), consts=consts)
    return Converted(graph, tuple(kept), tuple(outputs))


def _specialize(torch: Any, graph_module: Any, args: Sequence[Any], outputs: list[Output]) -> Any:
    """A module of tensors alone; `outputs` is filled with what the graph returns when it is traced."""

    class Specialized(torch.nn.Module):
        def forward(self, *tensors: Any) -> tuple[Any, ...]:
            given = iter(tensors)
            full = [next(given) if isinstance(arg, torch.Tensor) else arg for arg in args]
            results: Any = graph_module(*full)
            found: list[Any] = []
            # Not kept in the module: torch puts a module's attributes back after tracing.
            outputs[:] = [_place(torch, item, full, found) for item in results]
            return tuple(found)

    return Specialized()


def _place(torch: Any, item: Any, args: list[Any], found: list[Any]) -> Output:
    """Say where a result comes from; a new tensor joins `found`."""
    if not isinstance(item, torch.Tensor):
        return Output("value", value=item)
    for at, arg in enumerate(args):
        if arg is item:
            return Output("argument", at)
    for at, earlier in enumerate(found):
        if earlier is item:
            return Output("result", at)
    found.append(item)
    return Output("result", len(found) - 1)


def _in_thread(call: Callable[[], Any]) -> Any:
    found: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:  # handed to the caller's thread, whatever it is
            raised.append(error)

    thread = threading.Thread(target=run, name="gerules-export")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]
