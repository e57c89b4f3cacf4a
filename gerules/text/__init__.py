"""Texts: reading them from files, and their grammars. Parse trees leave here; meaning comes above."""

from gerules.text.layout import MAX_DEPTH
from gerules.text.parse import parse_graphs, parse_rules
from gerules.text.source import MAX_TEXT_BYTES, TextError, check_size, read_source

__all__ = [
    "MAX_DEPTH",
    "MAX_TEXT_BYTES",
    "TextError",
    "check_size",
    "parse_graphs",
    "parse_rules",
    "read_source",
]
