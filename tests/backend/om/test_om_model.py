"""Models as records: what is written comes back, and attributes are read by their kind."""

from __future__ import annotations

import struct
from dataclasses import replace

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
    TensorValue,
    constant_array,
    constant_bytes,
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
    texts,
)
from gerules.backend.om.header import PartitionType
from gerules.backend.om.model import (
    NO_ATTRS,
    Expression,
    ExternalDType,
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
