"""Parsing: a text becomes a parse tree of its grammar, or diagnostics that name every bad item of it."""

# Lark leaves the types of its errors and of `parse` half open; what comes out is typed again here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from gerules.errors import Diagnostic, Faults, Source, Span, table
from gerules.text.layout import MAX_DEPTH, Layout, LayoutError
from gerules.text.source import MAX_TEXT_BYTES, TextError, check_size
from gerules.text.tables import kept_parser

MAX_SYNTAX_FAULTS: Final = 20
"""Syntax faults reported of one file; the rest is most likely caused by them."""

_BUILD: Final = threading.Lock()
_ITEM_START: Final = re.compile(r"^(?=[^\s#)\]}])", re.MULTILINE)
_WORDS: Final = {
    "NAME": "a name",
    "QNAME": "an operator name",
    "INT": "a whole number",
    "FLOAT": "a number",
    "STRING": "a text in quotes",
    "_NEWLINE": "the end of the line",
    "_INDENT": "an indented line",
    "_DEDENT": "the end of the block",
    "$END": "the end of the file",
}
_MAX_EXPECTED: Final = 12

_BOUND_ITEM: Final = re.compile(r"(\w+)=\[[^\[\](){}=]*\Z")
"""A keyword whose list is not closed yet."""

_BRACKET: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|`[^`\n]*`|#[^\n]*|[()\[\]{}]')
"""A bracket, or what may hold one that does not count."""


class Grammar:
    """One grammar file and its parser, which is built at first use and shared between threads."""

    def __init__(self, file_name: str, max_bytes: int = MAX_TEXT_BYTES) -> None:
        self._path = Path(__file__).with_name(file_name)
        self.max_bytes = max_bytes

    def parse(self, source: Source) -> Tree[Token]:
        """Parse a text.

        Returns:
            The tree, with positions on every node.

        Raises:
            TextError: E10005 for a text that is too large, E40001 for each item that does not follow the
                grammar, E40004 for wrong indentation, E40006 for nesting deeper than `MAX_DEPTH`.

        Cost: linear. The LALR table is built once (1 s) and kept between runs (`gerules.text.tables`).
        """
        check_size(source, self.max_bytes)
        try:
            return self._lark.parse(source.text + "\n")
        except (UnexpectedInput, LayoutError) as error:
            faults = Faults()
            for start, text in _items(source.text):
                if found := self._fault_of(source, start, text):
                    faults.extend([found])
                if len(faults) >= MAX_SYNTAX_FAULTS:
                    break
            if not len(faults):
                # Each item is right by itself; only together they are not.
                faults.extend([_describe(source, 0, error, self.literals)])
            raise TextError(faults.diagnostics) from None

    @property
    def keywords(self) -> frozenset[str]:
        """The words that the grammar gives a meaning somewhere."""
        return frozenset(value for value in self.literals.values() if value.replace("_", "").isalpha())

    @cached_property
    def literals(self) -> dict[str, str]:
        """The text of every terminal that has only one."""
        terminals = self._lark.terminals
        return {item.name: item.pattern.value for item in terminals if isinstance(item.pattern, PatternStr)}

    @property
    def _lark(self) -> Lark:
        with _BUILD:
            return self._table

    @cached_property
    def _table(self) -> Lark:
        grammar = self._path.read_text(encoding="utf-8")
        return kept_parser(
            grammar, lambda: Lark(grammar, parser="lalr", postlex=Layout(), propagate_positions=True)
        )

    def _fault_of(self, source: Source, start: int, text: str) -> Diagnostic | None:
        try:
            self._lark.parse(text + "\n")
        except (UnexpectedInput, LayoutError) as error:
            return _describe(source, start, error, self.literals)
        return None


RULES: Final = Grammar("gerules.lark")
"""The grammar of rule files."""

GRAPHS: Final = Grammar("graph.lark", max_bytes=256 * 1024 * 1024)
"""The grammar of graph texts; a graph of a million nodes is a text of about 100 MiB."""


def parse_rules(source: Source) -> Tree[Token]:
    """Parse a rule file; see `Grammar.parse`."""
    return RULES.parse(source)


def parse_graphs(source: Source) -> Tree[Token]:
    """Parse a text of graphs; see `Grammar.parse`."""
    return GRAPHS.parse(source)


def keywords() -> frozenset[str]:
    """Return the words that the grammar of rules gives a meaning somewhere."""
    return RULES.keywords


def item_starts(text: str) -> list[int]:
    """Return where top-level items begin, were they right or wrong; the first begins at 0."""
    starts = [found.start() for found in _ITEM_START.finditer(text)] or [0]
    starts[0] = 0
    return starts


def _items(text: str) -> Iterator[tuple[int, str]]:
    """Yield each top-level item with its offset, so that one bad item does not hide the next."""
    starts = item_starts(text)
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        yield start, text[start:end]


def _describe(
    source: Source, start: int, error: UnexpectedInput | LayoutError, literals: Mapping[str, str]
) -> Diagnostic:
    if isinstance(error, LayoutError):
        return _describe_layout(source, start, error)
    if isinstance(error, UnexpectedToken):
        token: Token = error.token
        if token.type == "_INDENT":
            reason = "this line is indented deeper than its block, and the line above begins none"
            return _bad_indentation(source, start + (token.end_pos or 0), reason)
        where = (token.start_pos or 0) if token.type != "$END" else len(source.text)
        at = start + where if token.type != "$END" else where
        # A line end is pointed at where it stands, not at the blank lines and comments it takes with it.
        width = 1 if token.type.startswith(("_", "$")) else max(1, len(token))
        expected = error.accepts or error.expected
        found, hint = _found(token), _expectation(str(token), expected, literals)
        listed = _BOUND_ITEM.search(source.text[start:at])
        if listed is not None and token.type == "NAME" and "NAME" not in expected and "where" in keywords():
            hint = f"a list of literals binds no names: write `{listed[1]}=name`, and compare it in `where`"
    elif isinstance(error, UnexpectedCharacters):
        at, width = start + (error.pos_in_stream or 0), 1
        char = source.text[at : at + 1]
        found = "this quote without its end" if char == '"' else f"the character {char!r}"
        hint = _expectation(char if char in _HABITS else "", error.allowed or (), literals)
    else:
        at, width = len(source.text), 1
        found, hint = "the end of the file", "the file stops in the middle of an item"
    at = min(at, len(source.text))
    span = Span(source, at, min(at + width, len(source.text)))
    notes = list[str]()
    opened = open_brackets(source.text, start, at)
    if opened and "\n" in source.text[opened[-1] : at]:
        place = Span(source, opened[-1], opened[-1] + 1)
        notes.append(f"`{source.text[opened[-1]]}` is opened at {place} and not closed before this")
    return Diagnostic(table.SYNTAX, {"found": found, "expected": hint}, span, notes=tuple(notes))


def open_brackets(text: str, start: int, end: int) -> list[int]:
    """Return where the brackets stand that are open at `end`, outermost first, but those in texts."""
    opened: list[int] = []
    for found in _BRACKET.finditer(text, start, end):
        if found[0] in "([{":
            opened.append(found.start())
        elif found[0] in ")]}" and opened:
            opened.pop()
    return opened


def _describe_layout(source: Source, start: int, error: LayoutError) -> Diagnostic:
    first, last = error.token.start_pos or 0, error.token.end_pos or 0
    if error.kind == "depth":
        return Diagnostic(
            table.NESTED_TOO_DEEPLY, {"limit": MAX_DEPTH}, Span(source, start + first, start + last)
        )
    if error.kind == "word":
        word = str(error.token)
        near = difflib.get_close_matches(word, keywords(), n=1)
        hint = f"did you mean `{near[0]}`?" if near else "put a blank between the two"
        span = Span(source, start + first, start + first + len(word))
        return Diagnostic(table.SYNTAX, {"found": f"`{word}`", "expected": hint}, span)
    if error.kind == "tab":
        return _bad_indentation(source, start + last, "a tab stands in the indentation", "indent with spaces")
    return _bad_indentation(source, start + last, "this line is indented like no line above it")


def _bad_indentation(
    source: Source, end: int, reason: str, remedy: str = "give it the indentation of the block it belongs to"
) -> Diagnostic:
    """Return the fault of the blanks before `end` at the beginning of a line."""
    line = source.text.rfind("\n", 0, end) + 1
    facts = {"reason": reason, "remedy": remedy}
    return Diagnostic(table.BAD_INDENTATION, facts, Span(source, line, max(line + 1, end)))


def _found(token: Token) -> str:
    kind = token.type
    if kind in {"_NEWLINE", "_INDENT", "_DEDENT", "$END"}:
        return _WORDS[kind]
    text = str(token) if len(token) <= 40 else f"{token[:40]}..."
    if kind == "NAME":
        return f"the name `{text}`"
    if kind == "STRING":
        return f"the text {text}"
    if kind in {"INT", "FLOAT"}:
        return f"the number {text}"
    return f"`{text}`"


_HABITS: Final[Mapping[str, str]] = {"=": "==", "&": "and", "|": "or", "!": "not"}
"""What other languages write, and what is meant, if that fits."""

_INFIX: Final[Mapping[str, str]] = {
    "+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "//": "Div", "%": "Mod", "**": "Pow", "@": "MatMul",
}  # fmt: skip


def _slip(found: str, expected: Sequence[str], fits: Collection[str]) -> str | None:
    """Name what a habit from elsewhere meant: `=` for `==`, `&&` for `and`, infix in a line of a graph."""
    meant = _HABITS.get(found)
    # A condition that is complete has been closed by the time an unknown sign is met: `else` tells.
    if meant in fits or (meant == "or" and "else" in fits):
        return f"did you mean `{meant}`?"
    # Where no operand is expected and no infix either, the line is one of a graph.
    if found in _INFIX and not {"NAME", "INT", "FLOAT"} & set(expected):
        return f"a graph is written without infix: write {_INFIX[found]}(...), or compute it in `fold:`"
    return None


def _expectation(found: str, names: Iterable[str], literals: Mapping[str, str]) -> str:
    expected = sorted(set(names))
    words = [literals[name] for name in expected if literals.get(name, "").replace("_", "").isalpha()]
    if len(found) > 2 and found.isidentifier() and (near := difflib.get_close_matches(found, words, n=1)):
        return f"did you mean `{near[0]}`?"
    slip = _slip(found, expected, {literals[name] for name in expected if name in literals})
    if slip is not None:
        return slip
    parts = [_WORDS[name] for name in expected if name in _WORDS and name != "_DEDENT"]
    parts += [f"`{literals[name]}`" for name in expected if name in literals]
    if not parts:
        return "remove it"
    shown = parts[:_MAX_EXPECTED]
    more = "" if len(parts) == len(shown) else f", or one of {len(parts) - len(shown)} others"
    listed = " or ".join(shown) if len(shown) < 3 else ", ".join(shown[:-1]) + " or " + shown[-1]
    return f"expected {listed}{more}"
