"""What of a graph and its arguments can be computed here at all, and what torch expects of the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gerules.frontends.torch.training import training_operator


@dataclass(frozen=True, slots=True)
class Expected:
    """What torch assumes of one result; None where it is no tensor, or follows from sizes that are open."""

    dtype: Any = None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def is_met_by(self, tensor: Any) -> bool:
        """Whether a tensor has the type that later code relies on."""
        if self.dtype is not None and tensor.dtype != self.dtype:
            return False
        return self.shape is None or tuple(tensor.shape) == self.shape


def expected_results(torch: Any, graph: Any) -> list[Expected]:
    """Return what torch assumes of each result of a graph."""
    (output,) = [node for node in graph.graph.nodes if node.op == "output"]
    return [
        _expected(torch, item.meta.get("val") if hasattr(item, "meta") else None) for item in output.args[0]
    ]


def _expected(torch: Any, value: Any) -> Expected:
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return Expected()
    sizes = (*value.shape, *value.stride())
    if not all(type(size) is int for size in sizes):
        return Expected(value.dtype)
    return Expected(value.dtype, tuple(value.shape), tuple(value.stride()))


def unfit_graph(torch: Any, graph: Any) -> str:
    """Return why a graph cannot be computed whatever its arguments; empty when it may be."""
    for node in graph.graph.nodes:
        tags: Any = getattr(node.target, "tags", ())
        if node.op == "call_function" and torch.Tag.nondeterministic_seeded in tags:
            return f"{node.target} draws random numbers"
    training = training_operator(graph.graph)
    if training is not None:
        return f"{training.target} runs in training mode, which torch's exporter writes for inference"
    for at, item in enumerate(expected_results(torch, graph)):
        if item.dtype is not None and item.dtype.is_complex:
            # The exporter would make two real numbers of each element.
            return f"result {at} is complex"
    return ""


def unfit_arguments(torch: Any, args: Sequence[Any]) -> str:
    """Return why arguments cannot be computed with; empty when they can."""
    for at, arg in enumerate(args):
        if not isinstance(arg, torch.Tensor):
            continue
        if arg.device.type != "cpu":
            return f"argument {at} lies on {arg.device}, and not on the CPU"
        if arg.layout != torch.strided or arg.is_quantized:
            return f"argument {at} is a tensor of layout {arg.layout}, and not a plain one"
        if arg.is_complex():
            return f"argument {at} is complex"
    return ""
