"""Results of an exported model as torch has them: their element types, their names, one value for each."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Final

_NAME: Final = re.compile(r"[A-Za-z_][\w.\-]*")
_TYPES: Final = {
    "torch.float16": "FLOAT16",
    "torch.bfloat16": "BFLOAT16",
    "torch.float32": "FLOAT",
    "torch.float64": "DOUBLE",
    "torch.int8": "INT8",
    "torch.int16": "INT16",
    "torch.int32": "INT32",
    "torch.int64": "INT64",
    "torch.uint8": "UINT8",
    "torch.bool": "BOOL",
}
"""Names of onnx.TensorProto.DataType by element type of torch."""


def settle_results(model: Any, program: Any) -> None:
    """Make the outputs of a model of `onnx_ir` those of the program it was exported from.

    The exporter computes sums of narrow types in float32 and leaves them so, names outputs after operators,
    and returns a value twice where torch does. Keys of a dictionary become names of outputs.
    """
    ir: Any = import_module("onnx_ir")
    graph: Any = model.graph
    wanted = _wanted(program)
    if len(wanted) != len(graph.outputs):
        return
    seen: list[Any] = []
    for at, (dtype, name) in enumerate(wanted):
        value: Any = graph.outputs[at]
        code: Any = getattr(ir.DataType, _TYPES.get(str(dtype), ""), None)
        if code is not None and value.dtype is not None and value.dtype != code:
            value = _after(ir, graph, value, "Cast", code)
        elif any(value is item for item in seen) or (name and value.producer() is None):
            value = _after(ir, graph, value, "Identity", value.dtype)
        graph.outputs[at] = value
        seen.append(value)
    for value, (_, name) in zip(seen, wanted, strict=True):
        if name:
            _rename(graph, value, name)


def _after(ir: Any, graph: Any, value: Any, op: str, dtype: Any) -> Any:
    attributes: dict[str, Any] = {"to": int(dtype)} if op == "Cast" else {}
    name = _free(graph, f"{value.name}_{op.lower()}")
    result: Any = ir.val(name, shape=value.shape, type=ir.TensorType(dtype) if dtype is not None else None)
    node: Any = ir.node(op, [value], attributes=attributes, outputs=[result], name=f"node_{name}")
    graph.append(node)
    return result


def _wanted(program: Any) -> list[tuple[Any, str]]:
    """The element type of each tensor that a program returns, and its name where it is in a dictionary."""
    signature_of: Any = import_module("torch.export.graph_signature")
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    specs = [
        item
        for item in program.graph_signature.output_specs
        if item.kind == signature_of.OutputKind.USER_OUTPUT
    ]
    names = _keys(program, len(specs))
    return [
        (getattr(values.get(item.arg.name), "dtype", None), name)
        for item, name in zip(specs, names, strict=True)
        if not isinstance(item.arg, signature_of.ConstantArgument)
    ]


def _keys(program: Any, count: int) -> list[str]:
    pytree: Any = import_module("torch.utils._pytree")
    none = [""] * count
    spec: Any = program.call_spec.out_spec
    if spec is None or spec.num_leaves != count:
        return none
    try:
        paths: Any = pytree.tree_flatten_with_path(pytree.tree_unflatten(range(count), spec))[0]
    except (TypeError, ValueError, KeyError, AttributeError):  # a user's class whose making needs tensors
        return none
    found: list[str] = []
    for path, _ in paths:
        parts = [_part(item) for item in path]
        is_named = bool(path) and not isinstance(path[0], pytree.SequenceKey)
        name = "_".join(parts)
        found.append(name if is_named and _NAME.fullmatch(name) else "")
    return found if len(set(filter(None, found))) == len(list(filter(None, found))) else none


def _part(key: Any) -> str:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return ""


def _rename(graph: Any, value: Any, name: str) -> None:
    """Give a value a name; another node's result that has it gives way, an input keeps its own."""
    if value.name == name:
        return
    for node in graph:
        for other in node.outputs:
            if other.name == name:
                other.name = _free(graph, name)
    value.name = name if name not in _names(graph) else _free(graph, f"{name}_out")


def _free(graph: Any, name: str) -> str:
    taken, found, count = _names(graph), name, 0
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    return found


def _names(graph: Any) -> set[str]:
    results = {item.name for node in graph for item in node.outputs}
    return {*results, *(item.name for item in graph.inputs), *graph.initializers}
