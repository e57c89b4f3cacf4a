r"""Texts of attributes as printable ASCII: viewers show anything else as a list of byte values.

A file that gerules wrote says so in its model attributes, and only then texts are turned back: in
files of others a backslash is a backslash.

>>> escape("größe".encode()), unescape(escape("größe".encode())).decode()
(b'gr\\u00f6\\u00dfe', 'größe')
"""

from __future__ import annotations

import codecs
import re
from typing import Final

_PLAIN: Final = re.compile(rb"[\x20-\x5b\x5d-\x7e]*")
_ESCAPED: Final = re.compile(rb"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


def escape(raw: bytes) -> bytes:
    r"""Return `raw` in printable ASCII: `\uXXXX` for characters, `\xXX` for bytes that are no UTF-8."""
    if _PLAIN.fullmatch(raw):
        return raw
    parts: list[str] = []
    for char in raw.decode("utf-8", "surrogateescape"):
        point = ord(char)
        if 0xDC80 <= point <= 0xDCFF:
            parts.append(f"\\x{point - 0xDC00:02x}")
        elif char == "\\":
            parts.append("\\\\")
        elif 0x20 <= point < 0x7F:
            parts.append(char)
        else:
            parts.append(f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}")
    return "".join(parts).encode("ascii")


def unescape(text: bytes) -> bytes:
    """Turn `escape` back. What is no escape of ours stays as it is."""
    return text if b"\\" not in text else _ESCAPED.sub(_character, text)


def _character(match: re.Match[bytes]) -> bytes:
    byte, short, long = match.groups()
    if byte is not None:
        return bytes([int(byte, 16)])
    if short is None and long is None:
        return b"\\"
    point = int(short or long, 16)
    if point > 0x10FFFF:
        return match.group()
    return codecs.encode(chr(point), "utf-8", "surrogatepass")
