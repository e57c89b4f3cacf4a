"""Rules as passes of the Graph Engine: they compile, run, do what the rule does, or it is said why not."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gerules.compat.ge.passes import get_registered_passes
from gerules.compat.ge.passes.registry import unregister_fusion_pass
from gerules.dsl import RuleBook
from gerules.errors import Source
from gerules.exporting.export import Exported, export_rules
from gerules.ir import Graph, parse_graph
from gerules.ops import Schemas, infer_graph
from gerules.pipeline import load_rules, shipped_rules
from tests.cli.conftest import Run, run, run_json  # noqa: F401 - fixtures
from tests.docs.engine_run import apply_rules, meaning_of
from tests.docs.pages import DOCS, blocks_of
from tests.exporting.passes import STUBS, cpp_compiler, on_ours, on_stub

GOLDEN = Path(__file__).with_name("shipped_rules.txt")

MINE = """\
gerules 1

rule relu_of_scaled in my.moves "Relu(k x) is k Relu(x) for a positive number k":
    inexact "one rounding moves"
    once
    match:
        m = Mul(x: f32[N, C, ...], 0.5)
        y = Relu(m)
    where:
        N == C or x.rank == 2              else "neither square nor a matrix"
    rewrite:
        y = Mul(Relu(x), 0.5)

rule last_axis in my.moves "A softmax of logarithms":
    once
    match:
        y = Log(Softmax(x, axis=-1))
    rewrite:
        y = LogSoftmax(x, axis=-1)

rule slope in my.moves "A slope is kept":
    once
    match:
        y = Neg(LeakyRelu(Neg(x), alpha=a))
    where:
        a < 1.0 and x.dtype != f16         else "it is steep, or half as wide"
        is_float(x.dtype) and not is_integer(x.dtype) else "whole numbers"
    rewrite:
        y = LeakyRelu(x, alpha=a)

rule two_factors in my.moves "One factor for two":
    inexact "one rounding for two"
    once
    match:
        y = Mul(Mul(x, a: const), b: const)
    where:
        is_scalar(a) and is_scalar(b)      else "a factor is not one number"
    fold:
        k = cast(scalar(a) * scalar(b), x.dtype)
    rewrite:
        y = Mul(x, k)
"""


@functools.cache
def book_of(text: str) -> RuleBook:
    return load_rules(Source("mine.ger", text))


def export(text: str, language: Any, *names: str) -> Exported:
    book = book_of(text)
    rules = [rule for rule in book.rules if rule.ruleset.startswith("my.")]
    return export_rules(
        book, [rule for rule in rules if not names or rule.name.name in names], language, source="mine.ger"
    )


@pytest.fixture(scope="module")
def shipped() -> RuleBook:
    return shipped_rules()


@pytest.fixture(autouse=True)
def passes() -> Iterator[None]:
    """Passes end with the test."""
    known = set(get_registered_passes())
    yield
    for name in set(get_registered_passes()) - known:
        unregister_fusion_pass(name)


# ---------------------------------------------------------------- all shipped rules
def test_which_shipped_rules_are_passes(shipped: RuleBook) -> None:
    found = export_rules(shipped, shipped.rules, "python", source="the rules of gerules")
    again = export_rules(shipped, shipped.rules, "cpp", source="the rules of gerules")
    assert (found.passes, found.kinds) == (again.passes, again.kinds)
    lines = [f"{name}: {', '.join(passes)}" for name, passes in sorted(found.passes.items())]
    assert "\n".join(lines) + "\n" == GOLDEN.read_text(encoding="utf-8"), (
        "write the new list to " + GOLDEN.name
    )
    assert set(found.passes) | set(found.kinds) == {rule.name.name for rule in shipped.rules}
    assert all(item.span is not None and item.code.code == "E40140" for item in found.refused)


def compile_cpp(text: str, folder: Path) -> None:
    """Let a compiler check a file against the declarations of the interface."""
    compiler = cpp_compiler()
    source = folder / "passes.cpp"
    source.write_text(text, encoding="utf-8")
    # Declarations have no bodies, which is what a warning of its own is about.
    done = subprocess.run(
        [compiler, "-fsyntax-only", "-std=c++17", "-Wall", "-Wextra", "-I", str(STUBS / "cpp"), str(source)],
        capture_output=True,
        text=True,
    )
    told = [line for line in done.stderr.splitlines() if " warning: " in line or " error: " in line]
    assert done.returncode == 0 and not [
        line for line in told if "unused-function" not in line and "-Wunused-variable" not in line
    ], done.stderr[:2000]


def test_shipped_rules_compile_as_cpp(shipped: RuleBook, tmp_path: Path) -> None:
    compile_cpp(export_rules(shipped, shipped.rules, "cpp", source="the rules of gerules").text, tmp_path)


def test_rules_of_mine_compile_as_cpp(tmp_path: Path) -> None:
    found = export(MINE, "cpp")
    assert not found.refused
    compile_cpp(found.text, tmp_path)
    assert "REG_FUSION_PASS(SlopePass).Stage(CustomPassStage::kAfterInferShape);" in found.text


def test_what_is_wrong_does_not_compile(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        compile_cpp(export(MINE, "cpp").text.replace("GetCapturedTensor", "GetCaptured"), tmp_path)


def test_shipped_rules_run_as_python(shipped: RuleBook) -> None:
    found = export_rules(shipped, shipped.rules, "python", source="the rules of gerules")
    made = on_stub(found.text)
    assert len(made) - 1 == sum(len(passes) for passes in found.passes.values())
    assert on_ours(export_rules(shipped, [shipped.rule_by_name["swish"]], "python", source="x").text)


# ---------------------------------------------------------------- by hand, on the stub
def nodes_of(result: Any) -> list[Any]:
    """The nodes that a pattern built, those that are read first."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        for item in node.inputs:
            if hasattr(item, "type") and item.type not in ("Data", "Const"):
                visit(item)
        if node not in found:
            found.append(node)

    visit(result)
    return found


class Match:
    def __init__(self, nodes: list[Any]) -> None:
        self.nodes = nodes

    def get_matched_nodes(self) -> list[Any]:
        return self.nodes


def data(made: dict[str, Any], shape: list[int], data_type: int = 0) -> Any:
    node = made["module"]["es"].Data()
    node.desc.shape, node.desc.data_type = shape, data_type
    return node


def pattern_of(cls: Any) -> Callable[..., Any]:
    return next(member for member in vars(cls).values() if getattr(member, "is_pattern", False))


@pytest.mark.parametrize(
    ("shape", "data_type", "holds"),
    [
        ([4, 4, 2], 0, True), ([4, 3], 0, True), ([4, 3, 2], 0, False), ([4, 4, 2], 1, False),
        ([4], 0, False), ([-1, 4, 2], 0, False), ([-2], 0, False),
    ],
)  # fmt: skip
def test_guards_and_types_are_asked_of_the_match(shape: list[int], data_type: int, holds: bool) -> None:
    made = on_stub(export(MINE, "python", "relu_of_scaled").text)
    cls = made["ReluOfScaled_form1Pass"]
    result = pattern_of(cls)(cls(), [data(made, shape, data_type)])
    assert [node.type for node in nodes_of(result)] == ["Mul", "Relu"]
    assert cls().config == ("const",)
    assert cls().meet_requirements(Match(nodes_of(result))) is holds


def test_attributes_are_taken_over_from_the_match() -> None:
    made = on_stub(export(MINE, "python", "slope").text)
    cls = made["SlopePass"]
    nodes = nodes_of(pattern_of(cls)(cls(), [data(made, [2, 3])]))
    assert [node.type for node in nodes] == ["Neg", "LeakyRelu", "Neg"] and cls().config == ()
    for alpha, holds in ((0.25, True), (1.5, False)):
        nodes[1].attrs["negative_slope"] = alpha
        assert cls().meet_requirements(Match(nodes)) is holds
    nodes[1].attrs["negative_slope"] = 0.25
    built = cls().replacement([data(made, [2, 3])], Match(nodes))
    assert (built.type, built.attrs) == ("LeakyRelu", {"negative_slope": 0.25})


def test_numbers_are_built_for_float32_alone() -> None:
    made = on_stub(export(MINE, "python", "two_factors").text)
    cls = made["TwoFactors_form1Pass"]
    for data_type, holds in ((0, True), (1, False), (3, False)):
        nodes = nodes_of(pattern_of(cls)(cls(), [data(made, [2, 3], data_type)]))
        for node in nodes:
            node.inputs[1].desc.shape = [1]
        assert cls().meet_requirements(Match(nodes)) is holds


def test_numbers_are_computed_from_constants_of_the_match() -> None:
    made = on_stub(export(MINE, "python", "two_factors").text)
    cls = made["TwoFactors_form1Pass"]
    nodes = nodes_of(pattern_of(cls)(cls(), [data(made, [2, 3])]))
    for node, factor in zip(nodes, (3.0, 5.0), strict=True):
        (const,) = [item for item in node.inputs if item.type == "Const"]
        const.attrs["value"] = type(const.attrs["value"])([factor])
        const.desc.shape = [1]
    assert cls().meet_requirements(Match(nodes))
    assert cls().replacement([data(made, [2, 3])], Match(nodes)).inputs[1] == 15.0
    const.desc.shape = [2]
    assert not cls().meet_requirements(Match(nodes))


def test_attributes_that_are_given_are_compared_by_the_matcher() -> None:
    text = export(MINE, "python", "last_axis").text
    made = on_stub(text)
    assert made["LastAxisPass"]().config == ("attr",)
    assert "es.SoftmaxV2(x0, half_to_float=False, axes=[-1])" in text


# ---------------------------------------------------------------- on our own engine
GRAPHS = {
    "drop_double_neg": "a = Neg(x)\n    y = Neg(a)",
    "drop_mul_one": "k: const f32[] = 1.0\n    a = Mul(k, x)\n    y = Relu(a)",
    "drop_add_zero": "k: const f32[1] = [0.0]\n    a = Add(x, k)\n    y = Relu(a)",
    "drop_sub_zero": "k: const f32[] = 0.0\n    a = Sub(x, k)\n    y = Relu(a)",
    "drop_div_one": "k: const f32[] = 1.0\n    a = Div(x, k)\n    y = Relu(a)",
    "drop_pow_one": "k: const f32[] = 1.0\n    a = Pow(x, k)\n    y = Relu(a)",
    "relu_of_scaled": "k: const f32[] = 0.5\n    a = Mul(k, x)\n    y = Relu(a)",
    "last_axis": "a = Softmax(x, axis=-1)\n    y = Log(a)",
}
UNCHANGED = {
    "drop_mul_one": "k: const f32[] = 1.5\n    a = Mul(k, x)\n    y = Relu(a)",
    "drop_add_zero": "k: const f32[1, 1, 1] = [0.0]\n    a = Add(x, k)\n    y = Relu(a)",
    "relu_of_scaled": "k: const f32[] = 0.25\n    a = Mul(x, k)\n    y = Relu(a)",
    "last_axis": "a = Softmax(x, axis=0)\n    y = Log(a)",
}


def graph_of(lines: str) -> Graph:
    return infer_graph(
        parse_graph(f"graph g:\n    opset 17\n    input x: f32[2, 3]\n    {lines}\n    return y\n"), Schemas()
    )


@pytest.mark.parametrize(
    ("name", "lines", "changes"),
    [(name, lines, True) for name, lines in GRAPHS.items()]
    + [(name, lines, False) for name, lines in UNCHANGED.items()],
)
def test_a_pass_gives_the_graph_that_its_rule_gives(name: str, lines: str, changes: bool) -> None:
    book, graph = book_of(MINE), graph_of(lines)
    by_rule = apply_rules(book, graph, {name})
    text = export_rules(book, [book.rule_by_name[name]], "python", source="x").text
    rules = on_ours(text)
    by_pass = apply_rules(shipped_rules(), graph, set(rules))
    assert meaning_of(by_pass) == meaning_of(by_rule)
    assert (meaning_of(by_pass) != meaning_of(graph)) is changes


# ---------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("match", "rewrite", "kind", "place"),
    [
        ("y = ch@{Add, Mul}{2..4}(x, ...)", "y = Relu(x)", "chain", "ch@{Add, Mul}{2..4}"),
        ("y = Mul~(x, 0.5, Tanh(x))", "y = Relu(x)", "any order", "Mul~"),
        ("y = Concat(*xs, axis=a)", "y = Concat(*xs, axis=a)", "variadic", "*xs"),
        ("y = Relu(Einsum(x, equation=\"ij\"))", "y = Relu(x)", "operator", "Einsum"),
        ("y = Relu(Conv(x, W, **a))", "y = ge::ConvRelu(x, W, **a)", "operator", "ge::ConvRelu"),
        ("y = Relu(Trilu(x, k))", "y = Relu(x)", "operator", "Trilu"),
        ("y = Relu(x)", "y = Reshape(x, shape=[2])", "type", "r"),
        ("y = Mul!(Add!(x, k: const), k)", "y = Relu(x)", "twice", "k"),
    ],
)  # fmt: skip
def test_what_a_pass_cannot_say_is_told_with_its_place(
    match: str, rewrite: str, kind: str, place: str
) -> None:
    head = 'gerules 1\n\nrule r in my.moves "a rule":\n    once\n    match:\n'
    text = f"{head}        {match}\n    rewrite:\n        {rewrite}\n"
    found = export(text, "cpp")
    assert not found.passes and found.text == "" and found.kinds == {"r": kind}
    (note,) = found.refused
    assert note.span is not None and note.span.text == place


def test_guards_that_ask_more_are_told() -> None:
    text = MINE.replace("is_scalar(a) and is_scalar(b)", "all_equal(a, 1) and is_scalar(b)")
    (note,) = export(text, "python", "two_factors").refused
    assert note.span is not None and note.span.text == "all_equal(a, 1)"
    assert "asks what a pass cannot find out" in note.message


# ---------------------------------------------------------------- command
def test_the_page_shows_what_the_command_says(
    run: Run,  # noqa: F811 - the fixture
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = DOCS / "export-pass.md"
    (rules,) = blocks_of(page, "ger")
    (shown,) = blocks_of(page, "console")
    monkeypatch.chdir(tmp_path)
    Path("halves.ger").write_text(rules.text, encoding="utf-8")
    command, *wanted = shown.text.strip().splitlines()
    told = run(*command.removeprefix("$ gerules ").split()).stderr.splitlines()
    assert wanted == [line for line in told if line.startswith("warning") or line in wanted]


def test_the_command_writes_files_and_says_what_it_left(
    run: Run,  # noqa: F811 - the fixture
    run_json: Callable[..., Any],  # noqa: F811 - the fixture
    tmp_path: Path,
) -> None:
    rules = tmp_path / "mine.ger"
    rules.write_text(MINE, encoding="utf-8")
    found = run_json("export-pass", rules, "--lang", "cpp", "-o", tmp_path / "out")
    assert sorted(found["passes"]) == ["last_axis", "relu_of_scaled", "slope", "two_factors"]
    assert Path(found["output"]) == tmp_path / "out" / "mine_passes.cpp" and Path(found["output"]).is_file()
    result = run("export-pass", rules, "--rule", "slope")
    assert result.exit_code == 0 and "class SlopePass(PatternFusionPass):" in result.stdout
    assert "1 pass of 1 rule" in result.stderr
    result = run("export-pass", "--rule", "conv_bias")
    assert result.exit_code == 1 and "[E40140]" in result.stderr
    assert "error[E40052]" in run("export-pass", "--rule", "nothing_of_it").stderr
    assert "error[E10003]" in run("export-pass", "--lang", "rust").stderr
