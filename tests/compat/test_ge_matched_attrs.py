"""What a pass is told of the attributes of matched operators: those of the model, not of its pattern."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from gerules.compat import ge
from gerules.compat.ge.es import all as es
from gerules.compat.ge.graph.types import DataType
from gerules.compat.ge.passes import matched_attrs
from gerules.compat.ge.passes.registry import unregister_fusion_pass
from gerules.dsl.fusion_patterns import PATTERNS
from gerules.errors import GerulesError

Attrs = Mapping[str, object]
NAME = "AskingPass"


@pytest.fixture(autouse=True)
def passes() -> Iterator[None]:
    """Passes end with the test."""
    yield
    unregister_fusion_pass(NAME)


def built(type: str, inputs: Sequence[object], attrs: Attrs, *, is_open: bool = False) -> ge.Graph:
    """A graph of one operator; a shape stands for an input, anything else for a constant."""
    builder = ge.GraphBuilder("g")
    given: list[object] = []
    for number, item in enumerate(inputs):
        if not isinstance(item, tuple):
            given.append(item if item is None else builder.create_const_int64(item))
        elif is_open:
            given.append(builder.create_input(number))
        else:
            given.append(builder.create_input(number, shape=list(item)))
    if type.startswith("Concat"):
        given = [given]
    made = getattr(es, type)(*given, **attrs)
    return builder.build_and_reset([made[0] if isinstance(made, tuple) else made])


def asked(
    type: str, inputs: Sequence[object], pattern: Attrs, model: Attrs, names: Sequence[str], *,
    config: ge.PatternMatcherConfig | None = None,
) -> list[dict[str, object]]:  # fmt: skip
    """What `get_attr` says at each match; a text for a fault."""
    told: list[dict[str, object]] = []

    @ge.register_fusion_pass(name=NAME, stage=ge.PassStage.AFTER_INFER_SHAPE)
    class Asking(ge.PatternFusionPass):
        def __init__(self) -> None:
            super().__init__(config)

        def patterns(self) -> list[ge.Graph]:
            return [built(type, inputs, pattern, is_open=True)]

        def meet_requirements(self, match_result: ge.MatchResult) -> bool:
            node = match_result.get_matched_nodes()[-1]
            assert node.type == type
            found: dict[str, object] = {}
            for name in names:
                assert node.has_attr(name)
                try:
                    found[name] = node.get_attr(name)
                except GerulesError as error:
                    found[name] = error.diagnostics[0].code.code
            told.append(found)
            return False

        def replacement(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            return es.Relu(inputs[0])

    ge.build_model(built(type, inputs, model))
    return told


CONV = {"strides": [1, 1, 1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1, 1, 1], "groups": 1}
WIDE = {"strides": [1, 1, 2, 3], "pads": [1, 2, 3, 4], "dilations": [1, 1, 2, 1], "groups": 2}
POOL = {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 2], "pads": [0, 0, 0, 0]}
LARGE = {"ksize": [1, 1, 3, 2], "strides": [1, 1, 2, 1], "pads": [1, 0, 1, 0]}
X = (1, 4, 9, 9)
CASES: dict[str, tuple[Sequence[object], Attrs, Attrs]] = {
    "LeakyRelu": ([X], {"negative_slope": 0.5}, {"negative_slope": 0.25}),
    "Elu": ([X], {"alpha": 2.0}, {"alpha": 0.5}),
    "HardSigmoid": ([X], {}, {"alpha": 0.25, "beta": 0.75}),
    "GeluV2": ([X], {}, {"approximate": "tanh"}),
    "Cast": ([X], {"dst_type": DataType.DT_INT32}, {"dst_type": DataType.DT_INT8}),
    "Conv2D": ([X, (6, 2, 3, 3)], {**CONV, "groups": 2}, WIDE),
    "Conv2DTransposeD": (
        [X, (4, 3, 3, 3)], CONV, {**WIDE, "strides": [1, 1, 3, 2], "output_padding": [0, 0, 2, 1]},
    ),
    "MaxPool": (
        [X], {"ksize": POOL["ksize"], "strides": POOL["strides"], "padding": "VALID"},
        {"ksize": LARGE["ksize"], "strides": LARGE["strides"], "padding": "SAME"},
    ),
    "AvgPool": (
        [X], {"ksize": POOL["ksize"], "strides": POOL["strides"], "padding": "SAME"},
        {"ksize": LARGE["ksize"], "strides": LARGE["strides"], "padding": "VALID"},
    ),
    "MaxPoolV3": ([X], POOL, {**LARGE, "ceil_mode": True, "padding_mode": "CALCULATED"}),
    "AvgPoolV2": ([X], POOL, {**LARGE, "exclusive": False, "ceil_mode": True}),
    "SoftmaxV2": ([X], {}, {"axes": [1]}),
    "LogSoftmaxV2": ([X], {"axes": [0]}, {"axes": [2]}),
    "TransposeD": ([X], {"perm": [0, 1, 3, 2]}, {"perm": [3, 1, 2, 0]}),
    "ConcatD": ([X, X], {"concat_dim": 0}, {"concat_dim": 2}),
    "Flatten": ([X], {}, {"axis": 2}),
    "GatherV2D": ([X, [0, 2]], {"axis": 1}, {"axis": 3}),
    "ReduceMeanD": ([X], {"axes": [1]}, {"keep_dims": True}),
    "Cumsum": ([X, 1], {}, {"exclusive": True, "reverse": True}),
    "TopKV2": ([X, 2], {}, {"dim": 2, "largest": False, "sorted": True}),
}  # fmt: skip


@pytest.mark.parametrize("type", CASES)
def test_attributes_are_those_of_the_model(type: str) -> None:
    inputs, pattern, model = CASES[type]
    found = asked(type, inputs, pattern, {**pattern, **model}, list(model))
    assert found[:1] == [dict(model)]


@pytest.mark.parametrize("type", CASES)
def test_attributes_are_those_of_the_pattern_where_they_are_compared(type: str) -> None:
    inputs, pattern, model = CASES[type]
    strict = ge.PatternMatcherConfigBuilder().enable_ir_attr_match().build()
    assert asked(type, inputs, pattern, {**pattern, **model}, [], config=strict) == []
    names = [name for name in pattern if name not in ("axes",)]
    found = asked(type, inputs, pattern, pattern, names, config=strict)
    assert found[:1] == [{name: pattern[name] for name in names}]


def test_defaults_of_the_model_are_told() -> None:
    (found, *_) = asked("SoftmaxV2", [X], {"axes": [1]}, {"axes": [3]}, ["axes"])
    assert found in ({"axes": [3]}, {"axes": [-1]})


def test_what_is_a_constant_in_the_model_is_not_made_up() -> None:
    for type, pattern, model, name in (
        ("ReduceMeanD", {"axes": [1]}, {"axes": [2]}, "axes"),
        ("TileD", {"multiples": [1, 1, 1, 2]}, {"multiples": [1, 1, 3, 1]}, "multiples"),
    ):
        assert asked(type, [X], pattern, model, [name])[:1] == [{name: "E41002"}]


def test_pads_that_a_mode_chooses_are_not_made_up() -> None:
    found = asked("Conv2D", [X, (6, 4, 3, 3)], CONV, {**CONV, "padding": "SAME"}, ["pads", "padding"])
    assert found[:1] == [{"pads": "E41002", "padding": "SAME"}]


def test_attributes_are_named_in_the_rule_only_where_somebody_asks() -> None:
    asked("LeakyRelu", [X], {}, {}, [])
    (text,) = [item.text for item in PATTERNS if item.name == "asking_pass_pattern0"]
    assert "LeakyRelu(x0, **a0)" in text and "asking_pass_pattern0_holds(m1, x0, a0)" in text
    unregister_fusion_pass(NAME)

    @ge.register_fusion_pass(name=NAME, stage=ge.PassStage.AFTER_INFER_SHAPE)
    class Plain(ge.PatternFusionPass):
        def patterns(self) -> list[ge.Graph]:
            return [built("LeakyRelu", [X], {}, is_open=True)]

        def replacement(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            return es.Relu(inputs[0])

    (text,) = [item.text for item in PATTERNS if item.name == "asking_pass_pattern0"]
    assert "LeakyRelu(x0, **)" in text


@pytest.mark.parametrize(("type", "op"), matched_attrs._TOLD)
def test_attributes_that_are_told_are_those_of_the_operator(type: str, op: str) -> None:
    from gerules.compat.ge.lowering import OPERATORS

    known = OPERATORS[type].attrs
    assert set(matched_attrs.tell_attrs(type, op, {})) <= set(known)
    assert set(matched_attrs.open_attrs(type)) <= set(known)
