"""The cursor: in which block, statement and bracket it stands; told from tokens: the text may be broken."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gerules.dsl.read_pattern import DTYPE_CLASSES, DTYPES
from gerules.dsl.tokens import CLOSE, OPEN, TOKEN
from gerules.lsp.words import SECTIONS, WORDS
from gerules.text.parse import item_starts

_WORD_BEFORE: Final = re.compile(r"(?:[^\W\d][\w.]*::)?[^\W\d]\w*$|(?:[^\W\d][\w.]*::)$")
_DOTTED_BEFORE: Final = re.compile(r"[^\W\d][\w.]*$")
_SUFFIXES: Final = frozenset("!~?")


@dataclass(frozen=True, slots=True)
class Piece:
    """A token of the text, and where it begins."""

    start: int
    kind: str
    text: str

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a cursor stands.

    Attributes:
        word: The part of a name before the cursor; it begins at `start`. `dotted` is the same with dots.
        place: "code", "comment" or "text".
        item: The word that begins the item ("rule", "define"), "" outside of all.
        block: The block inside the item ("match", "test"), "" directly in it.
        line: The tokens of the statement before the word; the header of the block is not part of it.
        callee: The operator, function or operator set whose parentheses are open, "" where none are.
        is_set: The callee is an operator set.
        is_type: What stands here is a type, or a part of one.
    """

    word: str
    start: int
    dotted: str
    place: str
    item: str
    block: str
    line: tuple[Piece, ...]
    callee: str
    is_set: bool
    is_type: bool

    @property
    def before(self) -> str:
        """The token before the word, "" at the begin of a statement."""
        return self.line[-1].text if self.line else ""

    @property
    def keyword(self) -> str:
        """The name whose value is written here: `axis` in `axis=|`; "" where there is none."""
        last = self.line[-2:]
        is_value = len(last) == 2 and last[1].text == "=" and last[0].kind == "word"
        return last[0].text if is_value and self.callee else ""


def find_cursor(text: str, offset: int) -> Cursor:
    """Return where an offset stands. Cost: linear in the item."""
    starts = item_starts(text[:offset] + "\n")
    begin = starts[bisect_right(starts, offset) - 1]
    head = text[begin:offset]
    found = _WORD_BEFORE.search(head)
    word = found[0] if found is not None else ""
    dotted = _DOTTED_BEFORE.search(head)
    start = offset - len(word)
    pieces = list(pieces_of(text, begin, offset))
    place = _place(pieces, head)
    pieces = [piece for piece in pieces if piece.end <= start and piece.kind != "comment"]
    item, block, line = _block(pieces, text, begin, start)
    callee, is_set, inner = _call(line)
    is_type = _is_type(inner, block)
    return Cursor(word, start, dotted[0] if dotted else "", place, item, block, line, callee, is_set, is_type)


def pieces_of(text: str, start: int, end: int) -> Iterator[Piece]:
    """Yield the tokens of a part of a text, line ends included."""
    for found in TOKEN.finditer(text, start, end):
        yield Piece(found.start(), found.lastgroup or "mark", found[0])


def names_in(text: str, offset: int) -> frozenset[str]:
    """Return the names that the item around an offset binds, the one being typed there left out."""
    starts = item_starts(text)
    place = bisect_right(starts, offset) - 1
    end = starts[place + 1] if place + 1 < len(starts) else len(text)
    pieces = [piece for piece in pieces_of(text, starts[place], end) if piece.kind != "comment"]
    item = pieces[0].text if pieces else ""
    block = item if item in {"pattern", "define"} else ""
    found: set[str] = set()
    depth = 0
    for number, piece in enumerate(pieces):
        before = pieces[number - 1].text if number else "\n"
        after = pieces[number + 1].text if number + 1 < len(pieces) else "\n"
        if piece.text in SECTIONS and before == "\n" and after in {":", "\n"}:
            block = piece.text
        depth = max(0, depth + (piece.text in OPEN) - (piece.text in CLOSE))
        if item in {"pattern", "define"} or block in {"match", "fold", "rewrite"}:
            is_here = piece.start <= offset <= piece.end
            is_keyword = depth > 0 and after == "="
            is_call = after in {"(", "!", "~", "@"} and (after != "@" or block != "match")
            if piece.kind == "word" and not (is_here or is_keyword or is_call or before in {".", "$", "@"}):
                found.add(piece.text)
    return frozenset(name for name in found if not _is_taken(name))


def _is_taken(name: str) -> bool:
    return name in WORDS or name in DTYPES or name in DTYPE_CLASSES or "::" in name or name == "_"


def _place(pieces: Sequence[Piece], head: str) -> str:
    last = pieces[-1] if pieces else None
    if last is not None and last.kind == "comment":
        return "comment"
    line = head[head.rfind("\n") + 1 :]
    n_quotes = len(re.sub(r'\\.|"(?:\\.|[^"\\])*"', "", line).split('"')) - 1
    return "text" if n_quotes else "code"


def _block(pieces: Sequence[Piece], text: str, begin: int, start: int) -> tuple[str, str, tuple[Piece, ...]]:
    """Return item, block and statement of the cursor."""
    lines = _statements(pieces)
    column = _column(text, start)
    current: tuple[Piece, ...] = ()
    if lines and not lines[-1].is_ended:
        current = tuple(lines.pop().pieces)
        column = _column(text, current[0].start)
    if start == begin or (column == 0 and not current):
        return "", "", current
    headers: list[tuple[int, str]] = []
    for line in lines:
        at = _column(text, line.pieces[0].start)
        while headers and headers[-1][0] >= at:
            headers.pop()
        if line.pieces[-1].text == ":":
            headers.append((at, line.pieces[0].text))
    while headers and headers[-1][0] >= column:
        headers.pop()
    item = headers[0][1] if headers else current[0].text if current else ""
    block = headers[-1][1] if len(headers) > 1 else ""
    return _after_header(item, block, current, bool(headers))


def _after_header(
    item: str, block: str, line: tuple[Piece, ...], is_inside: bool
) -> tuple[str, str, tuple[Piece, ...]]:
    """Cut off what begins a block on the line of the statement: `match: n = ...`, `rule r: A(x) => B(x)`."""
    colon = next((place for place, piece in enumerate(line) if piece.text == ":"), None)
    if is_inside:
        if not block and line and line[0].text in SECTIONS and colon is not None and colon < 3:
            return item, line[0].text, line[colon + 1 :]
        return item, block, line
    if item != "rule" or colon is None:
        return item, "head" if line else "", line
    rest = line[colon + 1 :]
    for place in reversed(range(len(rest))):
        if rest[place].text in {"where", "=>"}:
            return item, "where" if rest[place].text == "where" else "rewrite", rest[place:]
    return item, "match", rest


@dataclass(slots=True)
class _Statement:
    pieces: list[Piece]
    is_ended: bool = False


def _statements(pieces: Sequence[Piece]) -> list[_Statement]:
    """Tokens by statement; a bracket that is never closed ends where a new block obviously begins."""
    found: list[_Statement] = []
    depth = 0
    for number, piece in enumerate(pieces):
        if piece.kind == "line":
            after = pieces[number + 1 : number + 3]
            begins = len(after) == 2 and after[0].text in SECTIONS and after[1].text in {":", '"'}
            if found and (depth == 0 or begins):
                found[-1].is_ended, depth = True, 0
            continue
        if not found or found[-1].is_ended:
            found.append(_Statement([]))
        depth = max(0, depth + (piece.text in OPEN) - (piece.text in CLOSE))
        found[-1].pieces.append(piece)
    return found


def _column(text: str, offset: int) -> int:
    return offset - (text.rfind("\n", 0, offset) + 1)


def _call(line: Sequence[Piece]) -> tuple[str, bool, Sequence[Piece]]:
    """Return what the innermost parenthesis calls, whether it is a set, and what stands inside so far."""
    opened: list[int] = []
    for place, piece in enumerate(line):
        if piece.text in OPEN:
            opened.append(place)
        elif piece.text in CLOSE and opened:
            opened.pop()
    if not opened:
        return "", False, line
    inner = line[opened[-1] + 1 :]
    # Inside a list or a set the call around it is still the one that counts.
    while opened and line[opened[-1]].text != "(":
        opened.pop()
    place = (opened[-1] if opened else 0) - 1
    while place > 0 and line[place].text in _SUFFIXES:
        place -= 1
    if place < 0 or line[place].kind != "word":
        return "", False, inner
    is_set = place > 0 and line[place - 1].text == "@" and place > 1 and line[place - 2].kind == "word"
    return line[place].text, is_set, inner


def _is_type(inner: Sequence[Piece], block: str) -> bool:
    """Whether a colon stands before, with nothing behind it that ends a type."""
    if block not in {"match", "many", "pattern", "test", ""}:
        return False
    for piece in reversed(inner):
        if piece.text == ":":
            return True
        if piece.text in {",", "=", "(", "|", "in"}:
            return False
    return False
