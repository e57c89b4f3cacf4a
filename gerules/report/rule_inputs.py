"""The values that the test of a rule gives, and the nodes of the graph that is built from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from gerules.dsl.book import RuleBook
from gerules.dsl.expr import Scope, evaluate, view_of
from gerules.dsl.functions_shape import dtype_limits
from gerules.dsl.syntax import (
    ANY,
    DimName,
    DimSize,
    Elements,
    GivenAttr,
    GivenValue,
    RuleTest,
    TypePattern,
)
from gerules.dsl.values import Value
from gerules.engine.candidate import Infer, Refused
from gerules.engine.constants import attr_of_value
from gerules.errors import GerulesError
from gerules.ir import Attr, Const, DType, Format, GraphEditor, Node, TensorType, empty_graph
from gerules.ir import Value as GraphValue
from gerules.ir.elements import equal_elements, listed_elements, random_elements
from gerules.ops import OpSchema, Param, ParamKind, Schemas
from gerules.report.rule_operands import is_list

Array = npt.NDArray[np.generic]

_PICTURE_AXES: Final = (2, 3)
"""What a mean over a picture, or the Squeeze after it, works on when the pattern does not say."""


MAX_ELEMENTS: Final = 1 << 22
MAX_RANK: Final = 32
"""Largest input of a test: the reference computes it without haste, and numpy 1 has no more axes."""

SIZE_OF_NAMED_DIM: Final = 2
"""What a dimension that a test gives by name is when running; while matching it is not known."""


class Unbuildable(Exception):  # noqa: N818 - an outcome, not a fault
    """A pattern, or one of its variants, cannot be built from what a test gives."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What building needs besides a rule and a test."""

    book: RuleBook
    schemas: Schemas
    infer: Infer
    scope: Scope
    opset: int

    def version(self, op: str) -> int | None:
        """Return the version to look an operator up at; None for those with one version only."""
        return None if "::" in op else self.opset

    def schema(self, op: str) -> OpSchema | None:
        """Return the schema of an operator at the version of the test."""
        return self.schemas.get(op, self.version(op))


class TestGraph:
    """A graph under construction: leaves from the test, nodes with inferred types.

    `absent` are optional values that this variant goes without; `used` those that some node reads.
    """

    __test__ = False

    def __init__(self, test: RuleTest, setting: Setting, random: np.random.Generator) -> None:
        self.setting = setting
        self.editor = GraphEditor(empty_graph("test", {"": setting.opset}))
        self.feeds: dict[str, Array] = {}
        self.given = {item.name.name: item for item in test.inputs}
        self.absent: set[str] = set()
        self.used: set[str] = set()
        self._random = random
        self._arrays: dict[str, Array] = {}
        self._attrs: dict[str, Value] = {}

    # ------------------------------------------------------------ leaves
    def leaf(self, name: str, wanted: TypePattern | None) -> int | None:
        """Return the value that the test gives for a name; None when it gives none."""
        item = self.given.get(name)
        if item is None or name in self.absent or name == ANY:
            return None
        self.used.add(name)
        if isinstance(item, GivenAttr):
            value = self.attr_given(name)
            array = np.asarray(value)
            dtype = (
                next(iter(wanted.dtypes)) if wanted and wanted.dtypes and len(wanted.dtypes) == 1 else None
            )
            plain = DType.F32 if array.dtype.kind == "f" else DType.I64
            array = array.astype((dtype or plain).numpy)
            self._arrays[name] = array
            return self.editor.add_const(array, name)
        if item.type is None:
            return None
        dtype, dims = _type_given(item)
        shape = tuple(dim if isinstance(dim, int) else SIZE_OF_NAMED_DIM for dim in dims)
        array = (
            self.random(dtype, shape, item.low, item.high)
            if item.elements is None
            else _elements(item.elements, shape, dtype)
        )
        self._arrays.setdefault(name, array)
        if item.type.is_const:
            return self.editor.add_const(array, name)
        called = name
        while called in self.feeds:
            called += "_"
        self.feeds[called] = array
        format = item.type.format.name if item.type.format is not None else "ND"
        if format not in Format.__members__:
            raise Unbuildable(f"no device keeps values in {format}")
        return self.editor.add_input(TensorType(dtype, dims, Format[format]), called)

    def number(self, number: float, dtype: DType) -> int:
        """Return a constant of one number. Raises Unbuildable when the type does not go so far."""
        if math.isfinite(number) and (dtype.is_integer or dtype.is_float):
            least, most = dtype_limits(dtype)
            if not least <= number <= most:
                raise Unbuildable(f"{number:g} is beyond what {dtype} holds")
        return self.editor.add_const(np.asarray(number, dtype.numpy))

    def random(self, dtype: DType, shape: tuple[int, ...], low: float | None, high: float | None) -> Array:
        """Return random numbers within the bounds of a test, or the usual ones.

        Raises:
            Unbuildable: a shape beyond what tests are for, bounds that hold nothing, a type without numbers.
        """
        _check_size(shape)
        if not (dtype is DType.BOOL or dtype.is_integer or dtype.is_float):
            raise Unbuildable(f"there are no random numbers of type {dtype}")
        if low is not None and high is not None and low > high:
            raise Unbuildable(f"no number is in {low:g} .. {high:g}")
        if dtype is DType.BOOL:
            return np.asarray(self._random.integers(0, 2, shape), np.bool_)
        if dtype.is_integer:
            bottom, top = map(int, dtype_limits(dtype))
            first = max(0 if low is None else math.ceil(low), bottom)
            last = min(9 if high is None else math.floor(high), top)
            if first > last:
                raise Unbuildable(f"no {dtype} is in {low:g} .. {high:g}")
            kind = np.uint64 if first >= 0 else np.int64
            drawn = self._random.integers(first, last, shape, kind, endpoint=True)
            return np.asarray(drawn).astype(dtype.numpy)
        smallest, largest = dtype_limits(dtype)
        least, most = max(-2.0 if low is None else low, smallest), min(2.0 if high is None else high, largest)
        if least > most:
            raise Unbuildable(f"no {dtype} is in {low:g} .. {high:g}")
        if not math.isfinite(most - least):
            raise Unbuildable(f"{least:g} .. {most:g} is too wide to draw from")
        return np.asarray(self._random.uniform(least, most, shape)).astype(dtype.numpy)

    def attr_given(self, name: str) -> Value:
        """Return the value that the test gives for an attribute, from the arrays where it names some."""
        if name not in self._attrs:
            item = self.given[name]
            if not isinstance(item, GivenAttr):
                raise Unbuildable(f"{name} is no attribute")
            names: dict[str, Value] = {key: view_of(array, key) for key, array in self._arrays.items()}
            scope = Scope(
                names | self._attrs, self.setting.scope.params, self.setting.scope.opsets, None,
                self.setting.scope.functions,
            )  # fmt: skip
            self._attrs[name] = evaluate(item.value, scope)
        return self._attrs[name]

    def ignored(self) -> Mapping[str, Value]:
        """Return what the test gives, by `_ = {...}`, for attributes that patterns ignore."""
        found: object = self.attr_given(ANY) if ANY in self.given else {}
        if not isinstance(found, Mapping):
            raise Unbuildable('what is ignored is given as a map: `_ = {"axis": 0}`')
        return cast("Mapping[str, Value]", found)

    # ------------------------------------------------------------ parameters
    def put(self, op: str, name: str, value: Value, inputs: list[int | None], attrs: dict[str, Attr]) -> None:
        """Give a parameter: as attribute, or as constant input, whichever the operator has."""
        if value is None:
            return
        schemas = self.setting.schemas
        keyword = schemas.attr_or_input(op, name, self.setting.version(op))
        schema = self.setting.schema(op)
        if keyword is None or schema is None:
            newest = schemas.get(op)
            if newest is not None and name in newest.attrs and newest.attrs[name].default == value:
                return
            raise Unbuildable(f"{op} has no parameter {name} at this version")
        if keyword.input_index is None:
            try:
                attrs[keyword.name] = attr_of_value(value, schema.attrs.get(keyword.name), keyword.name)
            except Refused as reason:
                raise Unbuildable(reason.reason) from None
            return
        place = keyword.input_index
        while len(inputs) <= place:
            inputs.append(None)
        param = schema.inputs[min(place, len(schema.inputs) - 1)]
        first = inputs[0]
        array = np.asarray(value, np.int64 if value == () else None)  # numpy makes an empty list float
        if array.dtype.kind == "f" or (param.type_var and param.type_var == schema.inputs[0].type_var):
            like = self.dtype_of(first) if first is not None else DType.F32
            array = array.astype(like.numpy)
        elif array.dtype.kind != "b":
            array = array.astype(np.int64)
        inputs[place] = self.editor.add_const(array, name)

    def complete(self, op: str, inputs: list[int | None], attrs: dict[str, Attr], *, is_open: bool) -> None:
        """Give what an operator must have and a pattern leaves open.

        `is_open`: the pattern ignores the other attributes, so any will do.
        """
        first = inputs[0] if inputs else None
        type = self.editor.values[first].type if first is not None else None
        if not isinstance(type, TensorType) or type.shape is None:
            return
        sizes = tuple(dim for dim in type.shape if isinstance(dim, int))
        match op.removeprefix("ge::"):
            case "MaxPool" | "MaxPoolV3":
                attrs.setdefault("kernel_shape", (2,) * (len(sizes) - 2))
            case "AveragePool" | "AvgPoolV2":
                attrs.setdefault("kernel_shape", sizes[2:])
            case "ReduceMean" | "Squeeze" if len(sizes) == 4 and len(inputs) == 1 and not attrs:
                self.put(op, "axes", _PICTURE_AXES, inputs, attrs)
            case "Reshape" if len(inputs) == 1:
                inputs.append(self.editor.add_const(np.asarray([*sizes[:1], -1], np.int64)))
            case "Unsqueeze" if len(inputs) == 1 and not attrs:
                self.put(op, "axes", (0,), inputs, attrs)
            case "TransData" if not attrs:
                attrs |= {"src_format": "NCHW", "dst_format": "NHWC", "groups": 1}
            case name if "Conv" in name and is_open and not attrs and len(sizes) == 4 and len(inputs) > 1:
                self._complete_conv(sizes, inputs[1], attrs)
            case _:
                pass

    def n_parts(self, op: str, inputs: Sequence[int | None], attrs: Mapping[str, Attr]) -> int:
        """Return how many outputs a Split must have, whichever of them a pattern names; 1 for others."""
        if op.removeprefix("ge::") != "Split":
            return 1
        count, sizes = attrs.get("num_outputs"), attrs.get("split")
        if isinstance(count, int):
            return count
        if len(inputs) > 1 and inputs[1] in self.editor.consts:
            sizes = tuple(self.editor.consts[inputs[1]].array.ravel())
        return len(sizes) if isinstance(sizes, tuple) else 1

    def _complete_conv(self, x: tuple[int, ...], weight: int | None, attrs: dict[str, Attr]) -> None:
        """Let a convolution keep the size of the picture, so that sums fit."""
        type = self.editor.values[weight].type if weight is not None else None
        shape = type.shape if isinstance(type, TensorType) else None
        if shape is None or len(shape) < 2 or not isinstance(shape[1], int):
            return
        if x[1] != shape[1]:
            attrs["group"] = x[1] // max(1, shape[1])
        if shape[2:] != (1, 1):
            attrs["auto_pad"] = "SAME_UPPER"

    # ------------------------------------------------------------ nodes
    def node(
        self, op: str, inputs: Sequence[int | None], attrs: Mapping[str, Attr], n_outputs: int
    ) -> list[int | None]:
        """Add a node and return its outputs. Raises Unbuildable when it does not take such inputs."""
        schema = self.setting.schema(op)
        if schema is not None:
            required = [param for param in schema.inputs if param.kind is ParamKind.REQUIRED]
            if any(place >= len(inputs) or inputs[place] is None for place in range(len(required))) and not (
                _is_optional_before(schema.inputs)
            ):
                raise Unbuildable(f"{op} lacks an input")
            self._check_lists(op, inputs, schema)
        name = f"n{self.editor.fresh_id()}"
        node = self.editor.add_node(op, inputs, attrs=attrs, n_outputs=n_outputs, name=name)
        self._infer(node)
        return list(node.outputs)

    def _check_lists(self, op: str, inputs: Sequence[int | None], schema: OpSchema) -> None:
        for value, param in zip(inputs, schema.inputs, strict=False):
            type = self.editor.values[value].type if value is not None else None
            shape = type.shape if isinstance(type, TensorType) else None
            if is_list(param) and shape is not None and len(shape) != 1:
                raise Unbuildable(f"{op} takes `{param.name}` with one axis, not {len(shape)}")

    def _infer(self, node: Node) -> None:
        types = [None if value is None else self.editor.values[value].type for value in node.inputs]
        consts: list[Const | None] = [
            None if value is None else self.editor.consts.get(value) for value in node.inputs
        ]
        try:
            found = self.setting.infer(node, types, consts)
        except GerulesError as error:
            raise Unbuildable(f"{node.op}: {error.diagnostics[0].message}") from None
        for value, type in zip(node.outputs, found, strict=False):
            if value is not None:
                self.editor.values[value] = GraphValue(value, f"v{value}", type)

    def dtype_of(self, value: int | None) -> DType:
        """Return the element type of a value, float32 when it is not known."""
        type = self.editor.values[value].type if value is not None else None
        return type.dtype if isinstance(type, TensorType) else DType.F32


def _is_optional_before(params: Sequence[Param]) -> bool:
    """Whether an optional parameter stands before a required one, as the bias before a residual does."""
    kinds = [param.kind for param in params]
    return ParamKind.OPTIONAL in kinds and ParamKind.REQUIRED in kinds[kinds.index(ParamKind.OPTIONAL) :]


def _elements(given: Elements, shape: tuple[int, ...], dtype: DType) -> Array:
    _check_size(shape)
    try:
        match given.kind:
            case "list":
                with np.errstate(over="ignore"):  # a test made up for a narrower type has infinities
                    return listed_elements(given.values, shape, dtype)
            case "fill":
                return equal_elements(given.values[0], shape, dtype)
            case "random":
                return random_elements(int(given.values[0]), shape, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise Unbuildable(str(error)) from None


def _check_size(shape: tuple[int, ...]) -> None:
    if math.prod(shape) > MAX_ELEMENTS or len(shape) > MAX_RANK:
        raise Unbuildable(
            f"an input of {len(shape)} axes and {math.prod(shape)} elements is too large for a test; "
            f"at most {MAX_RANK} and {MAX_ELEMENTS} are made"
        )


def _type_given(item: GivenValue) -> tuple[DType, tuple[int | str, ...]]:
    type = item.type
    if type is None or type.dtypes is None or len(type.dtypes) != 1 or type.dims is None:
        raise Unbuildable(f"{item.name.name} needs an element type and a shape")
    dims: list[int | str] = []
    for dim in type.dims:
        if not isinstance(dim, DimSize | DimName):
            raise Unbuildable(f"the rank of {item.name.name} is not given")
        dims.append(dim.size if isinstance(dim, DimSize) else dim.name)
    return next(iter(type.dtypes)), tuple(dims)
