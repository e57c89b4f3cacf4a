"""Tests of shipped rules read later are the tests that reading at once finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gerules.dsl.later_tests import LaterTests, without_tests
from gerules.dsl.shipped import rules_folder
from gerules.dsl.syntax import Rule
from gerules.dsl.transform import read_file
from gerules.errors import Source
from gerules.pipeline.toolchain import shipped_rules
from gerules.text import read_source

FILES = sorted(rules_folder().rglob("*.ger"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_reading_later_gives_what_reading_at_once_gives(path: Path) -> None:
    source = read_source(path)
    later, whole = read_file(source, later=True), read_file(source)
    assert len(later.items) == len(whole.items)
    for one, other in zip(later.items, whole.items, strict=True):
        assert type(one) is type(other)
        assert one.span.start == other.span.start
        if isinstance(one, Rule) and isinstance(other, Rule):
            assert isinstance(one.tests, LaterTests)
            assert tuple(one.tests) == other.tests
            for name in ("name", "match", "steps", "gates", "rewrite", "annotations", "when", "decreases"):
                assert getattr(one, name) == getattr(other, name)


def test_what_is_no_test_keeps_its_place() -> None:
    text = (
        'rule a: Relu(Relu(x)) => Relu(x)\n    test "é, 3":\n        x: f32[2]\n\n'
        "# far left\n        y: f32[2]\nrule b:\n    match:\n        test = Relu(x)\n"
        "        tests = Neg(test)\n    rewrite:\n        tests = Neg(x)\n"
    )
    left = without_tests(text)
    assert len(left) == len(text)
    assert left.split("\n")[1:6] == [" " * len(line) for line in text.split("\n")[1:6]]
    assert left.split("\n")[6:] == text.split("\n")[6:]


def test_the_tests_of_given_files_are_checked_at_once(tmp_path: Path) -> None:
    wrong = Source("w.ger", "rule a: Relu(Relu(x)) => Relu(x)\n    test:\n        zz: f32[2]\n")
    with pytest.raises(Exception, match="zz"):
        shipped_rules([wrong])


def test_reading_later_adds_no_warning() -> None:
    assert shipped_rules().warnings == shipped_rules(check_tests=True).warnings == ()
