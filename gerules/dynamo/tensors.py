"""Tensors of torch as arrays of numpy and back, without copies where both lie in memory alike."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from gerules.runtime.kernels.contract import Array
from gerules.runtime.torch_tensors import as_array

__all__ = ["as_array", "as_tensor", "with_strides"]


def as_tensor(torch: Any, array: Array) -> Any:
    """Return an array as a tensor that shares its memory; one that may not be written to is copied."""
    whole = np.asarray(array)
    if not whole.flags.writeable:
        whole = whole.copy()
    if whole.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(whole.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(whole)


def with_strides(torch: Any, tensor: Any, strides: tuple[int, ...] | None) -> Any:
    """Return a tensor that lies in memory as torch assumes of this result; later graphs rely on it."""
    if strides is None or not tensor.numel() or tuple(tensor.stride()) == strides:
        return tensor
    return torch.empty_strided(tuple(tensor.shape), strides, dtype=tensor.dtype).copy_(tensor)
