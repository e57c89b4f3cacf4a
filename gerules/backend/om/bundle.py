"""Writing a bundle: several models in one file, each whole, behind one table.

Source: hicann/ge, `ModelHelper::SaveBundleModel`: row 0 is the memory of variables, the others are models;
offsets count from the start of the table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gerules.backend.om.error import OmError
from gerules.backend.om.header import HEADER_BYTES, Header, ModelKind, PartitionType, pack_header
from gerules.backend.om.model import OmModel
from gerules.backend.om.write import om_chunks, write_chunks
from gerules.errors import table

_HEAD: Final = struct.Struct("<II")
_ROW: Final = struct.Struct("<IIQQ")
_VARIABLE_BYTES: Final = bytes(8)
"""The size of the memory that the models' variables share: gerules has no variables."""


def write_bundle(models: Sequence[OmModel], path: str | Path) -> int:
    """Write several models as one bundle; the file appears whole or not at all.

    Returns:
        The size of the file in bytes.

    Raises:
        OmError: as `write_om`; E80021 without a model.

    Cost: every model is encoded twice, first for its size.
    """
    return write_chunks(bundle_chunks(models), Path(path))


def bundle_chunks(models: Sequence[OmModel]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a bundle. Raises OmError as `write_bundle`, before the first byte."""
    if not models:
        raise OmError(table.OM_CANNOT_HOLD, what="a bundle", reason="it has no model")
    sizes = [sum(len(memoryview(chunk).cast("B")) for chunk in om_chunks(model)) for model in models]
    parts = [(PartitionType.BUNDLE_MODEL_VAR_INFO, len(_VARIABLE_BYTES))]
    parts += [(PartitionType.BUNDLE_MODEL_INFO, size_bytes) for size_bytes in sizes]
    at = _HEAD.size + _ROW.size * len(parts)
    rows: list[bytes] = []
    for kind, size_bytes in parts:
        rows.append(_ROW.pack(kind, 0, at, size_bytes))
        at += size_bytes
    first = models[0]
    yield pack_header(
        Header(
            first.name,
            kind=ModelKind.BUNDLE,
            platform_version=first.platform_version,
            platform_type=first.platform_type,
            length_bytes=HEADER_BYTES + at,
        )
    )
    yield _HEAD.pack(len(parts), 0)
    yield b"".join(rows)
    yield _VARIABLE_BYTES
    for model in models:
        yield from om_chunks(model)
