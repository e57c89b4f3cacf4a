"""The language server over its protocol, from hello to goodbye."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gerules.dsl import rules_folder
from gerules.dsl.formatting import format_rules
from gerules.errors import Source
from tests.editor.client import Client, Failed, Message, cut, edited, position
from tests.editor.conftest import PRELUDE, RULES, Files, messages

CONV = rules_folder().resolve() / "fusion" / "conv.ger"


# ---------------------------------------------------------------- diagnostics
def test_a_right_file_has_no_diagnostics(server: Client, rules: str) -> None:
    assert messages(server.change(rules, RULES)) == []


def test_shipped_files_have_none(server: Client) -> None:
    for path in sorted(CONV.parent.glob("*.ger"))[:4]:
        assert server.open(path.as_uri(), path.read_text("utf-8")) == []
        server.close(path.as_uri())


def test_all_faults_are_told_with_place_remedy_and_page(server: Client, rules: str) -> None:
    text = RULES.replace("numel(x)", "nume(x)").replace("factor == $SLOPE", "factor == $SLOP")
    found = server.change(rules, text)
    assert [(item["code"], cut(text, item["range"])) for item in found] == [
        ("E40114", "nume"),
        ("E40003", "$SLOP"),
    ]
    first = found[0]
    assert first["severity"] == 1 and first["source"] == "gerules"
    assert "hint: " in first["message"]
    assert [item["message"] for item in first["relatedInformation"]] == ["did you mean numel?"]
    page, _, anchor = first["codeDescription"]["href"].partition("#")
    assert page.endswith("/docs/errors.md") and anchor == "e40114-unknown-function"


def test_what_is_not_used_is_faded(server: Client, rules: str) -> None:
    (found,) = server.change(rules, RULES.replace("k=twice", "k=factor"))
    assert (found["code"], found["severity"], found["tags"]) == ("E40117", 2, [1])


def test_a_syntax_fault_hides_no_fault_elsewhere(server: Client, rules: str) -> None:
    text = RULES.replace("n = Neg(x)", "n = Neg(x").replace("factor * 2", "factr * 2")
    assert [code for code, _ in messages(server.change(rules, text))] == ["E40001", "E40003"]


def test_positions_count_in_utf16(server: Client, files: Files) -> None:
    text = 'rule r in s "𝄞𝄞": Neg(Neg(x)) => y # 𝄞\n'
    uri = files.new()
    (found,) = server.open(uri, text)
    assert cut(text, found["range"]) == "y"
    assert found["range"]["start"]["character"] == text.index("=> y") + 3 + 2
    server.close(uri)


def test_names_of_other_files_count_also_unsaved(server: Client, files: Files, rules: str) -> None:
    server.open(files.shared, PRELUDE)
    server.type(files.shared, PRELUDE.replace("SLOPE", "INCLINE"))
    server.diagnostics(rules, lambda found: ("E40003", "$SLOPE is not defined") in messages(found))
    server.close(files.shared)
    server.diagnostics(rules, lambda found: found == [])


def test_a_name_that_another_file_has_is_a_warning_with_both_places(server: Client, files: Files) -> None:
    one, two = files.new(), files.new()
    text = "rule declared_by_two in s: Abs(Neg(x)) => Abs(x)\n"
    server.open(one, text)
    (found,) = server.open(two, text)
    assert (found["code"], found["severity"]) == ("E40103", 2)
    assert [item["location"]["uri"] for item in found["relatedInformation"]] == [one]
    server.close(one)
    server.close(two)


def test_includes_are_checked(server: Client, files: Files) -> None:
    uri = files.new()
    text = 'include "nowhere.ger"\ninclude "/absolute.ger"\nrule r in s: Abs(Neg(x)) => Abs(x)\n'
    assert [code for code, _ in messages(server.open(uri, text))] == ["E40105", "E40104"]
    name = Path(uri).name
    assert [code for code, _ in messages(server.change(uri, f'include "{name}"\n'))] == ["E40106"]
    server.close(uri)


def test_what_is_no_text_is_told(server: Client, files: Files) -> None:
    path = files.folder / "latin.ger"
    path.write_bytes(b"# caf\xe9\n")
    uri = files.new()
    assert server.open(uri, 'include "latin.ger"\n') == []
    assert server.about("documentSymbol", path.as_uri()) == []
    assert [code for code, _ in messages(server.open(path.as_uri(), "# caf\ufffd\n"))] == []
    server.close(uri)
    server.close(path.as_uri())
    path.unlink()


def test_what_rules_come_to_together_is_analysed_when_a_file_is_opened_or_saved(
    server: Client, files: Files
) -> None:
    uri = files.new()
    rule = "rule turned in cleanup:\n    match:\n        y = Sub(a, b)\n    where:\n"
    rule += '        a.rank >= 0    else "never"\n    rewrite:\n        y = Neg(Sub(b, a))\n'
    right = "rule halves in s: Abs(Neg(x)) => Abs(x)\n"
    server.open(uri, right)
    server.type(uri, rule)
    server.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    codes = {item["code"] for item in server.diagnostics(uri, lambda found: found != [])}
    assert codes & {"E40130", "E40131", "E40132", "E40133"}
    # What is typed elsewhere leaves it where it stands; what changes the rule takes it away.
    moved = server.change(uri, f"{right}\n{rule}")
    assert {item["code"] for item in moved} >= codes
    assert server.change(uri, rule.replace("y = Neg(Sub(b, a))", "y = Add(Neg(b), a)")) == []
    server.close(uri)


# ---------------------------------------------------------------- hover
def hover(server: Client, uri: str, text: str, piece: str, into: int = 0) -> str:
    found = server.at("hover", uri, text, piece, into)
    return "" if found is None else found["contents"]["value"]


def test_hover_tells_of_operators(server: Client, rules: str) -> None:
    shown = hover(server, rules, RULES, "Neg(x)")
    assert "Neg(X) -> Y" in shown and "since opset 13" in shown
    shown = hover(server, rules, RULES, "my::ScaledSum(a")
    assert "my::ScaledSum(a, b, k=1) -> y" in shown
    assert "A sum of two values, times a number." in shown and "s = Add(a, b)" in shown


def test_hover_tells_of_names(server: Client, rules: str) -> None:
    shown = hover(server, rules, RULES, "n)\n")
    assert "n = Neg(x)" in shown and "`n: f32[2, 3]` in the first test" in shown
    assert "`k`: float = 1" in hover(server, rules, RULES, "k=factor")
    assert "numel(x)" in hover(server, rules, RULES, "numel(x)")
    shown = hover(server, rules, RULES, "two_negations")
    assert "Two negations 𝄞 cancel" in shown and "2 tests, 1 guards" in shown
    assert "`Sigmoid`, `Tanh`" in hover(server, rules, RULES, "SOFT")
    assert "const SLOPE = 0.5" in hover(server, rules, RULES, "SLOPE")
    assert "2 rules: `two_negations`, `soft_sum`" in hover(server, rules, RULES, "mine.soft")
    assert "element type of 32 bits" in hover(server, rules, RULES, "f32")
    assert "**rewrite**" in hover(server, rules, RULES, "rewrite")
    assert hover(server, rules, RULES, "# Rules", 3) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("y = x\n", "y = (x\n"),  # the bracket takes in all that follows
        ("y = x\n", "y = = x\n"),
        ('"𝄞 small"', '"𝄞 small'),
        ("    where:\n", "    were:\n"),
        ("f32[2, 3]", "f32[2; 3]"),
    ],
)
def test_a_syntax_fault_hides_no_hover_beside_it(server: Client, rules: str, right: str, wrong: str) -> None:
    text = RULES.replace(right, wrong, 1)
    assert {item["code"] for item in server.change(rules, text)} == {"E40001"}
    assert "Neg(X) -> Y" in hover(server, rules, text, "Neg(x)")
    assert "n = Neg(x)" in hover(server, rules, text, "n)\n")
    assert "`Sigmoid`, `Tanh`" in hover(server, rules, text, "SOFT")


# ---------------------------------------------------------------- completion
HEAD = """\
rule r in mine.soft:
    match:
        c = Conv(x, W: const [M, ...], group=grp)
        y = Relu(c)
"""


@pytest.mark.parametrize(
    ("typed", "wanted", "unwanted"),
    [
        ("ru", {"rule", "ruleset"}, {"match", "Relu"}),
        ("rule r in mi", {"mine.soft"}, {"Min"}),
        ("rule r in s:\n    ma", {"match"}, {"many", "Max"}),
        (HEAD + "        z = Soft", {"Softmax", "ge::SoftmaxV2"}, {"numel"}),
        (HEAD + "        z = Softmax(y, ", {"axis", "c", "y", "Relu"}, {"group"}),
        (HEAD + "        z = Softmax(y, axis=1, ", {"y"}, {"axis"}),
        (HEAD + "        z = Conv(y, V: ", {"const", "f16", "M", "float"}, {"Relu", "group"}),
        (HEAD + "        z = Conv(y, V: f16 @N", {"NC1HWC0", "NCHW"}, {"SOFT"}),
        (HEAD + "        z = f@SO", {"SOFT"}, {"NC1HWC0", "Softmax"}),
        (HEAD + "    where:\n        nu", {"numel"}, {"Conv"}),
        (HEAD + "    where:\n        W.sh", {"shape"}, {"Shape", "time"}),
        (HEAD + "    where:\n        g", {"grp"}, {"Gelu"}),
        (HEAD + "    where:\n        reaches(y, Soft", {"Softmax"}, set()),
        (HEAD + "    gate:\n        before.", {"time", "bytes", "flops"}, {"shape"}),
        (HEAD + "    fold:\n        k = $SL", {"SLOPE"}, {"Slice"}),
        (HEAD + "    rewrite:\n        y = LeakyRelu(x, al", {"alpha"}, set()),
        (HEAD + "    test:\n        ", {"x", "W", "grp", "expect", "device"}, {"match", "Relu"}),
        (HEAD + "    test:\n        device asc", {"ascend910b"}, {"Asin"}),
        (HEAD + "    test:\n        expect ", {"no", "match"}, {"Relu"}),
        ("phase p:\n    run fold.", {"fold.conv"}, {"fuse.conv"}),
        ("pipeline p = [fuse_", {"fuse_ops"}, {"fold_weights"}),
        ("profile p extends fp", {"fp16", "fp32"}, {"Pow"}),
        ("device d:\n    lacks SO", {"SOFT"}, set()),
        ('include "sh', {"shared.ger"}, {"Shape"}),
        ("# ru", set(), {"rule"}),
    ],
)
def test_completion_fits_its_place(
    server: Client, rules: str, typed: str, wanted: set[str], unwanted: set[str]
) -> None:
    text = f"{RULES}\n{typed}"
    server.type(rules, text)
    where = {"textDocument": {"uri": rules}, "position": position(text, len(text))}
    items = server.ask("textDocument/completion", where)
    labels = {item["label"] for item in items}
    assert wanted <= labels
    assert not unwanted & labels
    for item in items:
        assert cut(text, item["textEdit"]["range"]) in typed


def test_completion_in_the_middle_of_a_broken_rule(server: Client, rules: str) -> None:
    text = RULES.replace("y = Neg(n)", "y = Ne(n").replace("y = x", "y = ")
    server.type(rules, text)
    labels = {item["label"] for item in server.at("completion", rules, text, "y = Ne(n", 6)}
    assert {"Neg", "Less"} & labels == {"Neg"}
    labels = {item["label"] for item in server.at("completion", rules, text, "y = \n", 4)}
    assert {"n", "x"} <= labels


def test_a_suggestion_explains_itself_when_asked(server: Client, rules: str) -> None:
    item = next(item for item in server.at("completion", rules, RULES, "Neg(x)", 2) if item["label"] == "Neg")
    assert "documentation" not in item
    assert "Neg(X) -> Y" in server.ask("completionItem/resolve", item)["documentation"]["value"]


# ---------------------------------------------------------------- where names are
def places(found: list[dict[str, object]] | None, texts: dict[str, str]) -> list[str]:
    return [cut(texts[item["uri"]], item["range"]) for item in found or []]  # type: ignore[index,arg-type]


def test_definitions_also_in_other_files(server: Client, files: Files, rules: str) -> None:
    texts = {rules: RULES, files.shared: PRELUDE}
    for piece, into, uri, line in [
        ("n)\n", 0, rules, "        n = Neg(x)"),
        ("factor * 2", 0, rules, "        s = my::ScaledSum(a, b: T[N, C], k=factor)"),
        ("SOFT(s)", 0, files.shared, "ops SOFT = {Tanh, Sigmoid}"),
        ("SLOPE", 0, files.shared, "const SLOPE = 0.5"),
        ("my::ScaledSum(b", 5, files.shared, "define my::ScaledSum(a, b, k=1.0) -> y:"),
        ("mine.soft", 0, files.shared, 'ruleset mine.soft "what is soft":'),
        ("@f(", 1, rules, "        y = f@SOFT(s)"),
    ]:
        (found,) = server.at("definition", rules, RULES, piece, into)
        assert found["uri"] == uri
        assert texts[uri].split("\n")[found["range"]["start"]["line"]] == line
    (found,) = server.at("definition", rules, RULES, '"shared.ger"', 3)
    assert found["uri"] == files.shared
    assert server.at("definition", rules, RULES, "Neg(x)") == []


def test_references_and_highlights(server: Client, files: Files, rules: str) -> None:
    everywhere = {"includeDeclaration": True}
    found = server.at("references", rules, RULES, "SOFT(s)", context=everywhere)
    assert places(found, {rules: RULES, files.shared: PRELUDE}) == ["SOFT", "SOFT"]
    only = server.at("references", rules, RULES, "SOFT(s)", context={"includeDeclaration": False})
    assert [item["uri"] for item in only] == [rules]
    # `x` of one rule has nothing to do with `x` of another.
    assert len(server.at("documentHighlight", rules, RULES, "x)\n        y = Neg")) == 5


def test_the_outline(server: Client, rules: str) -> None:
    found = server.about("documentSymbol", rules)
    assert [(item["name"], item["detail"]) for item in found] == [
        ("two_negations", "mine.soft"),
        ("soft_sum", "mine.soft"),
    ]
    assert all(cut(RULES, item["selectionRange"]) == item["name"] for item in found)
    names = {item["name"] for item in server.ask("workspace/symbol", {"query": "conv_b"})}
    assert {"conv_bn", "conv_bias"} <= names
    folds = server.about("foldingRange", rules)
    assert {"startLine": 3, "endLine": 15} in folds


def test_colours(server: Client, rules: str) -> None:
    data = server.about("semanticTokens/full", rules)["data"]
    lines = RULES.split("\n")
    line = character = 0
    words: list[str] = []
    for step, shift, length, _, _ in zip(*[iter(data)] * 5, strict=True):
        line, character = line + step, shift if step else character + shift
        raw = lines[line].encode("utf-16-le")
        words.append(raw[2 * character : 2 * (character + length)].decode("utf-16-le"))
    assert words[:6] == ["two_negations", "mine.soft", "n", "Neg", "x", "y"]
    assert "SLOPE" in words and "numel" in words


# ---------------------------------------------------------------- rename
def renamed(server: Client, uri: str, text: str, piece: str, new: str) -> dict[str, list[Message]]:
    return server.at("rename", uri, text, piece, newName=new)["changes"]


def test_a_name_of_a_rule_is_renamed_in_it_alone(server: Client, rules: str) -> None:
    prepared = server.at("prepareRename", rules, RULES, "n)\n")
    assert prepared["placeholder"] == "n"
    changes = renamed(server, rules, RULES, "n)\n", "negated")
    assert list(changes) == [rules]
    new = edited(RULES, changes[rules])
    assert new == RULES.replace("n = Neg(x)", "negated = Neg(x)").replace("Neg(n)", "Neg(negated)")
    assert messages(server.change(rules, new)) == []


def test_names_of_files_are_renamed_everywhere(server: Client, files: Files, rules: str) -> None:
    for piece, old, new in [
        ("SOFT(s)", "SOFT", "GENTLE"),
        ("my::ScaledSum(b", "my::ScaledSum", "our::Sum"),
        ("SLOPE", "SLOPE", "INCLINE"),
        ("mine.soft", "mine.soft", "ours.gentle"),
    ]:
        changes = renamed(server, rules, RULES, piece, new)
        assert edited(RULES, changes[rules]) == RULES.replace(old, new)
        assert edited(PRELUDE, changes[files.shared]) == PRELUDE.replace(old, new)


@pytest.mark.parametrize(
    ("piece", "new", "reason"),
    [
        ("n)\n", "y", "there is a name y already"),
        ("n)\n", "2n", "is no name"),
        ("n)\n", "a b", "is no name"),
        ("two_negations", "soft_sum", "there is a rule soft_sum already"),
        ("two_negations", "conv_bn", "there is a rule conv_bn already"),
        ("my::ScaledSum(b", "Conv", "already"),
        ("T[N", "f16", "read as something else"),
        ("T[N", "t", "cannot stand there"),
        ("Neg(x)", "Nag", "no rule file declares Neg"),
        ("numel", "count_of", "no rule file declares numel"),
        ("f32[2, 3", "f16", "name of the language"),
        ("# Rules", "x", "no name here"),
    ],
)
def test_renames_that_would_not_do_are_refused_with_a_reason(
    server: Client, rules: str, piece: str, new: str, reason: str
) -> None:
    with pytest.raises(Failed, match=reason) as failed:
        renamed(server, rules, RULES, piece, new)
    assert failed.value.code == -32803


def test_what_comes_with_gerules_is_not_renamed(server: Client, files: Files) -> None:
    uri = files.new()
    text = 'include "prelude.ger"\nrule r in s: f@UNARY_MATH(Neg(x)) => @f(x)\n'
    server.open(uri, text)
    with pytest.raises(Failed, match=r"prelude\.ger, which is not of this workspace"):
        renamed(server, uri, text, "UNARY_MATH", "MINE")
    server.close(uri)


def test_a_file_at_fault_is_not_renamed(server: Client, rules: str) -> None:
    text = RULES.replace("factor * 2", "factor *")
    server.change(rules, text)
    with pytest.raises(Failed, match=r"rules\.ger is at fault"):
        renamed(server, rules, text, "n)\n", "m")


# ---------------------------------------------------------------- layout and fixes
def test_formatting_is_that_of_gerules_fmt(server: Client, rules: str) -> None:
    text = RULES.replace("n = Neg(x)", "n=Neg( x )")
    server.change(rules, text)
    edits = server.about("formatting", rules, options={"tabSize": 4, "insertSpaces": True})
    want = format_rules(Source("x", text))
    assert edited(text, edits) == want
    server.change(rules, want)
    assert server.about("formatting", rules, options={"tabSize": 4, "insertSpaces": True}) == []


def test_a_file_at_fault_is_not_laid_out(server: Client, rules: str) -> None:
    server.change(rules, RULES + "rule\n")
    with pytest.raises(Failed, match="not laid out"):
        server.about("formatting", rules, options={"tabSize": 4, "insertSpaces": True})


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("numel(x)", "nume(x)"), ("$SLOPE", "$SLOP"), ("match:", "mach:"), ("Neg(n)", "Ngg(n)"), ("==", "=")],
)
def test_quick_fixes_write_what_was_meant(server: Client, rules: str, right: str, wrong: str) -> None:
    text = RULES.replace(right, wrong, 1)
    found = server.change(rules, text)
    (action,) = server.about("codeAction", rules, range=found[0]["range"], context={"diagnostics": found[:1]})
    assert edited(text, action["edit"]["changes"][rules]) == RULES


# ---------------------------------------------------------------- tests of rules
def run(server: Client, *arguments: object) -> dict[str, object]:
    return server.ask("workspace/executeCommand", {"command": "gerules.runTests", "arguments": arguments})


def test_a_lens_runs_the_tests_of_its_rule(server: Client, rules: str) -> None:
    (lens,) = server.about("codeLens", rules)
    assert cut(RULES, lens["range"]) == "two_negations"
    assert lens["command"]["title"] == "Run its 2 tests"
    report = server.ask("workspace/executeCommand", lens["command"])
    assert (report["rules"], report["tests"], report["failures"]) == (1, 2, [])
    told = server.wait_for(lambda item: item["method"] == "window/showMessage")["params"]
    assert told == {"type": 3, "message": "two_negations: 2 tests on 2 graphs, all hold"}
    begun = server.wait_for(lambda item: item["method"] == "$/progress")["params"]["value"]
    assert begun["title"] == "Testing two_negations" and begun["cancellable"]


def test_failures_are_published_where_the_test_stands(server: Client, rules: str) -> None:
    text = RULES.replace('expect no match "small"', "expect match")
    server.change(rules, text)
    report = run(server, rules, "two_negations")
    assert len(report["failures"]) == 1  # type: ignore[arg-type]
    found = server.diagnostics(rules, lambda found: found != [])
    failed = [item for item in found if item["source"] == "gerules test" and item["severity"] == 1]
    assert [cut(text, item["range"]) for item in failed] == ['test "it is small":']
    assert "it does not fire" in failed[0]["message"]
    # Lines added above move it; a rule that says something else is not accused.
    moved = server.change(rules, "# one more line\n" + text)
    lines = [item["range"]["start"]["line"] for item in moved if item["severity"] == 1]
    assert lines == [text[: text.index('test "it is small"')].count("\n") + 1]
    assert messages(server.change(rules, RULES)) == []


def test_the_tests_of_a_file(server: Client) -> None:
    text = CONV.read_text("utf-8")
    server.open(CONV.as_uri(), text)
    report = run(server, CONV.as_uri())
    assert report["rules"] == text.count("\nrule ") and report["failures"] == []
    server.close(CONV.as_uri())


def test_the_server_answers_while_tests_run_and_they_can_be_stopped(server: Client) -> None:
    path = CONV.with_name("attention.ger")
    text = path.read_text("utf-8")
    server.open(path.as_uri(), text)
    command = {"command": "gerules.runTests", "arguments": [path.as_uri()]}
    number = server.send("workspace/executeCommand", command)
    # An answer in between: the run is not done, unless the machine is faster than any.
    assert "MatMul" in hover(server, path.as_uri(), text, "MatMul(")
    server.ask("workspace/executeCommand", {"command": "gerules.cancelTests", "arguments": []})
    report = server.answer(number)
    assert report["is_cancelled"] and report["rules"] < text.count("\nrule ")
    server.close(path.as_uri())


def test_a_request_can_be_cancelled(server: Client) -> None:
    path = CONV.with_name("attention.ger")
    server.open(path.as_uri(), path.read_text("utf-8"))
    command = {"command": "gerules.runTests", "arguments": [path.as_uri()]}
    number = server.send("workspace/executeCommand", command)
    server.notify("$/cancelRequest", {"id": number})
    with pytest.raises(Failed) as failed:
        server.answer(number)
    assert failed.value.code == -32800
    server.close(path.as_uri())


@pytest.mark.parametrize("arguments", [[], [7], ["file:///nowhere.ger"], ["x", "y", "z"]])
def test_a_run_of_nothing_says_so(server: Client, arguments: list[object]) -> None:
    with pytest.raises(Failed):
        run(server, *arguments)


# ---------------------------------------------------------------- graphs
def test_graphs_have_diagnostics_and_types(server: Client, files: Files) -> None:
    uri = files.new(".graph")
    text = "graph g:\n    opset 20\n    input x: f32[2, 3]\n    y = Relu(x)\n    z = Transpose(y)\n"
    text += "    return z\n"
    assert server.open(uri, text, "gerules-graph") == []
    assert "z: f32[3, 2]" in hover(server, uri, text, "z = ")
    assert "Relu(X) -> Y" in hover(server, uri, text, "Relu")
    (found,) = server.change(uri, text.replace("Transpose(y)", "Transpose(w)"))
    assert found["code"] == "E40003"
    (found,) = server.change(uri, text.replace("Relu(x)", "MatMul(x, x)"))
    assert (found["code"], found["range"]["start"]["line"]) == ("E30012", 3)
    server.close(uri)


# ---------------------------------------------------------------- files on disk
def test_changes_on_disk_are_seen(server: Client, files: Files, rules: str) -> None:
    path = files.folder / "shared.ger"
    path.write_text(PRELUDE.replace("SLOPE", "INCLINE"), encoding="utf-8")
    event = {"changes": [{"uri": path.as_uri(), "type": 2}]}
    server.notify("workspace/didChangeWatchedFiles", event)
    server.diagnostics(rules, lambda found: ("E40003", "$SLOPE is not defined") in messages(found))
    path.write_text(PRELUDE, encoding="utf-8")
    server.notify("workspace/didChangeWatchedFiles", event)
    server.diagnostics(rules, lambda found: found == [])


def test_a_copy_of_the_shipped_rules_is_a_workspace_too(server: Client, files: Files, tmp_path: Path) -> None:
    # All that it declares is there twice; that is said, and nothing breaks.
    shutil.copy(CONV, tmp_path / "conv.ger")
    text = CONV.read_text("utf-8")
    found = server.open((tmp_path / "conv.ger").as_uri(), text)
    assert {code for code, _ in messages(found)} == {"E40108"}
    server.close((tmp_path / "conv.ger").as_uri())
