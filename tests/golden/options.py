"""What the `options` blocks of a golden case say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace

from gerules.dsl.values import Value
from tests.golden.casefile import Case, CaseError


@dataclass(frozen=True, slots=True)
class Options:
    """How a case is run; the names are those that stand in `options` blocks.

    Attributes:
        run: Steps, one after the other: a phase or pipeline of the rules, `rules` (those that stand in
            the case, or those named), `prepare`, `precision`, `formats`, `partition`, `plan`, or
            `compile` with a pipeline (a whole compile, to an offline model that is executed).
        dims: Sizes that the compiler is told; `sizes` are those of the random arrays alone.
        feeds: Least and greatest random element by input name.
        tolerance: Relative and absolute; without it what suits the element types.
        compare: `origin`: names, sources and rules of nodes are compared too.
    """

    run: tuple[str, ...] = ()
    device: str = ""
    precision: str = ""
    profile: str = ""
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    set: Mapping[str, Value] = field(default_factory=dict[str, Value])
    keep_dtype: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    folds: bool = True
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    feeds: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    tolerance: tuple[float, float] | None = None
    compare: tuple[str, ...] = ()
    static_limit: int = 4
    exclude: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    n_streams: int = 0
    memory_limit: int = 0


def read_options(case: Case) -> Options:
    """Return the options of a case; later blocks win.

    Raises:
        CaseError: for a name that is no option, and a value that is none.
    """
    found = Options()
    for block in case.all("options"):
        for offset, line in enumerate(block.text.splitlines()):
            if not line.strip():
                continue
            where = f"{case.path}:{block.opened + offset + 2}"
            name, colon, text = (part.strip() for part in line.partition(":"))
            if not colon or name not in _READERS:
                raise CaseError(f"{where}: {name!r} is no option; there are {', '.join(_READERS)}")
            try:
                found = replace(found, **{name: _READERS[name](text)})
            except ValueError as error:
                raise CaseError(f"{where}: {error}") from None
    return found


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in _words(text):
        name, equals, value = (part.strip() for part in word.partition("="))
        if not equals:
            raise ValueError(f"{word!r} is not of the form name=value")
        found[name] = value
    return found


def _numbers(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in _pairs(text).items()}


def _settings(text: str) -> dict[str, Value]:
    return {name: _value(value) for name, value in _pairs(text).items()}


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text, text)


def _ranges(text: str) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for word in _words(text):
        name, inside, bounds = (part.strip() for part in word.partition(" in "))
        low, dots, high = bounds.partition("..")
        if not inside or not dots:
            raise ValueError(f"{word!r} is not of the form name in low .. high")
        found[name] = (float(low), float(high))
    return found


def _tolerance(text: str) -> tuple[float, float]:
    relative, absolute = (float(word) for word in _words(text))
    return relative, absolute


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError(f"{text!r} is neither on nor off")
    return text == "on"


def _compared(text: str) -> tuple[str, ...]:
    if text != "origin":
        raise ValueError(f"{text!r} cannot be compared; there is origin")
    return (text,)


_READERS: Mapping[str, Callable[[str], object]] = {
    "run": _words,
    "device": str,
    "precision": str,
    "profile": str,
    "enable": _words,
    "disable": _words,
    "set": _settings,
    "keep_dtype": _words,
    "dims": _numbers,
    "folds": _switch,
    "sizes": _numbers,
    "feeds": _ranges,
    "tolerance": _tolerance,
    "compare": _compared,
    "static_limit": int,
    "exclude": _words,
    "labels": _pairs,
    "n_streams": int,
    "memory_limit": int,
}
assert set(_READERS) == {item.name for item in fields(Options)}
