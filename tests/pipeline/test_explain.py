"""Explanations: each near miss is told with its node, how far it came, its reason and the remedy."""

from __future__ import annotations

import pytest

import gerules
from gerules.errors import GerulesError, Source
from gerules.ir import Graph, parse_graph, print_graph
from gerules.pipeline import compile_graph, shipped_rules
from gerules.pipeline.asking import options_of
from gerules.pipeline.attempts import Recorder
from gerules.pipeline.explain import Attempt, explain, why
from gerules.pipeline.finding import find as find_pattern
from gerules.report.explain_report import group_lines
from tests.models.catalogue import find

NORM = """\
    g: const f32[4] = fill(1.5)
    b: const f32[4] = fill(0.5)
    m: const f32[4] = fill(0.1)
    v: const f32[4] = fill(0.9)
"""

CONV_BN = f"{NORM}    c = Conv(x, W)\n    y = BatchNormalization(c, g, b, m, v)\n"

HEAD = """\
graph net:
    opset 17
    input x: f32[1, 3, 8, 8]
    W: const f32[4, 3, 3, 3] = random(1)
"""


def net(body: str, head: str = HEAD) -> Graph:
    return parse_graph(head + body)


def only(graph: Graph, rule: str, **target: object) -> Attempt:
    found = explain(graph, rule, **target)  # type: ignore[arg-type]
    (attempt,) = found.attempts
    return attempt


# ---------------------------------------------------------------- in the pattern
def test_a_bias_that_is_computed_keeps_batch_normalization_out() -> None:
    graph = net(f"    input B: f32[4]\n{CONV_BN}    return y\n".replace("W)", "W, B)"))
    found = only(graph, "conv_bn")
    assert (found.node, found.op, found.outcome) == ("y", "BatchNormalization", "pattern")
    assert (found.n_matched, found.n_ops) == (2, 2) and found.nearness < 1
    assert found.reason == "`B?: const` is not a constant" and found.text == "B?: const"
    assert found.seen == "B is f32[4], an input of the graph"
    assert "initializer" in found.wanted and found.at.startswith("fusion/conv.ger:")


def test_training_mode_is_told_with_its_value() -> None:
    graph = net(
        f"{CONV_BN}    return y\n".replace("y = ", "y, m1, v1 = ").replace("m, v)", "m, v, training_mode=1)")
    )
    found = only(graph, "conv_bn")
    assert found.reason == "`training_mode=0` does not hold"
    assert found.seen.startswith("training_mode = 1") and found.n_matched == 1


def test_another_operator_is_told_by_name() -> None:
    graph = net(
        f"{NORM}    c = Relu(x)\n    y = BatchNormalization(c, g, b, m, v)\n    return y\n".replace(
            "[4]", "[3]"
        )
    )
    found = explain(graph, "conv_bn")
    (attempt,) = found.attempts
    assert "there is no Conv" in attempt.reason and "made by Relu" in attempt.seen
    assert any("Conv" in item for item in found.missing["conv_bn"])


def test_what_the_model_has_none_of() -> None:
    found = explain(net("    y = Conv(x, W)\n    return y\n"), "conv_bn")
    assert found.attempts == ()
    assert found.missing == {"conv_bn": ("needs operator BatchNormalization, which the graph has none of",)}


# ---------------------------------------------------------------- after the pattern
def test_another_reader_of_the_convolution() -> None:
    graph = net(f"{CONV_BN}    r = Sigmoid(c)\n    return y, r\n")
    found = only(graph, "conv_bn")
    assert found.outcome == "check" and found.seen == "c has readers outside the match"
    assert found.reason == "a value has readers outside the match" and "only the match" in found.wanted


ATTENTION = """\
graph att:
    opset 17
    input q: f32[2, 3, 5, {D}]
    input kt: f32[2, 3, {D}, 7]
    input v: f32[2, 3, 7, 8]
    input mask: f32[{mask}]
    s = MatMul(q, kt)
    a = Add(s, mask)
    p = Softmax(a, axis=-1)
    y = MatMul(p, v)
    return y
"""


@pytest.mark.parametrize(
    ("size", "mask", "reason", "seen"),
    [
        (512, "2, 1, 5, 7", "the head size is above what the kernel takes", "D = 512, $MAX_HEAD_SIZE = 256"),
        (8, "4, 2, 3, 5, 7", "the mask broadcasts the scores", "mask: f32[4, 2, 3, 5, 7]"),
    ],
)
def test_attention_names_the_guard_and_what_it_saw(size: int, mask: str, reason: str, seen: str) -> None:
    text = ATTENTION.format(D=size, mask=mask)
    found = explain(parse_graph(text), "sdpa", node="y", device="ascend910b")
    (attempt,) = found.attempts
    assert attempt.outcome == "guard" and attempt.reason == reason
    assert seen in attempt.seen and attempt.wanted.startswith("`")
    assert attempt.nearness > 0.6


GATE = """\
graph gate:
    opset 17
    input x: f32[2, 1024, 1024]
    W: const f32[1024, 4] = random(1)
    V: const f32[1024, 4] = random(2)
    b: const f32[4] = fill(0.5)
    d: const f32[4] = fill(0.7)
    m = MatMul(x, W)
    y = Add(m, b)
    n = MatMul(x, V)
    z = Add(n, d)
    return y, z
"""


def test_a_gate_refuses_on_one_device_and_not_on_another() -> None:
    graph = parse_graph(GATE)
    host = explain(graph, "merge_matmuls_bias")
    best = host.attempts[0]
    assert host.applied == {} and best.outcome == "gate"
    assert "x the time" in best.seen and best.reason == "one wide MatMul is not faster here"
    ratio = float(best.seen.split(" ")[0])
    assert ratio > 0.95  # $MERGE_GAIN
    device = explain(graph, "merge_matmuls_bias", device="ascend910b", precision="fp32")
    assert len(device.applied["merge_matmuls_bias"]) == 1
    assert all(item.outcome != "gate" for item in device.attempts)


PRODUCTS = """\
graph products:
    opset 18
    input x: f32[2048, 1024]
    A: const f32[1024, 4] = random(1)
    B: const f32[1024, 4] = random(2)
    p: f32[2048, 4] = MatMul(x, A)
    q: f32[2048, 4] = MatMul(x, B)
    return p, q
"""


def gated(gate: str) -> Source:
    """A rule for two products of one input, with a gate."""
    text = f"""gerules 1

rule gated in mine.gate "two products of one input":
    inexact "sums in another order"
    match:
        p = MatMul(x, A: const T[D, N])
        q = MatMul(x, B: const T[D, N])
    where:
        ordered(p, q)
    fold:
        both = concat([A, B], axis=1)
    gate:
        {gate} else "too dear"
    rewrite:
        w = MatMul(x, both)
        p, q = Split(w, axis=-1, num_outputs=2)
    test:
        x: f32[2048, 1024] in -1.0 .. 1.0
        A, B: const f32[1024, 4] in -1.0 .. 1.0
        device ascend910b
        close 0.0001, 0.001
"""
    return Source("gated.ger", text)


@pytest.mark.parametrize(
    ("gate", "named", "begins"),
    [
        ("after.flops <= 0.2 * before.flops", {"flops"}, "x the flops"),
        ("after.bytes < 0.1 * before.bytes", {"bytes"}, "x the bytes"),
        ("after.time < 0.1 * before.time", {"time"}, "x the time"),
        (
            "after.time + 0.0 * after.flops < 0.1 * before.time",
            {"time", "bytes", "flops"},
            "x the time",
        ),
    ],
)
def test_a_gate_tells_the_quantities_that_it_names(gate: str, named: set[str], begins: str) -> None:
    found = explain(parse_graph(PRODUCTS), "gated", rules=[gated(gate)], device="ascend910b")
    best = found.attempts[0]
    assert (best.outcome, best.reason) == ("gate", "too dear")
    ratios, numbers = best.seen.split(": ")
    assert ratios.partition(" ")[2].startswith(begins)
    assert {item.split()[0] for item in numbers.split(", ")} == named
    assert all(" -> " in item for item in numbers.split(", "))


def test_a_line_without_another_node_is_told_with_what_it_would_have_to_read() -> None:
    rule = gated("after.time < 0.1 * before.time")
    (last,) = (
        item
        for item in explain(parse_graph(PRODUCTS), "gated", rules=[rule], device="ascend910b").attempts
        if item.node == "q"
    )
    assert (last.outcome, last.n_matched, last.n_ops) == ("pattern", 1, 2)
    assert last.reason == (
        "there is no other node for `MatMul(x, B: const T[D, N])`:"
        " none that it could be reads `x` and comes after `p`"
    )


def test_what_a_rule_has_made_is_no_place_that_it_missed() -> None:
    rule = gated("after.time < 10 * before.time")
    found = explain(parse_graph(PRODUCTS), "gated", rules=[rule], device="ascend910b")
    assert found.applied == {"gated": ("p",)} and found.attempts == ()


def test_a_rule_that_comes_first_takes_the_node() -> None:
    graph = net(
        "    input r: f32[1, 4, 6, 6]\n    c = Conv(x, W)\n    s = Add(c, r)\n    y = Relu(s)\n    return y\n"
    )
    found = only(graph, "conv_add")
    assert found.outcome == "lost" and "conv_add_relu" in found.reason
    free = explain(graph, "conv_add", disable=["conv_add_relu"])
    assert len(free.applied["conv_add"]) == 1 and free.attempts == ()


def test_an_applied_rule_has_nothing_to_excuse() -> None:
    graph = net(f"{CONV_BN}    return y\n")
    found = explain(graph, "conv_bn")
    assert found.applied == {"conv_bn": ("y",)} and found.attempts == () and found.missing == {}


# ---------------------------------------------------------------- not tried at all
FP16_ONLY = """\
gerules 1
ruleset my.rules "mine":
    when precision == "fp16"    else "precision is not fp16"
rule twice in my.rules "x + x is 2 * x":
    match:
        y = Add(x, x)
    rewrite:
        y = Mul(x, 2.0)
    test:
        x: f32[2]
"""


def test_rules_that_are_off_say_why() -> None:
    graph = net("    y = Relu(x)\n    return y\n")
    assert explain(graph, "conv_bn", disable=["fold"]).off == {"conv_bn": "it is disabled by the name fold"}
    old = parse_graph(HEAD.replace("opset 17", "opset 13") + "    y = Relu(x)\n    return y\n")
    assert explain(old, "layer_norm").off == {"layer_norm": "it needs opset >= 17; the graph has 13"}
    assert "by default" in explain(graph, "bottleneck").off["bottleneck"]
    strict = explain(graph, "conv_bn", profile="strict")
    assert strict.off == {"conv_bn": "it is inexact, and inexact rules are not allowed"}


def test_a_rule_for_another_precision_is_off() -> None:
    rules = [Source("mine.ger", FP16_ONLY)]
    graph = net("    y = Add(x, x)\n    return y\n")
    assert explain(graph, "twice", rules=rules).off == {"twice": "precision is not fp16"}
    assert explain(graph, "twice", rules=rules, precision="fp16").off == {}


# ---------------------------------------------------------------- names
@pytest.mark.parametrize(
    ("rule", "node", "code", "note"),
    [
        ("conv_bm", None, "E40052", "did you mean conv_bn?"),
        ("conv_bn", "yy", "E10006", "did you mean y?"),
    ],
)
def test_unknown_names(rule: str, node: str | None, code: str, note: str) -> None:
    graph = net("    y = Conv(x, W)\n    return y\n")
    with pytest.raises(GerulesError) as caught:
        explain(graph, rule, node=node)
    (found,) = caught.value.diagnostics
    assert found.code.code == code and note in found.notes
    with pytest.raises(GerulesError, match="yy"):
        why(graph, "yy")


def test_an_alias_stands_for_its_rules() -> None:
    assert "conv_bn" in explain(net("    y = Conv(x, W)\n    return y\n"), "ConvBatchnormFusionPass").rules


# ---------------------------------------------------------------- all rules
def test_alike_failures_are_one_group() -> None:
    lines = "".join(
        f"    c{i} = Conv(x, W{i})\n"
        f"    y{i} = BatchNormalization(c{i}, g, b, m, v)\n"
        f"    r{i} = Sigmoid(c{i})\n"
        for i in range(5)
    )
    weights = "".join(f"    W{i}: const f32[4, 3, 3, 3] = random({i + 2})\n" for i in range(5))
    outputs = ", ".join(f"y{i}, r{i}" for i in range(5))
    found = explain(net(f"{NORM}{weights}{lines}    return {outputs}\n"))
    group = next(item for item in found.groups() if item.best.rule == "conv_bn")
    assert group.count == 5 and len(group.examples) == 3
    ranked = [item.nearness for item in found.attempts if item.outcome != "lost"]
    assert ranked == sorted(ranked, reverse=True)


@pytest.mark.parametrize("n_shapes", [1, 2, 6])
def test_what_is_seen_differently_in_one_group_is_told_apart(n_shapes: int) -> None:
    n_places = 7
    sizes = [min(place, n_shapes - 1) + 2 for place in range(n_places)]
    inputs = "".join(f"    input a{place}: f32[{size}]\n" for place, size in enumerate(sizes))
    nodes = "".join(f"    b{place} = Relu(a{place})\n" for place in range(n_places))
    outputs = ", ".join(f"b{place}" for place in range(n_places))
    graph = gerules.parse_graph(f"graph g:\n    opset 17\n{inputs}{nodes}    return {outputs}\n")
    found = find_pattern(graph, "Relu(x)", where="x.shape[0] > 99", near=True)
    (group,) = found.near
    assert group.count == n_places
    assert [(item.seen, item.count) for item in group.sights] == [
        (f"x: f32[{size}]", sizes.count(size)) for size in dict.fromkeys(sizes)
    ]
    lines = [line.strip() for line in group_lines(1, group)]
    shown = [line.removeprefix("seen").strip() for line in lines if "x: f32" in line or "sights" in line]
    if n_shapes == 1:
        assert shown == ["x: f32[2]"]
    elif n_shapes == 2:
        assert shown == ["x: f32[2]  at b0", "x: f32[3]  at b1 and 5 more"]
    else:
        assert shown == [*(f"x: f32[{size}]  at b{size - 2}" for size in (2, 3, 4, 5)), "and 2 other sights"]


def test_explaining_does_not_change_what_is_compiled() -> None:
    graph = net(f"{CONV_BN}    z = Relu(y)\n    return z\n")
    watched = compile_graph(graph, shipped_rules(), options_of({}), witness=Recorder(None))
    plain = gerules.compile(graph)
    assert print_graph(watched.graph) == print_graph(plain.graph)


# ---------------------------------------------------------------- why
def test_a_node_is_told_from_its_sources_to_what_is_left() -> None:
    graph = net(f"{CONV_BN}    z = Relu(y)\n    return z\n")
    for name in ("c", "y", "z"):
        story = why(graph, name)
        assert [step.rule for step in story.steps] == ["conv_bn", "conv_relu"]
        assert story.origins == ("c: Conv", "y: BatchNormalization", "z: Relu")
        assert story.steps[0].phase == "fold_weights" and story.steps[0].inexact
        (final,) = story.finals
        assert final.endswith("ge::ConvRelu")
    assert why(graph, final.partition(":")[0]).steps == why(graph, "c").steps


def test_what_is_gone_is_told_too() -> None:
    head = HEAD + "    one: const f32[4] = fill(1.0)\n"
    graph = net("    k = Add(one, one)\n    i = Identity(x)\n    y = Conv(i, W, k)\n    return y\n", head)
    assert why(graph, "k").fates == {"k: Add": "folded to a constant in prepare"}
    (step,) = why(graph, "i").steps
    assert step.rule == "drop_identity" and step.added == ()


# ---------------------------------------------------------------- real models
def test_bert_tells_what_attention_took() -> None:
    path = find("bert_mini_ts")
    found = explain(path, "sdpa")
    assert len(found.applied["sdpa"]) == 4
    assert all(item.reason for item in found.attempts)
    near = explain(path)
    assert any(item.rule == "merge_matmuls_bias" and item.outcome == "gate" for item in near.attempts)


def test_resnet_tells_what_came_first() -> None:
    path = find("resnet50_ts")
    found = explain(path, "conv_add")
    (group,) = found.groups()
    assert group.count == 16 and "conv_add_relu" in group.best.reason
    story = why(path, found.attempts[0].node)
    assert [step.rule for step in story.steps] == ["conv_bn", "conv_add_relu"]


def test_operators_that_an_earlier_phase_took_are_told() -> None:
    own = Source(
        "own.ger",
        "rule own_pad in own.late:\n    match: y = Conv(Pad(x, q: const), W, **)\n"
        "    rewrite: y = GlobalAveragePool(x)\n",
    )
    pad = "    q: const i64[8] = [0, 0, 1, 1, 0, 0, 1, 1]\n    p = Pad(x, q)\n"
    graph = net(f"{pad}    y = Conv(p, W)\n    return y\n")
    found = explain(graph, "own_pad", rules=[own])
    assert "needs Conv that reads Pad, which the graph has none of" in found.missing["own_pad"]
    assert found.missing["own_pad"][-1] == "the model has them; pad_into_conv (fold_weights) took p, y"
    bare = explain(net("    y = Conv(x, W)\n    return y\n"), "own_pad", rules=[own])
    assert bare.missing["own_pad"] and not any("took" in line for line in bare.missing["own_pad"])


@pytest.mark.parametrize(
    ("name", "value", "finals"),
    [
        ("x", "an input, f32[2,1024,1024], read by m, n", 1),
        ("W", "a constant, f32[1024,4], read by m", 0),
    ],
)
def test_an_input_and_a_constant_are_told_as_what_they_are(name: str, value: str, finals: int) -> None:
    story = why(parse_graph(GATE), name, device="ascend910b", precision="fp32")
    assert story.value.replace(", ", ",") == value.replace(", ", ",")
    assert (story.steps, story.origins, len(story.finals)) == ((), (), finals)


def test_an_input_is_no_place_of_a_rule() -> None:
    with pytest.raises(GerulesError, match=r"x is an input, .*read by m, n") as fault:
        explain(parse_graph(GATE), node="x")
    assert fault.value.diagnostics[0].code.code == "E10006"
