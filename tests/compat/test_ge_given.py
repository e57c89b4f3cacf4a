"""What is given to the interface of the Graph Engine: elements, shapes, and things of the wrong kind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gerules.compat import ge


def relu_net() -> ge.Graph:
    """Relu(x) of two elements."""
    builder = ge.GraphBuilder("net")
    return builder.build_and_reset([ge.es.all.Relu(builder.create_input(0, name="x", shape=[2]))])


def test_data_is_as_deep_as_the_shape_is_long() -> None:
    builder = ge.GraphBuilder("scalar")
    x = builder.create_input(0, shape=[2, 3])
    session = ge.Session()
    session.add_graph(1, builder.build_and_reset([ge.es.all.ReduceMax(x, [0, 1])]))
    (made,) = session.run_graph(1, [ge.Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))])
    assert (made.shape, made.data, made.get_data()) == ([], 5.0, 5.0)


I32, U32, U64 = ge.DataType.DT_INT32, ge.DataType.DT_UINT32, ge.DataType.DT_UINT64


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        *((value, I32) for value in (2**40, 3e9, -1e30, float("nan"), float("inf"), 1.5, "3", 2**70)),
        ([1, 2.5], I32), (-1, U32), (2.0**64, U64), (2**63, ge.DataType.DT_INT64), (2, ge.DataType.DT_BOOL),
        (8, ge.DataType.DT_INT4), (1e300, ge.DataType.DT_FLOAT), (1e6, ge.DataType.DT_FLOAT16),
        (1e39, ge.DataType.DT_BF16), (1 + 2j, ge.DataType.DT_FLOAT), ("a", ge.DataType.DT_FLOAT),
        (1, ge.DataType.DT_STRING), (1, ge.DataType.DT_UNDEFINED), (1, 99), (1e39, ge.DataType.DT_COMPLEX64),
    ],
)  # fmt: skip
def test_what_a_type_cannot_hold_is_told(value: object, data_type: ge.DataType) -> None:
    builder = ge.GraphBuilder("net")
    with pytest.raises(ge.GeError) as error:
        builder.create_const(value, data_type)
    assert error.value.code == "E41007"
    with pytest.raises(ge.GeError) as error:
        ge.Tensor(value, data_type=data_type)
    assert error.value.code == "E41007"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [2**40, 3e9, float("nan"), 1.5, "3", np.int64(1).item() + 0.25])
def test_numbers_beside_whole_numbers_are_whole(value: object) -> None:
    builder = ge.GraphBuilder("net")
    x = builder.create_input(0, data_type=I32, shape=[2])
    for compute in (lambda: x + value, lambda: value * x, lambda: ge.es.all.Maximum(x, value)):
        with pytest.raises(ge.GeError) as error:
            compute()
        assert error.value.code == "E41007"


@pytest.mark.filterwarnings("error")
def test_what_a_type_holds_is_held() -> None:
    kinds = ge.DataType
    held = {
        U64: [0, 2**64 - 1], I32: [-(2**31), 2**31 - 1], kinds.DT_INT64: [-(2**63), 2**63 - 1],
        kinds.DT_INT8: [-128, 127], kinds.DT_INT4: [-8, 7], kinds.DT_BOOL: [False, True],
        kinds.DT_FLOAT: [float("inf"), -float("inf")], kinds.DT_FLOAT16: [65504.0, 0.5],
    }  # fmt: skip
    for data_type, values in held.items():
        tensor = ge.Tensor(values, data_type=data_type)
        assert (tensor.data, tensor.data_type) == (values, data_type)
    assert ge.Tensor([2.0, -3.0], data_type=I32).data == [2, -3]
    assert ge.Tensor([7, 1]).set_data_type(kinds.DT_INT4).set_data_type(kinds.DT_UINT8).data == [7, 1]


@pytest.mark.parametrize("shape", ["ab", [1.5], [-5], [-3], [-2, 1], 3, [True], [None]])
def test_what_is_no_shape_is_told_at_the_call(shape: object) -> None:
    builder = ge.GraphBuilder("net")
    x = builder.create_input(0)
    calls = (
        lambda: builder.create_input(1, shape=shape), lambda: ge.TensorDesc(shape), lambda: ge.Shape(shape),
        lambda: x.set_shape(shape), lambda: ge.Tensor([1], shape=shape),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(ge.GeError) as error:
            call()
        assert error.value.code == "E41007"


BUILDER = ge.GraphBuilder("calls")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: ge.Session().add_graph(1, None), "E41004"),
        (lambda: ge.Session().add_graph([], ge.Graph()), "E41006"),
        (lambda: ge.Session(5), "E10003"),
        (lambda: ge.ge_initialize(5), "E10003"),
        (lambda: ge.offline_compile(None, "x"), "E41004"),
        (lambda: ge.offline_compile(relu_net(), None), "E10004"),
        (lambda: ge.build_model("x"), "E41004"),
        (lambda: ge.bundle_build_model([None]), "E41004"),
        (lambda: ge.bundle_build_model([ge.GraphWithOptions(None)]), "E41004"),
        (lambda: ge.save_model("x", None), "E41006"),
        (lambda: ge.bundle_save_model("x", None), "E41006"),
        (lambda: BUILDER.create_input("a"), "E41004"),
        (lambda: BUILDER.create_input(-1), "E41004"),
        (lambda: BUILDER.create_input(0, data_type=99), "E41007"),
        (lambda: BUILDER.create_input(0, format=99), "E41007"),
        (lambda: BUILDER.create_const_float(None), "E41007"),
        (lambda: BUILDER.create_vector_int64(3), "E41007"),
        (lambda: BUILDER.set_graph_output(None, 0), "E41004"),
        (lambda: BUILDER.build_and_reset([None]), "E41004"),
    ],
)
def test_calls_with_the_wrong_thing_have_a_code(call: Callable[[], object], code: str) -> None:
    with pytest.raises(ge.GeError) as error:
        call()
    assert error.value.code == code


def test_arrays_are_no_tensors() -> None:
    session = ge.Session()
    session.add_graph(1, relu_net())
    with pytest.raises(ge.GeError, match="is a ndarray, no Tensor"):
        session.run_graph(1, [np.zeros(2, np.float32)])
