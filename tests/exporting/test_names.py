"""Names of exported passes: legal in Python and C++, unlike for unlike rules, the same in every output."""

from __future__ import annotations

import ast
import keyword
import re
from itertools import product
from pathlib import Path

import pytest

from gerules.exporting.names import pass_name, pattern_name
from tests.cli.conftest import Run, run  # noqa: F401 - fixtures
from tests.exporting.passes import on_stub
from tests.exporting.test_export import compile_cpp, export

HARD = [
    "class",
    "def",
    "int",
    "namespace",
    "replacement",
    "meet_requirements",
    "patterns",
    "__init__",
    "self",
    "pattern_fusion",
    "fusion_base",
    "sig_1",
    "sig1",
    "sig_form1",
    "Sig",
    "fooBar",
    "foo_bar",
    "foo__bar",
    "grösse",
    "größe",
]


def rules_of(names: list[str]) -> str:
    text = 'gerules 1\n\nrule sig in my.moves "a \\\\":\n    match:\n        y = Mul(x, Sigmoid(x))\n'
    text += '    where:\n        x.rank == 2                else "*/ \\" \\\\"\n'
    text += "    rewrite:\n        y = ge::Swish(x)\n"
    for name in names:
        text += f'\nrule {name} in my.moves "ends \\\\":\n    match:\n        y = Neg(Ceil(Neg(x)))\n'
        text += "    rewrite:\n        y = Floor(x)\n"
    return text


def test_any_rule_names_give_code_in_both_languages(tmp_path: Path) -> None:
    found = export(rules_of(HARD), "python")
    names = [name for passes in found.passes.values() for name in passes]
    assert len(names) == len(set(names)) == len(HARD) + 2 and not found.refused
    made = on_stub(found.text)
    assert set(made) - {"module"} == set(names)
    for node in ast.walk(ast.parse(found.text)):
        if isinstance(node, ast.ClassDef):
            methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
            assert len(methods) == len(set(methods))
    compile_cpp(export(rules_of(HARD), "cpp").text, tmp_path)


def test_names_do_not_depend_on_what_else_is_exported() -> None:
    alone = export(rules_of(HARD), "python", "sig_1", "Sig").passes
    assert alone == {name: export(rules_of(HARD), "python").passes[name] for name in ("sig_1", "Sig")}


def test_no_two_rules_and_forms_have_one_name() -> None:
    rules = ["".join(letters) for n in range(1, 6) for letters in product("aB_1", repeat=n)]
    rules = [rule for rule in rules if rule[0] != "1"] + [
        "a_form1",
        "aForm1",
        "a__form1",
        "a_rule",
        "pattern_fusion",
    ]
    named = [pass_name(rule, form) for rule in rules for form in (None, 1, 11)]
    assert len(set(named)) == len(named)
    assert all(name.isascii() and name.isidentifier() and not keyword.iskeyword(name) for name in named)
    assert pattern_name("größe").isascii()


def test_helpers_are_written_where_they_are_used() -> None:
    for language, pattern in (("python", r"^(?:def|class) (_\w+)"), ("cpp", r"^[\w:<> ]+ \**(\w+)\(.*\{$")):
        text = export(rules_of([]), language).text
        helpers = re.findall(pattern, text, re.MULTILINE)
        assert helpers and all(len(re.findall(rf"\b{name}\b", text)) > 1 for name in helpers)
        plain = export(rules_of(["plain"]), language, "plain").text
        assert "Unknown" not in plain and "ConstElements" not in plain


@pytest.mark.parametrize("is_json", [False, True])
def test_a_file_without_rules_is_told(run: Run, tmp_path: Path, is_json: bool) -> None:  # noqa: F811 - the fixture
    empty = tmp_path / "empty.ger"
    empty.write_text("gerules 1\n", encoding="utf-8")
    result = run("export-pass", empty, *(["--json"] if is_json else []))
    assert result.exit_code == 1
    assert (
        "E40141" in result.output + result.stderr
        and "there is no rule in empty.ger" in result.output + result.stderr
    )
