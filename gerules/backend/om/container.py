"""The outer shell of an `.om` file: header, partition tables, and partitions as views.

Source: hicann/ge, `ModelPartitionTable`, `OmFileLoadHelper`; numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gerules.backend.om.error import OmError
from gerules.backend.om.header import (
    HEADER_BYTES,
    MAGIC,
    VERSION_2,
    Header,
    ModelKind,
    PartitionType,
    pack_header,
    partition_name,
    read_header,
)
from gerules.errors import Faults, table

_MAX_ROWS: Final = 32
"""Rows of an ordinary table. GE writes at most nine; types end at 31 and none comes twice."""

_MAX_FLOW_ROWS: Final = 4096
_MAX_PART_BYTES: Final = (1 << 32) - 1

_ROW_TINY: Final = struct.Struct("<III")
_ROW_WIDE: Final = struct.Struct("<IIQQ")

_REPEATABLE: Final = {PartitionType.FLOW_SUBMODEL, PartitionType.BUNDLE_MODEL_INFO}
_LARGE: Final = {PartitionType.WEIGHTS_DATA, PartitionType.TBE_KERNELS, PartitionType.CUST_AICPU_KERNELS}


@dataclass(frozen=True, slots=True)
class Partition:
    """One part of a block; `data` is a view into the file, `offset_bytes` counts from the file's start."""

    type: int
    offset_bytes: int
    data: memoryview

    @property
    def name(self) -> str:
        """The name of the type, `type <n>` when it has none."""
        return partition_name(self.type)


@dataclass(frozen=True, slots=True)
class Block:
    """One partition table with its partitions, in file order."""

    partitions: tuple[Partition, ...]

    def find(self, type: PartitionType) -> memoryview | None:
        """Return the content of the first partition of a type, or None."""
        return next((part.data for part in self.partitions if part.type == type), None)


@dataclass(frozen=True, slots=True)
class OmFile:
    """A file taken apart; nothing is copied.

    A bundle has one block and its models again as files of their own.
    """

    header: Header
    blocks: tuple[Block, ...]
    bundled: tuple[OmFile, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionSource:
    """What the writer puts into a partition: `chunks` together have exactly `size_bytes` bytes."""

    type: PartitionType
    size_bytes: int
    chunks: Iterable[bytes | memoryview]


def read_container(data: bytes | memoryview, *, place: str = "") -> OmFile:
    """Take a file apart into header, blocks and partitions without copying it.

    Args:
        data: The whole file; a map of it works as well as bytes.
        place: The file's name for messages.

    Raises:
        OmError: E80001 no `.om`; E80002 it ends early; E80003 size against header; E80004 table;
            E80005 header; E80006 encrypted; E80007 partition type. All faults of the file together.

    Cost: O(partitions).
    """
    return _read(memoryview(data).cast("B"), place, may_bundle=True)


def _read(view: memoryview, place: str, *, may_bundle: bool) -> OmFile:
    faults = Faults()
    if bytes(view[:4]) != MAGIC[: len(view)] or not view:
        raise OmError(table.NOT_AN_OM, place=place, found=_show(bytes(view[:4])))
    if len(view) < HEADER_BYTES:
        raise OmError(
            table.OM_TRUNCATED, place=place, part="the header", need_bytes=HEADER_BYTES, have_bytes=len(view)
        )
    header = read_header(view, faults, place)
    is_bundle = header.version >= VERSION_2 and header.kind == ModelKind.BUNDLE
    stated = header.length_bytes + (0 if is_bundle else HEADER_BYTES)
    if stated != len(view):
        faults.add(table.OM_SIZE_MISMATCH, place=place, header_bytes=stated, file_bytes=len(view))
    if header.is_encrypted:
        faults.add(table.OM_ENCRYPTED, place=place)
    # A damaged header says nothing certain about what follows.
    faults.raise_if_any(OmError)
    blocks: list[Block] = []
    offset = HEADER_BYTES
    for number in range(header.n_models):
        block, offset = _read_block(view, offset, header, number, faults, place)
        faults.raise_if_any(OmError)
        blocks.append(block)
    if offset != len(view) and header.kind != ModelKind.LITE:
        faults.add(table.OM_SIZE_MISMATCH, place=place, header_bytes=offset, file_bytes=len(view))
    faults.raise_if_any(OmError)
    bundled: list[OmFile] = []
    if is_bundle:
        if not may_bundle:
            raise OmError(
                table.OM_BAD_HEADER, place=place, field="modeltype", found=5, expected="no bundle inside one"
            )
        for number, part in enumerate(blocks[0].partitions):
            if part.type == PartitionType.BUNDLE_MODEL_INFO:
                bundled.append(_read(part.data, f"{place} [model {number}]", may_bundle=False))
    return OmFile(header, tuple(blocks), tuple(bundled))


def _read_block(
    view: memoryview, start: int, header: Header, number: int, faults: Faults, place: str
) -> tuple[Block, int]:
    row = _ROW_WIDE if header.has_wide_table else _ROW_TINY
    head_bytes = 8 if header.has_wide_table else 4
    part = f"partition table {number}"
    if len(view) - start < head_bytes:
        faults.add(
            table.OM_TRUNCATED, place=place, part=part, need_bytes=head_bytes, have_bytes=len(view) - start
        )
        return Block(()), start
    n_rows = int.from_bytes(view[start : start + 4], "little")
    is_flow = header.version >= VERSION_2 and header.kind in (ModelKind.FLOW, ModelKind.BUNDLE)
    limit = _MAX_FLOW_ROWS if is_flow else _MAX_ROWS
    if not 1 <= n_rows <= limit:
        faults.add(
            table.OM_BAD_TABLE, place=place, block=number,
            reason=f"it speaks of {n_rows} partitions; 1 to {limit} are possible",
        )  # fmt: skip
        return Block(()), start
    table_bytes = head_bytes + n_rows * row.size
    if len(view) - start < table_bytes:
        faults.add(
            table.OM_TRUNCATED, place=place, part=part, need_bytes=table_bytes, have_bytes=len(view) - start
        )
        return Block(()), start
    rows = [
        (fields[0], fields[-2], fields[-1])
        for fields in row.iter_unpack(view[start + head_bytes : start + table_bytes])
    ]
    # A bundle counts its offsets from the start of the table, everything else from its end.
    is_bundle = header.version >= VERSION_2 and header.kind == ModelKind.BUNDLE
    origin = start if is_bundle else start + table_bytes
    return _read_rows(view, rows, origin, start + table_bytes, header, number, faults, place)


def _read_rows(
    view: memoryview,
    rows: Sequence[tuple[int, int, int]],
    origin: int,
    end: int,
    header: Header,
    number: int,
    faults: Faults,
    place: str,
) -> tuple[Block, int]:
    parts: list[Partition] = []
    seen: set[int] = set()
    for type, offset, size_bytes in rows:
        name = partition_name(type)
        if type >= 32:
            faults.add(table.OM_UNKNOWN_PARTITION, place=place, block=number, found=type)
            continue
        if type in seen and type not in _REPEATABLE:
            faults.add(table.OM_BAD_TABLE, place=place, block=number, reason=f"{name} comes twice")
        seen.add(type)
        at = origin + offset
        # Loaders walk the sizes and never read the offsets; a file where the two disagree would mean
        # one thing to one reader and another to the next. Files for LITE devices are padded.
        padding = at - end
        if padding != 0 and not (header.kind == ModelKind.LITE and 0 < padding < 32):
            faults.add(
                table.OM_BAD_TABLE, place=place, block=number,
                reason=f"{name} is said to begin at byte {at}, but the one before ends at {end}",
            )  # fmt: skip
            break
        if size_bytes > len(view) - at:
            faults.add(
                table.OM_TRUNCATED, place=place, part=name, need_bytes=size_bytes,
                have_bytes=max(0, len(view) - at),
            )  # fmt: skip
            break
        parts.append(Partition(type, at, view[at : at + size_bytes]))
        end = at + size_bytes
    return Block(tuple(parts)), end


def write_container(
    header: Header, blocks: Sequence[Sequence[PartitionSource]]
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a file: header, then each block's table and partitions.

    `length_bytes` and `n_models` of the header are computed here. Nothing of a partition is held
    longer than its chunk. The 1.0 header takes the 32 bit table.

    Raises:
        OmError: E80021 an empty or repeated partition, or fewer than two; E80022 a partition beyond
            what its kind may have. Before the first byte is yielded when the first one is asked for.
    """
    _check_sources(header, blocks)
    row = _ROW_WIDE if header.has_wide_table else _ROW_TINY
    head_bytes = 8 if header.has_wide_table else 4
    payload = sum(
        head_bytes + row.size * len(sources) + sum(source.size_bytes for source in sources)
        for sources in blocks
    )
    yield pack_header(replace(header, length_bytes=payload, n_models=len(blocks)))
    for sources in blocks:
        rows: list[bytes] = [len(sources).to_bytes(head_bytes, "little")]
        offset = 0
        for source in sources:
            # The word after a wide row's type must stay zero: viewers read the two as one number.
            fields = (source.type, 0) if header.has_wide_table else (source.type,)
            rows.append(row.pack(*fields, offset, source.size_bytes))
            offset += source.size_bytes
        yield b"".join(rows)
        for source in sources:
            yield from source.chunks


def _check_sources(header: Header, blocks: Sequence[Sequence[PartitionSource]]) -> None:
    faults = Faults()
    for number, sources in enumerate(blocks):
        what = f"block {number}"
        if not 2 <= len(sources) <= _MAX_ROWS:
            # One wide row reads as an empty narrow table, and loaders refuse it as an "original model".
            faults.add(table.OM_CANNOT_HOLD, what=what, reason=f"{len(sources)} partitions, not 2 to 8")
        if len({source.type for source in sources}) != len(sources):
            faults.add(table.OM_CANNOT_HOLD, what=what, reason="a partition type comes twice")
        for source in sources:
            if source.size_bytes == 0:
                faults.add(table.OM_CANNOT_HOLD, what=source.type.name, reason="a partition is never empty")
            narrow = source.type not in _LARGE or not header.has_wide_table
            if narrow and source.size_bytes > _MAX_PART_BYTES:
                faults.add(
                    table.OM_PART_TOO_LARGE, part=source.type.name, size_bytes=source.size_bytes,
                    limit_bytes=_MAX_PART_BYTES,
                )  # fmt: skip
    if not header.has_wide_table and len(blocks) != 1:
        faults.add(table.OM_CANNOT_HOLD, what="several models", reason="the 32 bit table holds one")
    faults.raise_if_any(OmError)


def _show(raw: bytes) -> str:
    if not raw:
        return "nothing"
    return raw.decode("ascii") if raw.isalnum() else raw.hex(" ")
