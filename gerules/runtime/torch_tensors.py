"""Tensors of torch as arrays of numpy, without copies where both lie in memory alike."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes

from gerules.runtime.kernels.contract import Array


def as_array(torch: Any, tensor: Any) -> Array:
    """Return a tensor on the CPU as an array that shares its memory."""
    plain = tensor.detach()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    # numpy has no bfloat16 of its own: its bits travel as integers.
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return plain.numpy()


def without_torch(given: object) -> object:
    """Return a tensor of torch as an array, and anything else as it is; None for one that is no array."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(given, getattr(torch, "Tensor", ())):
        return given
    tensor: Any = given
    try:
        return as_array(torch, tensor.cpu())
    except (TypeError, RuntimeError):  # sparse, quantized, or of a type that numpy does not have
        return None
