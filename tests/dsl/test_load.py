"""Loading and selecting: includes, merging, digests, switches."""

from __future__ import annotations

from pathlib import Path

import pytest

from gerules.dsl import Environment, RuleBook, RuleError, TextDevice, load_rules, rules_folder, select_rules
from gerules.errors import GerulesError, Source
from gerules.ops import Schemas
from gerules.text import TextError
from tests.dsl.examples import FUNCTIONS

RULES = Path(__file__).parent / "rules"
SCHEMAS = Schemas()


def load(*texts: str, base: RuleBook | None = None) -> RuleBook:
    sources = [Source(f"{place}.ger", text) for place, text in enumerate(texts)]
    return load_rules(sources, schemas=SCHEMAS, base=base)


def faults(*texts: str) -> list[tuple[str, str]]:
    with pytest.raises(GerulesError) as caught:
        load(*texts)
    return [(item.code.code, item.span.text if item.span else "") for item in caught.value.diagnostics]


@pytest.fixture(scope="module")
def examples() -> RuleBook:
    return load_rules([RULES], schemas=SCHEMAS, functions=FUNCTIONS)


def test_a_folder_is_a_book(examples: RuleBook) -> None:
    assert len(examples.rules) == 62
    places = [(rule.span.source.name, rule.span.start) for rule in examples.rules]
    assert places == sorted(places)
    assert [rule.name.name for rule in examples.rules_of("comm")] == ["allreduce_bucket"]
    assert examples.op_sets["ELEMENTWISE"] == examples.op_sets["UNARY"] | examples.op_sets["BINARY"]
    assert len(examples.patterns["square"]) == 2
    assert examples.rules_of("missing") == ()


def test_files_are_read_once_and_included_first(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.ger").write_text('include "sub/b.ger"\ninclude "z.ger"\nrule a in s: Neg(x) => x\n')
    (tmp_path / "sub" / "b.ger").write_text('include "../z.ger"\nrule b in s: Neg(x) => x\n')
    (tmp_path / "z.ger").write_text("rule z in s: Neg(x) => x\n")
    for paths in ([tmp_path], [tmp_path / "a.ger"], [tmp_path / "a.ger", tmp_path / "z.ger", tmp_path]):
        book = load_rules(paths, schemas=None)
        assert [rule.name.name for rule in book.rules] == ["z", "b", "a"]


def test_circles_and_bad_includes_are_faults(tmp_path: Path) -> None:
    (tmp_path / "a.ger").write_text('include "b.ger"\n')
    (tmp_path / "b.ger").write_text('include "a.ger"\n')
    with pytest.raises(RuleError) as caught:
        load_rules([tmp_path / "a.ger"], schemas=None)
    assert caught.value.code == "E40106"
    assert "a.ger -> b.ger -> a.ger" in str(caught.value)
    for path, code in (
        ("/etc/passwd", "E40104"),
        ("/x.ger", "E40104"),
        ("C:/x.ger", "E40104"),
        ("../../x.txt", "E40104"),
        ("", "E40104"),
        ("missing.ger", "E40105"),
        ("x" * 5000 + ".ger", "E40105"),
    ):
        (tmp_path / "c.ger").write_text(f'include "{path}"\n')
        with pytest.raises(RuleError) as caught:
            load_rules([tmp_path / "c.ger"], schemas=None)
        assert caught.value.code == code


def test_a_long_chain_of_includes_ends(tmp_path: Path) -> None:
    for n in range(200):
        (tmp_path / f"{n}.ger").write_text(f'include "{n + 1}.ger"\n')
    (tmp_path / "200.ger").write_text("")
    with pytest.raises(RuleError) as caught:
        load_rules([tmp_path / "0.ger"], schemas=None)
    assert caught.value.code == "E40104"


def test_texts_include_each_other_by_name() -> None:
    book = load_rules(
        [Source("lib.ger", "const K = 1\n"), Source("m.ger", 'include "lib.ger"\nparam P = $K\n')],
        schemas=SCHEMAS,
    )
    assert [file.source.name for file in book.files] == ["lib.ger", "m.ger"]


def test_unreadable_paths_are_faults(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.ger", tmp_path / "a\0b"):
        with pytest.raises(TextError) as caught:
            load_rules([path], schemas=None)
        assert caught.value.code == "E10001"


def test_faults_of_all_files_come_together() -> None:
    assert faults("const a = (", "const b = )", "const c = 1e999") == [
        ("E40001", ""),
        ("E40001", ")"),
        ("E40020", "1e999"),
    ]


def test_what_is_declared_twice_is_a_fault() -> None:
    one = "const a = 1\nrule r in s: Neg(x) => x\nops O = {Neg}\nprofile p:\n    set a1 = 2\n"
    assert [text for code, text in faults(one, one) if code == "E40103"] == ["a", "r", "O", "p"]
    assert ("E40103", "a") in faults("const a = 1\nparam a = 2\n")


def test_a_copy_of_a_file_is_one_fault() -> None:
    many = "".join(f"const c{i} = {i}\n" for i in range(9))
    assert faults(many, many + "const fresh = 1\n") == [("E40108", "c0")]
    few = "".join(f"const c{i} = {i}\n" for i in range(5))
    assert [code for code, _ in faults(many, few)] == ["E40103"] * 5
    inside = [code for code, _ in faults(many + many)]
    assert inside == ["E40103"] * 9, "within one file each name is told"


def test_operator_sets_may_stand_in_any_order_but_not_in_a_circle() -> None:
    book = load("ops A = B - {Neg}\nops B = C + {Relu, Neg}\nops C = {Abs}\n")
    assert book.op_sets["A"] == {"Abs", "Relu"}
    assert ("E40106", "A") in faults("ops A = B\nops B = A + {Neg}\n")


def test_the_digest_follows_the_text() -> None:
    text = "rule r in s: Neg(Neg(x)) => x\n"
    digest = load(text).digest
    assert load(text.replace("\n", "  \r\n")).digest == digest
    assert load(text.replace("Neg(x)", "Abs(x)")).digest != digest
    assert load(text, "").digest != digest


def test_a_book_extends_another(examples: RuleBook) -> None:
    book = load("rule more in cleanup: Abs(Abs(x) as r) => r\n", base=examples)
    assert len(book.rules) == len(examples.rules) + 1
    assert book.rules[-1].name.name == "more"


def test_the_shipped_rules_have_a_place() -> None:
    assert rules_folder().name == "rules"


# ---------------------------------------------------------------- selection
def names(book: RuleBook, environment: Environment) -> set[str]:
    return {rule.name.name for rule in select_rules(book, environment).rules}


SWITCHES = """\
param LIMIT = 4
rule a in s.one:
    alias "PassA"
    match: y = Neg(x)
    rewrite: y = Abs(x)
rule b in s.one:
    inexact
    match: y = Abs(x)
    rewrite: y = Relu(x)
rule c in s.two:
    when $LIMIT > 5 else "the limit is low"
    match: y = Abs(x)
    rewrite: y = Relu(x)
rule d in off:
    opset >= 13
    match: y = Abs(x)
    rewrite: y = Relu(x)
rule e in gated: Abs(Neg(x)) => Abs(x)
ruleset off:
    default off
ruleset gated:
    when device.has("turbo")
profile base:
    disable s.one
    set LIMIT = 9
profile derived extends base:
    enable a
profile strict:
    set allow_inexact = false
device d:
    engine e: {Neg}
    lacks {Abs}
    set LIMIT = 7
device t extends d:
    has turbo
"""


def test_switches() -> None:
    book = load(SWITCHES)
    t, d = (TextDevice(book, book.devices[name]) for name in ("t", "d"))
    assert names(book, Environment()) == {"a", "b"}
    assert names(book, Environment(device=d)) == {"a", "b", "c"}
    assert names(book, Environment(device=t)) == {"a", "b", "c", "e"}
    assert names(book, Environment(profile="base")) == {"c"}
    assert names(book, Environment(profile="derived")) == {"a", "c"}
    assert names(book, Environment(profile="strict")) == {"a"}
    assert names(book, Environment(params={"LIMIT": 6})) == {"a", "b", "c"}
    assert names(book, Environment(params={"LIMIT": 1}, device=d)) == {"a", "b"}
    assert names(book, Environment(enable=["off"])) == {"a", "b", "d"}
    assert names(book, Environment(enable=["off"], opset=12)) == {"a", "b"}
    assert names(book, Environment(disable=["PassA"])) == {"b"}
    assert names(book, Environment(disable=["all"], enable=["b"])) == {"b"}
    assert names(book, Environment(disable=["s"], enable=["b"])) == {"b"}
    assert names(book, Environment(disable=["s"], enable=["s.one"], params={"LIMIT": 6})) == {"a", "b"}
    assert names(book, Environment(disable=["s.one"], enable=["s"], params={"LIMIT": 6})) == {"c"}
    assert names(book, Environment(profile="base", enable=["PassA"])) == {"a", "c"}


def test_what_is_off_says_why() -> None:
    book = load(SWITCHES)
    off = select_rules(book, Environment(disable=["PassA"])).off
    assert off["a"] == "it is disabled by the name PassA"
    assert off["c"] == "the limit is low"
    assert off["d"] == "the set off is off by default"
    assert "inexact" in select_rules(book, Environment(profile="strict")).off["b"]
    assert "opset" in select_rules(book, Environment(enable=["d"], opset=9)).off["d"]


def test_a_name_switched_on_and_off_is_a_fault() -> None:
    with pytest.raises(RuleError, match=r"s\.one is switched on and off") as caught:
        select_rules(load(SWITCHES), Environment(enable=["s.one", "a", "s.one"], disable=["all", "s.one"]))
    assert [item.code.code for item in caught.value.diagnostics] == ["E40122"]


def test_unknown_switches_are_faults() -> None:
    book = load(SWITCHES)
    environment = Environment(profile="bas", enable=["PasA"], disable=["s.tow"], params={"LIMT": 1})
    with pytest.raises(RuleError) as caught:
        select_rules(book, environment)
    assert {item.code.code for item in caught.value.diagnostics} == {"E40120"}
    assert [item.notes for item in caught.value.diagnostics] == [
        ("did you mean base?",),
        ("did you mean PassA?",),
        ("did you mean s.two?",),
        ("did you mean LIMIT?",),
    ]


def test_constants_stand_for_each_other() -> None:
    book = load("const A = $B * 2\nconst B = $C + 1\nparam C = 3\n")
    assert dict(select_rules(book, Environment(params={"C": 4})).scope.params) == {"A": 10, "B": 5, "C": 4}
    circle = load("const A = $B\nconst B = $A\n")
    with pytest.raises(RuleError) as caught:
        select_rules(circle, Environment())
    assert caught.value.code == "E40106"


def test_the_examples_select(examples: RuleBook) -> None:
    npu_b = TextDevice(examples, examples.devices["npu_b"])
    found = select_rules(examples, Environment(profile="mixed_f16", device=npu_b, opset=18))
    on = {rule.name.name for rule in found.rules}
    assert {"layernorm_decompose", "gelu_decompose", "matmul_to_f16"} <= on
    assert found.scope.params["MAX_CHAIN"] == 8
    assert "gelu_tanh" not in on and "allreduce_bucket" not in on
    assert npu_b.has("attention") and npu_b.lacks("ge::Attention")
