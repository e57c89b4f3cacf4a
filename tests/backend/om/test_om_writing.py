"""Writing models: the layout of weights, what a file cannot hold, and nothing is left half-written."""

from __future__ import annotations

import resource
import struct
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.backend.om import (
    Edge,
    OmError,
    OmGraph,
    OmInterface,
    OmList,
    OmModel,
    OmOp,
    OmPort,
    OmTask,
    OmTasks,
    OmTensor,
    TaskType,
    TensorValue,
    WeightsBuilder,
    constant_array,
    describe_tensor,
    ints,
    read_om,
    tensor_type,
    texts,
    write_om,
)
from gerules.backend.om import weights as module
from gerules.backend.om.model import (
    FloatLists,
    ListKind,
)
from gerules.backend.om.numbers import DTYPES
from gerules.backend.om.weights import StoredWeights
from gerules.backend.om.write import om_chunks
from gerules.ir.dtype import DType
from gerules.ir.layout import Format
from gerules.ir.types import TensorType
from tests.backend.om.samples import WEIGHT, conv_model

# ---------------------------------------------------------------- weights


def test_the_layout_of_weights() -> None:
    builder = WeightsBuilder()
    one = builder.add(np.arange(200, dtype=np.float32), DType.F32)
    two = builder.add(np.ones(3, np.int8), DType.I8)
    assert (one.offset_bytes, one.size_bytes, two.offset_bytes, two.size_bytes) == (512, 800, 1536, 3)
    # Equal bytes share a place, whatever their shape, type or strides.
    assert builder.add(np.broadcast_to(np.int8(1), (3,)), DType.I8) == two
    assert builder.add(np.ones((3, 1), np.bool_), DType.BOOL) == two
    assert builder.add(np.arange(400, dtype=np.float32)[:200], DType.F32) == one
    data = b"".join(builder.build().chunks())
    assert len(data) == builder.build().size_bytes == 2048
    assert data[:512] == bytes(512)
    assert data[512:1312] == np.arange(200, dtype=np.float32).tobytes()
    assert data[1312:1536] == bytes(224) and data[1536:1539] == b"\1\1\1"


def test_the_tail_of_weights_is_at_least_32_bytes() -> None:
    builder = WeightsBuilder()
    builder.add(np.ones(500, np.int8), DType.I8)
    assert builder.build().size_bytes == 1536


@given(st.data())
def test_arrays_of_any_strides_and_width_come_back(data: st.DataObject) -> None:
    dtype = data.draw(
        st.sampled_from([DType.F32, DType.BF16, DType.I4, DType.U4, DType.I2, DType.U2, DType.C64])
    )
    shape = data.draw(st.lists(st.integers(0, 5), max_size=4))
    n_elements = int(np.prod(shape))
    base = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n_elements, max_size=n_elements)))
    if dtype in (DType.I4, DType.I2):
        base = base - 2
    array = base.reshape(shape).astype(dtype.numpy)
    array = array.transpose(data.draw(st.permutations(range(len(shape)))))
    if array.ndim:
        array = array[:: data.draw(st.sampled_from([-1, 1, 2]))]
        array = np.broadcast_to(array, (data.draw(st.integers(1, 3)), *array.shape))
    builder = WeightsBuilder()
    builder.add(np.ones(3, np.int8), DType.I8)
    place = builder.add(array, dtype)
    stored = StoredWeights(memoryview(b"".join(builder.build().chunks())))
    assert place.size_bytes == dtype.size_bytes(array.size)
    number = next((row.proto for row in DTYPES if row.ir is dtype), None)
    if number is None:
        return
    desc = OmTensor(number, array.shape, data_offset=place.offset_bytes, weight_size_bytes=place.size_bytes)
    op = OmOp("c", "Const", attrs={"value": TensorValue(desc)})
    np.testing.assert_array_equal(constant_array(op, stored), array)


def test_packing_crosses_pieces() -> None:
    array = np.arange(7 * 5 * 3, dtype=np.uint8).reshape(7, 5, 3)[:, ::2] & 15
    whole = b"".join(module.array_bytes(np.ascontiguousarray(array), DType.U4))
    old, module.CHUNK_BYTES = module.CHUNK_BYTES, 5
    try:
        assert b"".join(module.array_bytes(array, DType.U4)) == whole
    finally:
        module.CHUNK_BYTES = old
    flat = array.reshape(-1)
    assert whole[0] == flat[0] | flat[1] << 4


def test_large_weights_are_not_copied(tmp_path: Path) -> None:
    n_bytes = 96 << 20
    builder = WeightsBuilder()
    own = np.zeros(n_bytes // 2, np.uint8)
    tracemalloc.start()
    try:
        builder.add(np.broadcast_to(np.float32(3), (n_bytes // 2048, 256)), DType.F32)
        builder.add(own, DType.U8)
        written = write_om(replace(conv_model(), weights=builder.build()), tmp_path / "large.om")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert written > n_bytes
    assert peak < 16 << 20
    weights = read_om(tmp_path / "large.om").weights
    assert weights.view(512, 8) == struct.pack("<ff", 3, 3)


# ---------------------------------------------------------------- writing a file


def refuse(model: OmModel) -> list[str]:
    with pytest.raises(OmError) as caught:
        b"".join(om_chunks(model))
    return [item.code.code for item in caught.value.diagnostics]


def with_ops(*ops: OmOp) -> OmModel:
    return OmModel("m", (OmGraph("g", ops),))


X = OmTensor(1, (2,))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (OmModel("m", ()), ["E80021"]),
        (OmModel("m", (OmGraph("g"), OmGraph("g"))), ["E80010"]),
        (with_ops(OmOp("a", "A"), OmOp("a", "A")), ["E80010"]),
        (with_ops(OmOp("a", "A", (Edge("b"),), ("c",), (X,), subgraphs=("d",))), ["E80010"] * 3),
        (with_ops(OmOp("a", "A", output_descs=(X,)), OmOp("b", "B", (Edge("a", 1),), (), (X,))), ["E80010"]),
        (with_ops(OmOp("a", "A", output_descs=(X,)), OmOp("b", "B", (Edge("a"),), (), (X, X))), ["E80010"]),
        (
            with_ops(
                OmOp("a", "A", output_descs=(X,)), OmOp("b", "B", (Edge("a"),), (), (replace(X, dtype=2),))
            ),
            ["E80010"],
        ),
        (with_ops(OmOp("a", "Const", attrs={"value": 1})), ["E80010"]),
        (with_ops(OmOp("", "A")), ["E80010"]),
        (with_ops(OmOp("a", "A", attrs={"\0x": 1, "td": X, "f": FloatLists(())})), ["E80021"] * 3),
        (with_ops(OmOp("a", "A", attrs={"none": OmList(ListKind.NONE)})), ["E80021"]),
        (with_ops(OmOp("a", "A", attrs={"big": 1 << 63, "wrong": ints([1.5])})), ["E80021"] * 2),
        (with_ops(OmOp("a", "A", attrs={"mixed": OmList(ListKind.TENSOR, (1,))})), ["E80021"]),
        (with_ops(OmOp("a", "A", attrs={"mixed": texts([1])})), ["E80021"]),
        (with_ops(OmOp("\ud800", "A"), OmOp("b", "B", id=1 << 70)), ["E80021"] * 2),
        (with_ops(OmOp("a", "A", output_descs=(replace(X, dtype=1 << 40),))), ["E80021"]),
        (replace(with_ops(), name="\ud800"), ["E80021"]),
        (replace(with_ops(), memory_size_bytes=-1), ["E80021"]),
        (replace(with_ops(), interface=OmInterface((OmPort("x", -1, 1),))), ["E80021"]),
        (replace(with_ops(), tasks=OmTasks((OmTask(TaskType.END_GRAPH, op_id=1),))), ["E80021"]),
        (replace(with_ops(), tasks=OmTasks((OmTask(0, -1),))), ["E80021"]),
    ],
)
def test_what_a_file_cannot_hold(model: OmModel, expected: list[str]) -> None:
    assert refuse(model) == expected


plain_types = st.builds(
    TensorType, st.sampled_from([row.ir for row in DTYPES if row.ir not in (None, DType.UNKNOWN)]),
    st.lists(st.integers(0, 40), max_size=5).map(tuple), st.sampled_from(Format),
)  # fmt: skip


@given(plain_types)
def test_types_described_come_back(type: TensorType) -> None:
    desc = describe_tensor(type)
    assert desc.shape == type.storage_shape
    assert desc.size_bytes % 32 == 0 and desc.size_bytes - type.size_bytes in range(32, 64)
    assert tensor_type(desc) == type


def test_types_with_unknown_parts() -> None:
    desc = describe_tensor(TensorType(DType.F16, ("N", 3, 4, 4), Format.NC1HWC0))
    assert (desc.shape, desc.origin_shape, desc.size_bytes) == ((-2,), (-1, 3, 4, 4), 0)
    assert str(tensor_type(desc)) == "f16[?, 3, 4, 4] @NC1HWC0"
    assert describe_tensor(TensorType(DType.F32, ("N", 3))).shape == (-1, 3)
    unknown = describe_tensor(TensorType(DType.F32))
    assert unknown.shape == (-2,) and tensor_type(unknown) == TensorType(DType.F32)
    weight = TensorType(DType.F16, (32, 4, 3, 3), Format.FRACTAL_Z, groups=8)
    assert describe_tensor(weight).sub_format == 8 and tensor_type(describe_tensor(weight)) == weight
    assert tensor_type(OmTensor(25, (1,))) is None and tensor_type(OmTensor(1, (1,), "NC1HWC0_C04")) is None
    with pytest.raises(OmError, match="E80020"):
        describe_tensor(TensorType(DType.F8E4M3FNUZ, (1,)))


def test_strings_are_no_weights() -> None:
    with pytest.raises(OmError, match="E80021"):
        WeightsBuilder().add(np.array(["a"], object), DType.STRING)


class Breaking:
    """Weights whose bytes fail to arrive."""

    size_bytes = 1 << 20

    def __init__(self, fault: BaseException) -> None:
        self.fault = fault

    def chunks(self) -> Iterator[bytes]:
        yield bytes(1 << 19)
        raise self.fault

    def view(self, offset_bytes: int, size_bytes: int) -> memoryview | None:
        return memoryview(bytes(size_bytes))


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), MemoryError()])
def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, fault: BaseException) -> None:
    path = tmp_path / "m.om"
    path.write_bytes(b"before")
    with pytest.raises(type(fault)):
        write_om(replace(conv_model(), weights=Breaking(fault)), path)
    assert [item.name for item in tmp_path.iterdir()] == ["m.om"]
    assert path.read_bytes() == b"before"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
    try:
        with pytest.raises(OmError, match="E10004"):
            write_om(conv_model(), tmp_path / "m.om")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_folders_that_are_not_there_or_are_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    for path in (tmp_path / "none" / "m.om", tmp_path / "taken", tmp_path / "a\0b", tmp_path / "\ud800"):
        with pytest.raises(OmError, match="E10004"):
            write_om(conv_model(), path)
    assert [item.name for item in tmp_path.iterdir()] == ["taken"]


def test_a_new_file_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"")
    write_om(conv_model(), tmp_path / "m.om")
    assert (tmp_path / "m.om").stat().st_mode == (tmp_path / "other").stat().st_mode
    (tmp_path / "m.om").chmod(0o600)
    write_om(conv_model(), tmp_path / "m.om")
    assert (tmp_path / "m.om").stat().st_mode & 0o777 == 0o600


def test_a_file_can_be_written_over_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.om"
    write_om(conv_model(), path)
    model = read_om(path)
    write_om(replace(model, name="again"), path)
    assert read_om(path).name == "again"
    weight = next(op for op in model.root.ops if op.type == "Const")
    np.testing.assert_array_equal(constant_array(weight, model.weights), WEIGHT)
