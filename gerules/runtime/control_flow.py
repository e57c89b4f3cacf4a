"""Operators with bodies: If, Loop, Scan and SequenceMap on arrays.

Source: ONNX operator specifications; where a Loop has no condition input, the body's condition counts all
the same, as in onnxruntime and onnx.reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

import numpy as np

from gerules.errors import table
from gerules.ir import Attr, DType, Graph, Node, TensorType
from gerules.runtime.feeds import Item
from gerules.runtime.kernels import Array, RunError
from gerules.runtime.kernels.contract import normalize_axis

Enter = Callable[[str, Sequence[Item]], list[Item]]
"""Runs the body of a name on these inputs."""

ControlFlow = Callable[[Node, Sequence[Item], Enter, int, int], Sequence[Item]]

_FIRST_SCAN_WITHOUT_BATCH: Final = 9


def run_if(node: Node, inputs: Sequence[Item], enter: Enter, opset: int, max_turns: int) -> Sequence[Item]:
    """If: one of two branches, by a condition of one element."""
    return enter("then_branch" if _flag(node, inputs, 0, is_default=False) else "else_branch", ())


def run_loop(node: Node, inputs: Sequence[Item], enter: Enter, opset: int, max_turns: int) -> Sequence[Item]:
    """Loop: carried values, and scanned outputs stacked along a new first axis."""
    limit = _integer(node, inputs, 0)
    goes_on = _flag(node, inputs, 1, is_default=True)
    carried: list[Item] = list(inputs[2:])
    n_carried = len(carried)
    rows: list[list[Array]] = [[] for _ in range(max(0, _n_given(node, "body") - 1 - n_carried))]
    turn = 0
    while goes_on and (limit is None or turn < limit):
        if turn >= max_turns:
            raise RunError(table.LOOP_DOES_NOT_STOP, op=node.op, limit=max_turns)
        given = enter("body", [np.asarray(turn, np.int64), np.asarray(goes_on), *carried])
        if len(given) < 1 + n_carried:
            raise _misfit(node, f"it gives {len(given)} values where {1 + n_carried} are needed")
        goes_on = _flag(node, given, 0, is_default=True)
        carried = given[1 : 1 + n_carried]
        for column, item in zip(rows, given[1 + n_carried :], strict=True):
            column.append(_tensor(node, item))
        turn += 1
    stacked: list[Item] = []
    for at, column in enumerate(rows):
        stacked.append(_stack(node, column, 0) if column else _no_rows(node, "body", 1 + n_carried + at, 0))
    return [*carried, *stacked]


def run_scan(node: Node, inputs: Sequence[Item], enter: Enter, opset: int, max_turns: int) -> Sequence[Item]:
    """Scan: a body over slices of its inputs; before opset 9 for each entry of a batch."""
    n_scanned = _int_attr(node.attrs, "num_scan_inputs")
    if opset < _FIRST_SCAN_WITHOUT_BATCH:
        return _scan_batch(node, inputs, enter, n_scanned)
    n_states = len(inputs) - n_scanned
    if n_scanned < 1 or n_states < 0:
        raise _misfit(node, f"num_scan_inputs is {n_scanned} but there are {len(inputs)} inputs")
    scanned = [_tensor(node, item) for item in inputs[n_states:]]
    backward = _flags_attr(node.attrs, "scan_input_directions", n_scanned)
    axes = _ints_attr(node.attrs, "scan_input_axes", n_scanned)
    turned = [
        _front(node, array, axis, is_reversed)
        for array, axis, is_reversed in zip(scanned, axes, backward, strict=True)
    ]
    return _scan(node, list(inputs[:n_states]), turned, enter)


def run_sequence_map(
    node: Node, inputs: Sequence[Item], enter: Enter, opset: int, max_turns: int
) -> Sequence[Item]:
    """SequenceMap: a body for each element of the first sequence; tensors go into every turn."""
    first = inputs[0] if inputs else None
    if not isinstance(first, list):
        raise _misfit(node, "its first input is no sequence")
    if any(isinstance(item, list) and len(item) != len(first) for item in inputs):
        raise _misfit(node, "its sequences differ in length")
    columns: list[list[Item]] = [[] for _ in node.outputs]
    for turn in range(len(first)):
        given = enter("body", [item[turn] if isinstance(item, list) else item for item in inputs])
        if len(given) < len(columns):
            raise _misfit(node, f"it gives {len(given)} values where {len(columns)} are needed")
        for column, item in zip(columns, given, strict=False):
            column.append(item)
    return [*columns]


def run_optional(
    node: Node, inputs: Sequence[Item], enter: Enter, opset: int, max_turns: int
) -> Sequence[Item]:
    """Optional: the value itself, or None. (onnx.reference wraps it in a list.)"""
    return [inputs[0] if inputs else None]


CONTROL_FLOW: Final[Mapping[str, ControlFlow]] = {
    "If": run_if,
    "Loop": run_loop,
    "Scan": run_scan,
    "SequenceMap": run_sequence_map,
    "Optional": run_optional,
}
"""Operators of the ONNX domain that run their bodies, or hold what is no tensor."""


def _scan(node: Node, states: list[Item], scanned: Sequence[Array], enter: Enter) -> list[Item]:
    """Scan along the first axis of each input."""
    lengths = {len(array) for array in scanned}
    if len(lengths) != 1:
        raise _misfit(node, f"its scanned inputs have lengths {sorted(lengths)}")
    n_states = len(states)
    n_rows = _n_given(node, "body") - n_states
    if n_rows < 0:
        raise _misfit(node, f"it carries {n_states} values, its body gives {n_states + n_rows}")
    axes = _ints_attr(node.attrs, "scan_output_axes", n_rows)
    backward = _flags_attr(node.attrs, "scan_output_directions", n_rows)
    rows: list[list[Array]] = [[] for _ in range(n_rows)]
    for turn in range(lengths.pop()):
        given = enter("body", [*states, *(np.asarray(array[turn]) for array in scanned)])
        states = given[:n_states]
        for column, item in zip(rows, given[n_states:], strict=True):
            column.append(_tensor(node, item))
    out: list[Item] = []
    for at, (column, axis, is_reversed) in enumerate(zip(rows, axes, backward, strict=True)):
        if not column:
            out.append(_no_rows(node, "body", n_states + at, axis))
            continue
        out.append(_stack(node, column[::-1] if is_reversed else column, axis))
    return [*states, *out]


def _scan_batch(node: Node, inputs: Sequence[Item], enter: Enter, n_scanned: int) -> Sequence[Item]:
    """Opset 8: the first input has the lengths; others have a batch axis, scanned ones a time axis too."""
    n_states = len(inputs) - 1 - n_scanned
    if n_scanned < 1 or n_states < 0:
        raise _misfit(node, f"num_scan_inputs is {n_scanned} but there are {len(inputs)} inputs")
    arrays = [_tensor(node, item) for item in inputs[1:]]
    if any(array.ndim < 1 for array in arrays) or len({len(array) for array in arrays}) != 1:
        raise _misfit(node, "its inputs differ in their batch")
    if any(array.ndim < 2 for array in arrays[n_states:]):
        raise _misfit(node, "a scanned input has no time axis")
    n_batch, n_steps = len(arrays[0]), arrays[n_states].shape[1]
    lengths = inputs[0]
    steps = [n_steps] * n_batch if lengths is None else [int(n) for n in _tensor(node, lengths).reshape(-1)]
    if len(steps) != n_batch or any(not 0 <= n <= n_steps for n in steps):
        raise _misfit(node, f"sequence_lens are {steps} for {n_steps} steps")
    backward = _flags_attr(node.attrs, "directions", n_scanned)
    entries: list[list[Array]] = []
    for at, n in enumerate(steps):
        scanned = [
            array[at, :n][::-1] if is_reversed else array[at, :n]
            for array, is_reversed in zip(arrays[n_states:], backward, strict=True)
        ]
        found = _scan(node, [np.asarray(array[at]) for array in arrays[:n_states]], scanned, enter)
        done = [_tensor(node, item) for item in found]
        # Steps past an entry's length are zero.
        padded = [_padded(array, n_steps) for array in done[n_states:]]
        entries.append([*done[:n_states], *padded])
    return [_stack(node, list(column), 0) for column in zip(*entries, strict=True)]


def _padded(array: Array, n_steps: int) -> Array:
    if len(array) == n_steps:
        return array
    out = np.zeros((n_steps, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out


def _front(node: Node, array: Array, axis: int, is_reversed: bool) -> Array:
    if array.ndim == 0:
        raise _misfit(node, "a scanned input has no axes")
    moved = np.moveaxis(array, _axis(node, axis, array.ndim), 0)
    return moved[::-1] if is_reversed else moved


def _stack(node: Node, rows: Sequence[Array], axis: int) -> Array:
    shapes = {row.shape for row in rows}
    if len(shapes) != 1:
        raise _misfit(node, f"its scanned results have shapes {sorted(shapes)}")
    return np.stack(rows, _axis(node, axis, rows[0].ndim + 1))


def _no_rows(node: Node, name: str, output: int, axis: int) -> Array:
    """What no turn stacks: the body's type with a dimension of 0; unknown dimensions are 0 too."""
    graph = _graph(node, name)
    type = graph.type_of(graph.outputs[output])
    dtype, dims = DType.F32, list[int]()
    if isinstance(type, TensorType):
        dtype = type.dtype if type.dtype is not DType.UNKNOWN else DType.F32
        dims = [dim if isinstance(dim, int) else 0 for dim in type.shape or ()]
    dims.insert(_axis(node, axis, len(dims) + 1), 0)
    return np.zeros(dims, dtype.numpy)


def _graph(node: Node, name: str) -> Graph:
    body = node.bodies.get(name)
    if body is None:
        raise _misfit(node, f"there is no {name}")
    return body.graph


def _n_given(node: Node, name: str) -> int:
    return len(_graph(node, name).outputs)


def _axis(node: Node, axis: int, rank: int) -> int:
    try:
        return normalize_axis(axis, rank)
    except ValueError as fault:
        raise _misfit(node, str(fault)) from None


def _tensor(node: Node, item: Item) -> Array:
    if isinstance(item, np.ndarray):
        return item
    raise _misfit(node, "a tensor is needed where a sequence or nothing is given")


def _integer(node: Node, inputs: Sequence[Item], index: int) -> int | None:
    item = inputs[index] if index < len(inputs) else None
    if item is None:
        return None
    array = _tensor(node, item)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise _misfit(node, f"input {index} is no single integer")
    return int(array.reshape(-1)[0])


def _flag(node: Node, inputs: Sequence[Item], index: int, *, is_default: bool) -> bool:
    item = inputs[index] if index < len(inputs) else None
    if item is None:
        return is_default
    array = _tensor(node, item)
    if array.size != 1:
        raise _misfit(node, f"a condition has {array.size} elements")
    return bool(array.reshape(-1)[0])


def _int_attr(attrs: Mapping[str, Attr], name: str) -> int:
    value = attrs.get(name, 0)
    return value if isinstance(value, int) else 0


def _ints_attr(attrs: Mapping[str, Attr], name: str, count: int) -> tuple[int, ...]:
    value = attrs.get(name)
    if isinstance(value, tuple) and len(value) == count:
        found = cast("tuple[object, ...]", value)
        return tuple(item for item in found if isinstance(item, int))
    return (0,) * count


def _flags_attr(attrs: Mapping[str, Attr], name: str, count: int) -> list[bool]:
    return [bool(item) for item in _ints_attr(attrs, name, count)]


def _misfit(node: Node, reason: str) -> RunError:
    return RunError(table.BODY_GIVES_TOO_LITTLE, op=node.op, reason=reason)
