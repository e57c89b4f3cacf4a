"""Rules that Python functions give: as texts, or through a pattern; they run beside those of rule files."""

from __future__ import annotations

import inspect
import linecache
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, cast, overload

from gerules.dsl.external import place_of, shown_path
from gerules.dsl.pattern_builder import Pattern, PatternFault
from gerules.dsl.tree import RuleError
from gerules.errors import GerulesError, Source, table
from gerules.errors.arguments import checked

_PatternFunction = Callable[[], str] | Callable[[Pattern], None]


@dataclass(frozen=True)
class FusionPattern:
    """A registered function that gives a rule. `source` is its text, told under the lines of Python."""

    name: str
    function: _PatternFunction
    ruleset: str = "main"
    priority: int = 0

    @cached_property
    def source(self) -> Source:
        """The rule as text. Raises RuleError E40128 when the function fails or gives none."""
        function = self.function
        code = getattr(inspect.unwrap(function), "__code__", None)
        if not isinstance(code, types.CodeType):
            raise self._failed("it is no Python function", "decorate a function")
        file, line = code.co_filename, code.co_firstlineno
        try:
            if not inspect.signature(function).parameters:
                text: object = cast("Callable[[], object]", function)()
                if not isinstance(text, str):
                    raise PatternFault(f"it returned {type(text).__name__}, and no text")
                return Source(shown_path(file), text, _lines_of(text, file, line))
            pattern = Pattern(file, line)
            cast("Callable[[Pattern], object]", function)(pattern)
            doc = (inspect.getdoc(function) or "").split("\n")[0]
            text, lines = pattern.print_rule(self.name, self.ruleset, doc, self.priority)
            return Source(shown_path(file), text, lines)
        except PatternFault as fault:
            raise self._failed(str(fault), _REMEDY) from None
        except GerulesError:
            raise
        except Exception as error:  # the user's own function may raise anything
            raise self._failed(f"{type(error).__name__}: {error}", _REMEDY) from None

    @property
    def text(self) -> str:
        """The rule, as a rule file has it."""
        return self.source.text

    @property
    def place(self) -> str:
        """File and line of the function."""
        return place_of(self.function)

    def _failed(self, reason: str, remedy: str) -> RuleError:
        return RuleError(table.PATTERN_FAILED, name=self.name, reason=reason, remedy=remedy, place=self.place)


_REMEDY: Final = "correct the function"


def _lines_of(text: str, file: str, first: int) -> tuple[int, ...]:
    """The line of a Python file for each line of a text: its own, where the text stands in the file."""
    wanted = text.splitlines() or [""]
    lines = [line.rstrip("\n") for line in linecache.getlines(file)]
    solid = next((place for place, line in enumerate(wanted) if line.strip()), 0)
    for place in range(first - 1, len(lines)):
        # The quotes may stand before the first line of the text, and behind its last one.
        if wanted[solid].strip() and wanted[solid].strip() in lines[place]:
            ahead = lines[place + 1 : place + len(wanted) - solid]
            if all(want.strip() in have for want, have in zip(wanted[solid + 1 :], ahead, strict=False)):
                return tuple(max(1, place + 1 - solid + number) for number in range(len(wanted)))
    return (first,) * len(wanted)


class FusionPatterns:
    """The patterns of this process, by name, in the order in which they were registered."""

    def __init__(self) -> None:
        self._items: dict[str, FusionPattern] = {}

    def __iter__(self) -> Iterator[FusionPattern]:
        return iter(self._items.values())

    def add(self, pattern: FusionPattern) -> None:
        """Add a pattern; the same function defined again takes the place of the old one.

        Raises:
            RuleError: E40128 when another function has given a pattern of this name.
        """
        known = self._items.get(pattern.name)
        if known is not None and _identity(known.function) != _identity(pattern.function):
            raise RuleError(
                table.PATTERN_FAILED, name=pattern.name, place=pattern.place,
                reason=f"another pattern of this name is registered, at {known.place}",
                remedy="give one of the two another name",
            )  # fmt: skip
        self._items[pattern.name] = pattern

    def discard(self, name: str) -> None:
        """Take a pattern out, if it is there."""
        self._items.pop(name, None)


def _identity(function: Callable[..., object]) -> tuple[object, object]:
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)


PATTERNS: Final = FusionPatterns()
"""What `register_fusion_pattern` has got."""


@overload
def register_fusion_pattern(function: _PatternFunction, /) -> FusionPattern: ...


@overload
def register_fusion_pattern(
    *, name: str = "", ruleset: str = "main", priority: int = 0
) -> Callable[[_PatternFunction], FusionPattern]: ...


@checked("function")
def register_fusion_pattern(
    function: _PatternFunction | None = None,
    /,
    *,
    name: str = "",
    ruleset: str = "main",
    priority: int = 0,
) -> FusionPattern | Callable[[_PatternFunction], FusionPattern]:
    """Let a Python function give a rule, for all compiles of this process.

    A decorator: `@register_fusion_pattern` or, with settings, `@register_fusion_pattern(ruleset="mine")`.

    A function without parameters returns the text of a rule file. One with a parameter gets a `Pattern`,
    and builds a rule with it; its docstring says the identity that the rule uses. Either way it is a rule
    like all others: checked when rules are loaded, tested by its tests, told in traces, under the lines of
    Python.

    Args:
        name: Of the rule that a `Pattern` gives; without it that of the function.
        ruleset: Its set. Sets that no phase names run in the phase `custom`.
        priority: Higher goes first.

    Returns:
        A decorator; what stands under the function's name afterwards is a `FusionPattern`.

    Raises:
        RuleError: E40128 when another function has the name, or what is decorated is no function. What is
            wrong in the rule is told when rules are loaded.
    """

    def register(function: _PatternFunction) -> FusionPattern:
        called = name or getattr(function, "__name__", "")
        pattern = FusionPattern(called, function, ruleset, priority)
        PATTERNS.add(pattern)
        return pattern

    if function is None:
        return register
    given = cast("object", function)
    if not callable(given):
        raise RuleError(
            table.PATTERN_FAILED, name=repr(given)[:40], reason="it is no function",
            remedy="write `@register_fusion_pattern`, or `@register_fusion_pattern(name=..., ruleset=...)`",
        )  # fmt: skip
    return register(function)


@checked()
def unregister_fusion_pattern(name: str) -> None:
    """Forget a pattern, if there is one of this name; books loaded before keep its rule."""
    PATTERNS.discard(name)
