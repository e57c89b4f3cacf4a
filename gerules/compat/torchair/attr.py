"""`torchair.ge.attr`: attributes with their kinds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wrapper:
    """An attribute's value."""

    value: object


class Int(Wrapper):
    """A whole number."""


class Float(Wrapper):
    """A number."""


class Bool(Wrapper):
    """True or False."""


class Str(Wrapper):
    """A text."""


class DataType(Wrapper):
    """An element type, by GE's number."""


class ListInt(Wrapper):
    """Whole numbers."""


class ListFloat(Wrapper):
    """Numbers."""


class ListBool(Wrapper):
    """Truth values."""


class ListStr(Wrapper):
    """Texts."""


class ListDataType(Wrapper):
    """Element types, by GE's numbers."""
