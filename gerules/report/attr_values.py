"""Values of attributes that tests try: those that a rule captures, by kind and by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

import numpy as np

from gerules.dsl.syntax import ANY, CallPattern, CaptureAttr, Rule, match_lines, patterns_in
from gerules.ir import DType
from gerules.ops import AttrSpec

DTYPES: Final = (
    DType.F64, DType.F32, DType.F16, DType.BF16, DType.I64, DType.I32, DType.I8, DType.U8, DType.BOOL,
)  # fmt: skip
"""Element types that are tried."""
FLOATS: Final = DTYPES[:4]
_FLAGS: Final = frozenset({
    "ceil_mode", "count_include_pad", "exclusive", "fmod", "is_causal", "keepdims", "largest",
    "noop_with_empty_axes", "reverse", "saturate", "select_last_index", "sorted", "transA", "transB",
    "training_mode",
})  # fmt: skip
"""Whole numbers that are 0 or 1; schemas do not say so."""

_FLOAT_TYPES: Final = frozenset({"softmax_precision", "stash_type"})
"""Element types to compute in, which are floats; schemas do not say so."""

_BY_KIND: Final[Mapping[str, tuple[object, ...]]] = {
    "int": (0, 1, 2, -1, 3),
    "float": (0.5, 2.0, 1.0, 0.0, -1.0, 0.125),
    "ints": (
        (0,),
        (1,),
        (-1,),
        (0, 1),
        (1, 0),
        (1, 1),
        (2, 2),
        (1, 2),
        (0, 0, 1, 1),
        (1, 1, 1, 1),
        (1, 0, 2),
    ),
    "floats": ((1.0, 1.0), (2.0, 2.0), (1.0, 1.0, 2.0, 2.0)),
    "string": (),
    "dtype": DTYPES,
}
_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "auto_pad": ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    "approximate": ("none", "tanh"),
    "mode": ("constant", "edge", "reflect", "nearest", "linear"),
    "src_format": ("NCHW", "NHWC", "HWCN", "NC1HWC0", "FRACTAL_Z"),
    "dst_format": ("NCHW", "NHWC", "HWCN", "NC1HWC0", "FRACTAL_Z"),
}
"""What attributes that are texts may say; schemas do not list it."""


def captured(rule: Rule) -> Iterator[tuple[CallPattern, str, str | None]]:
    """Yield the calls that bind attributes: the name bound, and the attribute, None for all the others.

    What a call ignores, by `axis=_` or `**`, is bound to `_`.
    """
    for line in match_lines(rule.match):
        for call in patterns_in(line.pattern):
            if not isinstance(call, CallPattern):
                continue
            for attr in call.attrs:
                if isinstance(attr.pattern, CaptureAttr):
                    yield call, attr.pattern.name, attr.name.name
            if call.rest is not None:
                yield call, call.rest.name or ANY, None


def values_for(spec: AttrSpec | None, name: str) -> list[object]:
    """Return what an attribute may be besides its default."""
    kind = spec.kind if spec is not None else "ints"
    values: Sequence[object] = _TEXTS.get(name, ()) if kind == "string" else _BY_KIND.get(kind, ())
    if name in _FLAGS:
        values = (0, 1)
    if name in _FLOAT_TYPES and kind == "dtype":
        values = FLOATS
    return [value for value in values if spec is None or value != spec.default]


def value_near(value: object, name: str, random: np.random.Generator) -> object:
    """Return a value of the same kind near one."""
    match value:
        case bool():
            return not value
        case int():
            return int(random.choice([value + 1, value - 1, -value, 0, 1, 2, -1]))
        case float():
            return float(random.choice([value * 2, value / 2, -value, 0.0, 1.0]))
        case str():
            texts = _TEXTS.get(name, (value,))
            return texts[int(random.integers(len(texts)))]
        case DType():
            dtypes = FLOATS if name in _FLOAT_TYPES else DTYPES
            return dtypes[int(random.integers(len(dtypes)))]
        case tuple():
            items = list(cast("tuple[object, ...]", value))
            what = int(random.integers(4))
            if what == 0 and len(items) > 1:
                random.shuffle(items)
            elif what == 1:
                items = items[:-1]
            elif what == 2:
                items.append(1)
            elif items:
                at = int(random.integers(len(items)))
                items[at] = value_near(items[at], name, random)
            return tuple(items)
        case _:
            return value
