"""Drafting: a region of a model as the text of a rule, a definition of what replaces it, and tests."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Final

import numpy as np

from gerules.dsl.read_pattern import DTYPE_CLASSES, DTYPES
from gerules.engine.candidate import Infer
from gerules.engine.reasons import called
from gerules.errors.printable import printable_line
from gerules.ir import UNKNOWN_DIM, Attr, Const, Dim, DType, Node, TensorType
from gerules.ops import OpSchema, Schemas
from gerules.pipeline.region import Region, refusal
from gerules.pipeline.size_ties import Ties, tie_sizes
from gerules.text.parse import keywords

_SETTINGS: Final = frozenset(["axes", "axis", "ends", "k", "pads", "repeats", "split", "starts", "steps"])
"""Constant inputs that say what an operator does, as attributes do; they are written as such."""

_MOST_SETTINGS: Final = 8
_MOST_LISTED: Final = 64
"""Elements of a whole-number constant that a test gives one by one."""

_RENAMED: Final = frozenset(["Hardmax", "LogSoftmax", "Softmax"])
_SINCE: Final = 13
"""Before this opset these flattened their input; a definition, written in the newest operators, would not say
the same. Source: ONNX Changelog, Softmax-13."""

_MOST_NAMED: Final = 4
"""Kinds of operators that a name or a doc string tells."""

_FIRST_INNER: Final = 2
"""The first axis of a weight that neither channels in nor channels out are on."""

_DIM_NAMES: Final = (*"NCHWMKLPQRSUV", *(f"D{number}" for number in range(1, 200)))
_POSITIVE: Final = "0.5 .. 2.0"


_SizeKey = int | tuple[str, Dim]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value that the region reads, as the rule and its test write it."""

    value: int
    name: str
    dtype: str
    dims: tuple[str, ...] | None
    const: Const | None
    span: str = ""
    """What a test says of its elements: `0.5 .. 2.0`."""

    def pattern(self) -> str:
        """As it first stands in the match."""
        shape = "" if self.dims is None else f"[{', '.join(self.dims)}]"
        const = "const " if self.const is not None else ""
        text = f"{const}{self.dtype}{shape}".strip()
        return f"{self.name}: {text}" if text else self.name


@dataclass(frozen=True, slots=True)
class Draft:
    """A rule drafted from a region; `text` writes it with sizes for its tests."""

    region: Region
    rule: str
    op: str
    leaves: tuple[Leaf, ...]
    match: tuple[str, ...]
    body: tuple[str, ...]
    results: tuple[str, ...]
    inner: str
    """A value inside that only the match reads; empty for a region without one."""
    dtype: str
    """The element type that `T` is in the tests."""
    sizes: Mapping[str, int]
    """The size of each named dimension in the model; 0 when it is open there."""
    note: str

    def text(self, sizes: Mapping[str, int]) -> str:
        """Return the rule file, its tests at these sizes."""
        names = ", ".join(leaf.name for leaf in self.leaves)
        ops = Counter(node.op.rpartition("::")[2] for node in self.region.nodes)
        named = [f"{n} {op}" if n > 1 else op for op, n in list(ops.items())[:_MOST_NAMED]]
        n_others = sum(list(ops.values())[_MOST_NAMED:])
        doc = ", ".join(named) + (f" and {n_others} more" if n_others else "")
        lines = [f"# {printable_line(self.note)}", ""]
        lines += [f"define {self.op}({names}) -> {', '.join(self.results)}:"]
        lines += [f"    {line}" for line in self.body]
        lines += ["", f'rule {self.rule} in drafted "{doc} as one operator":']
        lines += ["    match:", *(f"        {line}" for line in self.match)]
        lines += ["    rewrite:", f"        {', '.join(self.results)} = {self.op}({names})"]
        lines += ["    test:", *self._given(sizes)]
        if self.inner:
            lines += [f'    test "{self.inner} has another reader":', *self._given(sizes)]
            lines += [f"        escapes {self.inner}", "        expect no match"]
        return "\n".join(lines) + "\n"

    def _given(self, sizes: Mapping[str, int]) -> Iterator[str]:
        for leaf in self.leaves:
            dtype = self.dtype if leaf.dtype == "T" else leaf.dtype
            if leaf.const is not None and _is_listed(leaf.const):
                yield f"        {leaf.name} = {_listed(leaf.const)}"
                continue
            dims = [str(sizes.get(dim, dim)) for dim in leaf.dims or ()]
            const = "const " if leaf.const is not None else ""
            within = f" in {leaf.span}" if leaf.span else ""
            yield f"        {leaf.name}: {const}{dtype}[{', '.join(dims)}]{within}"


def draft_region(region: Region, *, op: str, rule: str, schemas: Schemas, infer: Infer, note: str) -> Draft:
    """Return a rule that replaces what looks like a region by one operator, which a `define` explains.

    Constants of one element become numbers, those that set an operator like an attribute are written as
    such, all others are inputs. Dimensions that some operator wants alike get one name, and so do those of
    one size that the region fixes.

    Raises:
        PipelineError: E10008 for operators without a known meaning, and for attributes and types that a
            rule cannot write.
    """
    return _Drafter(region, op, rule, schemas, infer, note).draft()


@dataclass(frozen=True, slots=True)
class _Arg:
    """One input of a node as it is written: a value by name, a number, or a setting by keyword."""

    value: int | None = None
    literal: str = ""
    keyword: str = ""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a node is written."""

    node: Node
    args: tuple[_Arg, ...]
    attrs: tuple[str, ...]


class _Drafter:
    def __init__(self, region: Region, op: str, rule: str, schemas: Schemas, infer: Infer, note: str) -> None:
        self.region, self.graph, self.infer = region, region.graph, infer
        self.op, self.rule, self.schemas, self.note = op, rule, schemas, note
        self.names: dict[int, str] = {}
        self.taken = {"_", "T", *keywords(), *DTYPES, *DTYPE_CLASSES}
        self.dims: dict[_SizeKey, str] = {}
        """The name of each size: by its group where it may differ, else by kind and what it is."""
        self.real: dict[str, Dim] = {}
        self.ties = Ties({}, frozenset())
        self.batch: Dim | None = None
        """The first dimension of the first value that is no constant."""
        self.made = {value for node in region.nodes for value in node.writes()}

    def draft(self) -> Draft:
        region = self.region
        schemas = {node.id: self._schema(node) for node in region.nodes}
        for node in region.nodes:
            for value in node.writes():
                self.names[value] = self._fresh(self._result_name(node, value))
        plans = [self._plan(node, schemas[node.id]) for node in region.nodes]
        leaves = self._leaves(plans, schemas)
        declared: set[int] = set()
        match = tuple(self._line(plan, leaves, declared) for plan in plans)
        body = tuple(self._line(plan, {}, declared) for plan in plans)
        dtypes = [str(self._tensor(value).dtype) for value, leaf in leaves.items() if leaf.dtype == "T"]
        sizes = {name: dim if isinstance(dim, int) else 0 for name, dim in self.real.items()}
        return Draft(
            region,
            self.rule,
            self.op,
            tuple(leaves.values()),
            match,
            body,
            tuple(self.names[value] for value in region.outputs),
            self.names[region.inner[0]] if region.inner else "",
            dtypes[0] if dtypes else "f32",
            sizes,
            self.note,
        )

    # ------------------------------------------------------------ nodes
    def _schema(self, node: Node) -> OpSchema:
        opset = None if "::" in node.op else self.graph.opset or None
        schema, label = self.schemas.get(node.op, opset), called(node, self.graph.values)
        if schema is None:
            raise refusal(
                f"nothing says what {node.op} ({label}) computes", "give the rules that define it: --rules"
            )
        if not schema.is_deterministic:
            raise refusal(f"{node.op} ({label}) gives something else each time", "leave it out")
        if node.op in _RENAMED and self.graph.opset < _SINCE:
            raise refusal(
                f"{node.op} ({label}) means something else from opset {_SINCE} on",
                f"convert the model to opset {_SINCE} or later",
            )
        return schema

    def _plan(self, node: Node, schema: OpSchema) -> _Plan:
        free = {
            self._tensor(value).dtype
            for value in node.inputs
            if value is not None and not self._is_scalar(value)
        }
        args: list[_Arg] = []
        for value in node.inputs:
            const = None if value is None else self._const(value)
            if value is None:
                args.append(_Arg(literal="none"))
            elif const is not None and self._is_scalar(value) and const.dtype in free:
                args.append(_Arg(literal=_number(const.array.reshape(-1)[0])))
            else:
                args.append(_Arg(value))
        return _Plan(node, self._with_settings(node, schema, args), self._attrs(node, schema))

    def _with_settings(self, node: Node, schema: OpSchema, args: list[_Arg]) -> tuple[_Arg, ...]:
        """Write the last inputs by keyword where they say what the operator does, as attributes would."""
        first = len(args)
        keyed: dict[int, _Arg] = {}
        for place in range(len(args) - 1, 0, -1):
            name, arg = schema.inputs[min(place, len(schema.inputs) - 1)].name, args[place]
            const = None if arg.value is None else self._const(arg.value)
            if const is not None and name.lower() in _SETTINGS and _is_setting(const):
                keyed[place] = _Arg(literal=_listed(const), keyword=name)
                first = place
            elif arg.value is None:
                keyed[place] = _Arg(literal=arg.literal, keyword="" if arg.literal == "none" else name)
            else:
                break
        kept = [keyed[place] for place in range(first, len(args)) if keyed[place].keyword]
        return (*args[:first], *kept)

    def _attrs(self, node: Node, schema: OpSchema) -> tuple[str, ...]:
        newest = self.schemas.get(node.op)
        found: list[str] = []
        for name in dict.fromkeys([*schema.attrs, *node.attrs]):
            spec = schema.attrs.get(name)
            later = newest.attrs.get(name) if newest is not None else None
            default = None if spec is None else spec.default
            value = node.attrs.get(name, default)
            defaults = [default] if later is None else [default, later.default]
            if value is None or all(_is_same(value, item) for item in defaults):
                continue
            text = _attr_text(value)
            if text is None:
                what = f"the attribute {name} of {node.op} ({called(node, self.graph.values)})"
                raise refusal(f"a rule cannot write {what}", "leave it out")
            found.append(f"{name}={text}")
        return tuple(found)

    def _line(self, plan: _Plan, leaves: Mapping[int, Leaf], declared: set[int]) -> str:
        """A node as the match has it, or without leaves as the definition has it."""
        outputs = list(plan.node.outputs)
        while len(outputs) > 1 and (outputs[-1] is None or not self._is_needed(outputs[-1])):
            outputs.pop()
        is_needed = [value is not None and self._is_needed(value) for value in outputs]
        targets = [
            self.names[value] if value is not None and (needed or len(outputs) == 1) else "_"
            for value, needed in zip(outputs, is_needed, strict=True)
        ]
        args: list[str] = []
        for arg in plan.args:
            if arg.value is None:
                args.append(f"{arg.keyword}={arg.literal}" if arg.keyword else arg.literal)
            elif arg.value in leaves and arg.value not in declared:
                declared.add(arg.value)
                args.append(leaves[arg.value].pattern())
            else:
                args.append(self.names[arg.value])
        return f"{', '.join(targets)} = {plan.node.op}({', '.join([*args, *plan.attrs])})"

    def _is_needed(self, value: int) -> bool:
        return value in self.region.outputs or value in self.region.inner

    # ------------------------------------------------------------ leaves
    def _leaves(self, plans: Sequence[_Plan], schemas: Mapping[int, OpSchema]) -> dict[int, Leaf]:
        places: dict[int, list[tuple[str, str]]] = {}
        for plan in plans:
            params = schemas[plan.node.id].inputs
            for place, arg in enumerate(plan.args):
                if arg.value is not None and arg.value not in self.made:
                    param = params[min(place, len(params) - 1)].name if params else ""
                    places.setdefault(arg.value, []).append((plan.node.op, param))
        if not places:
            raise refusal("they read nothing", "choose nodes that depend on an input")
        n_variables = sum(1 for value in places if self._const(value) is None)
        for value, uses in places.items():
            is_only = self._const(value) is None and n_variables == 1
            usual = self._leaf_name(*uses[0])
            usual = usual if self._const(value) is not None else usual.lower()
            self.names[value] = self._fresh("x" if is_only else usual)
        first = next((value for value in places if self._const(value) is None), None)
        shape = None if first is None else self._tensor(first).shape
        self.batch = shape[0] if shape else None
        named = {
            (value, axis): dim
            for value in places
            if not self._is_listed(value)
            for axis, dim in enumerate(self._tensor(value).shape or ())
            if dim != UNKNOWN_DIM and (dim != 1 or self._is_batch(value, axis))
        }
        self.ties = tie_sizes(self.graph, self.region.nodes, named, self.infer)
        floats = Counter(
            self._tensor(value).dtype for value in places if self._tensor(value).dtype.is_float
        ).most_common(1)
        common = floats[0][0] if floats else None
        return {value: self._leaf(value, {op for op, _ in uses}, common) for value, uses in places.items()}

    def _leaf(self, value: int, readers: set[str], common: DType | None) -> Leaf:
        type, const = self._tensor(value), self._const(value)
        if type.shape is None:
            raise refusal(
                f"the rank of {self.graph.values[value].name} is not known",
                "give the shapes of the inputs: --input-shape",
            )
        is_listed = self._is_listed(value)
        dims = tuple(
            str(dim) if is_listed else self._dim(value, axis, dim) for axis, dim in enumerate(type.shape)
        )
        dtype = "T" if type.dtype is common else str(type.dtype)
        return Leaf(value, self.names[value], dtype, dims, const, _span(type.dtype, const, readers))

    def _dim(self, value: int, axis: int, dim: Dim) -> str:
        group = self.ties.group_of.get((value, axis))
        if group is None:
            return "_" if dim == UNKNOWN_DIM else str(dim)
        key: _SizeKey = group
        if group in self.ties.pinned:
            # What is alike by chance, three channels and a kernel of three, is kept apart.
            is_kernel = self._const(value) is not None and axis >= _FIRST_INNER
            key = ("batch" if self._is_batch(value, axis) else "kernel" if is_kernel else "", dim)
        if key not in self.dims:
            self.dims[key] = self._fresh_dim()
            self.real[self.dims[key]] = dim
        return self.dims[key]

    def _is_batch(self, value: int, axis: int) -> bool:
        return (
            axis == 0 and self._const(value) is None and (self._tensor(value).shape or ("",))[0] == self.batch
        )

    def _is_listed(self, value: int) -> bool:
        const = self._const(value)
        return const is not None and _is_listed(const)

    # ------------------------------------------------------------ names
    def _fresh(self, base: str) -> str:
        name = base if base.isidentifier() else "v"
        number = 2
        while name in self.taken:
            name, number = f"{base}{number}", number + 1
        self.taken.add(name)
        return name

    def _fresh_dim(self) -> str:
        name = next(name for name in _DIM_NAMES if name not in self.taken)
        self.taken.add(name)
        return name

    def _result_name(self, node: Node, value: int) -> str:
        if self.region.outputs == (value,):
            return "y"
        return _snake(node.op.rpartition("::")[2])

    def _leaf_name(self, op: str, param: str) -> str:
        name = "W" if op in ("MatMul", "Gemm") and param == "B" else param
        return name if len(name) == 1 and op in ("Conv", "ConvTranspose", "Gemm", "MatMul") else _snake(name)

    # ------------------------------------------------------------ values
    def _tensor(self, value: int) -> TensorType:
        type = self.graph.type_of(value)
        if not isinstance(type, TensorType):
            name = self.graph.values[value].name
            raise refusal(f"{name} is no tensor but {type}", "leave out what reads it")
        return type

    def _const(self, value: int) -> Const | None:
        return self.graph.consts.get(value)

    def _is_scalar(self, value: int) -> bool:
        const = self._const(value)
        if const is None or const.array.size != 1:
            return False
        if const.dtype.is_float:
            return bool(np.isfinite(const.array.astype(np.float64)).all())
        return const.dtype.is_integer


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def rule_name(op: str) -> str:
    """Return the name of a rule that makes an operator: `my::FusedConvRelu` gives `fused_conv_relu`."""
    return _snake(op.rpartition("::")[2])


def usual_op(region: Region) -> str:
    """Return a name for what replaces a region: `my::FusedConvRelu`."""
    ops = list(dict.fromkeys(node.op.rpartition("::")[2] for node in region.nodes))
    return f"my::Fused{''.join(ops[:_MOST_NAMED])}{'Block' if len(ops) > _MOST_NAMED else ''}"


def _is_same(value: Attr, default: Attr | None) -> bool:
    """Whether a value is the default, as a pattern compares them."""
    if isinstance(value, float) and isinstance(default, float):
        return isclose(value, default, rel_tol=1e-6)
    return value == default


def _is_setting(const: Const) -> bool:
    is_short = const.array.ndim <= 1 and const.array.size <= _MOST_SETTINGS
    return is_short and const.dtype in (DType.I64, DType.I32)


def _is_listed(const: Const) -> bool:
    return const.dtype.is_integer and const.array.ndim <= 1 and const.array.size <= _MOST_LISTED


def _listed(const: Const) -> str:
    items = [str(int(item)) for item in const.array.reshape(-1)]
    return f"[{', '.join(items)}]" if const.array.ndim else items[0]


def _number(item: np.generic) -> str:
    return str(int(item)) if item.dtype.kind in "iu" else _float(float(item), item)


def _float(value: float, item: np.generic | None = None) -> str:
    """The shortest text that a float of its type reads back as; single precision unless it is a double."""
    is_double = item is not None and item.dtype.itemsize == 8
    text = repr(value) if is_double else str(np.float32(value))
    return text if re.search(r"[.e]", text) else f"{text}.0"


def _attr_text(value: Attr) -> str | None:
    match value:
        case DType():
            return value.value
        case bool() | int():
            return str(int(value))
        case float():
            return _float(value) if np.isfinite(value) else None
        case str():
            return json.dumps(value, ensure_ascii=False)
        case tuple():
            items = [_attr_text(item) for item in value]
            return None if None in items else f"[{', '.join(filter(None, items))}]"
        case _:
            return None


def _span(dtype: DType, const: Const | None, readers: set[str]) -> str:
    """What a test says of the elements of an input, so that what is computed from them has a meaning."""
    if dtype.is_float:
        is_positive = const is not None and bool(const.array.size) and float(const.array.min()) > 0
        return _POSITIVE if is_positive or readers & {"Sqrt", "Log"} else ""
    if not dtype.is_integer:
        return ""
    if const is None or not const.array.size:
        return "0 .. 1"
    return f"{int(const.array.min())} .. {int(const.array.max())}"
