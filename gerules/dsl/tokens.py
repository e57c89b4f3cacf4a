"""Tokens of a rule file with what a parse tree leaves out: comments, blank lines, where lines end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["word", "number", "text", "mark", "comment"]

OPEN: Final = {"(": ")", "[": "]", "{": "}"}
CLOSE: Final = frozenset(OPEN.values())

TOKEN: Final = re.compile(
    r"""
      (?P<comment>\#[^\n]*)
    | (?P<text>"(?:\\.|[^"\\\n])*")
    | (?P<word>[^\W\d][\w.]*::[^\W\d]\w*|[^\W\d]\w*)
    | (?P<number>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9][0-9_]*)
    | (?P<mark>\.\.\.|\.\.|->|=>|\*\*|//|==|!=|<=|>=|[^\s\w])
    | (?P<line>\n)
    """,
    re.VERBOSE,
)
"""The pieces of a text; the name of the group that matched says of which kind one is."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a line; `is_first` when nothing stands before it on its line of the text."""

    kind: Kind
    text: str
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A statement with all lines that its brackets span, or a comment alone (then `tokens` is empty).

    `column` is that of its first character, `comment` what stands behind it or is it, and
    `follows_blank` says that blank lines stand before it.
    """

    column: int
    tokens: tuple[Token, ...]
    comment: str
    follows_blank: bool


def read_lines(text: str) -> Iterator[Line]:
    """Yield the lines of a text that is known to parse; blanks, line ends and byte order marks are dropped.

    Cost: linear.
    """
    tokens: list[Token] = []
    depth = 0
    column, start, is_first, is_blank = 0, 0, True, False
    text = text.replace("\ufeff", " ").replace("\r\n", "\n") + "\n"
    for found in TOKEN.finditer(text):
        kind, piece = found.lastgroup, found[0]
        if kind == "line":
            if tokens and depth == 0:
                yield _line(tokens, column, is_blank)
                tokens, is_blank = [], False
            elif not tokens and is_first:
                is_blank = True
            start, is_first = found.end(), True
            continue
        if not tokens:
            column = found.start() - start
        if piece in OPEN:
            depth += 1
        elif piece in CLOSE:
            depth -= 1
        tokens.append(Token(_kind(kind), piece.rstrip() if kind == "comment" else piece, is_first))
        is_first = False


def _line(tokens: list[Token], column: int, follows_blank: bool) -> Line:
    comment = ""
    if tokens[-1].kind == "comment":
        comment = tokens.pop().text
    return Line(column, tuple(tokens), comment, follows_blank)


def _kind(name: str | None) -> Kind:
    match name:
        case "word" | "number" | "text" | "comment":
            return name
        case _:
            return "mark"
