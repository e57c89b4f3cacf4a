"""The shell of a file: bytes at their offsets, both versions, several models, and every fault by its code."""

from __future__ import annotations

import struct

import pytest

from gerules.backend.om import OmError, read_container
from gerules.backend.om.container import PartitionSource, write_container
from gerules.backend.om.header import VERSION_1, Header, ModelKind, PartitionType

MODEL, WEIGHTS, TASKS = PartitionType.MODEL_DEF, PartitionType.WEIGHTS_DATA, PartitionType.TASK_INFO


def source(kind: PartitionType, data: bytes) -> PartitionSource:
    return PartitionSource(kind, len(data), (data[:1], memoryview(data)[1:]))


def build(header: Header | None = None, n_blocks: int = 1) -> bytearray:
    blocks = [[source(MODEL, b"model"), source(WEIGHTS, b"weights!"), source(TASKS, b"t")]] * n_blocks
    return bytearray().join(write_container(header or Header("größe", platform_version="1.11.z.0"), blocks))


def codes(data: bytes | bytearray) -> list[str]:
    with pytest.raises(OmError) as caught:
        read_container(bytes(data))
    return [item.code.code for item in caught.value.diagnostics]


def test_bytes_of_a_new_file() -> None:
    data = build()
    assert data[0:4] == b"IMOD"
    assert struct.unpack_from("<II", data, 4) == (256, 0x20000000)
    assert data[12:76] == bytes(64)
    assert struct.unpack_from("<I", data, 76) == (0,)
    assert data[80:84] == bytes(4)
    assert data[84:116] == "größe".encode().ljust(32, b"\0")
    assert data[116:152] == bytes(36)
    assert struct.unpack_from("<II", data, 152) == (2, 1)
    assert data[160:180] == b"1.11.z.0".ljust(20, b"\0")
    assert data[180:184] == b"\1\0\0\0"
    assert struct.unpack_from("<Q", data, 184) == (len(data) - 256,)
    assert data[192:256] == bytes(64)
    rows = struct.unpack_from("<IIIIQQIIQQIIQQ", data, 256)
    assert rows == (3, 0, 0, 0, 0, 5, 1, 0, 5, 8, 2, 0, 13, 1)
    assert data[256 + 8 + 72 :] == b"modelweights!t"


def test_bytes_of_an_old_file() -> None:
    data = build(Header("old", VERSION_1, platform_version="1.11.z.0", has_wide_table=False))
    assert struct.unpack_from("<II", data, 4) == (256, 0x10000000)
    assert struct.unpack_from("<I", data, 76) == (len(data) - 256,)
    assert data[156:177] == b"1.11.z.0".ljust(20, b"\0") + b"\1"
    assert data[177:256] == bytes(79)
    assert struct.unpack_from("<I9I", data, 256) == (3, 0, 0, 5, 1, 5, 8, 2, 13, 1)
    assert data[256 + 40 :] == b"modelweights!t"


@pytest.mark.parametrize(
    "header",
    [
        Header("a"),
        Header("b", VERSION_1, has_wide_table=False),
        Header("c", has_wide_table=False),
        Header("d", kind=ModelKind.STANDARD, is_online=True, needs_host_check=True, is_dynamic=True),
    ],
)
def test_what_is_written_is_read(header: Header) -> None:
    data = build(header)
    file = read_container(bytes(data))
    assert file.header == Header(
        **{name: getattr(header, name) for name in Header.__slots__ if name != "length_bytes"},
        length_bytes=len(data) - 256,
    )
    (block,) = file.blocks
    assert [part.name for part in block.partitions] == ["MODEL_DEF", "WEIGHTS_DATA", "TASK_INFO"]
    assert block.find(WEIGHTS) == b"weights!"
    assert block.find(PartitionType.SO_BINS) is None
    part = block.partitions[1]
    assert data[part.offset_bytes : part.offset_bytes + 8] == b"weights!"


def test_several_models() -> None:
    data = build(n_blocks=3)
    file = read_container(bytes(data))
    assert file.header.n_models == 3 and file.header.is_dynamic
    assert [bytes(block.partitions[0].data) for block in file.blocks] == [b"model"] * 3


def test_a_bundle_holds_files() -> None:
    inner = [bytes(build(Header(name))) for name in ("one", "two")]
    rows, at = [], 8 + 24 * 3
    for kind, data in ((25, bytes(8)), (24, inner[0]), (24, inner[1])):
        rows.append(struct.pack("<IIQQ", kind, 0, at, len(data)))
        at += len(data)
    body = struct.pack("<II", 3, 0) + b"".join(rows) + bytes(8) + b"".join(inner)
    head = bytearray(build()[:256])
    head[82] = ModelKind.BUNDLE
    head[184:192] = struct.pack("<Q", 256 + len(body))
    file = read_container(bytes(head) + body)
    assert [one.header.name for one in file.bundled] == ["one", "two"]
    # A bundle inside a bundle is no file any tool writes; it must not recurse.
    nested = bytearray(bytes(head) + body)
    assert codes(wrap_in_bundle(bytes(nested))) == ["E80005"]


def wrap_in_bundle(inner: bytes) -> bytes:
    body = struct.pack("<IIIIQQ", 1, 0, 24, 0, 32, len(inner)) + inner
    head = bytearray(build()[:256])
    head[82] = ModelKind.BUNDLE
    head[184:192] = struct.pack("<Q", 256 + len(body))
    return bytes(head) + body


def patched(offset: int, code: str, *values: int) -> bytearray:
    data = build()
    struct.pack_into(code, data, offset, *values)
    return data


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ["E80001"]),
        (b"PICO" + bytes(300), ["E80001"]),
        (b"IM", ["E80002"]),
        (b"IMOD" + bytes(100), ["E80002"]),
        (build()[:-1], ["E80003"]),
        (build() + b"\0", ["E80003"]),
        (patched(4, "<I", 255), ["E80005"]),
        (patched(8, "<I", 0x70000000), ["E80005"]),
        (patched(156, "<I", 0), ["E80005"]),
        (patched(156, "<I", 0xFFFFFFFF), ["E80005"]),
        (patched(80, "<B", 1), ["E80006"]),
        (patched(256, "<I", 0), ["E80004"]),
        (patched(256, "<I", 0xFFFFFFFF), ["E80004"]),
        (patched(256, "<I", 30), ["E80002"]),
        (patched(264, "<I", 32), ["E80007", "E80004"]),
        (patched(264, "<I", 1), ["E80004"]),
        (patched(272, "<Q", 1), ["E80004"]),
        (patched(272, "<Q", (1 << 64) - 1), ["E80004"]),
        (patched(280, "<Q", (1 << 64) - 1), ["E80002"]),
        (patched(280, "<Q", 4), ["E80004"]),
        (patched(156, "<I", 2), ["E80002"]),
    ],
)
def test_faults_by_their_codes(data: bytearray, expected: list[str]) -> None:
    assert codes(data) == expected


def test_faults_of_a_header_come_together() -> None:
    data = patched(4, "<I", 12)
    data[80] = 1
    assert codes(data + b"x") == ["E80005", "E80003", "E80006"]


def test_what_cannot_be_written() -> None:
    def refuse(*sources: PartitionSource, header: Header | None = None) -> list[str]:
        with pytest.raises(OmError) as caught:
            list(write_container(header or Header(), [sources]))
        return [item.code.code for item in caught.value.diagnostics]

    model, tasks = source(MODEL, b"m"), source(TASKS, b"t")
    # One wide row reads as an empty 32 bit table elsewhere.
    assert refuse(model) == ["E80021"]
    assert refuse(model, model) == ["E80021"]
    assert refuse(model, source(TASKS, b"")) == ["E80021"]
    assert refuse(PartitionSource(MODEL, 1 << 32, ()), tasks) == ["E80022"]
    narrow = Header(version=VERSION_1, has_wide_table=False)
    assert refuse(model, PartitionSource(WEIGHTS, 1 << 32, ()), header=narrow) == ["E80022"]
    large = write_container(Header(), [(model, PartitionSource(WEIGHTS, 1 << 33, ()))])
    assert struct.unpack_from("<Q", next(large), 184) == (8 + 48 + 1 + (1 << 33),)


def test_long_names_are_cut_between_characters() -> None:
    data = build(Header("ö" * 40, platform_version="1" * 40))
    file = read_container(bytes(data))
    assert file.header.name == "ö" * 15
    assert file.header.platform_version == "1" * 19
