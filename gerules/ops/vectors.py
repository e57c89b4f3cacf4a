"""What is known of small integer tensors: shapes on their way from Shape to Reshape, with names in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gerules.ir import UNKNOWN_DIM, Const, Dim, DType, TensorType, ValueType
from gerules.ops.call import LONGEST_VECTOR, Call, Vector, vector_of
from gerules.ops.dims import LARGEST_DIM, add_dims, mul_dims, product, quotient, sub_dims
from gerules.ops.shapes_make import shape_range

VectorRule = Callable[[Call], Vector | None]
"""Says what the first output of an integer operator holds, or None when nothing is known."""

_LARGEST_I32: Final = 2**31 - 1


def vectors_of(rule: VectorRule, call: Call, outputs: list[ValueType]) -> Vector | None:
    """Return the entries of the first output, when it is a small integer tensor of rank 0 or 1."""
    type = outputs[0]
    if not isinstance(type, TensorType) or type.shape is None or len(type.shape) > 1:
        return None
    if type.dtype not in (DType.I64, DType.I32, DType.BOOL):
        return None
    size = type.shape[0] if type.shape else 1
    if not isinstance(size, int) or size > LONGEST_VECTOR:
        return None
    found = rule(call)
    if found is None or len(found) != size or all(entry == UNKNOWN_DIM for entry in found):
        return None
    limit = _LARGEST_I32 if type.dtype is DType.I32 else LARGEST_DIM
    return tuple(UNKNOWN_DIM if isinstance(e, int) and abs(e) > limit else e for e in found)


def _shape(call: Call) -> Vector | None:
    shape = call.shape(0)
    if shape is None:
        return None
    start, end = shape_range(call, len(shape))
    return shape[start:end]


def _size(call: Call) -> Vector | None:
    shape = call.shape(0)
    return None if shape is None else (product(shape),)


def _constant(call: Call) -> Vector | None:
    value = call.attrs.get("value", call.attrs.get("value_int", call.attrs.get("value_ints")))
    if isinstance(value, Const):
        return vector_of(value)
    if isinstance(value, int):
        return (value,)
    return call.ints_attr("value_ints")


def _same(call: Call) -> Vector | None:
    return call.vector(0)


def _gather(call: Call) -> Vector | None:
    data, picks, shape = call.vector(0), call.ints(1), call.shape(0)
    if data is None or picks is None or shape is None or len(shape) != 1:
        return None
    return tuple(data[pick] for pick in picks if -len(data) <= pick < len(data))


def _concat(call: Call) -> Vector | None:
    out: list[Dim] = []
    for index in range(len(call.inputs)):
        known, shape = call.vector(index), call.shape(index)
        if known is not None:
            out += known
        elif (
            shape is not None and len(shape) == 1 and isinstance(shape[0], int) and shape[0] <= LONGEST_VECTOR
        ):
            out += [UNKNOWN_DIM] * shape[0]
        else:
            return None
    return tuple(out)


def _slice(call: Call) -> Vector | None:
    data = call.vector(0)
    if call.opset < 10:
        starts, ends, steps = call.ints_attr("starts"), call.ints_attr("ends"), (1,)
    else:
        starts, ends, steps = call.ints(1), call.ints(2), call.ints(4) if call.has(4) else (1,)
    if data is None or starts is None or ends is None or steps is None:
        return None
    if not len(starts) == len(ends) == len(steps) == 1:
        return None
    start, end, step = starts[0], ends[0], steps[0]
    if step < 0 and end < -len(data):
        return data[start::step]
    return data[start:end:step]


def _pairwise(combine: Callable[[Dim, Dim], Dim]) -> VectorRule:
    def rule(call: Call) -> Vector | None:
        left, right = call.vector(0), call.vector(1)
        if left is None or right is None or len(call.inputs) != 2:
            return None
        size = max(len(left), len(right)) if left and right else 0
        if len(left) not in (1, size) or len(right) not in (1, size):
            return None
        wide = left * size if len(left) == 1 else left
        other = right * size if len(right) == 1 else right
        return tuple(map(combine, wide, other))

    return rule


def _divided(left: Dim, right: Dim) -> Dim:
    if isinstance(left, int) and isinstance(right, int):
        if right == 0:
            return UNKNOWN_DIM
        # ONNX divides integers toward zero.
        return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    if right == 1:
        return left
    found = quotient((left,), (right,))
    return UNKNOWN_DIM if found is None else found


def _equal(left: Dim, right: Dim) -> Dim:
    if UNKNOWN_DIM in (left, right):
        return UNKNOWN_DIM
    if left == right:
        return 1
    if isinstance(left, int) and isinstance(right, int):
        return 0
    name, number = (left, right) if isinstance(right, int) else (right, left)
    # A size is never negative; a difference such as N-1 may be.
    is_size = isinstance(name, str) and name.isidentifier()
    return 0 if is_size and isinstance(number, int) and number < 0 else UNKNOWN_DIM


def _larger(left: Dim, right: Dim) -> Dim:
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    return left if left == right else UNKNOWN_DIM


def _smaller(left: Dim, right: Dim) -> Dim:
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    return left if left == right else UNKNOWN_DIM


def _where(call: Call) -> Vector | None:
    tests, left, right = call.vector(0), call.vector(1), call.vector(2)
    if tests is None or (left is None and right is None):
        return None
    size = max(len(known) for known in (tests, left, right) if known is not None)
    wide = [_widened(known, size) for known in (tests, left, right)]
    if any(known is None for known in wide):
        return None
    out: list[Dim] = []
    for test, one, two in zip(*(known for known in wide if known is not None), strict=True):
        same = one if one == two else UNKNOWN_DIM
        out.append(one if test == 1 else two if test == 0 else same)
    return tuple(out)


def _widened(known: Vector | None, size: int) -> Vector | None:
    if known is None:
        return (UNKNOWN_DIM,) * size
    if len(known) == 1:
        return known * size
    return known if len(known) == size else None


def _constant_of_shape(call: Call) -> Vector | None:
    counts, value = call.ints(0), call.attrs.get("value")
    if (
        counts is None
        or len(counts) > 1
        or not isinstance(value, Const)
        or any(n > LONGEST_VECTOR for n in counts)
    ):
        return None
    entry = vector_of(value)
    return None if entry is None or len(entry) != 1 else entry * (counts[0] if counts else 1)


def _range(call: Call) -> Vector | None:
    numbers = [call.ints(index) for index in range(3)]
    exact = [entry[0] for entry in numbers if entry is not None and len(entry) == 1]
    if len(exact) != 3 or exact[2] == 0:
        return None
    listed = range(exact[0], exact[1], exact[2])
    return tuple(listed) if len(listed) <= LONGEST_VECTOR else None


def _expand(call: Call) -> Vector | None:
    data, sizes = call.vector(0), call.ints(1)
    if data is None or sizes is None or len(sizes) > 1:
        return None
    size = sizes[0] if sizes else 1
    return data * size if len(data) == 1 and 0 < size <= LONGEST_VECTOR else data


def _reduce_prod(call: Call) -> Vector | None:
    data = call.vector(0)
    return None if data is None or _keeps_all(call) else (product(data),)


def _keeps_all(call: Call) -> bool:
    """Whether the reduction may be told to do nothing."""
    return bool(call.int_attr("noop_with_empty_axes", 0))


def _reduce_sum(call: Call) -> Vector | None:
    data = call.vector(0)
    if data is None or _keeps_all(call):
        return None
    total: Dim = 0
    for entry in data:
        total = add_dims(total, entry)
    return (total,)


def _negated(call: Call) -> Vector | None:
    data = call.ints(0)
    return None if data is None else tuple(-entry for entry in data)


VECTOR_RULES: Final[dict[str, VectorRule]] = {
    "Shape": _shape,
    "Size": _size,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    **dict.fromkeys(("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Flatten"), _same),
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Expand": _expand,
    "Add": _pairwise(add_dims),
    "Sub": _pairwise(sub_dims),
    "Mul": _pairwise(mul_dims),
    "Div": _pairwise(_divided),
    "Equal": _pairwise(_equal),
    "Max": _pairwise(_larger),
    "Min": _pairwise(_smaller),
    "Where": _where,
    "ReduceProd": _reduce_prod,
    "ReduceSum": _reduce_sum,
    "Neg": _negated,
}
"""By operator of the ONNX domain."""
