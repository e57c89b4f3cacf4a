"""Types of nodes with bodies: what If, Loop, Scan and SequenceMap give, from what their bodies give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gerules.errors import table
from gerules.ir import (
    UNKNOWN,
    UNKNOWN_DIM,
    Body,
    Dim,
    DType,
    Graph,
    OptionalType,
    SequenceType,
    Shape,
    TensorType,
    ValueType,
)
from gerules.ops.call import Call, Misfit, axis_in

_FIRST_SCAN_WITHOUT_BATCH: Final = 9

BodyRule = Callable[[Call, Mapping[str, Body]], list[ValueType]]


def join(left: ValueType, right: ValueType) -> ValueType | None:
    """Return the most precise type that holds for both values, or None when no type does.

    >>> str(join(TensorType(DType.F32, (2, "N")), TensorType(DType.F32, (3, "N"))))
    'f32[?, N]'
    """
    if left == right:
        return left
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        if DType.UNKNOWN not in (left.dtype, right.dtype) and left.dtype is not right.dtype:
            return None
        dtype = left.dtype if right.dtype is DType.UNKNOWN else right.dtype
        return TensorType(dtype, _join_shapes(left.shape, right.shape))
    if UNKNOWN in (left, right):
        return right if left == UNKNOWN else left
    if isinstance(left, SequenceType) and isinstance(right, SequenceType):
        inner = join(left.element, right.element)
        return None if inner is None else SequenceType(inner)
    if isinstance(left, OptionalType) and isinstance(right, OptionalType):
        inner = join(left.element, right.element)
        return None if inner is None else OptionalType(inner)
    return None


def _join_shapes(left: Shape | None, right: Shape | None) -> Shape | None:
    if left is None or right is None or len(left) != len(right):
        return None
    return tuple(one if one == two else UNKNOWN_DIM for one, two in zip(left, right, strict=True))


def output_types(graph: Graph) -> list[ValueType]:
    """Return the types of a graph's outputs."""
    return [graph.values[value].type for value in graph.outputs]


def _misfit(reason: str) -> Misfit:
    return Misfit(table.BODY_DOES_NOT_FIT, reason=reason)


def _body(bodies: Mapping[str, Body], name: str) -> Graph:
    found = bodies.get(name)
    if found is None:
        raise _misfit(f"the body {name} is missing")
    return found.graph


def _if(call: Call, bodies: Mapping[str, Body]) -> list[ValueType]:
    yes = output_types(_body(bodies, "then_branch"))
    no = output_types(_body(bodies, "else_branch"))
    if len(yes) != len(no) or len(yes) != call.n_outputs:
        raise _misfit(f"its branches return {len(yes)} and {len(no)} values, the node {call.n_outputs}")
    out: list[ValueType] = []
    for place, (one, two) in enumerate(zip(yes, no, strict=True)):
        both = join(one, two)
        if both is None:
            raise _misfit(f"output {place} is {one} in one branch and {two} in the other")
        out.append(both)
    return out


def _loop(call: Call, bodies: Mapping[str, Body]) -> list[ValueType]:
    """What is carried is the first value or what the body gave; scanned outputs get a leading dim."""
    body = _body(bodies, "body")
    n_carried = max(0, len(call.inputs) - 2)
    given = output_types(body)
    if len(body.inputs) != n_carried + 2 or len(given) < n_carried + 1:
        raise _misfit(
            f"it carries {n_carried} values, its body takes {len(body.inputs)} and returns {len(given)}"
        )
    if call.n_outputs > len(given) - 1:
        raise _misfit(f"it has {call.n_outputs} outputs, its body gives {len(given) - 1}")
    out: list[ValueType] = []
    for place in range(n_carried):
        first, later = call.inputs[place + 2], given[place + 1]
        out.append(_carried(first if first is not None else UNKNOWN, later, place))
    return [*out, *(_stacked(type, UNKNOWN_DIM, 0) for type in given[n_carried + 1 :])]


def _carried(first: ValueType, later: ValueType, place: int) -> ValueType:
    both = join(first, later)
    if isinstance(later, OptionalType) or isinstance(first, OptionalType):
        # A loop may start with an empty optional and carry the element on.
        return both if both is not None else later
    if both is None:
        raise _misfit(f"carried value {place} starts as {first} and becomes {later}")
    return both


def _stacked(type: ValueType, length: Dim, axis: int) -> ValueType:
    if not isinstance(type, TensorType):
        raise _misfit(f"a scanned output is {type}, a tensor is needed")
    if type.shape is None:
        return TensorType(type.dtype)
    place = axis_in(axis, len(type.shape) + 1, "scan_output_axes")
    return TensorType(type.dtype, (*type.shape[:place], length, *type.shape[place:]))


def _scan(call: Call, bodies: Mapping[str, Body]) -> list[ValueType]:
    given = output_types(_body(bodies, "body"))
    if call.opset < _FIRST_SCAN_WITHOUT_BATCH:
        return _batched_scan(call, given)
    n_states = len(call.inputs) - scan_count(call)
    if len(given) < n_states:
        raise _misfit(f"it carries {n_states} values, its body returns {len(given)}")
    length: Dim = UNKNOWN_DIM
    for place, axis in enumerate(scan_axes(call)):
        shape = call.shape(n_states + place)
        if shape is not None and length == UNKNOWN_DIM:
            length = shape[axis_in(axis, len(shape), "scan_input_axes")]
    axes = call.ints_attr("scan_output_axes") or (0,) * (len(given) - n_states)
    if len(axes) != len(given) - n_states:
        raise _misfit(f"{len(axes)} scan_output_axes are given for {len(given) - n_states} outputs")
    states = [
        _carried(call.inputs[place] or UNKNOWN, type, place) for place, type in enumerate(given[:n_states])
    ]
    return [*states, *map(_stacked, given[n_states:], (length,) * len(axes), axes)]


def _batched_scan(call: Call, given: list[ValueType]) -> list[ValueType]:
    """Opset 8: every value but the lengths has a batch dim, and what is scanned a time dim after it."""
    n_states = len(call.inputs) - 1 - call.int_attr("num_scan_inputs", 0)
    scanned = call.shape(len(call.inputs) - 1)
    batch, length = scanned[:2] if scanned is not None and len(scanned) > 1 else (UNKNOWN_DIM, UNKNOWN_DIM)
    out: list[ValueType] = []
    for place, type in enumerate(given):
        stacked = type if place < n_states else _stacked(type, length, 0)
        out.append(_stacked(stacked, batch, 0))
    return out


def scan_count(call: Call) -> int:
    """Return how many inputs of a Scan are scanned. Raises Misfit (E30008) when there are not so many."""
    count = call.int_attr("num_scan_inputs", 0)
    if not 1 <= count <= len(call.inputs):
        raise _misfit(f"num_scan_inputs is {count}, it has {len(call.inputs)} inputs")
    return count


def scan_axes(call: Call) -> tuple[int, ...]:
    """Return the axis of each scanned input. Raises Misfit (E30008) when their number is wrong."""
    count = scan_count(call)
    axes = call.ints_attr("scan_input_axes") or (0,) * count
    if len(axes) != count:
        raise _misfit(f"{len(axes)} scan_input_axes are given for {count} inputs")
    return axes


def _sequence_map(call: Call, bodies: Mapping[str, Body]) -> list[ValueType]:
    return [SequenceType(type) for type in output_types(_body(bodies, "body"))]


def _flex_attention(call: Call, bodies: Mapping[str, Body]) -> list[ValueType]:
    """Scores pass through bodies; the result has the query's heads and length, and the value's size."""
    query, value = call.shape(0), call.shape(2)
    if query is None or value is None:
        return [TensorType(call.dtypes[0])]
    if len(query) != 4 or len(value) != 4:
        raise Misfit(table.SHAPES_DO_NOT_FIT, reason="query and value must have rank 4")
    return [TensorType(call.dtypes[0], (*query[:3], value[3]))]


def through_body(call: Call, bodies: Mapping[str, Body]) -> list[ValueType]:
    """A fused operator with one body that takes the node's inputs gives what the body gives."""
    if len(bodies) != 1:
        return []
    (body,) = bodies.values()
    given = output_types(body.graph)
    return given if len(given) == call.n_outputs and len(body.graph.inputs) == len(call.inputs) else []


# ---------------------------------------------------------------- what bodies take
def entry_types(call: Call, name: str, body: Graph) -> list[ValueType] | None:
    """Return the types a body's inputs have when it is entered first, or None when that is not known.

    For a loop the carried ones may change from one turn to the next: see `n_carried`.
    """
    known: list[ValueType] = [UNKNOWN if type is None else type for type in call.inputs]
    match call.op:
        case "Loop":
            found = [TensorType(DType.I64, ()), TensorType(DType.BOOL, ()), *known[2:]]
        case "Scan" if call.opset >= _FIRST_SCAN_WITHOUT_BATCH:
            n_states = len(known) - scan_count(call)
            scanned = [
                _without_axis(type, axis)
                for type, axis in zip(known[n_states:], scan_axes(call), strict=True)
            ]
            found = [*known[:n_states], *scanned]
        case "SequenceMap":
            found = [type.element if isinstance(type, SequenceType) else type for type in known]
        case "If" | "Scan" | "FlexAttention" | "ai.onnx.preview::FlexAttention":
            return None
        case _:
            found = known
    return found if len(found) == len(body.inputs) else None


def carried_range(call: Call) -> tuple[int, int]:
    """Return which body inputs (first, past the last) are fed back from the body's outputs, and may widen."""
    match call.op:
        case "Loop":
            return 2, len(call.inputs)
        case "Scan" if call.opset >= _FIRST_SCAN_WITHOUT_BATCH:
            return 0, len(call.inputs) - scan_count(call)
        case _:
            return 0, 0


def _without_axis(type: ValueType, axis: int) -> ValueType:
    if not isinstance(type, TensorType) or type.shape is None:
        return TensorType(type.dtype) if isinstance(type, TensorType) else UNKNOWN
    place = axis_in(axis, len(type.shape), "scan_input_axes")
    return TensorType(type.dtype, (*type.shape[:place], *type.shape[place + 1 :]))


BODY_RULES: Final[dict[str, BodyRule]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
    "FlexAttention": _flex_attention,
    "ai.onnx.preview::FlexAttention": _flex_attention,
}
