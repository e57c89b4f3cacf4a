"""Counts in messages agree with their nouns."""

from __future__ import annotations

import doctest
import re

import pytest

from gerules.errors import TABLE, Diagnostic, ErrorCode, counts
from gerules.errors.counts import agree, count_text


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


def test_the_examples_hold() -> None:
    assert doctest.testmod(counts) == doctest.TestResults(failed=0, attempted=3)


@pytest.mark.parametrize("noun", ["axis", "branch", "byte", "entry", "index", "input", "match", "vertex"])
def test_both_ways_to_count_agree(noun: str) -> None:
    assert agree(f"1 {count_text(2, noun).removeprefix('2 ')}") == count_text(1, noun)


@pytest.mark.parametrize("code", TABLE.values(), ids=lambda code: code.code)
def test_no_message_counts_one_as_many(code: ErrorCode) -> None:
    class Ones(dict[str, object]):
        def __missing__(self, key: str) -> str:
            return "1"

    item = Diagnostic(code, Ones())
    assert not re.search(r"(?<![\w.,/*-])1 (?!is |was |has |as )[a-z]+s\b", item.message), item.message
