"""acl.util: addresses of Python objects and the way back; threads that run callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Final, cast

import numpy as np
import numpy.typing as npt

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import fault, returns_code, returns_pair, returns_value, shown, whole
from gerules.compat.acl.memory import Side
from gerules.compat.acl.process import PROCESS
from gerules.compat.acl.reports import LOG
from gerules.errors import table

Array = npt.NDArray[np.generic]


def _no_array() -> Array:
    return np.empty(0, np.uint8)


__all__ = [
    "bytes_to_ptr",
    "numpy_contiguous_to_ptr",
    "numpy_to_ptr",
    "ptr_to_bytes",
    "ptr_to_numpy",
    "start_thread",
    "stop_thread",
]

_STOP_WAIT_S: Final = 60.0

_NUMPY_TYPES: Final[dict[int, str]] = {
    0: "?", 1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "i8", 8: "u8", 9: "i8", 10: "u8",
    11: "f4", 12: "f8", 23: "f2",
}  # fmt: skip
"""Element types by numpy's own numbers, as they are on Linux."""


def __dir__() -> list[str]:
    return list(__all__)


@returns_value("acl.util.bytes_to_ptr", int, at_any_time=True)
def bytes_to_ptr(bytes_data: bytes) -> int:
    """Return the address of the bytes of an object, 0 when it is none.

    As on the device, copying to the address changes the object: the way to get results into `bytes`.
    """
    if not isinstance(cast(object, bytes_data), bytes):
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="bytes_data", value=shown(bytes_data),
            reason="it is no bytes object", remedy="pass array.tobytes()",
        )  # fmt: skip
    return PROCESS.memory.adopt_bytes(bytes_data)


@returns_value("acl.util.numpy_to_ptr", int, at_any_time=True)
def numpy_to_ptr(np_data: Array) -> int:
    """Return the address of the elements of an array, 0 when it has no one place in memory."""
    return _address_of(np_data)


@returns_value("acl.util.numpy_contiguous_to_ptr", int, at_any_time=True)
def numpy_contiguous_to_ptr(np_data: Array) -> int:
    """Return the address of the elements of an array, 0 when they do not lie in order."""
    return _address_of(np_data)


@returns_value("acl.util.ptr_to_bytes", bytes, at_any_time=True)
def ptr_to_bytes(ptr: int, size: int) -> bytes:
    """Return a copy of `size` bytes of host memory, and no bytes when there are fewer."""
    n_bytes = whole(size, "size")
    return PROCESS.memory.span(
        whole(ptr, "ptr"), n_bytes, "ptr", side=Side.HOST, code=codes.INVALID_PARAM
    ).tobytes()


@returns_value("acl.util.ptr_to_numpy", _no_array, at_any_time=True)
def ptr_to_numpy(ptr: int, shape: Sequence[int], numpy_type: int) -> Array:
    """Return host memory as an array, without copying; an empty one when it is no such memory.

    Args:
        numpy_type: numpy's number of the element type: 11 float32, 23 float16, 5 int32, 7 int64, 2 uint8.
    """
    code = _NUMPY_TYPES.get(whole(numpy_type, "numpy_type"))
    if code is None:
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="numpy_type", value=numpy_type,
            reason="there is no element type of that number", remedy="pass 11 for float32, 23 for float16",
        )  # fmt: skip
    if not isinstance(cast(object, shape), list | tuple):
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="shape", value=shown(shape),
            reason="it is no tuple", remedy="pass the shape as a tuple",
        )  # fmt: skip
    sizes = tuple(whole(dim, f"shape[{at}]") for at, dim in enumerate(shape))
    dtype = np.dtype(code)
    view = PROCESS.memory.span(
        whole(ptr, "ptr"), prod(sizes) * dtype.itemsize, "ptr", side=Side.HOST, code=codes.INVALID_PARAM
    )
    return cast(Array, view.view(dtype).reshape(sizes))


@returns_pair("acl.util.start_thread", int, at_any_time=True)
def start_thread(thr_func: Callable[[object], object], args_list: object) -> int:
    """Run `thr_func(args_list)` on a thread of its own; return its number, and 0 or 100000.

    The thread has no context until it calls `acl.rt.set_context`.
    """
    if not callable(cast(object, thr_func)):
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="thr_func", value=shown(thr_func),
            reason="it is no function", remedy="pass a function of one argument",
        )  # fmt: skip

    def run() -> None:
        try:
            thr_func(args_list)
        except Exception:  # the script's own function
            LOG.exception("a thread of acl.util.start_thread raised")

    thread = threading.Thread(target=run, name="acl thread", daemon=True)
    thread.start()
    number = thread.ident or 0
    PROCESS.threads[number] = thread
    return number


@returns_code("acl.util.stop_thread", at_any_time=True)
def stop_thread(thr_id: int) -> None:
    """Wait for the end of a thread, which has to end by itself.

    Returns 0, 100000, or 500001 after a minute.
    """
    thread = PROCESS.threads.pop(whole(thr_id, "thr_id"), None)
    if thread is None:
        raise fault(
            codes.INVALID_PARAM, table.ACL_HANDLE, value=thr_id, kind="thread", maker="acl.util.start_thread",
            reason="no thread was started under this number",
        )  # fmt: skip
    if thread is threading.current_thread():
        return
    thread.join(_STOP_WAIT_S)
    if thread.is_alive():
        raise fault(
            codes.FAILURE, table.ACL_CALLBACK, reason=f"the thread still runs after {_STOP_WAIT_S:.0f} s",
            remedy="let its function return when the program ends, and wait for reports with a timeout",
        )  # fmt: skip


def _address_of(given: object) -> int:
    array = cast(Array, given) if isinstance(given, np.ndarray) else None
    if array is None or array.dtype.hasobject or array.dtype.kind in "OV":
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="np_data", value=shown(cast(object, given)),
            reason="it is no array of numbers", remedy="pass a numpy array",
        )  # fmt: skip
    if not array.flags.c_contiguous:
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="np_data",
            value=f"an array of {list(array.shape)} with strides {list(array.strides)}",
            reason="its elements do not lie in order", remedy="pass numpy.ascontiguousarray of it",
        )  # fmt: skip
    return PROCESS.memory.adopt_array(array)
