"""The registry against `onnx.defs`: every operator at every version."""

from __future__ import annotations

import onnx.defs
import pytest

from gerules.ir import DType
from gerules.ops import Keyword, OpSchema, Param, ParamKind, Schemas

SCHEMAS = Schemas()
EVERY = onnx.defs.get_all_schemas_with_history()


def name_of(raw: onnx.defs.OpSchema) -> str:
    return f"{raw.domain}::{raw.name}" if raw.domain else raw.name


def test_every_schema_of_onnx_converts() -> None:
    for raw in EVERY:
        schema = SCHEMAS.get(name_of(raw), raw.since_version)
        assert schema is not None
        assert schema.since == raw.since_version
        assert [p.name for p in schema.inputs] == [p.name for p in raw.inputs]
        assert set(schema.attrs) == set(raw.attributes)
        assert schema.min_inputs <= raw.min_input
        if schema.max_inputs is not None:
            assert schema.max_inputs == raw.max_input
        for name, attr in raw.attributes.items():
            assert schema.attrs[name].is_required == attr.required
            has_default = attr.default_value.type != 0 and bool(attr.default_value.ByteSize())
            if has_default and attr.default_value.type not in (onnx.AttributeProto.TENSOR,):
                assert schema.attrs[name].default is not None, (name_of(raw), name)


def test_the_version_in_force_is_found() -> None:
    reduce = SCHEMAS.get("ReduceMean", 17)
    assert reduce is not None
    assert reduce.since == 13
    newest = SCHEMAS.get("ReduceMean")
    assert newest is SCHEMAS.get("ReduceMean", SCHEMAS.latest_opset)
    assert SCHEMAS.get("LayerNormalization", 16) is None


@pytest.mark.parametrize("op", ["NoSuchOp", "no.domain::Conv", "::", "", "Conv::", "卷积"])
@pytest.mark.parametrize("opset", [None, 0, -5, 13, 2**70])
def test_what_is_not_known_is_none(op: str, opset: int | None) -> None:
    assert SCHEMAS.get(op, opset) is None


def test_other_domains() -> None:
    tree = SCHEMAS.get("ai.onnx.ml::TreeEnsembleClassifier", 3)
    assert tree is not None
    assert tree.op in SCHEMAS.names()


def test_element_type_attributes_are_dtypes() -> None:
    cast, like, normal = (SCHEMAS.get(op) for op in ("Cast", "EyeLike", "RandomNormal"))
    assert cast is not None and like is not None and normal is not None
    assert (cast.attrs["to"].kind, cast.attrs["to"].is_required) == ("dtype", True)
    assert like.attrs["dtype"].kind == "dtype"
    assert normal.attrs["dtype"].default is DType.F32
    svm = SCHEMAS.get("ai.onnx.ml::SVMClassifier")
    assert svm is not None
    assert svm.attrs["kernel_type"].kind == "string"


@pytest.mark.parametrize(
    ("op", "name", "moved_at", "index"),
    [
        ("ReduceMean", "axes", 18, 1),
        ("ReduceSum", "axes", 13, 1),
        ("Squeeze", "axes", 13, 1),
        ("Unsqueeze", "axes", 13, 1),
        ("Clip", "min", 11, 1),
        ("Clip", "max", 11, 2),
        ("Pad", "pads", 11, 1),
        ("Pad", "value", 11, 2),
        ("Slice", "starts", 10, 1),
        ("Slice", "ends", 10, 2),
        ("Slice", "axes", 10, 3),
        ("Dropout", "ratio", 12, 1),
        ("Upsample", "scales", 9, 1),
        ("TopK", "k", 10, 1),
        ("Split", "split", 13, 1),
        ("Reshape", "shape", 5, 1),
        ("DFT", "axis", 20, 2),
    ],
)
def test_attributes_that_became_inputs(op: str, name: str, moved_at: int, index: int) -> None:
    before = SCHEMAS.attr_or_input(op, name, moved_at - 1)
    after = SCHEMAS.attr_or_input(op, name, moved_at)
    assert before is not None and before.is_attr
    assert after is not None and after.input_index == index
    assert name in SCHEMAS.moved(op)


def test_a_keyword_that_an_operator_never_had() -> None:
    assert SCHEMAS.attr_or_input("Relu", "axes", 13) is None
    assert SCHEMAS.attr_or_input("NoSuchOp", "axes", 13) is None


def test_commutative_and_random() -> None:
    for op, commutes in [("Add", True), ("Sub", False), ("Equal", True), ("MatMul", False), ("Xor", True)]:
        schema = SCHEMAS.get(op)
        assert schema is not None and schema.is_commutative is commutes
    for raw in EVERY:
        schema = SCHEMAS.get(name_of(raw), raw.since_version)
        assert schema is not None
        if raw.name.startswith("Random"):
            assert not schema.is_deterministic
    for op, is_fixed in [("Dropout", False), ("Bernoulli", False), ("If", True), ("Conv", True)]:
        schema = SCHEMAS.get(op)
        assert schema is not None and schema.is_deterministic is is_fixed


def test_a_definition_is_found_in_place_of_a_miss() -> None:
    schemas = Schemas()
    assert schemas.get("ge::Conv2D") is None
    assert schemas.attr_or_input("ge::Conv2D", "filter") is None
    made = OpSchema("ge::Conv2D", 1, (Param("x"), Param("filter", ParamKind.OPTIONAL)), (Param("y"),), {})
    schemas.define(made)
    assert schemas.get("ge::Conv2D", 13) is made
    assert "ge::Conv2D" in schemas.names()
    assert schemas.attr_or_input("ge::Conv2D", "filter") == Keyword("filter", 1)
    assert (made.min_inputs, made.max_inputs) == (1, 2)
