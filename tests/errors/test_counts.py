"""Counts in messages agree with their nouns."""

from __future__ import annotations

import re

import pytest

from gerules.errors import TABLE, Diagnostic, ErrorCode
from gerules.errors.counts import agree


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("it takes 1 inputs, not 2", "it takes 1 input, not 2"),
        ("there are 1 inputs", "there is 1 input"),
        ("1 values are replaced by 2", "1 value is replaced by 2"),
        ("1 axes and 21 axes", "1 axis and 21 axes"),
        ("f32[2, 1] values, 0.1 sizes, x1 nodes", "f32[2, 1] values, 0.1 sizes, x1 nodes"),
        ("there are 11 entries", "there are 11 entries"),
    ],
)
def test_nouns_agree(text: str, wanted: str) -> None:
    assert agree(text) == wanted


@pytest.mark.parametrize("code", TABLE.values(), ids=lambda code: code.code)
def test_no_message_counts_one_as_many(code: ErrorCode) -> None:
    class Ones(dict[str, object]):
        def __missing__(self, key: str) -> str:
            return "1"

    item = Diagnostic(code, Ones())
    assert not re.search(r"(?<![\w.,/*-])1 (?!is |was |has |as )[a-z]+s\b", item.message), item.message
