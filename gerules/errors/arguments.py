"""Arguments of public functions held against their annotations: a wrong type is a fault with a remedy."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, wraps
from typing import (
    Any,
    Final,
    ParamSpec,
    SupportsIndex,
    TypeVar,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from gerules.errors import table
from gerules.errors.diagnostic import Faults, GerulesError

P = ParamSpec("P")
R = TypeVar("R")

_SIZE: Final = int | str
"""A size of a shape: what binds sizes says what is wrong with one, and in which input."""

_WORDS: Final[Mapping[object, tuple[str, str]]] = {
    str: ("a text", "texts"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("True or False", "truth values"),
    type(None): ("None", "None"),
    _SIZE: ("a size", "sizes"),
    object: ("anything", "anything"),
}
"""One of a type, and several."""

_MOST_CHARACTERS: Final = 60


class ArgumentError(GerulesError):
    """Arguments of a public function have other types than it takes."""


def checked(*unchecked: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function refuse arguments of types that its annotations do not name: E10003, all at once.

    Args:
        unchecked: Parameters that the function itself judges.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            faults = Faults()
            hints = _hints(function)
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                hint = hints.get(name, object)
                if get_origin(hint) is Unpack:
                    _check_options(get_args(hint)[0], cast("Mapping[str, object]", value), faults)
                elif name not in unchecked and name != "self":
                    _check(name, value, hint, faults)
            faults.raise_if_any(ArgumentError)
            return function(*args, **kwargs)

        return call

    return decorate


@cache
def _hints(function: Callable[..., object]) -> dict[str, object]:
    return cast("dict[str, object]", get_type_hints(function))


def _check_options(kind: type, given: Mapping[str, object], faults: Faults) -> None:
    """Check keywords that a `TypedDict` lists."""
    hints = _hints(kind)
    for name, value in given.items():
        if name in hints:
            _check(name, value, hints[name], faults)
        else:
            faults.add(
                table.BAD_OPTION, option=name, value=_shown(value), reason="there is no such option",
                remedy=f"use one of {', '.join(hints)}",
            )  # fmt: skip


def _check(name: str, value: object, hint: object, faults: Faults) -> None:
    if not _fits(value, hint):
        faults.add(
            table.BAD_OPTION, option=name, value=_shown(value), reason="it has another type",
            remedy=f"give {_words(hint)}",
        )  # fmt: skip


def _fits(value: object, hint: object) -> bool:
    """Whether a value is of a type, items included; of types that are not plain, anything is."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is object or hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if hint == _SIZE:
        return not _is_container(value)
    if origin in (Union, types.UnionType):
        return any(_fits(value, item) for item in args)
    if hint is int:
        return isinstance(value, SupportsIndex) and not isinstance(value, bool)
    if hint is float:
        return hasattr(value, "__float__") and not isinstance(value, bool | str)
    if origin is Sequence:
        return (
            isinstance(value, Collection)
            and not isinstance(value, str | bytes | Mapping)
            and all(_fits(item, args[0]) for item in cast("Collection[object]", value))
        )
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(key, args[0]) and _fits(item, args[1])
            for key, item in cast("Mapping[object, object]", value).items()
        )
    if origin is Callable:
        return callable(value)
    return not isinstance(hint, type) or origin is not None or is_typeddict(hint) or isinstance(value, hint)


def _is_container(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes)


def _words(hint: object, *, are_many: bool = False) -> str:
    """A type in words: `a text, None or a list of texts`."""
    if hint in _WORDS:
        return _WORDS[hint][are_many]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        # What has parts goes last, so that its parts do not run into the others.
        found = dict.fromkeys(
            _words(item, are_many=are_many) for item in sorted(args, key=lambda item: bool(get_args(item)))
        )
        *first, last = found
        return f"{', '.join(first)} or {last}" if first else last
    if origin is Sequence:
        return f"{'lists' if are_many else 'a list'} of {_words(args[0], are_many=True)}"
    if origin is Mapping:
        parts = " to ".join(_words(item, are_many=True) for item in args)
        return f"{'mappings' if are_many else 'a mapping'} of {parts}"
    if origin is Callable:
        return "functions" if are_many else "a function"
    name = str(getattr(hint, "__name__", hint))
    if are_many:
        return f"{name}s"
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:  # whatever an object of the user raises
        text = f"a {type(value).__name__}, which cannot be shown ({type(error).__name__})"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
