"""What the server knows of names, without a server: roles, readings of broken texts, positions."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.dsl import rules_folder
from gerules.errors import Source
from gerules.lsp.occurrences import ROLES_OF_NODES
from gerules.lsp.positions import Encoding, Lines
from gerules.lsp.reading import MAX_BYTES, read_tolerantly
from gerules.lsp.words import BLOCKS, WORDS
from gerules.text.parse import keywords

GRAMMAR = Path(__file__).resolve().parents[2] / "gerules" / "text" / "gerules.lark"
SHIPPED = sorted(rules_folder().rglob("*.ger"))

TWO = """\
rule first in one "a":
    match:
        y = Neg(Neg(x))
    rewrite:
        y = x

rule second in one "b":
    match:
        y = Abs(Neg(x))
    rewrite:
        y = Abs(x)
"""


def test_every_word_is_explained() -> None:
    assert keywords() <= WORDS.keys()
    assert {word for words in BLOCKS.values() for word in words} <= WORDS.keys()


def test_every_node_of_the_grammar_with_a_name_has_a_role() -> None:
    # `?rule` and lines that only list others make no node; `dotted` is told by the node above it.
    text = re.sub(r"(?m)\s//.*$", "", GRAMMAR.read_text("utf-8"))
    rules = re.findall(r"(?m)^([?!]?)([a-z]\w*)\s*:(.*(?:\n[ \t]+.*)*)", text)
    assert len(rules) > 60
    missing: set[str] = set()
    for mark, name, body in rules:
        for choice in re.split(r"\|(?![^\"]*\"\s*\))(?=[^\n]*)", body):
            node = found[1] if (found := re.search(r"->\s*([a-z]\w*)\s*$", choice)) else name
            has_name = re.search(r"\bQ?NAME\b|\bopname\b", choice) is not None
            if has_name and not (mark == "?" and found is None) and node not in {"dotted", "opname"}:
                missing |= {node} - ROLES_OF_NODES
    assert missing == set()


def test_names_are_where_they_are_said_to_be() -> None:
    for path in SHIPPED:
        reading = read_tolerantly(Source(str(path), path.read_text("utf-8")))
        assert not reading.faults
        text = reading.source.text
        assert all(
            re.sub(r"\s", "", text[item.start : item.end]) == item.name for item in reading.occurrences
        )
        starts = [item.start for item in reading.occurrences]
        assert len(set(starts)) == len(starts)


# ---------------------------------------------------------------- broken texts
def test_an_item_at_fault_hides_no_other() -> None:
    good = read_tolerantly(Source("two.ger", TWO))
    broken = TWO.replace("Neg(Neg(x))", "Neg(Neg(x)")
    reading = read_tolerantly(Source("two.ger", broken), good)
    assert [item.name.name for item in reading.file.items] == ["second"]
    assert [item.name.name for item in reading.kept] == ["first"]
    (fault,) = reading.faults
    assert fault.span is not None and fault.span.source.text == broken
    second = reading.file.items[0]
    assert broken[second.span.start :].startswith("rule second")


def test_faults_of_reading_and_of_syntax_are_told_together() -> None:
    text = TWO.replace("Neg(Neg(x))", "Neg(Neg(x)").replace("Abs(Neg(x))", "Abs(Neg(x: f17))")
    found = read_tolerantly(Source("two.ger", text)).faults
    assert {item.code.code for item in found} == {"E40001", "E40102"}


def test_what_was_kept_goes_when_the_text_is_right_again() -> None:
    good = read_tolerantly(Source("two.ger", TWO))
    bad = read_tolerantly(Source("two.ger", TWO.replace("Neg(Neg(x))", "Neg(")), good)
    again = read_tolerantly(Source("two.ger", TWO.replace("rule first", "rule third")), bad)
    assert again.kept == ()


def test_a_huge_text_is_not_read() -> None:
    reading = read_tolerantly(Source("huge.ger", "# " + "x" * MAX_BYTES))
    assert [item.code.code for item in reading.faults] == ["E10005"]


@settings(max_examples=60)
@given(st.data())
def test_any_cut_and_any_splice_can_be_read(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([TWO, *(path.read_text("utf-8")[:3000] for path in SHIPPED[:6])]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    piece = data.draw(st.text('(){}[]:,="#@$*.|\n\t é𝄞', max_size=4))
    changed = text[:start] + piece + text[end:]
    reading = read_tolerantly(Source("x.ger", changed))
    for item in reading.occurrences:
        assert re.sub(r"\s", "", changed[item.start : item.end]) == item.name
    assert all(item.span is None or item.span.end <= len(changed) for item in reading.faults)


# ---------------------------------------------------------------- positions
TEXTS = st.text("ab é𝄞\n\r\u2028\x0c", max_size=40)
UNITS: dict[Encoding, tuple[str, int]] = {
    "utf-8": ("utf-8", 1),
    "utf-16": ("utf-16-le", 2),
    "utf-32": ("utf-32-le", 4),
}


@given(TEXTS, st.integers(0, 40), st.sampled_from(sorted(UNITS)))
def test_positions_lead_back(text: str, offset: int, encoding: Encoding) -> None:
    offset = min(offset, len(text))
    lines = Lines(text, encoding)
    line, character = lines.position(offset)
    # Between the two characters of one line end there is no place.
    inside = text[offset - 1 : offset + 1] == "\r\n" if offset else False
    behind = text[lines.starts[line] : offset].endswith("\r")
    if not inside and not behind:
        assert lines.offset(line, character) == offset
    codec, width = UNITS[encoding]
    assert character == len(text[lines.starts[line] : offset].encode(codec)) // width


@given(TEXTS, st.integers(-2, 50), st.integers(-2, 50), st.sampled_from(sorted(UNITS)))
def test_any_position_is_some_offset(text: str, line: int, character: int, encoding: Encoding) -> None:
    assert 0 <= Lines(text, encoding).offset(line, character) <= len(text)


def test_a_place_inside_a_character_is_before_it() -> None:
    assert Lines("a𝄞b").offset(0, 2) == 1
    assert Lines("a𝄞b").offset(0, 3) == 2
