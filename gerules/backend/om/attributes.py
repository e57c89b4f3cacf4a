"""Reading attributes by the kind their reader needs, and making lists of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gerules.backend.om.error import OmError
from gerules.backend.om.model import ListKind, OmAttr, OmList
from gerules.errors import table


def read_int(attrs: Mapping[str, OmAttr], name: str, default: int | None = None) -> int:
    """Return an integer attribute.

    Raises:
        OmError: E80013 when it is of another kind, or absent and there is no default.
    """
    value = attrs.get(name, default)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _wrong(attrs, name, "an integer")


def read_float(attrs: Mapping[str, OmAttr], name: str, default: float | None = None) -> float:
    """Return a float attribute. Raises OmError E80013 as `read_int`."""
    value = attrs.get(name, default)
    if isinstance(value, float):
        return value
    raise _wrong(attrs, name, "a float")


def read_bool(attrs: Mapping[str, OmAttr], name: str, default: bool | None = None) -> bool:
    """Return a boolean attribute. Raises OmError E80013 as `read_int`."""
    value = attrs.get(name, default)
    if isinstance(value, bool):
        return value
    raise _wrong(attrs, name, "a boolean")


def read_text(attrs: Mapping[str, OmAttr], name: str, default: str | None = None) -> str:
    """Return a text attribute. Raises OmError E80013 as `read_int`."""
    value = attrs.get(name, default)
    if isinstance(value, str):
        return value
    raise _wrong(attrs, name, "a text")


def read_ints(
    attrs: Mapping[str, OmAttr], name: str, default: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    """Return a list of integers. Raises OmError E80013 as `read_int`."""
    value = attrs.get(name)
    if name not in attrs and default is not None:
        return default
    if isinstance(value, OmList) and _holds(value, ListKind.INT):
        return tuple(item for item in value.items if isinstance(item, int))
    raise _wrong(attrs, name, "a list of integers")


def read_floats(
    attrs: Mapping[str, OmAttr], name: str, default: tuple[float, ...] | None = None
) -> tuple[float, ...]:
    """Return a list of floats. Raises OmError E80013 as `read_int`."""
    value = attrs.get(name)
    if name not in attrs and default is not None:
        return default
    if isinstance(value, OmList) and _holds(value, ListKind.FLOAT):
        return tuple(item for item in value.items if isinstance(item, float))
    raise _wrong(attrs, name, "a list of floats")


def read_texts(
    attrs: Mapping[str, OmAttr], name: str, default: tuple[str, ...] | None = None
) -> tuple[str, ...]:
    """Return a list of texts. Raises OmError E80013 as `read_int`."""
    value = attrs.get(name)
    if name not in attrs and default is not None:
        return default
    if isinstance(value, OmList) and _holds(value, ListKind.TEXT):
        found = tuple(item for item in value.items if isinstance(item, str))
        if len(found) == len(value.items):
            return found
    raise _wrong(attrs, name, "a list of texts")


def ints(values: Iterable[int]) -> OmList:
    """Make a list attribute of integers."""
    return OmList(ListKind.INT, tuple(values))


def floats(values: Iterable[float]) -> OmList:
    """Make a list attribute of floats; files keep them with 32 bits."""
    return OmList(ListKind.FLOAT, tuple(values))


def bools(values: Iterable[bool]) -> OmList:
    """Make a list attribute of booleans."""
    return OmList(ListKind.BOOL, tuple(values))


def texts(values: Iterable[str]) -> OmList:
    """Make a list attribute of texts."""
    return OmList(ListKind.TEXT, tuple(values))


def _holds(value: OmList, kind: ListKind) -> bool:
    # An empty list of an old file does not say what it would hold.
    return value.kind is kind or (value.kind is ListKind.NONE and not value.items)


def _wrong(attrs: Mapping[str, OmAttr], name: str, expected: str) -> OmError:
    value = attrs.get(name)
    found = "absent"
    if name in attrs:
        found = f"a list of {value.kind.name}" if isinstance(value, OmList) else type(value).__name__
    return OmError(table.OM_BAD_ATTRIBUTE, name=name, found=found, expected=expected)
