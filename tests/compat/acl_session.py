"""What the tests of pyACL share: models to run, data sets, a check that says what went wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest

import gerules
from gerules.compat import acl

Array = npt.NDArray[np.generic]
T = TypeVar("T")

H2H, H2D, D2H, D2D = 0, 1, 2, 3

SCALE = """graph scale:
    opset 17
    input x: f32[2, 4]
    k: const f32[4] = [1.0, 2.0, 3.0, 4.0]
    y: f32[2, 4] = Mul(x, k)
    return y
"""

TWO = """graph two:
    opset 17
    input a: f16[2, 3]
    input b: i64[3]
    c: f16[2, 3] = Add(a, a)
    d: i64[3] = Mul(b, b)
    return c, d
"""

OPEN = """graph open:
    opset 17
    input x: f32[N, 4]
    k: const f32[4] = fill(2.0)
    y: f32[N, 4] = Mul(x, k)
    return y
"""


def good(code: int) -> None:
    """Fail with what pyACL has to say unless a call was well."""
    if code != 0:
        pytest.fail(f"{code}: {acl.get_recent_err_msg()}")


def got(pair: tuple[T, int]) -> T:
    """Return the value of a call that was well."""
    value, code = pair
    good(code)
    return value


def build(text: str, path: Path) -> str:
    """Compile the text of a graph into an offline model."""
    gerules.compile(gerules.parse_graph(text)).save(path)
    return str(path)


@pytest.fixture
def session() -> Iterator[int]:
    """pyACL between init and finalize, with a context."""
    good(acl.init())
    good(acl.rt.set_device(0))
    context = got(acl.rt.create_context(0))
    acl.get_recent_err_msg()
    yield context
    acl.finalize()


def on_device(data: bytes) -> int:
    """Return the address of a copy in device memory."""
    address = got(acl.rt.malloc(len(data), 2))
    good(acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), H2D))
    return address


def dataset_of(arrays: Sequence[Array]) -> int:
    """Return a data set that holds arrays."""
    found = acl.mdl.create_dataset()
    for array in arrays:
        buffer = acl.create_data_buffer(on_device(array.tobytes()), array.nbytes)
        good(acl.mdl.add_dataset_buffer(found, buffer)[1])
    return found


def empty_outputs(desc: int) -> int:
    """Return a data set with room for a model's outputs."""
    found = acl.mdl.create_dataset()
    for at in range(acl.mdl.get_num_outputs(desc)):
        size = acl.mdl.get_output_size_by_index(desc, at)
        address = got(acl.rt.malloc(size, 2)) if size else 0
        good(acl.mdl.add_dataset_buffer(found, acl.create_data_buffer(address, size))[1])
    return found


def read_output(outputs: int, at: int, dtype: npt.DTypeLike) -> Array:
    """Return what a run left in a data set, flat."""
    buffer = acl.mdl.get_dataset_buffer(outputs, at)
    address, size = acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size_v2(buffer)
    host = got(acl.rt.malloc_host(size))
    good(acl.rt.memcpy(host, size, address, size, D2H))
    data = acl.util.ptr_to_bytes(host, size)
    good(acl.rt.free_host(host))
    return np.frombuffer(data, dtype)


def loaded(path: str) -> tuple[int, int]:
    """Return a model and its description."""
    model = got(acl.mdl.load_from_file(path))
    desc = acl.mdl.create_desc()
    good(acl.mdl.get_desc(desc, model))
    return model, desc
