"""Tests of rules that are read when somebody looks: they are two thirds of the text of the shipped rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, overload

from gerules.dsl.syntax import RuleTest

_TEST: Final = re.compile(r'^ {4}test *["\:][^\n]*(?:\n(?: {5}[^\n]*| *(?:#[^\n]*)?)$)*', re.MULTILINE)
_SIGN: Final = re.compile(r"[^\n]")


class LaterTests(Sequence[RuleTest]):
    """The tests of one rule, read at the first look.

    Whoever looks first may get the errors of reading: TextError, RuleError.
    """

    def __init__(self, read: Callable[[], Sequence[RuleTest]]) -> None:
        self._read = read

    @cached_property
    def _tests(self) -> Sequence[RuleTest]:
        return self._read()

    @overload
    def __getitem__(self, index: int) -> RuleTest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RuleTest]: ...
    def __getitem__(self, index: int | slice) -> RuleTest | Sequence[RuleTest]:
        return self._tests[index]

    def __len__(self) -> int:
        return len(self._tests)


def without_tests(text: str) -> str:
    """Blank the `test` blocks of rules in the usual layout; every other character keeps its place."""
    return _TEST.sub(lambda found: _SIGN.sub(" ", found[0]), text)
