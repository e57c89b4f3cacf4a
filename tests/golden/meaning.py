"""The half of a golden test that nobody writes: both graphs on random arrays, and definitions expanded."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt

from gerules.errors import GerulesError
from gerules.ir import (
    Attr,
    Body,
    Const,
    DType,
    Graph,
    Node,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
)
from gerules.runtime import reference
from gerules.runtime.executor import Executor
from tests.golden.options import Options
from tests.golden.running import Outcome

Array = npt.NDArray[np.generic]

USUAL_SIZES = (3, 2, 4, 5)
"""Of dimensions that are not known, in the order in which they appear."""

_TOLERANCES: Mapping[DType, tuple[float, float]] = {
    DType.F64: (1e-7, 1e-7),
    DType.F32: (1e-4, 1e-5),
    DType.F16: (2e-2, 1e-2),
    DType.BF16: (6e-2, 3e-2),
}
"""Relative, and absolute in parts of the largest element."""

_LOW = (DType.F16, DType.BF16)


def find_wrong_numbers(outcome: Outcome, name: str) -> str:
    """Return what is wrong with what the graph after computes; empty when it is what the one before does.

    Both run in float64 where every operator takes it, and in their own types; an offline model runs by
    its plan too. Every operator of the device is expanded to what it is defined as.
    """
    before, after, tools = outcome.before, outcome.after, outcome.toolchain
    assert before is not None and after is not None
    undefined = _undefined(outcome, after)
    if undefined:
        return f"nothing says what {', '.join(undefined)} computes"
    feeds = make_feeds(before, outcome.options, zlib.crc32(name.encode()))
    want = reference.evaluate(before, feeds, body_of=tools.body_of)
    loose = outcome.options.tolerance or _tolerance(after, before)
    wrong = _compare(want, reference.evaluate(after, feeds, body_of=tools.body_of), loose, "")
    if not wrong and loose == _TOLERANCES[DType.F32]:
        wrong = _compare_wide(outcome, feeds)
    if not wrong and outcome.om is not None:
        found = Executor(outcome.om).run(feeds, poison=True)
        wrong = _compare(want, found, loose, " run by its plan")
    return wrong


def make_feeds(graph: Graph, options: Options, seed: int) -> dict[str, object]:
    """Return random arrays for the inputs of a graph that have no default."""
    random = np.random.default_rng(seed)
    sizes = {**options.dims, **options.sizes}
    return {
        graph.values[value].name: _feed(
            graph.type_of(value), random, sizes, options, graph.values[value].name
        )
        for value in graph.inputs
        if value not in graph.defaults
    }


def _feed(
    type: ValueType, random: np.random.Generator, sizes: dict[str, int], options: Options, name: str
) -> object:
    if isinstance(type, SequenceType):
        return [_feed(type.element, random, sizes, options, name) for _ in range(2)]
    if isinstance(type, OptionalType):
        return _feed(type.element, random, sizes, options, name)
    assert isinstance(type, TensorType), type
    dims = (3, 4) if type.shape is None else type.shape
    shape = tuple(
        dim if isinstance(dim, int) else sizes.setdefault(dim, USUAL_SIZES[len(sizes) % len(USUAL_SIZES)])
        for dim in dims
    )
    bounds = options.feeds.get(name)
    if type.dtype is DType.BOOL:
        return random.integers(0, 2, shape).astype(np.bool_)
    if type.dtype is DType.STRING:
        return np.array([str(item) for item in random.integers(0, 9, shape).reshape(-1)], object).reshape(
            shape
        )
    if type.dtype.is_integer:
        low, high = bounds or ((0, 9) if type.dtype.value.startswith("u") else (-9, 9))
        return random.integers(int(low), int(high) + 1, shape).astype(type.dtype.numpy)
    low, high = bounds or (-2.0, 2.0)
    return random.uniform(low, high, shape).astype(type.dtype.numpy)


def _undefined(outcome: Outcome, graph: Graph) -> list[str]:
    found: list[str] = []
    for node in graph.nodes.values():
        for body in node.bodies.values():
            found += _undefined(outcome, body.graph)
        if node.op.startswith("ge::"):
            types = [None if value is None else graph.type_of(value) for value in node.inputs]
            consts = [None if value is None else graph.consts.get(value) for value in node.inputs]
            if outcome.toolchain.body_of(node, types, consts) is None:
                found.append(node.op)
    return found


def _tolerance(*graphs: Graph) -> tuple[float, float]:
    """What the narrowest floating type on the way allows."""
    narrow = {
        type.dtype
        for graph in graphs
        for type in (value.type for value in graph.values.values())
        if isinstance(type, TensorType) and type.dtype in _LOW
    }
    return (
        _TOLERANCES[max(narrow, key=lambda dtype: _TOLERANCES[dtype][0])]
        if narrow
        else _TOLERANCES[DType.F32]
    )


def _compare(
    want: Mapping[str, Array], found: Mapping[str, Array], tolerance: tuple[float, float], how: str
) -> str:
    if want.keys() != found.keys():
        return f"the graph after{how} gives {sorted(found)}, not {sorted(want)}"
    for name, one in want.items():
        two = found[name]
        if one.dtype != two.dtype or one.shape != two.shape:
            return f"{name}{how} is {two.dtype}{list(two.shape)}, not {one.dtype}{list(one.shape)}"
        if one.dtype.kind in "OUS":
            if not np.array_equal(one, two):
                return f"{name}{how} differs"
            continue
        left, right = one.astype(np.float64), two.astype(np.float64)
        is_exact = one.dtype.kind in "iub" and tolerance in _TOLERANCES.values()
        rtol, atol = (0.0, 0.0) if is_exact else tolerance
        scale = float(np.max(np.abs(left[np.isfinite(left)]), initial=0.0)) or 1.0
        close = np.isclose(right, left, rtol=rtol, atol=atol * max(1.0, scale), equal_nan=True)
        if not close.all():
            at = tuple(int(i) for i in np.argwhere(~close)[0])
            return f"{name}{list(at)}{how} is {right[at]}, not {left[at]}"
    return ""


# ---------------------------------------------------------------- in float64
def _compare_wide(outcome: Outcome, feeds: Mapping[str, object]) -> str:
    """Compare both graphs with every float32 widened; empty where some operator does not take float64."""
    assert outcome.before is not None and outcome.after is not None
    body_of = outcome.toolchain.body_of
    wide = {name: _wide_feed(feed) for name, feed in feeds.items()}
    try:
        want = reference.evaluate(_widened(outcome.before), wide, body_of=body_of)
        found = reference.evaluate(_widened(outcome.after), wide, body_of=body_of)
    except GerulesError:
        return ""
    # Constants that rules fold are rounded to float32 once, and numbers of rules have a dozen digits.
    return _compare(want, found, (1e-6, 1e-6), " in float64")


def _wide_feed(feed: object) -> object:
    if not isinstance(feed, np.ndarray):
        return feed
    array = cast("Array", feed)
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _widened(graph: Graph) -> Graph:
    return replace(
        graph,
        values={id: replace(value, type=_wide_type(value.type)) for id, value in graph.values.items()},
        nodes={id: _wide_node(node) for id, node in graph.nodes.items()},
        consts={id: _wide_const(const) for id, const in graph.consts.items()},
        defaults={id: _wide_const(const) for id, const in graph.defaults.items()},
    )


def _wide_node(node: Node) -> Node:
    bodies = {name: Body(_widened(body.graph), body.captures) for name, body in node.bodies.items()}
    return replace(node, attrs={k: _wide_attr(v) for k, v in node.attrs.items()}, bodies=bodies)


def _wide_attr(value: Attr) -> Attr:
    if value is DType.F32:
        return DType.F64
    return _wide_const(value) if isinstance(value, Const) else value


def _wide_const(const: Const) -> Const:
    return Const(const.array.astype(np.float64)) if const.array.dtype == np.float32 else const


def _wide_type(type: ValueType) -> ValueType:
    if isinstance(type, TensorType) and type.dtype is DType.F32:
        return type.with_dtype(DType.F64)
    return type
