"""Reading attributes with their defaults; a value of the wrong kind raises TypeError."""

from __future__ import annotations

from collections.abc import Mapping

from gerules.ir import Attr, Const, DType

Attrs = Mapping[str, Attr]


def read_int(attrs: Attrs, name: str, default: int) -> int:
    """Return an integer attribute."""
    value = attrs.get(name, default)
    if not isinstance(value, int):
        raise TypeError(f"attribute {name} is not an integer")
    return value


def read_flag(attrs: Attrs, name: str, default: bool = False) -> bool:
    """Return an integer attribute that means yes or no."""
    return read_int(attrs, name, int(default)) != 0


def read_float(attrs: Attrs, name: str, default: float) -> float:
    """Return a float attribute."""
    value = attrs.get(name, default)
    if not isinstance(value, (int, float)):
        raise TypeError(f"attribute {name} is not a number")
    return float(value)


def read_text(attrs: Attrs, name: str, default: str) -> str:
    """Return a text attribute."""
    value = attrs.get(name, default)
    if not isinstance(value, str):
        raise TypeError(f"attribute {name} is not a text")
    return value


def read_ints(attrs: Attrs, name: str) -> tuple[int, ...] | None:
    """Return a list of integers, or None when absent."""
    value = attrs.get(name)
    if value is None:
        return None
    if not isinstance(value, tuple):
        raise TypeError(f"attribute {name} is not a list")
    items = tuple(item for item in value if isinstance(item, int))
    if len(items) != len(value):
        raise TypeError(f"attribute {name} is not a list of integers")
    return items


def read_floats(attrs: Attrs, name: str) -> tuple[float, ...] | None:
    """Return a list of floats, or None when absent."""
    value = attrs.get(name)
    if value is None:
        return None
    if not isinstance(value, tuple):
        raise TypeError(f"attribute {name} is not a list")
    items = tuple(float(item) for item in value if isinstance(item, (int, float)))
    if len(items) != len(value):
        raise TypeError(f"attribute {name} is not a list of numbers")
    return items


def read_dtype(attrs: Attrs, name: str) -> DType | None:
    """Return an element type, or None when absent."""
    value = attrs.get(name)
    if value is None or value is DType.UNKNOWN:
        return None
    if not isinstance(value, DType):
        raise TypeError(f"attribute {name} is not an element type")
    return value


def read_const(attrs: Attrs, name: str) -> Const | None:
    """Return a tensor attribute, or None when absent."""
    value = attrs.get(name)
    if value is None:
        return None
    if not isinstance(value, Const):
        raise TypeError(f"attribute {name} is not a tensor")
    return value
