"""Fusion passes in Python: they become rules, fire, ask for their requirements, and are explained."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gerules.compat import ge
from gerules.compat.ge.es.all import GEMM, Add, FastGelu, LayerNorm, MatMul, Mul, Relu, Sigmoid
from gerules.compat.ge.passes import get_registered_passes, load_passes
from gerules.compat.ge.passes.registry import unregister_fusion_pass
from gerules.compat.ge.to_graph import to_graph
from gerules.dsl.fusion_patterns import PATTERNS
from gerules.pipeline.explain import explain


@pytest.fixture(autouse=True)
def passes() -> Iterator[None]:
    """Passes end with the test."""
    known = set(get_registered_passes())
    yield
    for name in set(get_registered_passes()) - known:
        unregister_fusion_pass(name)


def scaled_relu(factor: object) -> ge.Graph:
    """Relu(x * factor)."""
    builder = ge.GraphBuilder("scaled")
    x = builder.create_input(0, name="x", shape=[2, 3])
    return builder.build_and_reset([Relu(Mul(x, factor))])


def fired(graph: ge.Graph) -> list[str]:
    return [step.rule for step in ge.build_model(graph).models[0].trace.applications]


def run(graph: ge.Graph, x: np.ndarray) -> np.ndarray:
    session = ge.Session()
    session.add_graph(1, graph)
    return session.run_graph(1, [ge.Tensor(x)])[0].array


X = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)


def test_a_pass_is_a_rule_that_fires_and_asks_for_requirements() -> None:
    asked: list[tuple[list[str], object, list[int]]] = []

    @ge.register_fusion_pass(name="ReluOfScaledPass", stage=ge.PassStage.AFTER_INFER_SHAPE)
    class ReluOfScaled(ge.PatternFusionPass):
        """Relu(k x) is k Relu(x) for a positive k."""

        @ge.pattern
        def scaled(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            return Relu(Mul(inputs[0], inputs[0].get_owner_builder().create_const_float(1.0)))

        def meet_requirements(self, match_result: ge.MatchResult) -> bool:
            nodes = match_result.get_matched_nodes()
            (const,) = [node for node in nodes if node.type == "Const"]
            value = const.get_attr("value")
            assert isinstance(value, ge.Tensor)
            asked.append(([node.type for node in nodes], value.data, nodes[-1].get_output_desc(0).shape))
            return bool(np.all(value.array > 0))

        def replacement(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            return Sigmoid(inputs[0])

    assert get_registered_passes()["ReluOfScaledPass"] == ("relu_of_scaled_pass_scaled",)
    text = next(item.text for item in PATTERNS if item.name == "relu_of_scaled_pass_scaled")
    assert "m2 = Mul(x0, m1: const, **)" in text
    assert fired(scaled_relu(0.5))[0] == "relu_of_scaled_pass_scaled"
    assert (["Const", "Mul", "Relu"], 0.5, [2, 3]) in asked
    np.testing.assert_allclose(run(scaled_relu(0.5), X), 1 / (1 + np.exp(-X)), rtol=1e-5)
    assert "relu_of_scaled_pass_scaled" not in fired(scaled_relu(-0.5))
    np.testing.assert_allclose(run(scaled_relu(-0.5), X), np.maximum(-0.5 * X, 0), rtol=1e-6)


def test_why_a_pass_does_not_fire_is_explained() -> None:
    @ge.register_fusion_pass(name="NeverPass", stage=ge.PassStage.BEFORE_INFER_SHAPE)
    class Never(ge.PatternFusionPass):
        @ge.pattern
        def any_relu(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            return Relu(inputs[0])

        def meet_requirements(self, match_result: ge.MatchResult) -> bool:
            return False

        def replacement(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            return Sigmoid(inputs[0])

    found = explain(to_graph(scaled_relu(0.5)), rule="never_pass_any_relu")
    assert "meet_requirements of Never says no" in str(
        found.as_json() if hasattr(found, "as_json") else found
    )


def test_several_patterns_share_a_replacement() -> None:
    @ge.register_fusion_pass(name="FuseMatMulAddPass", stage=ge.PassStage.BEFORE_INFER_SHAPE)
    class FuseMatMulAdd(ge.PatternFusionPass):
        @ge.pattern
        def added_last(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            a, b, c = inputs[:3]
            return MatMul(a, b) + c

        @ge.pattern
        def through_relu(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            a, b, c = inputs[:3]
            return Add(MatMul(Relu(a), b), c)

        def replacement(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            a, b, c = inputs[:3]
            return GEMM(a, b, c, 1.0, 1.0)

    builder = ge.GraphBuilder("net")
    x = builder.create_input(0, name="x", shape=[2, 3])
    w, k = np.ones((3, 4), np.float32), np.arange(4, dtype=np.float32)
    graph = builder.build_and_reset([MatMul(x, builder.create_const(ge.Tensor(w))) + ge.Tensor(k)])
    assert fired(graph)[0] == "fuse_mat_mul_add_pass_added_last"
    np.testing.assert_allclose(run(graph, X), X @ w + k, rtol=1e-5)


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_constants_are_matched_by_value_when_asked(factor: float) -> None:
    @ge.register_fusion_pass(name="DoublePass", stage=ge.PassStage.AFTER_INFER_SHAPE)
    class Double(ge.PatternFusionPass):
        def __init__(self) -> None:
            super().__init__(
                ge.PatternMatcherConfigBuilder().enable_const_value_match().enable_ir_attr_match().build()
            )

        def patterns(self) -> list[ge.Graph]:
            builder = ge.GraphBuilder("pattern")
            return [builder.build_and_reset([Mul(builder.create_input(0), 2.0)])]

        def replacement(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            return Add(inputs[0], inputs[0])

    assert ("double_pass_pattern0" in fired(scaled_relu(factor))) is (factor == 2.0)
    np.testing.assert_allclose(run(scaled_relu(factor), X), np.maximum(factor * X, 0), rtol=1e-6)


def test_patterns_of_one_line_are_several() -> None:
    def product(builder: ge.GraphBuilder, type: str) -> ge.Graph:
        x = builder.create_input(0)
        return builder.build_and_reset([Relu(builder.call(type, x, 2.0))])

    @ge.register_fusion_pass(name="TwoPass", stage=ge.PassStage.AFTER_INFER_SHAPE)
    class Two(ge.PatternFusionPass):
        def patterns(self) -> list[ge.Graph]:
            return [product(ge.GraphBuilder("pattern"), type) for type in ("Mul", "Add")]

        def replacement(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            return Sigmoid(inputs[0])

    builder = ge.GraphBuilder("net")
    x = builder.create_input(0, shape=[2, 3])
    rules = fired(builder.build_and_reset([Relu(x + 2.0), Relu(x * 2.0)]))
    assert sorted(rules[:2]) == ["two_pass_pattern0", "two_pass_pattern1"]


def test_numbers_of_an_operator_are_matched_by_value() -> None:
    @ge.register_fusion_pass(name="GeluPass", stage=ge.PassStage.AFTER_INFER_SHAPE)
    class Gelu(ge.PatternFusionPass):
        @ge.pattern
        def gelu(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            return FastGelu(inputs[0])

        def replacement(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            return Relu(inputs[0])

    def gated(factor: float) -> ge.Graph:
        builder = ge.GraphBuilder("net")
        x = builder.create_input(0, shape=[2, 3])
        return builder.build_and_reset([x * Sigmoid(x * factor)])

    assert fired(gated(1.702))[0] == "gelu_pass_gelu"
    assert "gelu_pass_gelu" not in fired(gated(1.5))


def test_a_norm_is_matched_by_the_outputs_that_are_read() -> None:
    @ge.register_fusion_pass(name="NormPass", stage=ge.PassStage.AFTER_INFER_SHAPE)
    class Norm(ge.PatternFusionPass):
        @ge.pattern
        def norm(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            x, gamma, beta = inputs[:3]
            return Relu(LayerNorm(x, gamma, beta)[0])

        def replacement(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
            x, gamma, beta = inputs[:3]
            return LayerNorm(x, gamma, beta, begin_norm_axis=1)[0]

    builder = ge.GraphBuilder("net")
    x = builder.create_input(0, shape=[2, 3])
    ones = ge.Tensor(np.ones(3, np.float32))
    graph = builder.build_and_reset([Relu(LayerNorm(x, ones, ones, begin_norm_axis=1)[0])])
    assert fired(graph)[0] == "norm_pass_norm"


def make(**methods: object) -> type[ge.PatternFusionPass]:
    return type("Made", (ge.PatternFusionPass,), methods)


@ge.pattern
def relu_of(self, inputs):  # type: ignore[no-untyped-def]  # as users write it
    return Relu(inputs[0])


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        ({"replacement": lambda self, inputs: inputs[0]}, "it has no pattern"),
        ({"relu": relu_of}, "NotImplementedError"),
        ({"relu": relu_of, "replacement": lambda self, inputs: 3}, "returned int"),
        ({"relu": relu_of, "replacement": lambda self, inputs: inputs[1]}, "reads input 1"),
        ({"relu": relu_of, "replacement": lambda self, inputs: [inputs[0], Relu(inputs[0])]}, "2 values"),
        (
            {"relu": relu_of, "replacement": lambda self, match_result: match_result.get_matched_nodes()},
            "build the replacement from `inputs` alone",
        ),
        ({"relu": relu_of, "run": lambda self, graph: None}, "method run"),
    ],
)
def test_passes_that_are_none_are_told(methods: dict[str, object], reason: str) -> None:
    register = ge.register_fusion_pass(name="MadePass", stage=ge.PassStage.BEFORE_INFER_SHAPE)
    with pytest.raises(ge.GeError) as error:
        register(make(**methods))
    assert error.value.code == "E41005"
    assert reason in error.value.error_message
    assert "MadePass" not in get_registered_passes()


def test_two_passes_of_one_name_are_told() -> None:
    register = ge.register_fusion_pass(name="MadePass", stage=ge.PassStage.BEFORE_INFER_SHAPE)
    replacement = {"replacement": lambda self, inputs: Sigmoid(inputs[0])}
    register(make(relu=relu_of, **replacement))
    register(make(relu=relu_of, **replacement))  # the same class again, as when a module is loaded again
    other = make(relu=relu_of, **replacement)
    other.__qualname__ = "Other"
    with pytest.raises(ge.GeError, match="another class"):
        register(other)


def test_classes_of_something_else_are_told() -> None:
    with pytest.raises(ge.GeError, match="extends PatternFusionPass"):
        ge.register_fusion_pass(name="No", stage=ge.PassStage.BEFORE_INFER_SHAPE)(int)  # type: ignore[type-var]  # on purpose


PASS_FILE = """
from gerules.compat import ge
from gerules.compat.ge.es.all import Relu, Sigmoid


@ge.register_fusion_pass(name="FromFilePass", stage=ge.PassStage.BEFORE_INFER_SHAPE)
class FromFile(ge.PatternFusionPass):
    @ge.pattern
    def relu(self, inputs):
        return Relu(inputs[0])

    def replacement(self, inputs):
        return Sigmoid(inputs[0])
"""


ASCEND_FILE = """
from ge.es.all import *
from ge.passes import PassStage, PatternFusionPass, pattern, register_fusion_pass


@register_fusion_pass(name="DistributedPass", stage=PassStage.AFTER_INFER_SHAPE)
class Distributed(PatternFusionPass):
    @pattern
    def products(self, inputs):
        a, b, c = inputs[:3]
        return a * b + a * c

    def replacement(self, inputs):
        a, b, c = inputs[:3]
        return Mul(a, b + c)
"""


RULE = "distributed_pass_products"


def products() -> ge.Graph:
    builder = ge.GraphBuilder("products")
    x, y, z = (builder.create_input(at, shape=[2, 3]) for at in range(3))
    return builder.build_and_reset([x * y + x * z])


def test_a_pass_that_was_written_for_ascend_is_loaded_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ascend.py"
    file.write_text(ASCEND_FILE)
    other = types.ModuleType("ge")
    monkeypatch.setitem(sys.modules, "ge", other)
    finders = list(sys.meta_path)
    monkeypatch.setenv("ASCEND_GE_PY_PASS_PATH", str(file))
    ge.ge_initialize({})
    assert fired(products())[0] == RULE
    # What the name meant before, it means again.
    assert sys.modules["ge"] is other
    assert not any(name.startswith(("ge.", "acl.")) for name in sys.modules)
    assert sys.meta_path == finders


@pytest.mark.parametrize("entry", ["cli", "python"])
def test_such_a_pass_is_a_file_of_rules(tmp_path: Path, entry: str) -> None:
    file, graph = tmp_path / "ascend.py", tmp_path / "net.graph"
    file.write_text(ASCEND_FILE)
    graph.write_text(
        "graph net:\n    opset 17\n    input a: f32[2]\n    input b: f32[2]\n    input c: f32[2]\n"
        "    d: f32[2] = Mul(a, b)\n    e: f32[2] = Mul(a, c)\n    f: f32[2] = Add(d, e)\n    return f\n"
    )
    script = (
        "import sys, gerules\n"
        "model = gerules.compile(sys.argv[1], rules=[sys.argv[2]])\n"
        "print([step.rule for step in model.trace.applications])"
    )
    command = (
        ["-m", "gerules.cli", "explain", str(graph), "--rules", str(file), "--rule", RULE]
        if entry == "cli" else ["-c", script, str(graph), str(file)]
    )  # fmt: skip
    found = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    assert RULE in found.stdout


def test_passes_are_found_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.py").write_text(PASS_FILE)
    monkeypatch.setenv("ASCEND_GE_PY_PASS_PATH", str(tmp_path))
    ge.ge_initialize({})
    assert "from_file_pass_relu" in fired(scaled_relu(1.5))
    monkeypatch.setenv("ASCEND_GE_PY_PASS_PATH", str(tmp_path / "none.py"))
    with pytest.raises(ge.GeError) as error:
        load_passes()
    assert error.value.code == "E10001"
