"""Quantities as people read them: bytes, times, errors."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def bytes_text(size_bytes: int) -> str:
    """Return a size in the largest unit that keeps it above one.

    >>> bytes_text(512), bytes_text(1536), bytes_text(1 << 20)
    ('512 B', '1.5 KiB', '1 MiB')
    """
    if abs(size_bytes) < 1024:
        return f"{size_bytes} B"
    size, unit = float(size_bytes), 0
    while abs(size) >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f}".removesuffix(".0") + f" {_UNITS[unit]}"


def time_text(took_us: float) -> str:
    """Return a time in the largest unit that keeps it above one.

    >>> time_text(12.3), time_text(4500), time_text(2.5e6)
    ('12 us', '4.5 ms', '2.50 s')
    """
    if took_us < 1000:
        return f"{took_us:.0f} us"
    if took_us < 1e6:
        return f"{took_us / 1e3:.1f} ms"
    return f"{took_us / 1e6:.2f} s"


def error_text(error: float | None) -> str:
    """Return an error with three digits; a dash where there is none.

    >>> error_text(0.0), error_text(0.00123), error_text(None)
    ('0', '1.23e-03', '-')
    """
    if error is None:
        return "-"
    return "0" if error == 0 else f"{error:.2e}"
