"""Operators in training mode and states that change: torch's exporters write them for inference, silently."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

from gerules.errors import table
from gerules.frontends.fault import ModelError

_MODES: Final = ("training", "train", "use_input_stats")
_PROBABILITIES: Final = ("p", "dropout", "dropout_p")


def training_operator(graph: Any) -> Any:
    """Return the first node of a `torch.fx.Graph` that computes something else in training; None without.

    Statistics of the batch alone, without running ones, are exported as what they are.
    """
    return next(
        (node for node in graph.nodes if node.op == "call_function" and _is_training(node)),
        None,
    )


def _is_training(node: Any) -> bool:
    schema: Any = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    given: dict[str, Any] = {item.name: item.default_value for item in schema.arguments}
    given |= dict(zip(given, node.args, strict=False)) | dict(node.kwargs)
    name = str(schema.name)
    if "batch_norm_with_update" in name:
        return True
    if not any(given.get(mode) is True for mode in _MODES):
        return False
    if "batch_norm" in name or "instance_norm" in name:
        return given.get("running_mean") is not None
    return _may_drop(given)


def _may_drop(given: Mapping[str, Any]) -> bool:
    return all(given[name] != 0 for name in _PROBABILITIES if name in given)


def refuse_training(graph: Any, called: str, line_of: Any) -> None:
    """Raise for a traced graph with an operator in training mode.

    Args:
        line_of: Returns the line of the model that a text of stack frames shows.

    Raises:
        ModelError: E10086 with the operator.
    """
    node = training_operator(graph)
    if node is not None:
        line = line_of(str(node.meta.get("stack_trace") or ""))
        notes = [f"in {line}"] if line else []
        raise ModelError(
            table.TRAINING_OPERATOR, place=called, op=str(node.target), model=called, notes=notes
        )


def refuse_changes(signature: Any, called: str) -> None:
    """Raise E10087 when an exported program, decomposed, changes its own buffers or parameters."""
    changed: dict[str, str] = {
        **signature.buffers_to_mutate,
        **(getattr(signature, "parameters_to_mutate", None) or {}),
    }
    if changed:
        _refuse_changed(sorted(changed.values()), called)


def _refuse_changed(names: list[str], called: str) -> None:
    raise ModelError(table.STATE_CHANGES, place=called, model=called, names=", ".join(names))


# ---------------------------------------------------------------- TorchScript
_SCRIPT_MODES: Final[Mapping[str, tuple[int, int]]] = {
    "aten::batch_norm": (5, 3),
    "aten::instance_norm": (5, 3),
    "aten::dropout": (2, 1),
    "aten::dropout_": (2, 1),
    "aten::feature_dropout": (2, 1),
    "aten::alpha_dropout": (2, 1),
    "aten::feature_alpha_dropout": (2, 1),
}
"""Where an operator has its mode, and what has to be there for it to count.

Source: torch, native_functions.yaml.
"""


def refuse_script(graph: Any, called: str) -> None:
    """Raise for an inlined TorchScript graph that trains or changes its state whatever mode it is in.

    Raises:
        ModelError: E10086 for an operator with a constant mode, as tracing leaves it; E10087.
    """
    changed: list[str] = []
    for node in _nodes_of(graph):
        kind = str(node.kind())
        inputs: list[Any] = list(node.inputs())
        if kind in _SCRIPT_MODES:
            mode, what = (inputs[at] for at in _SCRIPT_MODES[kind])
            if mode.toIValue() is True and not _is_nothing(what):
                op = kind.replace("::", ".")
                raise ModelError(table.TRAINING_OPERATOR, place=called, op=op, model=called)
    # Inside of branches are those for training: whether they are taken is not known yet.
    for node in graph.nodes():
        inputs = list(node.inputs())
        if node.kind() == "prim::SetAttr":
            changed.append(str(node.s("name")))
        elif node.kind().endswith("_") and inputs and inputs[0].node().kind() == "prim::GetAttr":
            changed.append(str(inputs[0].node().s("name")))
    if changed:
        _refuse_changed(sorted(set(changed)), called)


def _is_nothing(value: Any) -> bool:
    """Whether running statistics are None, or a probability is zero."""
    node: Any = value.node()
    return bool(
        value.type().kind() == "NoneType" or (node.kind() == "prim::Constant" and not value.toIValue())
    )


def _nodes_of(block: Any) -> Generator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes_of(inner)
