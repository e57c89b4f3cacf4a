"""Types of matrix products: MatMul, Gemm, Einsum, Attention and their quantized kin."""

from __future__ import annotations

from typing import Final

from gerules.ir import Dim, Shape, TensorType, ValueType
from gerules.ops.call import Call, Rule, bad_attr, misfit, unknown_shape
from gerules.ops.dims import add_dims, broadcast_dims, mul_dims, quotient
from gerules.ops.shapes_elementwise import broadcast_all, check_broadcasts_to


def _matmul(call: Call) -> list[ValueType]:
    return [TensorType(call.dtypes[0], matmul_shape(call.shape(0), call.shape(1)))]


def _qlinear_matmul(call: Call) -> list[ValueType]:
    return [TensorType(call.dtypes[0], matmul_shape(call.shape(0), call.shape(3)))]


def _fused_matmul(call: Call) -> list[ValueType]:
    left, right = call.shape(0), call.shape(1)
    if call.int_attr("transBatchA", 0) or call.int_attr("transBatchB", 0):
        return [TensorType(call.dtypes[0])]
    if call.int_attr("transA", 0):
        left = _swapped(left)
    if call.int_attr("transB", 0):
        right = _swapped(right)
    return [TensorType(call.dtypes[0], matmul_shape(left, right))]


def _swapped(shape: Shape | None) -> Shape | None:
    return shape if shape is None or len(shape) < 2 else (*shape[:-2], shape[-1], shape[-2])


def matmul_shape(left: Shape | None, right: Shape | None) -> Shape | None:
    """Return the shape of `left @ right`, as numpy has it. Raises Misfit (E30002) when there is none."""
    if left is None or right is None:
        return None
    if not left or not right:
        raise misfit("a scalar has no matrix product")
    row: Shape = left[-2:-1]
    column: Shape = right[-1:] if len(right) > 1 else ()
    inner = right[max(len(right) - 2, 0)]
    if isinstance(left[-1], int) and isinstance(inner, int) and left[-1] != inner:
        raise misfit(f"the inner dims {left[-1]} and {inner} differ")
    lead = broadcast_all([left[:-2], right[:-2]])
    return (*(lead or ()), *row, *column)


def _gemm(call: Call) -> list[ValueType]:
    left, right = call.shape(0), call.shape(1)
    for shape in (left, right):
        if shape is not None and len(shape) != 2:
            raise misfit(f"rank 2 is needed, not {len(shape)}")
    left = left if left is not None else unknown_shape(2)
    right = right if right is not None else unknown_shape(2)
    rows, inner = (left[1], left[0]) if call.int_attr("transA", 0) else (left[0], left[1])
    depth, columns = (right[1], right[0]) if call.int_attr("transB", 0) else (right[0], right[1])
    if isinstance(inner, int) and isinstance(depth, int) and inner != depth:
        raise misfit(f"the inner dims {inner} and {depth} differ")
    addend = call.shape(2)
    if addend is not None and call.opset >= 7:
        check_broadcasts_to(addend, (rows, columns), "the addend")
    return [TensorType(call.dtypes[0], (rows, columns))]


def _einsum(call: Call) -> list[ValueType]:
    """Named axes of all inputs; `...` stands for broadcast leading axes."""
    equation = call.text_attr("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(call.inputs):
        raise bad_attr("equation", f"has {len(terms)} terms for {len(call.inputs)} inputs")
    dims: dict[str, Dim] = {}
    rests: list[Shape | None] = []
    for index, term in enumerate(terms):
        shape = call.shape(index)
        before, dots, after = term.partition("...")
        if not all(mark.isalpha() for mark in before + after):
            raise bad_attr("equation", f"has the term {term!r}")
        if shape is None:
            rests += [None] if dots else []
            for name in before + after:
                dims.setdefault(name, "?")
            continue
        n_rest = len(shape) - len(before) - len(after)
        if n_rest < 0 or (n_rest and not dots):
            raise misfit(f"the term {term!r} does not fit rank {len(shape)}")
        if dots:
            rests.append(shape[len(before) : len(before) + n_rest])
        tail = shape[len(shape) - len(after) :] if after else ()
        for name, dim in zip(before + after, (*shape[: len(before)], *tail), strict=True):
            dims[name] = _einsum_dim(name, dims.get(name, 1), dim)
    if not arrow:
        seen = left.replace(",", "").replace("...", "")
        right = ("..." if "..." in left else "") + "".join(sorted(c for c in set(seen) if seen.count(c) == 1))
    rest: Shape | None = broadcast_all(rests) if rests else ()
    before, dots, after = right.partition("...")
    if any(name not in dims for name in before + after):
        raise bad_attr("equation", "has an output axis that no input has")
    if dots and rest is None:
        return [TensorType(call.dtypes[0])]
    middle = rest if dots and rest is not None else ()
    return [TensorType(call.dtypes[0], (*(dims[c] for c in before), *middle, *(dims[c] for c in after)))]


def _einsum_dim(name: str, known: Dim, dim: Dim) -> Dim:
    found = broadcast_dims(known, dim)
    if found is None:
        raise misfit(f"axis {name} is both {known} and {dim}")
    return found


def _attention(call: Call) -> list[ValueType]:
    """Scaled dot-product attention, with heads apart (rank 4) or folded into the last dim (rank 3)."""
    dtypes = (*call.dtypes, *((call.dtypes[0],) * 4))
    query, key, value = call.shape(0), call.shape(1), call.shape(2)
    if query is None or key is None or value is None:
        return [TensorType(dtype) for dtype in dtypes[:4]]
    is_folded = len(query) == 3
    if len(query) not in (3, 4) or len(key) != len(query) or len(value) != len(query):
        raise misfit("query, key and value must all have rank 3 or all rank 4")
    batch: Dim = query[0]
    if is_folded:
        n_heads = _heads(call, "q_num_heads")
        n_stored = _heads(call, "kv_num_heads")
        length, added = query[1], key[1]
        key_size, value_size = _head_size(key[2], n_stored), _head_size(value[2], n_stored)
        out: Shape = (batch, length, mul_dims(n_heads, value_size))
    else:
        n_heads, length, n_stored, added = query[1], query[2], key[1], key[2]
        key_size, value_size = key[3], value[3]
        out = (batch, n_heads, length, value_size)
        query_size = query[3]
        if isinstance(query_size, int) and isinstance(key_size, int) and query_size != key_size:
            raise misfit(f"a query has {query_size} entries, a key {key_size}")
    total: Dim = added
    if call.has(4):
        past = call.shape(4)
        total = "?" if past is None or len(past) != 4 else add_dims(past[2], added)
    shapes: list[Shape] = [
        out,
        (batch, n_stored, total, key_size),
        (batch, n_stored, total, value_size),
        (batch, n_heads, length, total),
    ]
    return [TensorType(dtype, shape) for dtype, shape in zip(dtypes, shapes, strict=False)]


def _heads(call: Call, name: str) -> int:
    count = call.int_attr(name, 0)
    if count < 1:
        raise bad_attr(name, "must be given for inputs of rank 3")
    return count


def _head_size(hidden: Dim, n_heads: int) -> Dim:
    size = quotient((hidden,), (n_heads,))
    if size is None:
        raise misfit(f"{hidden} does not divide into {n_heads} heads")
    return size


RULES: Final[dict[str, Rule]] = {
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _qlinear_matmul,
    "com.microsoft::FusedMatMul": _fused_matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Attention": _attention,
}
