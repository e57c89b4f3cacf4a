"""Models as records: what is written comes back, faults are named, and nothing is left half-written."""

from __future__ import annotations

import resource
import struct
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gerules.backend.om import (
    ABSENT,
    Edge,
    OmCopy,
    OmError,
    OmGraph,
    OmInterface,
    OmKernel,
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
    constant_bytes,
    describe_tensor,
    floats,
    ints,
    read_bool,
    read_container,
    read_float,
    read_floats,
    read_int,
    read_ints,
    read_om,
    read_text,
    read_texts,
    tensor_type,
    texts,
    write_om,
)
from gerules.backend.om import weights as module
from gerules.backend.om.header import PartitionType
from gerules.backend.om.model import (
    NO_ATTRS,
    Expression,
    ExternalDType,
    FloatLists,
    InputKind,
    IntLists,
    ListKind,
    NamedAttrs,
    OmAttr,
    Prototype,
    RawText,
    Workspace,
)
from gerules.backend.om.numbers import DTYPES, FORMAT_NAMES
from gerules.backend.om.proto import ModelDef, ModelTaskDef
from gerules.backend.om.weights import NO_WEIGHTS, StoredWeights
from gerules.backend.om.write import om_chunks
from gerules.ir.dtype import DType
from gerules.ir.layout import Format
from gerules.ir.types import TensorType
from tests.backend.om.samples import WEIGHT, conv_model

int64 = st.integers(-(1 << 63), (1 << 63) - 1)
size = st.integers(0, 1 << 40)
number32 = st.floats(width=32)
# Lone surrogates are no text; everything else is.
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
layouts = st.sampled_from([*FORMAT_NAMES.values(), "mine"])
shapes = st.lists(st.integers(-2, 9), max_size=4).map(tuple)


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


raw_texts = st.binary(min_size=1, max_size=6).filter(lambda data: not is_text(data)).map(RawText)


def attr_maps(values: st.SearchStrategy[OmAttr], max_size: int = 3) -> st.SearchStrategy[object]:
    keys = names.filter(lambda name: not name.startswith("\0"))
    found = st.dictionaries(keys, values, max_size=max_size)
    # Files keep attributes sorted.
    return found.map(lambda attrs: {name: attrs[name] for name in sorted(attrs)} or NO_ATTRS)


no_attrs = st.just(NO_ATTRS)


@st.composite
def tensors(draw: st.DrawFn, attrs: st.SearchStrategy[object] = no_attrs) -> OmTensor:
    layout = draw(layouts)
    is_packed = layout != "mine"
    return OmTensor(
        draw(st.integers(0, 60)), draw(shapes), layout, draw(text), draw(size), draw(size), draw(size),
        draw(st.none() | shapes), draw(layouts | st.just("")), draw(st.sampled_from(DTYPES)).proto,
        draw(st.integers(0, 0xFFFF)) if is_packed else 0, draw(st.integers(0, 15)) if is_packed else 0,
        draw(attrs), draw(st.sampled_from(["NPU", "CPU", ""])), draw(st.none() | st.integers(0, 9)),
        draw(st.booleans()), draw(st.booleans()),
    )  # fmt: skip


values = st.builds(TensorValue, tensors(), st.binary(max_size=8))
dtypes = st.builds(ExternalDType, int64)


def list_of(kind: ListKind, items: st.SearchStrategy[object]) -> st.SearchStrategy[OmList]:
    return st.lists(items, max_size=3).map(lambda found: OmList(kind, tuple(found)))


plain: st.SearchStrategy[OmAttr] = st.one_of(
    int64, number32, st.booleans(), text, raw_texts, st.binary(max_size=8), dtypes, values, st.none(),
    st.builds(Expression, st.binary(max_size=8)),
    st.lists(st.lists(int64, max_size=2).map(tuple), max_size=3).map(lambda rows: IntLists(tuple(rows))),
    list_of(ListKind.TEXT, text | raw_texts), list_of(ListKind.INT, int64),
    list_of(ListKind.FLOAT, number32), list_of(ListKind.BOOL, st.booleans()),
    list_of(ListKind.BYTES, st.binary(max_size=4)), list_of(ListKind.DTYPE, dtypes),
    list_of(ListKind.TENSOR, values), list_of(ListKind.DESC, tensors()),
)  # fmt: skip
attrs_of_ops = attr_maps(
    plain
    | st.builds(NamedAttrs, text, attr_maps(plain, 2))
    | list_of(ListKind.NAMED, st.builds(NamedAttrs, text, attr_maps(plain, 2)))
    | st.builds(OmGraph, text)
)


@st.composite
def graphs(draw: st.DrawFn, name: str) -> OmGraph:
    ops: list[OmOp] = []
    for op_name in draw(st.lists(names, max_size=4, unique=True)):
        edges: list[Edge | None] = []
        descs: list[OmTensor] = []
        for above in draw(st.lists(st.none() | st.sampled_from([*ops, None]), max_size=3)):
            edges.append(None if above is None else Edge(above.name))
            # A consumer describes what the producer makes.
            descs.append(ABSENT if above is None else above.output_descs[0])
        slots = tuple(draw(st.lists(text, min_size=len(edges), max_size=len(edges), unique=True)))
        ops.append(
            OmOp(
                op_name, draw(st.sampled_from(["Relu", "Add", "Übergang"])), tuple(edges),
                (ops[0].name,) if ops and draw(st.booleans()) else (),
                tuple(descs), (draw(tensors(attr_maps(plain, 1))), *draw(st.lists(tensors(), max_size=1))),
                draw(attrs_of_ops), slots, ("y",), tuple(draw(st.lists(text, max_size=2))),
                draw(st.none() | st.just(Prototype((("x", InputKind.DYNAMIC),), (("y", True),), ("axis",)))),
                tuple(draw(st.lists(size, max_size=2))), tuple(draw(st.lists(size, max_size=2))),
                tuple(Workspace(*pair) for pair in draw(st.lists(st.tuples(size, size), max_size=2))),
                tuple(draw(st.lists(st.booleans(), max_size=2))), (), draw(st.integers(-1, 5)), len(ops),
            )
        )  # fmt: skip
    edges_out = tuple(Edge(op.name) for op in ops[-1:])
    return OmGraph(name, tuple(ops), edges_out, edges_out, draw(attr_maps(plain, 1)))


ports = st.builds(
    OmPort, text, size, st.sampled_from([row.proto for row in DTYPES]),
    st.sampled_from([*FORMAT_NAMES.values()]), shapes, shapes,
    st.lists(st.tuples(int64, int64), max_size=2).map(tuple),
)  # fmt: skip
rows = st.lists(st.lists(st.integers(0, 99), max_size=3).map(tuple), max_size=3).map(tuple)
interfaces = st.builds(
    OmInterface, st.lists(ports, min_size=1, max_size=2).map(tuple), st.lists(ports, max_size=2).map(tuple),
    st.lists(st.integers(1, 99), max_size=3).map(tuple), rows, rows,
    st.lists(text, max_size=2).map(tuple), st.lists(text, max_size=2).map(tuple),
)  # fmt: skip
u32 = st.integers(0, 99)
kernels = st.builds(OmKernel, text, text, u32, st.binary(max_size=9), text, u32, text)
tasks = st.one_of(
    st.builds(OmTask, st.just(0), u32, u32, kernel=kernels, private=st.binary(max_size=4)),
    st.builds(OmTask, st.sampled_from([1, 2]), u32, st.none() | u32, u32),
    st.builds(OmTask, st.just(13), u32, u32, copy=st.builds(OmCopy, size, size, size, size, u32)),
    st.builds(OmTask, st.just(8), u32, u32, activates=u32),
)


@st.composite
def models(draw: st.DrawFn, depth: int = 1) -> OmModel:
    stored = draw(st.binary(max_size=40))
    return OmModel(
        draw(names.filter(lambda name: "\0" not in name)),
        tuple(draw(graphs(name)) for name in draw(st.lists(names, min_size=1, max_size=2, unique=True))),
        draw(attr_maps(plain)),
        StoredWeights(memoryview(stored)),
        draw(interfaces),
        OmTasks(tuple(draw(st.lists(tasks, max_size=3))), draw(size), draw(size), (('key', 'värde'),)),
        draw(size), draw(size), draw(st.integers(1, 9)), draw(u32), draw(u32),
        draw(st.sampled_from(["1.11.z.0", "9"])), draw(st.integers(0, 1)), draw(st.booleans()) or depth == 0,
    )  # fmt: skip


def as_text(model: OmModel) -> str:
    """The model in every detail: unlike equality, it tells 1 from True and knows that nan is nan."""
    return repr(replace(model, weights=NO_WEIGHTS, submodels=()))


@settings(max_examples=200, deadline=None)
@given(models())
def test_what_is_written_is_read(model: OmModel) -> None:
    again = read_om(b"".join(om_chunks(model)))
    assert as_text(again) == as_text(model)
    assert b"".join(again.weights.chunks()) == b"".join(model.weights.chunks())


@settings(max_examples=30, deadline=None)
@given(models(), models(0))
def test_parts_of_a_dynamic_model_are_read(model: OmModel, part: OmModel) -> None:
    # The header is one for all parts.
    part = replace(part, platform_version=model.platform_version, platform_type=model.platform_type)
    model = replace(model, is_dynamic=True, submodels=(part, part))
    again = read_om(b"".join(om_chunks(model)))
    assert as_text(again) == as_text(model)
    assert [as_text(one) for one in again.submodels] == [as_text(part)] * 2


@settings(max_examples=30, deadline=None)
@given(models())
def test_equal_models_give_equal_files(model: OmModel) -> None:
    assert b"".join(om_chunks(model)) == b"".join(om_chunks(model))


def message_of(model: OmModel) -> ModelDef:
    block = read_container(b"".join(om_chunks(model))).blocks[0]
    assert [part.type for part in block.partitions] == [8, 0, 1, 2]
    return ModelDef.FromString(bytes(block.find(PartitionType.MODEL_DEF) or b""))


def test_what_loaders_read_is_in_the_messages() -> None:
    model = conv_model()
    wire = message_of(model)
    assert (wire.version, wire.custom_version) == (2, "1.11.z.0")
    numbers = {name: wire.attr[name].i for name in ("memory_size", "weight_size", "stream_num", "event_num")}
    assert numbers == {"memory_size": 8192, "weight_size": 5632, "stream_num": 2, "event_num": 1}
    assert wire.attr["label_num"].WhichOneof("value") == "i"
    assert len(wire.attr["om_info_list"].list.i) == 5 and wire.attr["om_info_list"].list.i[0] == 5632
    assert list(wire.attr["attr_model_out_nodes_name"].list.s) == [b"relu:0"]
    image, weight, conv, relu, out = wire.graph[0].op
    assert list(image.input) == [""] and not weight.input
    assert list(conv.input) == ["image:0", "weight:0", ""]
    assert conv.input_desc[2].layout == "FORMAT_RESERVED" and conv.input_desc[2].dtype == 0
    assert (list(conv.src_name), list(conv.src_index)) == (["image", "weight"], [0, 0])
    assert (list(relu.input), list(relu.src_name)) == (["größe/conv:0", "image:-1"], ["größe/conv", "image"])
    assert list(relu.src_index) == [0]
    assert (list(image.dst_name), list(image.dst_index)) == (["relu", "größe/conv"], [-1, 0])
    assert (list(weight.dst_name), list(weight.dst_index)) == (["größe/conv"], [1])
    assert (list(out.src_name), list(out.src_index)) == (["relu"], [0])
    assert not out.dst_name
    assert list(conv.attr["_input_name_key"].list.s) == [b"bias", b"filter", b"x"]
    assert list(conv.attr["_input_name_value"].list.i) == [2, 1, 0]
    assert list(conv.attr["_ir_inputs_value"].list.i) == [0, 0, 1]
    assert (list(conv.input_i), list(conv.is_input_const)) == ([4096, 512], [False, True, False])
    value = weight.attr["value"].t
    assert (value.data, value.desc.data_offset, value.desc.weight_size) == (b"", 512, WEIGHT.nbytes)
    desc = conv.input_desc[0]
    assert (desc.attr["format_for_int"].i, desc.attr["origin_format_for_int"].i) == (3, 0)
    assert desc.attr["origin_shape"].list.val_type == 2
    assert desc.attr["origin_format"].s == b"NCHW"
    for op in wire.graph[0].op:
        for item in op.attr.values():
            assert item.WhichOneof("value") != "list" or item.list.val_type


def test_an_interface_as_bytes() -> None:
    block = read_container(b"".join(om_chunks(conv_model()))).blocks[0]
    data = bytes(block.find(PartitionType.MODEL_INOUT_INFO) or b"")
    shape = struct.pack("<5q", 1, 1, 8, 8, 16)
    # External numbers: FLOAT16 is 1 here and 2 in descriptors.
    port = struct.pack("<QiiIIII", 2048, 3, 1, 5, 40, 40, 0) + b"image" + shape + shape
    out = struct.pack("<QiiIIII", 2048, 3, 1, 6, 40, 40, 0) + b"relu:0" + shape + shape
    expected = struct.pack("<III", 0, 4 + len(port), 1) + port + struct.pack("<III", 1, 4 + len(out), 1) + out
    assert data == expected


def test_an_empty_model_has_tasks_all_the_same() -> None:
    block = read_container(b"".join(om_chunks(OmModel("empty", (OmGraph("g"),))))).blocks[0]
    assert [part.type for part in block.partitions] == [8, 0, 2]
    tasks = ModelTaskDef.FromString(bytes(block.find(PartitionType.TASK_INFO) or b""))
    assert tasks.stream_num == 1


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


# ---------------------------------------------------------------- reading by kind


def test_attributes_by_their_kind() -> None:
    attrs: dict[str, OmAttr] = {
        "i": 3, "f": 0.5, "b": True, "s": "x", "is": ints([1]), "fs": floats([1.5]), "ss": texts(["a"]),
        "none": OmList(ListKind.NONE), "raw": OmList(ListKind.TEXT, (RawText(b"\xff"),)),
    }  # fmt: skip
    assert (read_int(attrs, "i"), read_float(attrs, "f"), read_bool(attrs, "b")) == (3, 0.5, True)
    assert (read_text(attrs, "s"), read_ints(attrs, "is")) == ("x", (1,))
    assert (read_floats(attrs, "fs"), read_texts(attrs, "ss")) == ((1.5,), ("a",))
    assert read_ints(attrs, "none") == read_texts(attrs, "none") == ()
    assert read_int(attrs, "gone", 7) == 7 and read_ints(attrs, "gone", (1,)) == (1,)
    for read, name in (
        (read_int, "b"), (read_int, "gone"), (read_float, "i"), (read_bool, "i"), (read_text, "raw"),
        (read_ints, "fs"), (read_floats, "is"), (read_texts, "raw"), (read_texts, "gone"),
    ):  # fmt: skip
        with pytest.raises(OmError, match="E80013"):
            read(attrs, name)


@pytest.mark.parametrize(
    "value",
    [
        TensorValue(OmTensor(1, (2,), data_offset=512, weight_size_bytes=1 << 40)),
        TensorValue(OmTensor(1, (2,), data_offset=-8, weight_size_bytes=8)),
        TensorValue(OmTensor(1, (3,)), b"\0" * 8),
        TensorValue(OmTensor(1, (-1,)), b"\0" * 4),
        TensorValue(OmTensor(1, (1 << 40, 1 << 40)), b"\0" * 4),
        TensorValue(OmTensor(13, (1,)), b"\0" * 4),
        TensorValue(OmTensor(99, (1,)), b"\0" * 4),
    ],
)
def test_constants_that_do_not_fit(value: TensorValue) -> None:
    with pytest.raises(OmError, match="E80011"):
        constant_array(OmOp("c", "Const", attrs={"value": value}), NO_WEIGHTS)


def test_a_constant_without_value() -> None:
    with pytest.raises(OmError, match="E80013"):
        constant_bytes(OmOp("c", "Const"), NO_WEIGHTS)
