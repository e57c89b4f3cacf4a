"""The first 256 bytes of an `.om` file, and the numbers of partitions.

Source: hicann/ge, `ModelFileHeader`, `ModelPartitionType`; numbers are little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from gerules.errors import Faults, table

HEADER_BYTES: Final = 256
MAGIC: Final = b"IMOD"
VERSION_1: Final = 0x10000000
VERSION_2: Final = 0x20000000
IR_VERSION: Final = 2
"""`om_ir_version` and `ModelDef.version` of every file since 2020."""

_MAX_MODELS: Final = 1 << 16
_MAX_NAME_BYTES: Final = 31
_MAX_PLATFORM_BYTES: Final = 19

_COMMON: Final = struct.Struct("<4sII64sIBBBB32sI32sI")
_TAIL_1: Final = struct.Struct("<20sB")
_TAIL_2: Final = struct.Struct("<I20sB3sQBB")


class PartitionType(IntEnum):
    """What a partition holds. Files of HiAI phones use other names from 3 on."""

    MODEL_DEF = 0
    WEIGHTS_DATA = 1
    TASK_INFO = 2
    TBE_KERNELS = 3
    CUST_AICPU_KERNELS = 4
    SO_BINS = 5
    FLOW_MODEL = 6
    FLOW_SUBMODEL = 7
    MODEL_INOUT_INFO = 8
    STATIC_TASK_DESC = 9
    DYNAMIC_TASK_DESC = 10
    TASK_PARAM = 11
    TILING_DATA = 12
    PRE_MODEL_DESC = 20
    PRE_MODEL_SQE = 21
    PRE_KERNEL_ARGS = 22
    PRE_MODEL_DESC_EXTEND = 23
    BUNDLE_MODEL_INFO = 24
    BUNDLE_MODEL_VAR_INFO = 25
    CUSTOM_OPS = 26


class ModelKind(IntEnum):
    """`modeltype` of the header."""

    IR = 0
    STANDARD = 1
    TINY = 2
    FLOW = 3
    LITE = 4
    BUNDLE = 5


@dataclass(frozen=True, slots=True)
class Header:
    """The first 256 bytes of a file, as far as they mean something.

    `length_bytes` is what the file says of its payload (the whole file, for a bundle); the writer
    computes it. `n_models` counts (table, partitions) blocks. `platform_type` 0 is a LITE target
    (HiAI phones), 1 a MINI one.
    """

    name: str = ""
    version: int = VERSION_2
    kind: int = ModelKind.IR
    is_encrypted: bool = False
    is_online: bool = False
    ir_version: int = IR_VERSION
    n_models: int = 1
    platform_version: str = ""
    platform_type: int = 1
    length_bytes: int = 0
    needs_host_check: bool = False
    is_dynamic: bool = False
    has_wide_table: bool = True

    @property
    def is_hiai(self) -> bool:
        """Whether a HiAI phone is the target: partitions from 3 on and TASK_INFO mean other things."""
        return self.version < VERSION_2 and self.platform_type == 0

    @property
    def version_text(self) -> str:
        """The version as people write it, `2.0`."""
        return f"{self.version >> 28}.{self.version & 0xFFFFFFF}"


def partition_name(type: int) -> str:
    """Return the name of a partition type, `type <n>` when it has none."""
    try:
        return PartitionType(type).name
    except ValueError:
        return f"type {type}"


def read_header(view: memoryview, faults: Faults, place: str) -> Header:
    """Decode the first bytes of `view`, at least 256; faults are E80005."""
    (
        _, header_bytes, version, _, length, encrypted, _, kind, mode, name, _, _, ir_version,
    ) = _COMMON.unpack_from(view)  # fmt: skip
    if header_bytes != HEADER_BYTES:
        faults.add(
            table.OM_BAD_HEADER, place=place, field="headsize", found=header_bytes,
            expected=f"it is always {HEADER_BYTES}",
        )  # fmt: skip
    if not VERSION_1 <= version < VERSION_2 + VERSION_1:
        faults.add(
            table.OM_BAD_HEADER, place=place, field="version", found=f"0x{version:08x}",
            expected="gerules reads 1.x (0x1.......) and 2.x (0x2.......)",
        )  # fmt: skip
    header = Header(_text(name), version, kind, bool(encrypted), bool(mode), ir_version, length_bytes=length)
    if version < VERSION_2:
        platform, platform_type = _TAIL_1.unpack_from(view, _COMMON.size)
        return replace(
            header, platform_version=_text(platform), platform_type=platform_type, has_wide_table=False
        )
    fields = _TAIL_2.unpack_from(view, _COMMON.size)
    n_models, platform, platform_type, _, model_length, host, dynamic = fields
    if not 1 <= n_models <= _MAX_MODELS:
        faults.add(
            table.OM_BAD_HEADER, place=place, field="model_num", found=n_models,
            expected=f"it is at least 1 and at most {_MAX_MODELS}",
        )  # fmt: skip
    return replace(
        header,
        n_models=n_models,
        platform_version=_text(platform),
        platform_type=platform_type,
        length_bytes=model_length or length,
        needs_host_check=bool(host),
        is_dynamic=bool(dynamic) or n_models > 1,
        has_wide_table=model_length != 0 or kind == ModelKind.FLOW,
    )


def pack_header(header: Header) -> bytes:
    """Encode a header; names too long for their field are cut between characters."""
    is_wide = header.has_wide_table
    head = _COMMON.pack(
        MAGIC, HEADER_BYTES, header.version, bytes(64), 0 if is_wide else header.length_bytes,
        header.is_encrypted, 0, header.kind, header.is_online, _clip(header.name, _MAX_NAME_BYTES), 0,
        bytes(32), header.ir_version,
    )  # fmt: skip
    platform = _clip(header.platform_version, _MAX_PLATFORM_BYTES)
    if header.version < VERSION_2:
        tail = _TAIL_1.pack(platform, header.platform_type)
    else:
        tail = _TAIL_2.pack(
            header.n_models, platform, header.platform_type, bytes(3),
            header.length_bytes if is_wide else 0, header.needs_host_check, header.is_dynamic,
        )  # fmt: skip
    return (head + tail).ljust(HEADER_BYTES, b"\0")


def _clip(text: str, limit_bytes: int) -> bytes:
    """Return at most `limit_bytes` of a text, never half a character; the field's last byte stays NUL."""
    raw = text.replace("\0", "").encode("utf-8", "replace")[:limit_bytes]
    return raw.decode("utf-8", "ignore").encode()


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")
