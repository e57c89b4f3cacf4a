"""The canonical layout of rule files: one way to write what a file says, comments and groups kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from gerules.dsl.columns import Row, align, find_columns
from gerules.dsl.spacing import find_gaps
from gerules.dsl.tokens import CLOSE, OPEN, Line, Token, read_lines
from gerules.dsl.transform import read_file
from gerules.dsl.tree import RuleError
from gerules.errors import Source, table

INDENT: Final = 4
MAX_COLUMNS: Final = 110
"""Longest line; only commas inside brackets are places to break one."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A token and whether a blank stands before it."""

    token: Token
    has_gap: bool = False

    @property
    def is_comment(self) -> bool:
        return self.token.kind == "comment"


def format_rules(source: Source) -> str:
    """Return the text of a rule file in its canonical layout; formatting that again changes nothing.

    Blocks are indented by four, tokens stand one blank apart or none, lines longer than 110 columns are
    broken at commas inside brackets, blank lines in a row become one, and adjacent lines of one kind
    stand in columns.

    Raises:
        TextError, RuleError: as `read_file`, for a file that is at fault.
        RuleError: E40023 when the new text would not say the same; it is not returned then.

    Cost: n log n in lines, and two readings of the file.
    """
    before = read_file(source)
    text = _layout(source.text)
    after = read_file(Source(source.name, text))
    said = [(file.version, file.includes, file.items) for file in (before, after)]
    notes = [sorted(_comments(item)) for item in (source.text, text)]
    if said[0] != said[1] or notes[0] != notes[1]:
        raise RuleError(table.LAYOUT_CHANGES_MEANING, place=source.name, path=source.name)
    return text


def _layout(text: str) -> str:
    out: list[Row] = []
    columns = [0]
    lines = list(read_lines(text))
    statements = [line for line in lines if line.tokens]
    upcoming = iter([*statements[1:], None]) if statements else iter([None])
    next_statement = statements[0] if statements else None
    for line in lines:
        if line.tokens:
            next_statement = next(upcoming)
            while columns[-1] > line.column:
                columns.pop()
            if columns[-1] < line.column:
                columns.append(line.column)
            level = len(columns) - 1
        else:
            level = _comment_level(line.column, next_statement, columns)
        if line.follows_blank and out:
            out.append(Row(0))
        out += _write(line, level * INDENT)
    return "".join(f"{line}\n" for line in align(out, MAX_COLUMNS))


def _comment_level(column: int, following: Line | None, columns: Sequence[int]) -> int:
    """The level of a comment: that of the block it stands in, or of the statement it stands above."""
    ahead = following.column if following is not None else 0
    if ahead > columns[-1]:
        return len(columns)
    inside = sum(1 for item in columns if item <= column) - 1
    return max(inside, sum(1 for item in columns if item <= ahead) - 1)


def _write(line: Line, indent: int) -> list[Row]:
    if not line.tokens:
        return [Row(indent, comment=line.comment)]
    written = _break_up(_pieces(line.tokens), indent)
    if len(written) == 1:
        written = [_in_cells(line.tokens, written[0])]
    if line.comment:
        place = _place_of_comment(line, written)
        written[place] = replace(written[place], comment=line.comment)
    return written


def _place_of_comment(line: Line, rows: Sequence[Row]) -> int:
    """The row that takes a comment: the last one, or what stood beside it and is inside a bracket now."""
    place = len(rows) - 1
    beside = next((token for token in reversed(line.tokens) if token.is_first), line.tokens[0])
    if beside.text not in CLOSE:
        while place and set(rows[place].cells[0]) <= CLOSE and not rows[place - 1].comment:
            place -= 1
    return place


def _in_cells(tokens: Sequence[Token], row: Row) -> Row:
    """Divide a statement that stands on one line; it holds no comments."""
    pieces = _pieces(tokens)
    heads = find_columns(tokens)
    bounds = [0, *heads, len(pieces)]
    cells = tuple(_flat(pieces[start:end]) for start, end in pairwise(bounds))
    return replace(row, cells=cells, heads=tuple(heads.values()))


def _pieces(tokens: Sequence[Token]) -> list[_Piece]:
    gaps = iter(find_gaps([token for token in tokens if token.kind != "comment"]))
    pieces: list[_Piece] = []
    for token in tokens:
        if token.kind == "comment":
            pieces.append(_Piece(token))
            continue
        piece = _Piece(token, next(gaps))
        place = len(pieces)
        # A comma goes before the comments that stand between it and what it follows.
        while token.text == "," and place and pieces[place - 1].is_comment:
            place -= 1
        pieces.insert(place, piece)
    return pieces


def _break_up(pieces: Sequence[_Piece], indent: int) -> list[Row]:
    """Return pieces as lines: one if they fit and hold no comment, else broken inside a bracket."""
    text = _flat(pieces)
    has_comment = any(piece.is_comment for piece in pieces)
    if not has_comment and indent + len(text) <= MAX_COLUMNS:
        return [Row(indent, (text,))]
    group = _group_to_break(pieces, indent)
    if group is None:
        return [Row(indent, (text,))]
    start, end = group
    body = pieces[start + 1 : end]
    behind: list[str] = []
    while body and body[0].is_comment and not body[0].token.is_first:
        behind.append(body[0].token.text)
        body = body[1:]
    head = Row(indent, (_flat(pieces[: start + 1]),), comment="  ".join(behind))
    return [head, *_fill(body, indent + INDENT), *_break_up(pieces[end:], indent)]


def _fill(body: Sequence[_Piece], indent: int) -> Iterator[Row]:
    """Yield the inside of a bracket, as many items on a line as fit."""
    row = ""
    for item in _items(body):
        comment = ""
        if item[-1].is_comment:
            comment, item = item[-1].token.text, item[:-1]
        if not item:
            if row:
                yield Row(indent, (row,))
            yield Row(indent, comment=comment)
            row = ""
            continue
        written = _break_up(item, indent)
        last = written[-1].cells[0]
        if len(written) == 1:
            joined = f"{row} {last}" if row else last
            # Alternatives stand one below the other.
            if row and (item[0].token.text == "|" or indent + len(joined) > MAX_COLUMNS):
                yield Row(indent, (row,))
                joined = last
            row = joined
        else:
            if row:
                yield Row(indent, (row,))
            yield from written[:-1]
            row = last
        if comment:
            yield Row(indent, (row,), comment=comment)
            row = ""
    if row:
        yield Row(indent, (row,))


def _items(body: Sequence[_Piece]) -> Iterator[list[_Piece]]:
    """Yield what commas, bars and comments divide; commas and comments end the item they stand behind."""
    item: list[_Piece] = []
    depth = 0
    pending = list(body)
    for place, piece in enumerate(pending):
        text = piece.token.text
        depth += (text in OPEN) - (text in CLOSE)
        if piece.is_comment and piece.token.is_first and depth == 0:
            if item:
                yield item
            yield [piece]
            item = []
            continue
        # The first piece of a line has nothing to keep a distance from.
        item.append(piece if item else replace(piece, has_gap=False))
        follows = pending[place + 1] if place + 1 < len(pending) else None
        has_note = follows is not None and follows.is_comment and not follows.token.is_first
        is_last = follows is not None and follows.token.text == "|" and not piece.is_comment
        if depth == 0 and (piece.is_comment or is_last or (text == "," and not has_note)):
            yield item
            item = []
    if item:
        yield item


def _group_to_break(pieces: Sequence[_Piece], indent: int) -> tuple[int, int] | None:
    """The outermost bracket to break: the first with a comment, else the longest that makes all fit.

    Where none does, the longest with a comma.
    """
    room = MAX_COLUMNS - indent
    best: tuple[int, int] | None = None
    best_rank = (False, -1)
    for start, end in _outermost(pieces):
        inside = pieces[start + 1 : end]
        if any(item.is_comment for item in inside):
            return start, end
        has_comma = any(item.token.text == "," for item in inside)
        fits = len(_flat(pieces[: start + 1])) <= room and len(_flat(pieces[end:])) <= room
        # A subscript without commas stays in one piece.
        if has_comma or (fits and pieces[start].token.text == "(" and inside):
            rank = (fits, len(_flat(inside)))
            if rank > best_rank:
                best, best_rank = (start, end), rank
    return best


def _outermost(pieces: Sequence[_Piece]) -> Iterator[tuple[int, int]]:
    """Yield where each bracket that stands in no other opens and closes."""
    opened: list[int] = []
    for place, piece in enumerate(pieces):
        if piece.token.text in OPEN:
            opened.append(place)
        elif piece.token.text in CLOSE and opened:
            start = opened.pop()
            if not opened:
                yield start, place


def _flat(pieces: Sequence[_Piece]) -> str:
    return "".join(
        f" {piece.token.text}" if piece.has_gap and place else piece.token.text
        for place, piece in enumerate(pieces)
    )


def _comments(text: str) -> Iterator[str]:
    for line in read_lines(text):
        yield from (token.text for token in line.tokens if token.kind == "comment")
        if line.comment:
            yield line.comment
