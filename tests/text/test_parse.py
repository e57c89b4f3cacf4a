"""Parsing of rule files: every fault has a code and a place, and no text makes the parser fall over."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark

from gerules.errors import GerulesError, Source
from gerules.text import MAX_DEPTH, MAX_TEXT_BYTES, TextError, parse_rules, read_source
from gerules.text.layout import Layout

RULES = sorted((Path(__file__).parents[1] / "dsl" / "rules").glob("*.ger"))
GRAMMAR = Path(__file__).parents[2] / "gerules" / "text" / "gerules.lark"
TEXTS = [path.read_text() for path in RULES]

GOOD = """\
gerules 1
rule drop in cleanup:
    alias "A", "B"
    overrides p, q
    match:
        y = Relu(x)
    rewrite:
        y = x
"""


def faults(text: str) -> list[tuple[str, int, int, str]]:
    """Code, line, column and hint of each fault of a text."""
    with pytest.raises(TextError) as caught:
        parse_rules(Source("f.ger", text))
    found: list[tuple[str, int, int, str]] = []
    for item in caught.value.diagnostics:
        assert item.span is not None
        line, column = item.span.source.line_column(item.span.start)
        found.append((item.code.code, line, column, item.hint))
    return found


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_every_example_parses(path: Path) -> None:
    assert parse_rules(read_source(path)).children


@pytest.mark.parametrize(
    "text",
    [
        'ruleset a.b "doc":\n    kind UBFusion\n',
        "format F(N, C / C0, H, W, C % C0)\n",
        "format F(N, C / 16)\n",
        GOOD,
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
        "# nothing but a comment",
        "",
        "\n\n   \n",
        "const größe = 1\nrule drücke in ä: Relu(ß) => ß\n",
        "const A = [\n1,\n  2\n]\n",
    ],
)
def test_these_parse(text: str) -> None:
    parse_rules(Source("f.ger", text))


GUARDED = "rule r in s: Relu(x) => x where"


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "hint"),
    [
        ("rul a in b: X(x) => x", "E40001", 1, 1, "did you mean `rule`?"),
        ("rule a in b:\n    mach: y = R(x)\n", "E40001", 2, 5, "did you mean `match`?"),
        ("phase p:\n    runn a\n", "E40001", 2, 5, "did you mean `run`?"),
        ("rule a in b", "E40001", 1, 12, "expected a text in quotes or `:`"),
        (f"{GUARDED} x.rank = 3", "E40001", 1, 40, "did you mean `==`?"),
        (f"{GUARDED} x.rank == 3 && y", "E40001", 1, 45, "did you mean `and`?"),
        (f"{GUARDED} x.rank == 3 || y", "E40001", 1, 45, "did you mean `or`?"),
        (f"{GUARDED} !is_const(x)", "E40001", 1, 33, "did you mean `not`?"),
        (f"{GUARDED} x.rank == 3 + * 4", "E40001", 1, 47, "expected a number"),
        ("rule r in s: Relu(x) + 1 => x", "E40001", 1, 22, "without infix: write Add(...)"),
        ("define my::A(x) -> y:\n    y = Mul(x, x * 2)", "E40001", 2, 18, "without infix: write Mul(...)"),
        ("rule a in b: X(x => x", "E40001", 1, 19, ""),
        ("const a = @", "E40001", 1, 11, ""),
        ("const a = \N{GREEK SMALL LETTER ALPHA} \N{SNOWMAN}", "E40001", 1, 13, ""),
        ('const a = "abc', "E40001", 1, 11, ""),
        ("ruleset a:\n    kind GraphFusoin\n", "E40001", 2, 10, "did you mean `GraphFusion`?"),
        ("rule a in b:\n    match:\n        y = R(x)\n      z = R(x)\n", "E40004", 4, 1, ""),
        ("rule a in b:\n\tmatch:\n", "E40004", 2, 1, "indent with spaces"),
        ("rule a in b:\n   match:\n     y = R(x)\n       z = R(x)\n", "E40004", 4, 1, "of the block"),
        ("phase p:\n   run a\n\n     # why\n     once\n", "E40004", 5, 1, "of the block"),
        ("const A = 1\n  const B = 2\n", "E40004", 2, 1, "of the block"),
        ("const a = " + "(" * 5000, "E40006", 1, None, ""),
        ("const a = " + "not " * 5000 + "1", "E40006", 1, None, ""),
        ("const a = " + "1 + " * 5000 + "1", "E40006", 1, None, ""),
        ("const a = f" + "(1)" * 5000, "E40006", 1, None, ""),
        ("rule a in b: " + "X(" * 5000, "E40006", 1, None, ""),
        ("const a = " + "1 if 1 else " * 5000 + "1", "E40006", 1, None, ""),
        ("const a = " + "2 ** " * 5000 + "1", "E40006", 1, None, ""),
        ("const a = x" + ".y" * 5000, "E40006", 1, None, ""),
    ],
)
def test_a_fault_has_a_code_and_a_place(
    text: str, code: str, line: int, column: int | None, hint: str
) -> None:
    (found,) = faults(text)
    assert found[:2] == (code, line)
    assert column is None or found[2] == column
    assert hint in found[3]


@pytest.mark.parametrize("n_levels", [MAX_DEPTH // 2, MAX_DEPTH - 10])
def test_nesting_up_to_the_limit_is_read(n_levels: int) -> None:
    for text in (
        "(" * n_levels + "1" + ")" * n_levels,
        "1 + " * n_levels + "1",
        "f(" * n_levels + ")" * n_levels,
    ):
        parse_rules(Source("f.ger", f"const a = {text}\n"))
    # Side by side is not nested.
    parse_rules(Source("f.ger", "const a = [" + ", ".join(["f(1 + 2)"] * 2000) + "]\n"))


def test_every_bad_item_is_reported() -> None:
    text = "\n".join(f"rule r{n} in s: Foo(x => x\nrule g{n} in s: Relu(x) => x" for n in range(5))
    assert [line for _, line, _, _ in faults(text)] == [1, 3, 5, 7, 9]


def test_the_number_of_faults_is_bounded() -> None:
    assert len(faults("rule ! in\n" * 1000)) == 20


def test_a_file_may_not_be_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large.ger"
    path.write_bytes(b"#" * (MAX_TEXT_BYTES + 1))
    for read in (
        lambda: read_source(path),
        lambda: parse_rules(Source("x", "ä" * (MAX_TEXT_BYTES // 2 + 1))),
    ):
        with pytest.raises(TextError) as caught:
            read()
        assert caught.value.code == "E10005"


def test_a_file_must_be_readable_utf8(tmp_path: Path) -> None:
    (tmp_path / "latin.ger").write_bytes(b"# \xe4\n")
    for name, code in (
        ("latin.ger", "E40005"),
        ("missing.ger", "E10001"),
        (".", "E10001"),
        ("a\0b", "E10001"),
    ):
        with pytest.raises(TextError) as caught:
            read_source(tmp_path / name)
        assert caught.value.code == code


def test_the_grammar_has_no_conflict() -> None:
    pytest.importorskip("interegular")
    Lark(GRAMMAR.read_text(), parser="lalr", postlex=Layout(), strict=True)


def test_threads_share_the_parser() -> None:
    with ThreadPoolExecutor(8) as pool:
        trees = list(pool.map(parse_rules, [Source("t", text) for text in TEXTS] * 4))
    assert trees[: len(TEXTS)] == trees[len(TEXTS) : 2 * len(TEXTS)]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_mutation_makes_the_parser_fall_over(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        width = data.draw(st.integers(0, 30))
        new = data.draw(
            st.sampled_from(["", "(", ")", "\n", "    ", "\t", '"', "#", "::", "=", ":", "é", "\x00"])
        )
        text = text[:at] + new + text[at + width :]
    try:
        parse_rules(Source("f.ger", text))
    except GerulesError as error:
        assert all(item.span is not None for item in error.diagnostics)
        assert str(error)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_no_text_makes_the_parser_fall_over(text: str) -> None:
    try:
        parse_rules(Source("f.ger", text))
    except GerulesError as error:
        assert str(error)


def test_a_bracket_that_stays_open_is_pointed_at() -> None:
    text = 'rule a in b "x (":\n    match:\n        y = Mul(Relu(x), k  # (\n    rewrite:\n        y = x\n'
    with pytest.raises(TextError) as caught:
        parse_rules(Source("a.ger", text))
    (fault,) = caught.value.diagnostics
    assert fault.notes == ("`(` is opened at a.ger:3:16 and not closed before this",)
