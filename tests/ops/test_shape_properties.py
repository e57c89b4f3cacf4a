"""Shapes against numpy and onnx, on inputs drawn at random; each dim may be hidden behind a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

from gerules.ir import Attr, Const, Dim, DType, Node, TensorType
from gerules.ops import Schemas, ShapeError, infer

SCHEMAS = Schemas()
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def shape_of(
    op: str,
    inputs: Sequence[tuple[Dim, ...] | Const | None],
    attrs: Mapping[str, Attr] | None = None,
    opset: int = 18,
    n_outputs: int = 1,
) -> tuple[Dim, ...] | None:
    types = [
        None if one is None else one.type if isinstance(one, Const) else TensorType(DType.F32, one)
        for one in inputs
    ]
    consts = [one if isinstance(one, Const) else None for one in inputs]
    node = Node(0, op, tuple(range(1, len(inputs) + 1)), tuple(range(-n_outputs, 0)), attrs or {}, "n")
    found = infer(node, types, consts, SCHEMAS, opset)[0]
    assert isinstance(found, TensorType)
    assert found.dtype is DType.F32
    return found.shape


def ints(*numbers: int) -> Const:
    return Const(np.array(numbers, np.int64))


def hidden(data: st.DataObject, shape: tuple[int, ...]) -> tuple[Dim, ...]:
    """The shape with some dims replaced by a name that stands for the size, or by `?`."""
    return tuple(data.draw(st.sampled_from((dim, f"d{dim}", "?"))) for dim in shape)


def agrees(found: tuple[Dim, ...] | None, want: Sequence[int]) -> bool:
    """Whether a shape with names (`d3` is 3) holds for real dims."""
    if found is None:
        return True
    if len(found) != len(want):
        return False
    for dim, size in zip(found, want, strict=True):
        if dim == "?":
            continue
        if isinstance(dim, str):
            dim = evaluated(dim)
        if dim != size:
            return False
    return True


def evaluated(dim: str) -> int:
    total = 0
    for term in dim.replace("-", "+-").split("+"):
        factor = 1
        for part in term.removeprefix("-").split("*"):
            factor *= int(part.removeprefix("d"))
        total += -factor if term.startswith("-") else factor
    return total


@given(SHAPES, SHAPES, st.data())
def test_broadcast_is_numpys(left: tuple[int, ...], right: tuple[int, ...], data: st.DataObject) -> None:
    try:
        want = np.broadcast_shapes(left, right)
    except ValueError:
        try:
            shape_of("Add", [left, right])
        except ShapeError as fault:
            assert fault.code == "E30002"
            return
        raise AssertionError("numpy refuses these shapes") from None
    assert shape_of("Add", [left, right]) == want
    assert agrees(shape_of("Add", [hidden(data, left), hidden(data, right)]), want)


@given(SHAPES, st.lists(st.integers(-1, 6), max_size=4), st.data())
@settings(max_examples=400)
def test_reshape_is_numpys(shape: tuple[int, ...], target: list[int], data: st.DataObject) -> None:
    assume(all(dim or place < len(shape) for place, dim in enumerate(target)))
    plain = [dim or shape[place] for place, dim in enumerate(target)]
    # numpy resolves -1 beside a 0; ONNX leaves that open.
    assume(not (-1 in plain and 0 in plain))
    try:
        want = np.empty(shape).reshape(plain).shape
    except ValueError:
        try:
            shape_of("Reshape", [shape, ints(*target)])
        except ShapeError as fault:
            assert fault.code == "E30002"
            return
        raise AssertionError(f"numpy refuses {shape} to {plain}") from None
    assert shape_of("Reshape", [shape, ints(*target)]) == want
    # A name is taken for a size of at least 1 where counts are compared.
    assume(0 not in shape)
    assert agrees(shape_of("Reshape", [hidden(data, shape), ints(*target)]), want)


STEPS = st.integers(-3, 3).filter(bool)


@given(st.integers(1, 12), st.integers(-15, 15), st.integers(-15, 15), STEPS, st.booleans())
def test_slice_is_pythons(size: int, start: int, end: int, step: int, is_hidden: bool) -> None:
    # A start before the first entry is the first entry in ONNX, and nothing for Python going backwards.
    want = len(range(size)[max(start, -size) : end : step])
    dim: Dim = f"d{size}" if is_hidden else size
    found = shape_of("Slice", [(dim,), ints(start), ints(end), ints(0), ints(step)])
    assert agrees(found, (want,))
    assert is_hidden or found == (want,)


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Attr]:
    n = draw(st.integers(1, 2))
    axes = st.lists(st.integers(1, 3), min_size=n, max_size=n).map(tuple)
    attrs: dict[str, Attr] = {"kernel_shape": draw(axes)}
    if draw(st.booleans()):
        attrs["strides"] = draw(axes)
    if draw(st.booleans()):
        attrs["dilations"] = draw(axes)
    mode = draw(st.sampled_from(("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")))
    attrs["auto_pad"] = mode
    if mode == "NOTSET" and draw(st.booleans()):
        attrs["pads"] = draw(st.lists(st.integers(0, 2), min_size=2 * n, max_size=2 * n).map(tuple))
    return attrs


def onnx_shape(
    op: str, shapes: Sequence[Sequence[int]], attrs: Mapping[str, Attr], opset: int = 18
) -> list[int] | None:
    """What onnx's own inference gives; None when it refuses."""
    names = [f"x{place}" for place in range(len(shapes))]
    node = helper.make_node(op, names, ["y"], **attrs)
    types = {
        name: helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, shape)
        for name, shape in zip(names, shapes, strict=True)
    }
    try:
        found = onnx.shape_inference.infer_node_outputs(onnx.defs.get_schema(op, opset), node, types)
    except onnx.shape_inference.InferenceError:
        return None
    return [dim.dim_value for dim in found["y"].tensor_type.shape.dim]


@given(windows(), st.lists(st.integers(7, 13), min_size=2, max_size=2), st.sampled_from((1, 2)), st.data())
def test_conv_is_onnxs(attrs: dict[str, Attr], spatial: list[int], groups: int, data: st.DataObject) -> None:
    kernel = attrs["kernel_shape"]
    assert isinstance(kernel, tuple)
    shape = (2, 4, *spatial[: len(kernel)])
    weight = (6, 4 // groups, *kernel)
    attrs = {**attrs, "group": groups}
    want = onnx_shape("Conv", [shape, weight], attrs)
    assert want is not None
    assert shape_of("Conv", [shape, weight], attrs) == tuple(want)
    assert agrees(shape_of("Conv", [hidden(data, shape), hidden(data, weight)], attrs), want)


@given(windows(), st.lists(st.integers(7, 13), min_size=2, max_size=2), st.booleans(), st.data())
def test_pool_is_onnxs(
    attrs: dict[str, Attr], spatial: list[int], is_ceil: bool, data: st.DataObject
) -> None:
    kernel = attrs["kernel_shape"]
    assert isinstance(kernel, tuple)
    pads = attrs.get("pads")
    assume(not isinstance(pads, tuple) or all(pad < size for pad, size in zip(pads, kernel * 2, strict=True)))
    shape = (2, 3, *spatial[: len(kernel)])
    attrs = {**attrs, "ceil_mode": int(is_ceil)}
    want = onnx_shape("MaxPool", [shape], attrs, 22)
    assert want is not None
    assert shape_of("MaxPool", [shape], attrs, 22) == tuple(want)
    assert agrees(shape_of("MaxPool", [hidden(data, shape)], attrs, 22), want)


@given(windows(), st.lists(st.integers(3, 6), min_size=2, max_size=2), st.sampled_from((1, 2)))
def test_conv_transpose_is_onnxs(attrs: dict[str, Attr], spatial: list[int], groups: int) -> None:
    kernel = attrs["kernel_shape"]
    assert isinstance(kernel, tuple)
    shape, weight = (2, 4, *spatial[: len(kernel)]), (4, 6, *kernel)
    attrs = {**attrs, "group": groups}
    want = onnx_shape("ConvTranspose", [shape, weight], attrs)
    assume(want is not None and all(size > 0 for size in want))
    assert want is not None
    found = shape_of("ConvTranspose", [shape, weight], attrs)
    assert agrees(found, want)
    assert str(attrs["auto_pad"]).startswith("SAME") or found == tuple(want)


@given(SHAPES, SHAPES, st.data())
def test_matmul_is_numpys(left: tuple[int, ...], right: tuple[int, ...], data: st.DataObject) -> None:
    try:
        want = np.matmul(np.zeros(left), np.zeros(right)).shape
    except ValueError:
        try:
            shape_of("MatMul", [left, right])
        except ShapeError:
            return
        raise AssertionError("numpy refuses these shapes") from None
    assert shape_of("MatMul", [left, right]) == want
    assert agrees(shape_of("MatMul", [hidden(data, left), hidden(data, right)]), want)


@given(SHAPES.filter(bool), st.booleans(), st.data())
def test_reductions_are_numpys(shape: tuple[int, ...], is_kept: bool, data: st.DataObject) -> None:
    axes = tuple(data.draw(st.sets(st.integers(-len(shape), -1), min_size=1)))
    want = np.zeros(shape).sum(axis=axes, keepdims=is_kept).shape
    attrs = {"keepdims": int(is_kept)}
    assert shape_of("ReduceMean", [shape, ints(*axes)], attrs) == want
    assert shape_of("ReduceMean", [shape], {**attrs, "axes": axes}, opset=13) == want
    assert agrees(shape_of("ReduceMean", [hidden(data, shape), ints(*axes)], attrs), want)


EQUATIONS = ("ij,jk->ik", "bij,bjk->bik", "ij->ji", "ii->i", "i,j", "...ij,...jk->...ik", "bi->b")


@given(st.sampled_from(EQUATIONS), st.data())
def test_einsum_is_numpys(equation: str, data: st.DataObject) -> None:
    sizes = {name: data.draw(st.integers(1, 4)) for name in "bijk"}
    shapes = [
        tuple(sizes[name] for name in term.replace("...", "b")) for term in equation.split("->")[0].split(",")
    ]
    want = np.einsum(equation, *(np.zeros(shape) for shape in shapes)).shape
    assert shape_of("Einsum", list(shapes), {"equation": equation}) == want
    assert agrees(shape_of("Einsum", [hidden(data, shape) for shape in shapes], {"equation": equation}), want)


@given(SHAPES.filter(bool), st.integers(1, 4), st.data())
def test_split_parts_make_the_whole(shape: tuple[int, ...], n: int, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    node = Node(0, "Split", (1,), tuple(range(2, 2 + n)), {"axis": axis, "num_outputs": n}, "n")
    types = infer(node, [TensorType(DType.F32, shape)], [None], SCHEMAS, 18)
    parts = [type.shape for type in types if isinstance(type, TensorType) and type.shape is not None]
    assert sum(int(part[axis]) for part in parts) == shape[axis]
