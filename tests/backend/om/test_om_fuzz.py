"""Damaged and hostile files: whatever the bytes, a reader ends soon, with a model or with an `OmError`."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from gerules.backend.om import OmError, constant_array, read_container, read_om
from gerules.backend.om.escape import escape, unescape
from gerules.backend.om.header import PartitionType
from gerules.backend.om.model import OmModel
from gerules.backend.om.proto import ModelDef
from gerules.backend.om.write import om_chunks
from tests.backend.om.samples import REAL_NAMES, conv_model, real_folder

N_MUTATIONS = 4000
SMALL = b"".join(om_chunks(conv_model()))
"""A file whose every part is small: most mutations hit something that is parsed."""


def read_all(data: bytes) -> OmModel | None:
    """Read a file and everything a user may ask of it; None when it is refused."""
    try:
        model = read_om(data)
        for graph in model.graphs:
            for op in graph.ops:
                if op.type == "Const":
                    constant_array(op, model.weights)
        str(model.interface), str(model.tasks), str(model.attrs)
    except OmError as error:
        assert str(error) and error.code.startswith("E8")
        return None
    return model


def mutate(data: bytes, dice: random.Random, start: int = 0) -> bytes:
    """Change some bytes, cut or double a stretch, or plant a number that means much to parsers."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 8))):
        at = dice.randrange(start, len(changed))
        match dice.randrange(6):
            case 0 | 1:
                changed[at] = dice.randrange(256)
            case 2:
                changed[at] ^= 1 << dice.randrange(8)
            case 3:
                changed[at : at + 8] = dice.choice((b"\xff" * 8, bytes(8), b"\0\0\0\0\xff\xff\xff\x7f"))
            case 4:
                del changed[at : at + dice.randrange(1, 40)]
            case _:
                changed[at:at] = changed[at : at + dice.randrange(1, 40)]
    return bytes(changed)


def repaired(data: bytes) -> bytes:
    """Make the header's length fit, so that the parts behind it are reached."""
    if len(data) < 256:
        return data
    if data[8:12] == b"\0\0\0\x10":
        return data[:76] + struct.pack("<I", len(data) - 256) + data[80:]
    return data[:184] + struct.pack("<Q", len(data) - 256) + data[192:]


def read_many(files: list[bytes]) -> int:
    """Read all; none may take long."""
    n_read = 0
    for data in files:
        started = time.process_time()
        n_read += read_all(data) is not None
        assert time.process_time() - started < 5
    return n_read


def test_mutated_files() -> None:
    dice = random.Random(1)
    read_many([mutate(SMALL, dice) for _ in range(N_MUTATIONS)])


def test_mutated_files_with_a_fitting_length() -> None:
    dice = random.Random(2)
    files = [repaired(mutate(SMALL, dice, 256)) for _ in range(N_MUTATIONS)]
    # Most changes of the weights or of an attribute are still a model: the rest of the reader is reached.
    assert read_many(files) > N_MUTATIONS // 10


def parts_of(data: bytes) -> tuple[bytes, list[tuple[int, bytes]]]:
    file = read_container(data)
    return data[:256], [(part.type, bytes(part.data)) for part in file.blocks[0].partitions]


def assemble(header: bytes, parts: list[tuple[int, bytes]]) -> bytes:
    """Put parts together with a table that fits them."""
    rows, offset = [struct.pack("<II", len(parts), 0)], 0
    for kind, data in parts:
        rows.append(struct.pack("<IIQQ", kind, 0, offset, len(data)))
        offset += len(data)
    return repaired(header + b"".join(rows) + b"".join(data for _, data in parts))


@pytest.mark.parametrize(
    "kind", [PartitionType.MODEL_DEF, PartitionType.MODEL_INOUT_INFO, PartitionType.TASK_INFO]
)
def test_mutated_parts_in_a_sound_container(kind: PartitionType) -> None:
    dice = random.Random(kind)
    header, parts = parts_of(SMALL)
    files = [
        assemble(header, [(one, mutate(data, dice) if one == kind else data) for one, data in parts])
        for _ in range(N_MUTATIONS // 2)
    ]
    read_many(files)


def mutate_message(wire: Message, dice: random.Random) -> None:
    """Change one field somewhere below a message to a value its type allows."""
    while True:
        fields = [field for field, _ in wire.ListFields()]
        if not fields or dice.random() < 0.1:
            fields = list(wire.DESCRIPTOR.fields)
        field = dice.choice(fields)
        value = getattr(wire, field.name)
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if is_map:
            if not value or field.message_type.fields_by_name["value"].message_type is None:
                return
            wire = value[dice.choice(sorted(value))]
        elif field.message_type is not None:
            if field.is_repeated and not value:
                value.add()
                return
            if field.is_repeated and dice.random() < 0.2:
                del value[dice.randrange(len(value))]
                return
            wire = dice.choice(value) if field.is_repeated else value
            wire.SetInParent()
        else:
            odd = odd_value(field.type, dice)
            if not field.is_repeated:
                setattr(wire, field.name, odd)
            elif value and dice.random() < 0.5:
                value[dice.randrange(len(value))] = odd
            else:
                value.append(odd)
            return


def odd_value(kind: int, dice: random.Random) -> object:
    """A value of a field's type that readers like to forget."""
    match kind:
        case FieldDescriptor.TYPE_STRING:
            return dice.choice(["", "image:0", "relu:-1", ":", "\0\1", "main", "ß" * 100, "relu:99"])
        case FieldDescriptor.TYPE_BYTES:
            return dice.choice([b"", b"\xff", bytes(99), b"\\u00"])
        case FieldDescriptor.TYPE_BOOL:
            return dice.random() < 0.5
        case FieldDescriptor.TYPE_FLOAT:
            return dice.choice([0.0, float("nan"), float("inf")])
        case FieldDescriptor.TYPE_UINT32 | FieldDescriptor.TYPE_UINT64:
            return dice.choice([0, 1, (1 << 32) - 1])
        case FieldDescriptor.TYPE_INT32:
            return dice.choice([0, 13, 28, 99, -1, (1 << 31) - 1])
        case _:
            return dice.choice([0, -1, 3, 1 << 40, (1 << 63) - 1, -(1 << 63)])


def test_messages_whose_fields_contradict_each_other() -> None:
    dice = random.Random(5)
    definition = parts_of(SMALL)[1][1][1]
    files: list[bytes] = []
    for _ in range(N_MUTATIONS):
        wire = ModelDef.FromString(definition)
        for _ in range(dice.choice((1, 2, 8))):
            mutate_message(wire, dice)
        files.append(model_file(wire.SerializeToString()))
    assert read_many(files) > N_MUTATIONS // 4


def test_every_truncation() -> None:
    assert read_many([SMALL[:length] for length in range(len(SMALL))]) == 0
    step = 1 + len(SMALL) // 2000
    read_many([repaired(SMALL[:length]) for length in range(256, len(SMALL), step)])


@pytest.mark.parametrize("name", REAL_NAMES)
def test_mutated_files_of_other_tools(name: str) -> None:
    path = real_folder() / name
    if not path.is_file():
        pytest.skip("the files of other tools are not here")
    data, dice = path.read_bytes(), random.Random(name)
    n_files = 300 if len(data) < 30_000 else 30
    read_many([repaired(mutate(data, dice, 256)) for _ in range(n_files)])


def model_file(definition: bytes) -> bytes:
    header, parts = parts_of(SMALL)
    return assemble(header, [(kind, definition if kind == 0 else data) for kind, data in parts])


def length_delimited(number: int, data: bytes) -> bytes:
    size, varint = len(data), bytearray()
    while size > 127:
        varint.append(size & 127 | 128)
        size >>= 7
    key = number << 3 | 2
    return bytes([key] if key < 128 else [key & 127 | 128, key >> 7]) + bytes(varint) + bytes([size]) + data


@pytest.mark.parametrize("depth", [10, 30, 49, 60, 200, 20_000])
def test_nesting(depth: int) -> None:
    """An attribute in a group in an attribute ...: read up to protobuf's limit, refused beyond."""
    attr = b"\x18\x01"
    for _ in range(depth):
        entry = length_delimited(1, b"a") + length_delimited(2, attr)
        attr = length_delimited(10, length_delimited(2, entry))
    definition = length_delimited(11, length_delimited(1, b"a") + length_delimited(2, attr))
    definition += length_delimited(7, length_delimited(1, b"g"))
    started = time.process_time()
    model = read_all(model_file(definition))
    assert time.process_time() - started < 2
    assert (model is not None) == (depth <= 30)


def test_many_empty_operators_are_refused_soon() -> None:
    """Two bytes an operator: the memory must stay within reach of the file's size."""
    data = model_file(length_delimited(7, length_delimited(1, b"g") + b"\x32\x00" * 200_000))
    tracemalloc.start()
    try:
        with pytest.raises(OmError) as caught:
            read_om(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(caught.value.diagnostics) <= 100
    assert peak < 400 * len(data)


def compressed(names: list[bytes], texts: list[bytes], flags: list[bool], attrs: dict[str, int]) -> bytes:
    wire = ModelDef(name="m")
    wire.attr["om_compress_version"].i = 1
    wire.attr["attr_name_enum"].list.s.extend(names)
    wire.attr["attr_value_enum"].list.s.extend(texts)
    wire.attr["attrs_use_string_value"].list.b.extend(flags)
    op = wire.graph.add(name="g").op.add(name="a", type="A")
    for name, value in attrs.items():
        op.attr[name].i = value
    return model_file(wire.SerializeToString())


def test_compressed_names() -> None:
    names = [b"n%d" % number for number in range(200)]
    model = read_all(
        compressed(names, [b"x", b"y"], [False, True], {"\0\1": 7, "\0\2": 1, "\0\2\2": 5, "p": 3})
    )
    assert model is not None
    assert model.root.ops[0].attrs == {"n0": 7, "n1": "y", "n128": 5, "p": 3}


@pytest.mark.parametrize(
    ("attrs", "flags"),
    [
        ({"\0\5": 1}, []),
        ({"\0": 1}, []),
        ({"\0\x01\x01\x01\x01\x01\x01": 1}, []),
        ({"\0ß": 1}, []),
        ({"\0\1": 9}, [True]),
        ({"\0\1": -1}, [True]),
    ],
)
def test_compressed_names_that_point_nowhere(attrs: dict[str, int], flags: list[bool]) -> None:
    with pytest.raises(OmError) as caught:
        read_om(compressed([b"n"], [b"x"], flags, attrs))
    assert [item.code.code for item in caught.value.diagnostics] == ["E80014"]


def test_faults_of_a_graph_come_together() -> None:
    wire = ModelDef(name="m")
    graph = wire.graph.add(name="g")
    graph.op.add(
        name="a", type="A", input=["nobody:0", "a", "a:x", "a:1234567890", "b:7", "c:-1", ":0", "a:²"]
    )
    graph.op.add(name="a", type="A")
    graph.op.add(name="b", type="B", subgraph_name=["h"])
    graph.op.add(name="k", type="Const").attr["value"].t.desc.weight_size = 1 << 40
    with pytest.raises(OmError) as caught:
        read_om(model_file(wire.SerializeToString()))
    assert [item.code.code for item in caught.value.diagnostics] == ["E80010"] * 10 + ["E80011"]


def test_a_model_without_graph_or_definition() -> None:
    header, parts = parts_of(SMALL)
    for data in (model_file(ModelDef(name="m").SerializeToString()), assemble(header, parts[2:])):
        with pytest.raises(OmError, match="E80008"):
            read_om(data)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "empty.om").write_bytes(b"")
    with pytest.raises(OmError, match="E80001"):
        read_om(tmp_path / "empty.om")
    for path in (tmp_path, tmp_path / "none.om", "a\0b"):
        with pytest.raises(OmError, match="E10001"):
            read_om(path)
    with pytest.raises(OmError, match="E80008"):
        read_om(SMALL, bundle_index=0)


@pytest.mark.parametrize(
    "text",
    ["", "plain", "a\\b", "größe", "😀", "\0\x7f\n", "\\u00f6", "\\x41", "\\"],
)
def test_escapes_are_reversible_and_ascii(text: str) -> None:
    raw = text.encode()
    assert unescape(escape(raw)) == raw
    assert all(32 <= byte < 127 for byte in escape(raw))


def test_escapes_of_bytes_and_of_strangers() -> None:
    for raw in (b"\xff", bytes(range(256)), b"\xed\xa0\x80"):
        assert unescape(escape(raw)) == raw
    assert unescape(b"\\q \\U00110000 \\u12") == b"\\q \\U00110000 \\u12"
