"""Parse trees read by hand: spans, names, texts and numbers out of tokens; faults collected on the way."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final, cast

from lark import Token, Tree

from gerules.dsl.expressions import Ident
from gerules.errors import Faults, GerulesError, Source, Span, table

Branch = Tree[Token] | Token | None
"""A child of a parse tree; None where an optional part is absent."""

_MAX_DIGITS: Final = 40
_ESCAPES: Final = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "'": "'"}
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


class RuleError(GerulesError):
    """Rule texts are wrong: in their names, their operators, their expressions or how they fit together."""


class Reader:
    """What reading one file needs: its source, and where faults go."""

    def __init__(self, source: Source, faults: Faults) -> None:
        self.source = source
        self.faults = faults

    def span(self, branch: Tree[Token] | Token) -> Span:
        """The characters of a whole branch, for pieces within a line and for whole blocks."""
        start, end = _bounds(branch)
        return Span(self.source, start, end)

    def line(self, tree: Tree[Token]) -> Span:
        """The characters of a statement, without the line end and comments that close it."""
        start, end = _bounds(tree)
        inner: Branch = tree
        while isinstance(inner, Tree):
            last = next((child for child in reversed(kids(inner)) if child is not None), None)
            stop = _bounds(last)[1] if last is not None else self.source.text.find("\n", start)
            if last is None or self.source.text[stop - 1 : stop].strip():
                return Span(self.source, start, stop if start < stop <= end else end)
            # The last part is a statement itself, which took the line end with it.
            inner = last
        return Span(self.source, start, end)

    def ident(self, branch: Branch) -> Ident:
        """The name in a token, or in a `dotted` tree."""
        if isinstance(branch, Token):
            return Ident(self.span(branch), str(branch))
        tree = need_tree(branch)
        return Ident(self.span(tree), ".".join(str(child) for child in kids(tree)))

    def idents(self, branches: Sequence[Branch]) -> tuple[Ident, ...]:
        """The names in several branches."""
        return tuple(self.ident(branch) for branch in branches)

    def text(self, token: Branch) -> str:
        """The value of a quoted text; an absent one is empty."""
        if token is None:
            return ""
        raw = need_token(token)[1:-1]
        if "\\" not in raw:
            return str(raw)
        for found in _ESCAPE.finditer(raw):
            if found[1] not in _ESCAPES:
                self.fault_literal(need_token(token), f"has the unknown escape {found[0]}")
        return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), raw)

    def integer(self, branch: Branch) -> int:
        """The value of an INT token, bounded in digits."""
        token = need_token(branch)
        digits = token.replace("_", "")
        if len(digits) > _MAX_DIGITS:
            self.fault_literal(token, f"has more than {_MAX_DIGITS} digits")
            return 0
        return int(digits)

    def number(self, branch: Branch) -> int | float:
        """The value of an `int`, `float`, `neg` or `neg_int` tree."""
        tree = need_tree(branch)
        match tree.data:
            case "neg":
                return -self.number(kids(tree)[0])
            case "neg_int":
                return -self.integer(kids(tree)[0])
            case "int":
                return self.integer(kids(tree)[0])
            case _:
                token = need_token(kids(tree)[0])
                value = float(token)
                if not math.isfinite(value):
                    self.fault_literal(token, "is beyond what a 64-bit float holds")
                    return 0.0
                return value

    def fault_literal(self, token: Token, reason: str) -> None:
        """Record a literal that has no value."""
        shown = str(token) if len(token) <= 40 else f"{token[:40]}..."
        self.faults.add(table.BAD_LITERAL, span=self.span(token), text=shown, reason=reason)

    def misplaced(self, span: Span, part: str, reason: str, remedy: str) -> None:
        """Record a part that the grammar allows and the language does not."""
        self.faults.add(table.MISPLACED_PART, span=span, part=part, reason=reason, remedy=remedy)


def kids(tree: Tree[Token]) -> list[Branch]:
    """The children of a tree, typed as they are: None stands for an absent optional part."""
    return cast("list[Branch]", tree.children)


def need_tree(branch: Branch) -> Tree[Token]:
    """The branch as a tree; anything else means that grammar and reader do not fit each other."""
    if not isinstance(branch, Tree):
        raise AssertionError(f"expected a tree, got {branch!r}")
    return branch


def need_token(branch: Branch) -> Token:
    """The branch as a token; anything else means that grammar and reader do not fit each other."""
    if not isinstance(branch, Token):
        raise AssertionError(f"expected a token, got {branch!r}")
    return branch


def trees(branches: Sequence[Branch]) -> list[Tree[Token]]:
    """The branches that are trees."""
    return [branch for branch in branches if isinstance(branch, Tree)]


def tokens(branches: Sequence[Branch]) -> list[Token]:
    """The branches that are tokens."""
    return [branch for branch in branches if isinstance(branch, Token)]


def _bounds(branch: Tree[Token] | Token) -> tuple[int, int]:
    if isinstance(branch, Token):
        return branch.start_pos or 0, branch.end_pos or 0
    meta = branch.meta
    # A rule that matched nothing has no place.
    return (0, 0) if meta.empty else (meta.start_pos, meta.end_pos)
