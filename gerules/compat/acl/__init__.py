"""pyACL on this machine: `from gerules.compat import acl` in place of `import acl`.

Calls, argument orders, return shapes and codes are pyACL's: values first, the code last, handles and
addresses as integers. Models run by their own plan on the CPU. No argument crashes the process: addresses
and handles are looked up; what does not fit gives a code, and a message for `get_recent_err_msg`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import gerules.compat.acl.codes as codes
from gerules.compat.acl import mdl, prof, rt
from gerules.compat.acl import pointers as util
from gerules.compat.acl.calling import GATE, fault, returns_code, returns_pair, returns_value, text_of, whole
from gerules.compat.acl.datasets import BUFFER, TENSOR_DESC, UNDEFINED_FORMAT, DataBuffer, TensorDesc
from gerules.compat.acl.model_facts import MOST_DIMS
from gerules.compat.acl.process import PROCESS
from gerules.compat.acl.profiling import PROFILER
from gerules.errors import table
from gerules.errors.counts import there_are

__all__ = [
    "app_log",
    "create_data_buffer",
    "create_tensor_desc",
    "destroy_data_buffer",
    "destroy_tensor_desc",
    "finalize",
    "get_data_buffer_addr",
    "get_data_buffer_size",
    "get_data_buffer_size_v2",
    "get_recent_err_msg",
    "get_soc_name",
    "get_tensor_desc_dim",
    "get_tensor_desc_dim_v2",
    "get_tensor_desc_format",
    "get_tensor_desc_num_dims",
    "get_tensor_desc_size",
    "get_tensor_desc_type",
    "init",
    "mdl",
    "prof",
    "rt",
    "update_data_buffer",
    "util",
]

SOC_NAME: Final = "Ascend910B1"
"""What this machine passes for: offline models do not depend on it, they carry their own plan."""

_LARGEST_CONFIG_BYTES: Final = 1 << 20
_LOG: Final = logging.getLogger("gerules.acl")
_LEVELS: Final = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


NO_CONFIG: Final[Mapping[str, object]] = {}


def _nothing() -> str | None:
    return None


def __dir__() -> list[str]:
    return list(__all__)


@returns_code("acl.init", at_any_time=True)
def init(config_path: str | None = None) -> None:
    """Begin. A configuration file may switch profiling on; dumps are not written here.

    Returns:
        0; 100002 when it was called before, 100003, 100006, 100009 or 100010 for the configuration.
    """
    config = _read_config(config_path) if config_path else NO_CONFIG
    PROCESS.initialize()
    PROFILER.configure(cast("Mapping[str, object]", config.get("profiler") or {}))


@returns_code("acl.finalize", at_any_time=True)
def finalize() -> None:
    """End: streams, models, memory and handles are freed.

    Returns 0; 100001 before init, 100037 the second time.
    """
    PROCESS.finalize()
    PROFILER.close()


@returns_value("acl.get_recent_err_msg", _nothing, at_any_time=True)
def get_recent_err_msg() -> str | None:
    """Return what failed calls had to say, the newest first, and forget it; None when nothing failed."""
    return GATE.errors.take()


@returns_value("acl.get_soc_name", str, at_any_time=True)
def get_soc_name() -> str:
    """Return the name of the processor that this machine stands in for."""
    return SOC_NAME


@returns_value("acl.app_log", lambda: None, at_any_time=True)
def app_log(level: int, message: str) -> None:
    """Write a line to the logger `gerules.acl`. Levels are 0 debug, 1 info, 2 warning, 3 error."""
    at = whole(level, "log_level")
    _LOG.log(_LEVELS[min(at, len(_LEVELS) - 1)], "%s", text_of(message, "message"))


# ---------------------------------------------------------------- data buffers
@returns_value("acl.create_data_buffer", int)
def create_data_buffer(data: int, size: int) -> int:
    """Return a handle for bytes at an address; 0 when an argument is none.

    Address and size 0 leave the memory to the run, for outputs whose size nobody knows before.
    """
    return PROCESS.handles.add(DataBuffer(whole(data, "data"), whole(size, "size")))


@returns_code("acl.destroy_data_buffer")
def destroy_data_buffer(data_buffer: int) -> None:
    """Forget a buffer, not its memory. Returns 0 or 100000."""
    PROCESS.handles.remove(data_buffer, DataBuffer, BUFFER)


@returns_code("acl.update_data_buffer")
def update_data_buffer(data_buffer: int, data: int, size: int) -> None:
    """Let a buffer mean other bytes. Returns 0 or 100000."""
    buffer = PROCESS.handles.get(data_buffer, DataBuffer, BUFFER)
    buffer.address, buffer.size_bytes = whole(data, "data"), whole(size, "size")


@returns_value("acl.get_data_buffer_addr", int)
def get_data_buffer_addr(data_buffer: int) -> int:
    """Return the address; 0 when there is no such buffer."""
    return PROCESS.handles.get(data_buffer, DataBuffer, BUFFER).address


@returns_value("acl.get_data_buffer_size", int)
def get_data_buffer_size(data_buffer: int) -> int:
    """Return the size in bytes; 0 when there is no such buffer."""
    return PROCESS.handles.get(data_buffer, DataBuffer, BUFFER).size_bytes


@returns_value("acl.get_data_buffer_size_v2", int)
def get_data_buffer_size_v2(data_buffer: int) -> int:
    """Return the size in bytes; 0 when there is no such buffer."""
    return PROCESS.handles.get(data_buffer, DataBuffer, BUFFER).size_bytes


# ---------------------------------------------------------------- tensor descriptions
@returns_value("acl.create_tensor_desc", int)
def create_tensor_desc(data_type: int, dims: Sequence[int], format: int) -> int:
    """Return a handle for a description of a tensor; 0 when an argument is none."""
    if not isinstance(cast(object, dims), list | tuple) or len(dims) > MOST_DIMS:
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="dims", value=type(dims).__name__,
            reason=f"it is no list of at most {MOST_DIMS} numbers", remedy="pass the shape as a list",
        )  # fmt: skip
    shape = tuple(whole(dim, f"dims[{at}]", least=-2) for at, dim in enumerate(dims))
    number = whole(format, "format", least=UNDEFINED_FORMAT)
    return PROCESS.handles.add(TensorDesc(whole(data_type, "data_type", least=-1), shape, number))


@returns_value("acl.destroy_tensor_desc", lambda: None)
def destroy_tensor_desc(desc: int) -> None:
    """Forget a description; returns nothing."""
    PROCESS.handles.remove(desc, TensorDesc, TENSOR_DESC)


@returns_value("acl.get_tensor_desc_type", lambda: -1)
def get_tensor_desc_type(desc: int) -> int:
    """Return the data type, -1 when there is no such description."""
    return PROCESS.handles.get(desc, TensorDesc, TENSOR_DESC).dtype


@returns_value("acl.get_tensor_desc_format", lambda: UNDEFINED_FORMAT)
def get_tensor_desc_format(desc: int) -> int:
    """Return the format, -1 when there is no such description."""
    return PROCESS.handles.get(desc, TensorDesc, TENSOR_DESC).format


@returns_value("acl.get_tensor_desc_size", int)
def get_tensor_desc_size(desc: int) -> int:
    """Return the size in bytes of all elements, 0 where the shape is open."""
    return PROCESS.handles.get(desc, TensorDesc, TENSOR_DESC).size_bytes


@returns_value("acl.get_tensor_desc_num_dims", int)
def get_tensor_desc_num_dims(desc: int) -> int:
    """Return the number of dimensions."""
    return len(PROCESS.handles.get(desc, TensorDesc, TENSOR_DESC).dims)


@returns_value("acl.get_tensor_desc_dim", lambda: -1)
def get_tensor_desc_dim(desc: int, index: int) -> int:
    """Return the size of a dimension, -1 when there is none."""
    return _dim_of(desc, index)


@returns_pair("acl.get_tensor_desc_dim_v2", lambda: -1)
def get_tensor_desc_dim_v2(desc: int, index: int) -> int:
    """Return the size of a dimension, and 0 or 100000."""
    return _dim_of(desc, index)


def _dim_of(desc: int, index: int) -> int:
    dims = PROCESS.handles.get(desc, TensorDesc, TENSOR_DESC).dims
    at = whole(index, "index")
    if at >= len(dims):
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="index", value=at,
            reason=there_are(len(dims), "dimension"), remedy="count from 0",
        )  # fmt: skip
    return dims[at]


# ---------------------------------------------------------------- configuration
def _read_config(path: object) -> Mapping[str, object]:
    name = text_of(path, "config_path", code=codes.INVALID_FILE)
    try:
        with Path(name).open("rb") as file:
            data = file.read(_LARGEST_CONFIG_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise fault(codes.INVALID_FILE, table.FILE_NOT_FOUND, path=name, reason=reason) from None
    if len(data) > _LARGEST_CONFIG_BYTES:
        raise fault(
            codes.INVALID_FILE_SIZE, table.FILE_TOO_LARGE, path=name, size_bytes="more",
            limit_bytes=_LARGEST_CONFIG_BYTES,
        )  # fmt: skip
    try:
        found = cast(object, json.loads(data or b"{}"))
    except (ValueError, RecursionError) as error:
        reason = f"it is no JSON: {error}"
        raise fault(
            codes.PARSE_FILE, table.ACL_ARGUMENT, argument="config_path", value=name, reason=reason,
            remedy="correct the file",
        ) from None  # fmt: skip
    config = cast("Mapping[str, object]", found) if isinstance(found, dict) else None
    if config is None or not isinstance(config.get("profiler", {}), dict):
        raise fault(
            codes.PARSE_FILE, table.ACL_ARGUMENT, argument="config_path", value=name,
            reason="it is no JSON object of JSON objects", remedy="write {} for no settings",
        )  # fmt: skip
    if config.get("dump"):
        raise fault(
            codes.DUMP_CONFIG, table.ACL_ARGUMENT, argument="dump", value="asked for",
            reason="dumps are not written here", remedy="remove it; `gerules bisect` finds where values part",
        )  # fmt: skip
    return config
