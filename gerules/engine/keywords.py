"""Keywords of a call pattern: attributes or constant inputs, whichever an operator's version has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Final, cast

import numpy as np

from gerules.dsl.syntax import (
    ANY,
    AbsentAttr,
    AttrPattern,
    CallPattern,
    CaptureAttr,
    ListAttr,
    LiteralAttr,
    OneOfAttr,
    ParamAttr,
)
from gerules.dsl.values import Value
from gerules.engine.binding import UNBOUND, Match
from gerules.engine.site import Site
from gerules.errors import Span
from gerules.ir import Attr, Const, DType, Node
from gerules.ops import OpSchema

_LONGEST_LIST: Final = 4096
"""Constant inputs up to this length are lists in expressions; longer ones stay arrays."""

_FLOAT_TOLERANCE: Final = 1e-6
"""Attributes are float32 in files; a number in a rule is float64."""


_WINDOWED: Final = frozenset(
    ["AveragePool", "Conv", "ConvInteger", "ConvTranspose", "LpPool", "MaxPool", "QLinearConv"]
)
_STEPS: Final = frozenset(["dilations", "pads", "strides"])


class _Dynamic:
    """A keyword that is an input whose value is not known when compiling."""


_DYNAMIC: Final = _Dynamic()

Fetch = Callable[[Node], object]
Check = Callable[[Match, Node], bool]


@dataclass(frozen=True, slots=True)
class Form:
    """A call pattern's keywords for one operator at one version."""

    checks: tuple[Check, ...]
    claimed: frozenset[int]
    """Inputs that keywords speak of; they are no positional arguments."""
    commutes: bool
    words: tuple[tuple[Span | None, int | None], ...]
    """What each check comes from (None: from no words), and the input that it looks at, if any."""

    def blame(self, check: Check, node: Node) -> tuple[Span | None, int | None]:
        """Return the words that a check comes from, and the value that it looked at, if any."""
        span, place = self.words[self.checks.index(check)]
        return span, node.inputs[place] if place is not None and place < len(node.inputs) else None


class Keywords:
    """Compiles the keywords of one call pattern, once for each operator that it meets."""

    def __init__(
        self, site: Site, call: CallPattern, slots: Mapping[str, int], settings: Mapping[str, object]
    ) -> None:
        self._site = site
        self._call = call
        self._slots = slots
        self._settings = settings
        self.forms: dict[str, Form] = {}
        """Those compiled so far, by operator, for the versions of the graph looked at."""
        site.on_new_versions(self.forms.clear)

    def form(self, op: str) -> Form:
        """Return the checks for an operator at the version of the graph looked at."""
        found = self.forms.get(op)
        if found is None:
            found = self.forms[op] = self._compile(op)
        return found

    def _compile(self, op: str) -> Form:
        schema = self._site.schema(op)
        checks: list[Check] = []
        claimed: set[int] = set()
        mentioned: set[str] = set()
        words: list[tuple[Span | None, int | None]] = []
        for arg in self._call.attrs:
            keyword = self._site.schemas.attr_or_input(op, arg.name.name, self._site.version_of(op))
            if keyword is None and (schema is None or arg.name.name in schema.attrs):
                mentioned.add(arg.name.name)
                fetch = _fetch_attr(arg.name.name, None)
            elif keyword is None:
                fetch = _fetch_missing(self._newest_default(op, arg.name.name))
            elif keyword.input_index is None:
                mentioned.add(keyword.name)
                default = (
                    schema.attrs[keyword.name].default if schema and keyword.name in schema.attrs else None
                )
                fetch = _fetch_attr(keyword.name, default)
                if (op, keyword.name) == ("Transpose", "perm") and not isinstance(arg.pattern, AbsentAttr):
                    fetch = _fetch_perm(fetch, self._site)
            else:
                claimed.add(keyword.input_index)
                fetch = _fetch_input(keyword.input_index, self._site)
            if op in _WINDOWED and arg.name.name in _STEPS and compares(arg.pattern):
                fetch = _fetch_steps(fetch, arg.name.name, self._site)
            words.append((arg.span, None if keyword is None else keyword.input_index))
            checks.append(self._check(arg.name.name, arg.pattern, fetch))
        rest = self._rest_check(schema, frozenset(mentioned))
        if rest is not None:
            checks.insert(0, rest)
            words.insert(0, (None, None))
        commutes = schema is not None and schema.is_commutative
        return Form(tuple(checks), frozenset(claimed), commutes, tuple(words))

    def _newest_default(self, op: str, name: str) -> object:
        """A parameter that this version lacks behaves as its default in the version that brought it."""
        newest = self._site.schemas.get(op)
        if newest is None or name not in newest.attrs:
            return None
        default = newest.attrs[name].default
        return None if default is None else value_of_attr(default)

    # ------------------------------------------------------------ one keyword
    def _check(self, name: str, pattern: AttrPattern, fetch: Fetch) -> Check:
        site = self._site
        match pattern:
            case CaptureAttr(name=bound, is_optional=is_optional):
                return self._capture(name, bound, is_optional, fetch)
            case AbsentAttr():
                return lambda _m, node: fetch(node) is None
            case OneOfAttr(values=values):
                wanted: tuple[object, ...] = values

                def check_one_of(_m: Match, node: Node) -> bool:
                    found, rank = fetch(node), site.axis_rank(node, name)
                    return any(is_equal(found, value, rank) for value in wanted)

                return check_one_of
            case LiteralAttr(value=value):
                single: object = value
            case ListAttr(values=items):
                single = tuple(items)
            case ParamAttr(name=setting):
                single = self._settings.get(setting)

        def check(_m: Match, node: Node) -> bool:
            return is_equal(fetch(node), single, site.axis_rank(node, name))

        return check

    def _capture(self, name: str, bound: str, is_optional: bool, fetch: Fetch) -> Check:
        if bound == ANY:
            return lambda _m, _node: True
        slot, site = self._slots[bound], self._site

        def capture(m: Match, node: Node) -> bool:
            found = fetch(node)
            if found is _DYNAMIC or (found is None and not is_optional):
                return False
            known = m.slots[slot]
            if known is UNBOUND:
                m.bind(slot, found)
                return True
            return is_equal(known, found, site.axis_rank(node, name))

        return capture

    # ------------------------------------------------------------ attributes not mentioned
    def _rest_check(self, schema: OpSchema | None, mentioned: frozenset[str]) -> Check | None:
        rest = self._call.rest
        if rest is not None and rest.name is None:
            return None
        if rest is not None and rest.name is not None:
            return self._capture_rest(self._slots[rest.name], mentioned, schema)
        site = self._site
        defaults = _defaults(schema)

        def check(_m: Match, node: Node) -> bool:
            for name, value in node.attrs.items():
                if name in mentioned:
                    continue
                default = defaults.get(name)
                if default is None:
                    default = window_default(node, name, site)
                if default is None or not is_equal(value_of_attr(value), default, site.axis_rank(node, name)):
                    return False
            return True

        return check

    def _capture_rest(self, slot: int, mentioned: frozenset[str], schema: OpSchema | None) -> Check:
        defaults = _defaults(schema)

        def capture(m: Match, node: Node) -> bool:
            found = {name: value for name, value in node.attrs.items() if name not in mentioned}
            known = m.slots[slot]
            if known is UNBOUND:
                m.bind(slot, found)
                return True
            return _same_attrs(cast("Mapping[str, Attr]", known), found, defaults)

        return capture


def _defaults(schema: OpSchema | None) -> dict[str, object]:
    specs = schema.attrs.items() if schema is not None else ()
    return {name: value_of_attr(spec.default) for name, spec in specs if spec.default is not None}


def _same_attrs(known: Mapping[str, Attr], found: Mapping[str, Attr], defaults: Mapping[str, object]) -> bool:
    for name in known.keys() | found.keys():
        left = value_of_attr(known[name]) if name in known else defaults.get(name)
        right = value_of_attr(found[name]) if name in found else defaults.get(name)
        if left is None or right is None or not is_equal(left, right, None):
            return False
    return True


# ---------------------------------------------------------------- fetching
def _fetch_attr(name: str, default: Attr | None) -> Fetch:
    filled = None if default is None else value_of_attr(default)

    def fetch(node: Node) -> object:
        value = node.attrs.get(name)
        return filled if value is None else value_of_attr(value)

    return fetch


def _fetch_perm(written: Fetch, site: Site) -> Fetch:
    """A permutation that is left out reverses the axes, as many as there are."""

    def fetch(node: Node) -> object:
        found = written(node)
        rank = site.rank_of(node.inputs[0]) if found is None and node.inputs else None
        return found if rank is None else tuple(range(rank))[::-1]

    return fetch


def _fetch_steps(written: Fetch, name: str, site: Site) -> Fetch:
    def fetch(node: Node) -> object:
        found = written(node)
        return window_default(node, name, site) if found is None else found

    return fetch


def compares(pattern: AttrPattern) -> bool:
    """Whether a keyword is compared with a value, and neither bound nor asked to be absent."""
    return not isinstance(pattern, CaptureAttr | AbsentAttr)


def window_default(node: Node, name: str, site: Site) -> tuple[int, ...] | None:
    """Return what `pads`, `strides` or `dilations` are for a window that does not give them, by axis.

    None for other attributes, where the number of axes is not known, and for pads that follow from others
    (`auto_pad`, `output_shape`).
    """
    if node.op not in _WINDOWED or name not in _STEPS:
        return None
    kernel = node.attrs.get("kernel_shape")
    rank = len(kernel) + 2 if isinstance(kernel, tuple) else site.rank_of(node.inputs[0])
    if rank is None or rank < 3:
        return None
    if name != "pads":
        return (1,) * (rank - 2)
    is_derived = value_of_attr(node.attrs.get("auto_pad", "NOTSET")) not in ("NOTSET", "")
    return None if is_derived or "output_shape" in node.attrs else (0,) * (2 * (rank - 2))


def _fetch_missing(default: object) -> Fetch:
    return lambda _node: default


def _fetch_input(index: int, site: Site) -> Fetch:
    def fetch(node: Node) -> object:
        value = node.inputs[index] if index < len(node.inputs) else None
        if value is None:
            return None
        const = site.consts.get(value)
        return _DYNAMIC if const is None else value_of_const(const)

    return fetch


# ---------------------------------------------------------------- values
def value_of_attr(value: Attr) -> Value:
    """Return an attribute as expressions see it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Const):
        return value.array
    if isinstance(value, tuple):
        return tuple(value_of_attr(item) for item in value)
    if isinstance(value, int | float | str | DType):
        return value
    return str(value)


def value_of_const(const: Const) -> Value:
    """Return a constant input as expressions see it: a number, a list, or an array when it is large."""
    array = const.array
    if array.ndim > 1 or array.size > _LONGEST_LIST or array.dtype.kind not in "iufb":
        return array
    return tuple(array.tolist()) if array.ndim else cast("int | float | bool", array.item())


def is_equal(found: object, wanted: object, rank: int | None) -> bool:
    """Whether an attribute has a value. `rank` is set for axes, which count from either end."""
    if found is None or wanted is None or found is _DYNAMIC or wanted is _DYNAMIC:
        return found is wanted and found is None
    if isinstance(found, tuple) and isinstance(wanted, tuple):
        left, right = cast("tuple[object, ...]", found), cast("tuple[object, ...]", wanted)
        return len(left) == len(right) and all(map(is_equal, left, right, repeat(rank)))
    if isinstance(found, DType) or isinstance(wanted, DType):
        return found is wanted
    if isinstance(found, int) and isinstance(wanted, int):
        return found == wanted or (rank is not None and _axis(found, rank) == _axis(wanted, rank))
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return math.isclose(found, wanted, rel_tol=_FLOAT_TOLERANCE, abs_tol=0.0) or found == wanted
    if isinstance(found, str) or isinstance(wanted, str):
        return found == wanted
    if isinstance(found, np.ndarray) or isinstance(wanted, np.ndarray):
        return _equal_arrays(cast("object", found), cast("object", wanted))
    return found == wanted


def _equal_arrays(found: object, wanted: object) -> bool:
    left, right = np.asarray(found), np.asarray(wanted)
    return left.shape == right.shape and bool(np.all(left == right))


def _axis(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis
