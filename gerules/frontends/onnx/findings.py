"""Faults of one model file, collected, and bounded so that a hostile file cannot make a million of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from gerules.errors import Diagnostic, ErrorCode, Faults, table
from gerules.frontends.fault import ModelError

_MOST_OF_A_KIND: Final = 50
"""Faults of one code that are told one by one; the rest are counted."""

_LONGEST_NAME: Final = 120


class Findings:
    """Collects the faults of one file; all of them are raised together."""

    def __init__(self, path: str, faults: Faults | None = None) -> None:
        self.path = path
        self.faults = Faults() if faults is None else faults
        self._n_of_kind: dict[tuple[str, str], int] = {}

    def add(
        self,
        code: ErrorCode,
        *,
        place: str = "",
        notes: tuple[str, ...] = (),
        severity: Literal["error", "warning"] = "error",
        **facts: object,
    ) -> None:
        """Record one fault, or only count it when there are many of its kind."""
        key = (code.code, severity)
        count = self._n_of_kind[key] = self._n_of_kind.get(key, 0) + 1
        if count > _MOST_OF_A_KIND:
            return
        shown = {name: shorten(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
        self.faults.extend([Diagnostic(code, shown, None, place or self.path, notes, severity)])

    def close(self) -> None:
        """Say what was only counted, and raise when there is any error.

        Raises:
            ModelError: With every fault found.
        """
        for (code, severity), count in self._n_of_kind.items():
            if count > _MOST_OF_A_KIND:
                self.faults.add(
                    table.MORE_OF_THE_KIND,
                    place=self.path,
                    severity="warning" if severity == "warning" else "error",
                    n_more=count - _MOST_OF_A_KIND,
                    kind=code,
                )
        self.faults.raise_if_any(ModelError)


class NotText(Exception):  # noqa: N818 - it becomes a ModelError at the door
    """A name in the file is no UTF-8. Python's protobuf then gives bytes where its types promise text."""


def text_of(value: object) -> str:
    """Return a text field's value.

    Raises:
        NotText: When it is no UTF-8.
    """
    if isinstance(value, str):
        return value
    raise NotText


def has_broken_text(root: Message) -> bool:
    """Whether any text field of a message, or of those within it, is no UTF-8. Recursion-free."""
    pending = [root]
    while pending:
        message = pending.pop()
        for field, value in message.ListFields():
            items: Iterable[object] = (
                [value] if isinstance(value, (bytes, str, Message, int, float)) else value
            )
            if field.type == FieldDescriptor.TYPE_STRING:
                if any(isinstance(item, bytes) for item in items):
                    return True
            elif field.type == FieldDescriptor.TYPE_MESSAGE:
                pending += [item for item in items if isinstance(item, Message)]
    return False


def shorten(text: str) -> str:
    """Return the text, cut when a message could not carry it."""
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def place_of_node(name: str, op: str) -> str:
    """Name a node as messages do."""
    return f"node {shorten(name)} ({shorten(op)})"
