"""What an editor shows of an operator: its call, inputs, outputs, attributes, and what it computes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from gerules.ir import Attr, Const, DType
from gerules.lsp.symbols import comment_above
from gerules.lsp.workspace import Context
from gerules.ops import AttrSpec, OpSchema, Param, ParamKind
from gerules.ops.registry import raw_schema

_MOST_CHARACTERS: Final = 1200
"""Of ONNX's own text; some operators have pages of it."""

_MOST_TYPES: Final = 6
"""Element types that are listed one by one."""


def describe_operator(name: str, context: Context) -> str | None:
    """Return an operator in Markdown; None when there is none of the name."""
    schema = context.schemas.get(name)
    define = context.book.defines.get(name)
    if schema is None:
        if define is None:
            return None
        return _code(define.span.text)
    lines = [_code(signature(schema)), ""]
    origin = f"since opset {schema.since}" if define is None else "defined in rules"
    marks = [
        (schema.is_commutative, "commutes"),
        (schema.is_associative, "associative"),
        (schema.is_deprecated, "deprecated"),
    ]
    lines += [", ".join([origin, *(word for holds, word in marks if holds)]), ""]
    lines += [_param_line(param) for param in schema.inputs]
    lines += [f"- gives {_param_line(param)[2:]}" for param in schema.outputs]
    lines += [_attr_line(spec, _attr_text(name, spec.name)) for spec in schema.attrs.values()]
    if define is not None:
        above = comment_above(define.span.source.text, define.span.start)
        lines += ["", *([above, ""] if above else []), _code(define.span.text.rstrip())]
    elif schema.doc:
        lines += ["", plain_text(schema.doc)]
    return "\n".join(lines)


def describe_attribute(owner: str, name: str, context: Context) -> str | None:
    """Return a keyword of an operator, or of the operators of a set, in Markdown."""
    ops = sorted(context.book.op_sets.get(owner, frozenset({owner})))
    for op in ops:
        keyword = context.schemas.attr_or_input(op, name)
        schema = context.schemas.get(op)
        if schema is None or keyword is None:
            continue
        if keyword.input_index is None:
            return f"{_attr_line(schema.attrs[keyword.name], _attr_text(op, keyword.name))[2:]}\n\nof `{op}`"
        param = schema.inputs[keyword.input_index]
        return f"{_param_line(param)[2:]}\n\nan input of `{op}` since opset {schema.since}"
    return None


def signature(schema: OpSchema) -> str:
    """Return the call of an operator on one line: `Conv(X, W, B?, auto_pad="NOTSET", ...) -> Y`."""
    inputs = [_param_name(param) for param in schema.inputs]
    attrs = [
        f"{spec.name}={value_text(spec.default)}" if spec.default is not None else f"{spec.name}={spec.kind}"
        for spec in schema.attrs.values()
    ]
    outputs = ", ".join(_param_name(param) for param in schema.outputs)
    return f"{schema.op}({', '.join([*inputs, *attrs])}) -> {outputs}"


def attribute_note(spec: AttrSpec) -> str:
    """Return kind and default of an attribute in a few words."""
    if spec.default is not None:
        return f"{spec.kind} = {value_text(spec.default)}"
    return f"{spec.kind}, required" if spec.is_required else spec.kind


def value_text(value: Attr) -> str:
    """Return the value of an attribute as rule texts write it."""
    match value:
        case float():
            return f"{value:.7g}"
        case str():
            return f'"{value}"'
        case DType():
            return value.value
        case Const():
            return f"{value.dtype}{list(value.array.shape)}"
        case tuple():
            return f"[{', '.join(value_text(item) for item in value)}]"
        case _:
            return str(value)


def plain_text(doc: str) -> str:
    """Return ONNX's text on an operator, cut at a paragraph where it is long."""
    text = re.sub(r"\n{3,}", "\n\n", doc.strip())
    if len(text) <= _MOST_CHARACTERS:
        return text
    kept = text[:_MOST_CHARACTERS]
    cut = kept.rfind("\n\n")
    return (kept[:cut] if cut > 200 else kept) + "\n\n…"


def _code(text: str) -> str:
    return f"```ger\n{text}\n```"


def _param_name(param: Param) -> str:
    match param.kind:
        case ParamKind.OPTIONAL:
            return f"{param.name}?"
        case ParamKind.VARIADIC:
            return f"*{param.name}"
        case _:
            return param.name


def _param_line(param: Param) -> str:
    return f"- `{_param_name(param)}`: {_types(param)}"


def _types(param: Param) -> str:
    if param.dtypes is None:
        return "anything"
    names = sorted((dtype for dtype in param.dtypes), key=lambda dtype: (not dtype.is_float, -dtype.bits))
    if len(names) <= _MOST_TYPES:
        return ", ".join(dtype.value for dtype in names)
    return f"{', '.join(_classes(names))} ({len(names)} element types)"


def _classes(names: Sequence[DType]) -> Iterator[str]:
    if any(dtype.is_float for dtype in names):
        yield "floats"
    if any(dtype.is_integer for dtype in names):
        yield "integers"
    for dtype in names:
        if not dtype.is_float and not dtype.is_integer:
            yield dtype.value


def _attr_line(spec: AttrSpec, text: str) -> str:
    return f"- `{spec.name}`: {attribute_note(spec)}" + (f". {text}" if text else "")


def _attr_text(op: str, name: str) -> str:
    raw = raw_schema(op, 2**31 - 1)
    attribute = raw.attributes.get(name) if raw is not None else None
    return " ".join(attribute.description.split()) if attribute is not None else ""
