"""JSON with places: what a file written by hand says, and where, so that a fault of it can be pointed at."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from gerules.errors import Source, Span, table
from gerules.text.source import TextError

MAX_JSON_DEPTH: Final = 32
"""Deepest nesting read; files of settings nest four deep."""

_BLANK: Final = re.compile(r"[ \t\r\n\ufeff]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD: Final = re.compile(r"[^\s,:\[\]{}\"]+")
_ESCAPES: Final = re.compile(r"\\(?!u[0-9a-fA-F]{4}|[\"\\/bfnrt])")


@dataclass(frozen=True, slots=True)
class JsonText:
    """A text in quotes; `span` covers the quotes."""

    span: Span
    value: str


@dataclass(frozen=True, slots=True)
class JsonWord:
    """A number, `true`, `false` or `null`, as written."""

    span: Span
    value: str


@dataclass(frozen=True, slots=True)
class JsonList:
    """A list; `span` is its opening bracket."""

    span: Span
    items: tuple[JsonValue, ...]


@dataclass(frozen=True, slots=True)
class JsonObject:
    """An object; `span` is its opening brace. A key that comes twice is there twice."""

    span: Span
    members: tuple[tuple[JsonText, JsonValue], ...]


JsonValue = JsonText | JsonWord | JsonList | JsonObject


def read_json(source: Source) -> JsonValue:
    """Read a JSON text.

    Raises:
        TextError: E21002 where the text stops being JSON, or nests deeper than `MAX_JSON_DEPTH`.

    Cost: linear.
    """
    reader = _Reader(source)
    value = reader.value(0)
    reader.skip()
    if reader.at < len(source.text):
        raise reader.fault("the text goes on after its end")
    return value


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.at = 0

    def skip(self) -> str:
        """Skip blanks and return the next character; empty at the end."""
        found = _BLANK.match(self.source.text, self.at)
        self.at = found.end() if found else self.at
        return self.source.text[self.at : self.at + 1]

    def fault(self, reason: str) -> TextError:
        end = min(self.at + 1, len(self.source.text))
        return TextError(table.BAD_JSON, span=Span(self.source, min(self.at, end), end), reason=reason)

    def value(self, depth: int) -> JsonValue:
        char = self.skip()
        if depth > MAX_JSON_DEPTH:
            raise self.fault(f"it nests deeper than {MAX_JSON_DEPTH}")
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._list(depth)
        if char == '"':
            return self._text()
        return self._word()

    def _object(self, depth: int) -> JsonObject:
        span = Span(self.source, self.at, self.at + 1)
        self.at += 1
        members: list[tuple[JsonText, JsonValue]] = []
        if self.skip() == "}":
            self.at += 1
            return JsonObject(span, ())
        while True:
            if self.skip() != '"':
                raise self.fault("a key in quotes is expected")
            key = self._text()
            if self.skip() != ":":
                raise self.fault("a `:` is expected after the key")
            self.at += 1
            members.append((key, self.value(depth + 1)))
            if not self._goes_on("}"):
                return JsonObject(span, tuple(members))

    def _list(self, depth: int) -> JsonList:
        span = Span(self.source, self.at, self.at + 1)
        self.at += 1
        items: list[JsonValue] = []
        if self.skip() == "]":
            self.at += 1
            return JsonList(span, ())
        while True:
            items.append(self.value(depth + 1))
            if not self._goes_on("]"):
                return JsonList(span, tuple(items))

    def _goes_on(self, closer: str) -> bool:
        char = self.skip()
        if char not in (",", closer):
            raise self.fault(f"a `,` or `{closer}` is expected")
        self.at += 1
        return char == ","

    def _text(self) -> JsonText:
        found = _STRING.match(self.source.text, self.at)
        if found is None:
            raise self.fault("this quote has no end on its line")
        if _ESCAPES.search(found[0].replace("\\\\", "")):
            raise self.fault("this text has an unknown escape")
        span = Span(self.source, self.at, found.end())
        self.at = found.end()
        return JsonText(span, str(json.loads(found[0])))

    def _word(self) -> JsonWord:
        found = _WORD.match(self.source.text, self.at)
        if found is None:
            raise self.fault("a value is expected")
        try:
            # Only to know whether it is one: whoever wants a number asks with bounds of his own.
            json.loads(found[0], parse_int=len, parse_float=len, parse_constant=_refuse)
        except ValueError:
            raise self.fault("this is no value; texts stand in double quotes") from None
        span = Span(self.source, self.at, found.end())
        self.at = found.end()
        return JsonWord(span, found[0])


def _refuse(word: str) -> int:
    raise ValueError(word)
