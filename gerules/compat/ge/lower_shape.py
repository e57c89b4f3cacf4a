"""Operators of the Graph Engine that move elements: reshapes, slices, gathers, pads."""

from __future__ import annotations

import numpy as np

from gerules.compat.ge.lowering import REQUIRED, Lowering, Value, operator
from gerules.errors.counts import count_text

_MOST_PARTS = 1024


@operator("Reshape", "x shape", axis=0, num_axes=-1, allowzero=0)
def _reshape(n: Lowering) -> Value:
    if n.int_attr("axis") != 0 or n.int_attr("num_axes") != -1:
        raise n.fault("reshaping a part of the axes is not lowered", "give the whole shape")
    shape = n.sink.array_of(n["shape"])
    value = n["shape"] if shape is None else n.const(shape.reshape(-1))
    return n.op("Reshape", n["x"], value, allowzero=n.int_attr("allowzero"))


@operator("FlattenV2", "x", axis=1, end_axis=-1)
def _flatten_v2(n: Lowering) -> Value:
    axis, end = n.int_attr("axis"), n.int_attr("end_axis")
    if (axis, end) == (1, -1):
        return n.op("Flatten", n["x"], axis=1)
    rank = n.rank_of("x")
    first, last = (at + rank if at < 0 else at for at in (axis, end))
    if not 0 <= first <= last < rank:
        raise n.fault(f"no axes are {axis} to {end} of {rank}", "give a first and a last axis of x")
    if last == rank - 1:
        return n.op("Reshape", n["x"], n.const([0] * first + [-1]))
    # 0 stands for the size at its own place, and what comes after is at another one.
    after = n.op("Shape", n["x"], start=last + 1)
    return n.op("Reshape", n["x"], n.op("Concat", n.const([0] * first + [-1]), after, axis=0))


@operator("Flatten", "x", axis=1)
def _flatten(n: Lowering) -> Value:
    return n.op("Flatten", n["x"], axis=n.int_attr("axis"))


@operator("Squeeze", "x", axis=())
def _squeeze(n: Lowering) -> Value:
    axes = n.ints_attr("axis")
    return n.op("Squeeze", n["x"], n.const(axes)) if axes else n.op("Squeeze", n["x"])


@operator("Unsqueeze", "x", axes=REQUIRED)
def _unsqueeze(n: Lowering) -> Value:
    return n.op("Unsqueeze", n["x"], n.const(n.ints_attr("axes")))


@operator("ExpandDims", "x axis")
def _expand_dims(n: Lowering) -> Value:
    return n.op("Unsqueeze", n["x"], n.const(n.ints("axis")))


@operator("Transpose", "x perm")
def _transpose(n: Lowering) -> Value:
    return n.op("Transpose", n["x"], perm=tuple(n.ints("perm")))


@operator("TransposeD", "x", perm=REQUIRED)
def _transpose_d(n: Lowering) -> Value:
    return n.op("Transpose", n["x"], perm=tuple(n.ints_attr("perm")))


@operator("Shape", "x", dtype=3)
def _shape(n: Lowering) -> Value:
    return n.op("Shape", n["x"])


# ---------------------------------------------------------------- joining and splitting
@operator("ConcatV2", "x* concat_dim")
def _concat_v2(n: Lowering) -> Value:
    return n.op("Concat", *n.all("x"), axis=int(n.number("concat_dim")))


@operator("Concat", "concat_dim x*")
def _concat(n: Lowering) -> Value:
    return n.op("Concat", *n.all("x"), axis=int(n.number("concat_dim")))


@operator("ConcatD ConcatV2D", "x*", concat_dim=REQUIRED)
def _concat_d(n: Lowering) -> Value:
    return n.op("Concat", *n.all("x"), axis=n.int_attr("concat_dim"))


@operator("Pack", "x*", axis=0)
def _pack(n: Lowering) -> Value:
    axis = n.int_attr("axis")
    parts = [n.op("Unsqueeze", value, n.const([axis])) for value in n.all("x")]
    return n.op("Concat", *parts, axis=axis)


@operator("Split", "split_dim x", "y*", num_split=REQUIRED)
def _split(n: Lowering) -> tuple[Value, ...]:
    return _even(n, int(n.number("split_dim")))


@operator("SplitD", "x", "y*", split_dim=REQUIRED, num_split=REQUIRED)
def _split_d(n: Lowering) -> tuple[Value, ...]:
    return _even(n, n.int_attr("split_dim"))


def _even(n: Lowering, axis: int) -> tuple[Value, ...]:
    n_parts = n.int_attr("num_split")
    if not 1 <= n_parts <= _MOST_PARTS:
        raise n.fault(f"it cannot make {count_text(n_parts, 'part')}", f"split into 1 to {_MOST_PARTS}")
    return n.ops(n_parts, "Split", n["x"], axis=axis, num_outputs=n_parts)


@operator("SplitV", "x size_splits split_dim", "y*", num_split=0)
def _split_v(n: Lowering) -> tuple[Value, ...]:
    sizes = n.ints("size_splits")
    if not 1 <= len(sizes) <= _MOST_PARTS:
        raise n.fault(f"it cannot make {count_text(len(sizes), 'part')}", f"split into 1 to {_MOST_PARTS}")
    return n.ops(len(sizes), "Split", n["x"], n.const(sizes), axis=int(n.number("split_dim")))


# ---------------------------------------------------------------- slices and gathers
@operator("Slice", "x offsets size")
def _slice(n: Lowering) -> Value:
    return _sliced(n, n.ints("offsets"), n.ints("size"))


@operator("SliceD", "x", offsets=REQUIRED, size=REQUIRED)
def _slice_d(n: Lowering) -> Value:
    return _sliced(n, n.ints_attr("offsets"), n.ints_attr("size"))


def _sliced(n: Lowering, offsets: list[int], sizes: list[int]) -> Value:
    if len(offsets) != len(sizes):
        reason = f"it has {count_text(len(offsets), 'offset')} and {count_text(len(sizes), 'size')}"
        raise n.fault(reason, "give one of each for each axis")
    last = np.iinfo(np.int64).max
    ends = [last if size < 0 else at + size for at, size in zip(offsets, sizes, strict=True)]
    return n.op("Slice", n["x"], n.const(offsets), n.const(ends), n.const(range(len(ends))))


@operator("StridedSliceV2", "x begin end axes? strides?")
def _strided_slice(n: Lowering) -> Value:
    return n.op("Slice", n["x"], n["begin"], n["end"], n.get("axes"), n.get("strides"))


@operator("GatherV2", "x indices axis", batch_dims=0)
def _gather_v2(n: Lowering) -> Value:
    _refuse_batches(n)
    return n.op("Gather", n["x"], n["indices"], axis=int(n.number("axis")))


def _refuse_batches(n: Lowering) -> None:
    if n.int_attr("batch_dims"):
        raise n.fault("batch_dims is not lowered", "set it to 0")


@operator("Gather", "x indices", validate_indices=True, batch_dims=0)
def _gather(n: Lowering) -> Value:
    _refuse_batches(n)
    return n.op("Gather", n["x"], n["indices"], axis=0)


@operator("GatherV2D", "x indices", axis=0)
def _gather_v2d(n: Lowering) -> Value:
    return n.op("Gather", n["x"], n["indices"], axis=n.int_attr("axis"))


# ---------------------------------------------------------------- growing
@operator("Tile", "x multiples")
def _tile(n: Lowering) -> Value:
    return n.op("Tile", n["x"], n.const(n.ints("multiples")))


@operator("TileD", "x", multiples=REQUIRED)
def _tile_d(n: Lowering) -> Value:
    return n.op("Tile", n["x"], n.const(n.ints_attr("multiples")))


@operator("BroadcastTo", "x shape")
def _broadcast_to(n: Lowering) -> Value:
    return n.op("Expand", n["x"], n.const(n.ints("shape")))


@operator("BroadcastToD", "x", shape=REQUIRED)
def _broadcast_to_d(n: Lowering) -> Value:
    return n.op("Expand", n["x"], n.const(n.ints_attr("shape")))


@operator("Pad", "x paddings")
def _pad(n: Lowering) -> Value:
    return _padded(n, n.ints("paddings"), None)


@operator("PadD", "x", paddings=REQUIRED)
def _pad_d(n: Lowering) -> Value:
    rows = n.attr("paddings")
    return _padded(n, [int(item) for item in np.asarray(rows).reshape(-1)], None)


@operator("PadV3", "x paddings constant_values?", mode="constant", paddings_contiguous=True)
def _pad_v3(n: Lowering) -> Value:
    if n.text_attr("mode") not in ("constant", "reflect", "edge"):
        raise n.fault(f"mode {n.text_attr('mode')} is none", "use constant, reflect or edge")
    if not n.int_attr("paddings_contiguous"):
        return n.op(
            "Pad", n["x"], n.const(n.ints("paddings")), n.get("constant_values"), mode=n.text_attr("mode")
        )
    return _padded(n, n.ints("paddings"), n.get("constant_values"), n.text_attr("mode"))


def _padded(n: Lowering, pairs: list[int], value: Value | None, mode: str = "constant") -> Value:
    if len(pairs) % 2:
        reason = f"it has {count_text(len(pairs), 'padding')}, which are no pairs"
        raise n.fault(reason, "give before and after for each axis")
    return n.op("Pad", n["x"], n.const(pairs[::2] + pairs[1::2]), value, mode=mode)
