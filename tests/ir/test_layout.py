"""Storage formats: shapes as the Graph Engine states them, and layouts that can be undone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.ir import DType, Format, TensorType, from_storage, storage_shape, to_storage


@pytest.mark.parametrize(
    ("shape", "format", "dtype", "want"),
    [
        # Source: check values of the Graph Engine's own tests.
        ((1, 32, 16, 16), Format.NC1HWC0, DType.F16, (1, 2, 16, 16, 16)),
        ((100, 200, 100, 200), Format.FRACTAL_Z, DType.F16, (260000, 7, 16, 16)),
        ((100, 200), Format.FRACTAL_Z, DType.F16, (7, 13, 16, 16)),
        ((1, 3, 224, 224), Format.NC1HWC0, DType.I8, (1, 1, 224, 224, 32)),
        ((2, 33, 20), Format.FRACTAL_NZ, DType.F16, (2, 2, 3, 16, 16)),
        ((33,), Format.FRACTAL_NZ, DType.F16, (1, 3, 16, 16)),
        ((7,), Format.NC1HWC0, DType.F16, (7,)),
        ((), Format.FRACTAL_NZ, DType.F16, ()),
    ],
)
def test_storage_shapes(shape: tuple[int, ...], format: Format, dtype: DType, want: tuple[int, ...]) -> None:
    assert storage_shape(shape, format, dtype) == want


def test_grouped_weights_follow_the_formula() -> None:
    # 32 groups of one channel: 16 share a block, so ceil(32/16) blocks of 3x3 and one column block.
    assert storage_shape((32, 1, 3, 3), Format.FRACTAL_Z, DType.F16, groups=32) == (18, 1, 16, 16)


dims = st.integers(1, 40)


@given(st.tuples(dims, dims, st.integers(1, 4), st.integers(1, 4)), st.sampled_from(list(Format)), st.data())
def test_a_layout_can_be_undone(shape: tuple[int, ...], format: Format, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([DType.F16, DType.F32, DType.I8]))
    groups = data.draw(st.sampled_from([g for g in range(1, shape[0] + 1) if shape[0] % g == 0]))
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype.numpy)
    stored = to_storage(array, format, dtype, groups=groups)
    assert stored.shape == storage_shape(shape, format, dtype, groups=groups)
    back = from_storage(np.ascontiguousarray(stored), shape, format, dtype, groups=groups)
    np.testing.assert_array_equal(back, array)


def test_bytes_count_the_padding() -> None:
    kind = TensorType(DType.F16, (1, 3, 4, 4), Format.NC1HWC0)
    assert kind.size_bytes == 1 * 1 * 4 * 4 * 16 * 2
    assert TensorType(DType.I4, (3,)).size_bytes == 2
