"""The check of formats: every kernel is given what it takes. It shares no code with the choice."""

from __future__ import annotations

from collections.abc import Sequence

from gerules.ir import Format, Graph, Node, TensorType, ValueType
from gerules.target import Device, Kernel

_Layout = tuple[Format, int]
"""A storage format, and its groups."""

_SAME = {Format.NCHW: Format.ND, Format.NCDHW: Format.ND}


def check_formats(graph: Graph, device: Device) -> list[str]:
    """Return where formats do not fit, in words; empty when they do.

    Checked: inputs and outputs of each node have exactly the formats of one kernel of the device;
    where no kernel takes the node's types, or there is no table for its operator, all are plain. A
    TransData's attributes name the formats of its ends, which differ. Operands and results that a kernel
    takes in one format have the same groups, too. A value of unknown size is plain.
    Bodies are checked too.
    """
    found: list[str] = []
    for value in graph.values.values():
        type = value.type
        if isinstance(type, TensorType) and type.format is not Format.ND and not type.is_static:
            found.append(f"{value.name} has a format and no known size")
    for node in graph.nodes.values():
        name = f"{node.op} {node.name or node.id}"
        if node.op == "ge::TransData":
            found += [f"{name}: {fault}" for fault in _transdata_faults(graph, node)]
        elif "body" in node.bodies:
            # A region that rules made one operator is as many kernels as its body has.
            found += [f"{name}: {fault}" for fault in _border_faults(graph, node)]
        else:
            fault = _node_fault(graph, node, device)
            found += [f"{name}: {fault}"] if fault else []
        for body in node.bodies.values():
            found += [f"in {name}: {fault}" for fault in check_formats(body.graph, device)]
            for outer, inner in body.captures:
                if _layout(graph.type_of(outer)) != _layout(body.graph.type_of(inner)):
                    found.append(f"{name} captures a value in another format")
    return found


def _border_faults(graph: Graph, node: Node) -> list[str]:
    inner = node.bodies["body"].graph
    given = zip(node.inputs, inner.inputs, strict=False)
    made = zip(node.outputs, inner.outputs, strict=False)
    return [
        f"{graph.values[outside].name} has another format inside"
        for outside, inside in (*given, *made)
        if outside is not None and _layout(graph.type_of(outside)) != _layout(inner.type_of(inside))
    ]


def _transdata_faults(graph: Graph, node: Node) -> list[str]:
    source, target = node.inputs[0], node.outputs[0]
    if source is None or target is None:
        return ["it converts nothing"]
    one, two = graph.type_of(source), graph.type_of(target)
    found: list[str] = []
    if not isinstance(one, TensorType) or not isinstance(two, TensorType):
        return ["it converts no tensor"]
    if node.attrs.get("src_format") != one.format.name or node.attrs.get("dst_format") != two.format.name:
        found.append(f"its attributes say {node.attrs}, its ends are {one} and {two}")
    if one.format is two.format:
        found.append("it converts nothing")
    if one.shape != two.shape or one.dtype is not two.dtype:
        found.append("it changes more than the format")
    if node.attrs.get("groups", 1) != two.groups:
        found.append("its groups are not those of its result")
    if source in graph.consts:
        found.append("it converts a constant, which has its format by itself")
    return found


def _node_fault(graph: Graph, node: Node, device: Device) -> str:
    inputs = [None if value is None else graph.type_of(value) for value in node.inputs]
    outputs = [None if value is None else graph.type_of(value) for value in node.outputs]
    formats = [_layout(type)[0] for type in (*inputs, *outputs) if type is not None]
    kernels = device.kernels_of(node.op)
    if any(_fits(kernel, node, inputs, outputs) for kernel in kernels):
        return ""
    if all(format is Format.ND for format in formats):
        return ""
    shown = ", ".join(str(type) for type in (*inputs, *outputs))
    return f"no kernel takes {shown}" if kernels else f"it has no table of formats and is given {shown}"


def _fits(
    kernel: Kernel, node: Node, inputs: Sequence[ValueType | None], outputs: Sequence[ValueType | None]
) -> bool:
    plain = [
        None if type is None else type.with_format(Format.ND) if isinstance(type, TensorType) else type
        for type in inputs
    ]
    if kernel.where is not None:
        made = [type for type in outputs if type is not None]
        if not kernel.where(node.op, plain, made, node.attrs):
            return False
    variables: dict[str, _Layout] = {}
    for slot, type in enumerate(inputs):
        named = [port for port in kernel.inputs if not port.is_rest]
        rest = [port for port in kernel.inputs if port.is_rest]
        if slot < len(named):
            wanted = named[slot].format
        elif rest:
            wanted = rest[0].format
        else:
            return False
        if type is not None and not _takes(wanted, type, variables):
            return False
    for slot, type in enumerate(outputs):
        wanted = kernel.outputs[slot].format if slot < len(kernel.outputs) else Format.ND
        if type is not None and not _takes(wanted, type, variables):
            return False
    return True


def _takes(wanted: Format | str, type: ValueType, variables: dict[str, _Layout]) -> bool:
    format, groups = _layout(type)
    if isinstance(wanted, Format):
        return _SAME.get(wanted, wanted) is format
    if isinstance(type, TensorType) and type.is_static and type.n_elements == 1 and format is Format.ND:
        return True
    return variables.setdefault(wanted, (format, groups)) == (format, groups)


def _layout(type: ValueType) -> _Layout:
    return (type.format, type.groups) if isinstance(type, TensorType) else (Format.ND, 1)
