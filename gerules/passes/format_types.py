"""Formats of new nodes: what a kernel gives in storage, from the formats of what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gerules.engine.candidate import Infer
from gerules.errors import table
from gerules.ir import Const, Format, Node, TensorType, ValueType
from gerules.passes.errors import PassError
from gerules.passes.format_costs import TRANSDATA
from gerules.passes.format_options import applies, blocks_agree, is_scalar, plain, ports_of
from gerules.target import Device, Kernel

_FORMATS: Final = {format.name: format for format in Format}

Layout = tuple[Format, int]
"""A storage format, and its groups."""

_PLAIN: Final[Layout] = (Format.ND, 1)


def infer_formats(infer: Infer, device: Device) -> Infer:
    """Return inference that gives the results of new nodes their storage formats, too.

    A conversion gives the format and the groups that it says. Any other node that takes a value in
    blocks gives what the first kernel of the device gives that takes its operands as they lie; an
    Identity gives what it takes. Where all operands are plain, so are the results.

    Raises:
        PassError: E50016 when no kernel takes the operands in these formats.
    """
    kernels: dict[str, list[Kernel]] = {}

    def typed(
        node: Node, inputs: Sequence[ValueType | None], consts: Sequence[Const | None]
    ) -> Sequence[ValueType]:
        types = infer(node, inputs, consts)
        if node.op == TRANSDATA:
            return [_converted(type, node) for type in types]
        if all(_is_plain(type) for type in inputs):
            return types
        if node.op == "Identity":
            return [_laid_out(type, inputs[0]) for type in types]
        if node.op not in kernels:
            kernels[node.op] = device.kernels_of(node.op)
        for kernel in kernels[node.op]:
            layouts = layouts_given(kernel, node, inputs, types)
            if layouts is not None:
                return [_in(type, *layout) for type, layout in zip(types, layouts, strict=True)]
        taken = ", ".join(str(type) for type in inputs if type is not None)
        raise PassError(table.FORMAT_NOT_TAKEN, op=node.op, device=device.name, types=taken)

    return typed


def layouts_given(
    kernel: Kernel, node: Node, inputs: Sequence[ValueType | None], outputs: Sequence[ValueType]
) -> list[Layout] | None:
    """Return how a node's results lie when a kernel computes it; None when it cannot.

    `outputs` are the types of the results before they have a format.
    """
    ports = ports_of(kernel, len(inputs))
    if ports is None:
        return None
    if kernel.where is not None:
        shapes = [None if type is None else _in(type, Format.ND) for type in inputs]
        if not kernel.where(node.op, shapes, outputs, node.attrs):
            return None
    variables: dict[str, Layout] = {}
    varied: list[ValueType] = []
    for port, type in zip(ports, inputs, strict=True):
        if type is None:
            continue
        layout = (type.format, type.groups) if isinstance(type, TensorType) else _PLAIN
        format = layout[0]
        if isinstance(port.format, Format):
            if plain(port.format) is not plain(format):
                return None
            continue
        varied.append(type)
        # A single element lies next to anything as it is.
        if not (is_scalar(type) and format is Format.ND) and (
            variables.setdefault(port.format, layout) != layout
        ):
            return None
    made = [port.format for port in kernel.outputs][: len(outputs)]
    made += [Format.ND] * (len(outputs) - len(made))
    found = [variables.get(one, _PLAIN) if isinstance(one, str) else (plain(one), 1) for one in made]
    if any(not applies(type, format) for type, (format, _) in zip(outputs, found, strict=True)):
        return None
    for name, (format, _) in variables.items():
        results = [type for one, type in zip(made, outputs, strict=True) if one == name]
        if format is not Format.ND and not blocks_agree(format, varied, results):
            return None
    return found


def _converted(type: ValueType, node: Node) -> ValueType:
    format = _FORMATS.get(str(node.attrs.get("dst_format", Format.ND.name)))
    groups = node.attrs.get("groups", 1)
    if format is None or not applies(type, format) or not isinstance(type, TensorType):
        raise PassError(table.FORMAT_NOT_TAKEN, op=node.op, device="any device", types=str(type))
    if plain(format) is Format.ND:
        return type.with_format(Format.ND)
    return type.with_format(format, groups if isinstance(groups, int) and groups > 0 else 1)


def _laid_out(type: ValueType, source: ValueType | None) -> ValueType:
    if not isinstance(type, TensorType) or not isinstance(source, TensorType):
        return type
    return replace(type, format=source.format, groups=source.groups)


def _in(type: ValueType, format: Format, groups: int = 1) -> ValueType:
    return type.with_format(format, groups) if isinstance(type, TensorType) else type


def _is_plain(type: ValueType | None) -> bool:
    return not isinstance(type, TensorType) or type.format is Format.ND
