"""Spacing of rule files: between which tokens of a statement a blank stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gerules.dsl.tokens import CLOSE, OPEN, Token

_PREFIX: Final = frozenset({"*", "**", "-", "+"})
"""Signs before an operand, or between two."""
_TIGHT_BEFORE: Final = frozenset({",", ":", ".", "?", "!", *CLOSE})
_TIGHT_AFTER: Final = frozenset({".", "$", "@", "!", *OPEN})
_EXPRESSION_WORDS: Final = frozenset(
    {"in", "and", "or", "not", "if", "else", "is", "const", "with", "where", "as", "priority"}
)
_STATEMENT_WORDS: Final = frozenset(
    {"when", "limit", "decreases", "requires", "ensures", "lacks", "close", "shared", "run", "then", "set"}
)
"""Words that begin a statement: what follows them is an operand of its own."""


def find_gaps(tokens: Sequence[Token]) -> list[bool]:
    """Return for each token of a statement, which holds no comments, whether a blank stands before it.

    Cost: linear in tokens, times the depth of subscripts inside each other.
    """
    return _Spacer(tokens).gaps()


class _Spacer:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._texts = [token.text for token in tokens]
        self._brackets: list[str] = []
        """The innermost bracket open at each token; empty where none is."""
        self._binds: list[bool] = []
        """Whether names get values there that they keep: after `with`, and among what a `define` takes."""
        self._opens: list[int] = []
        """Where the innermost bracket opens; -1 where none is."""
        self._ends: dict[int, int] = {}
        """Where each bracket closes."""
        opened: list[int] = []
        binding: list[bool] = [False]
        for place, text in enumerate(self._texts):
            if text in CLOSE and opened:
                self._ends[opened.pop()] = place
                binding.pop()
            self._opens.append(opened[-1] if opened else -1)
            self._brackets.append(self._texts[opened[-1]] if opened else "")
            if text == "with" and opened:
                binding[-1] = True
            elif text == "|":
                binding[-1] = False
            is_formal = len(opened) == 1 and self._texts[0] == "define"
            self._binds.append(binding[-1] or is_formal)
            if text in OPEN:
                opened.append(place)
                binding.append(False)
        self._wide_colons = {place for start, end in self._ends.items() for place in self._colons(start, end)}
        self._is_variable = [
            text == "@" and self._is_operator(place) for place, text in enumerate(self._texts)
        ]
        self._is_prefix = [
            text in _PREFIX and not self._ends_operand(place - 1) for place, text in enumerate(self._texts)
        ]

    def gaps(self) -> list[bool]:
        return [place > 0 and self._is_apart(place) for place in range(len(self._texts))]

    def _is_apart(self, place: int) -> bool:
        text, before = self._texts[place], self._texts[place - 1]
        if place in self._wide_colons:
            return before != "["
        if text in _TIGHT_BEFORE or before in _TIGHT_AFTER or self._is_prefix[place - 1]:
            return False
        if before == ":":
            return self._brackets[place] != "[" or place - 1 in self._wide_colons
        if ".." in (text, before):
            return self._brackets[place] != "{" and self._texts[0] != "many"
        if "=" in (text, before):
            return not self._brackets[place] or self._binds[place]
        if text == "@":
            return not self._is_variable[place]
        if text == "~":
            return self._texts[place + 1 : place + 2] != ["("]
        if text == "(":
            return not (self._ends_operand(place - 1) or before == "~")
        if text == "[":
            return not self._ends_operand(place - 1) or before in ("...", "?")
        if text == "{":
            return not (before == "}" or (place > 1 and self._is_variable[place - 2]))
        return True

    def _colons(self, start: int, end: int) -> list[int]:
        """The colons of a slice that keep a distance, for what they divide is more than names and numbers."""
        inside = range(start + 1, end)
        if self._texts[start] != "[" or all(
            self._tokens[place].kind in ("word", "number") or self._texts[place] in (":", "-")
            for place in inside
        ):
            return []
        return [place for place in inside if self._texts[place] == ":" and self._opens[place] == start]

    def _ends_operand(self, place: int) -> bool:
        """Whether a token ends an operand: a sign after it stands between two, a bracket belongs to it."""
        if place < 0:
            return False
        token = self._tokens[place]
        if token.kind == "word":
            is_statement = place == 0 and token.text in _STATEMENT_WORDS
            return not is_statement and token.text not in _EXPRESSION_WORDS
        return token.kind in ("number", "text") or token.text in CLOSE or token.text in ("?", "!")

    def _is_operator(self, place: int) -> bool:
        """Whether `@` belongs to `f@SET(x)`, and not to `f16 @NC1HWC0`."""
        if place == 0 or self._tokens[place - 1].kind != "word":
            return False
        after = self._after_set(place + 1)
        if self._texts[after : after + 1] == ["?"]:
            after += 1
        if self._texts[after : after + 1] == ["{"]:
            after = self._ends.get(after, after) + 1
        return self._texts[after : after + 1] == ["("]

    def _after_set(self, place: int) -> int:
        return self._ends.get(place, place) + 1
