"""Attention and RotaryEmbedding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from gerules.ir import Attr
from gerules.runtime.kernels.attributes import read_dtype, read_flag, read_float, read_int
from gerules.runtime.kernels.contract import (
    Array,
    Kernel,
    KernelContext,
    UnsupportedCaseError,
    optional,
    required,
)
from gerules.runtime.kernels.precision import round_to, widen
from gerules.runtime.kernels.rows import max_rows, sum_rows

Inputs = Sequence[Array | None]
Attrs = Mapping[str, Attr]


def attention(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """Attention: masked softmax(Q K') V with grouped heads, a cache, and windows.

    The optional fourth result (scores on their way) is left to `onnx.reference`, as are scores that
    are rounded to another type before softmax.
    """
    if context.n_outputs > 3:
        raise UnsupportedCaseError
    q, k, v = required(inputs, 0), required(inputs, 1), required(inputs, 2)
    past_k, past_v = optional(inputs, 4), optional(inputs, 5)
    lengths = optional(inputs, 6)
    if (past_k is None) != (past_v is None) or (past_k is not None and lengths is not None):
        raise ValueError("past key and past value come together, and without lengths")
    is_flat = q.ndim == 3
    query = _heads(q, read_int(attrs, "q_num_heads", 0))
    key, value = _heads(k, read_int(attrs, "kv_num_heads", 0)), _heads(v, read_int(attrs, "kv_num_heads", 0))
    if past_k is not None and past_v is not None:
        key, value = np.concatenate((past_k, key), axis=2), np.concatenate((past_v, value), axis=2)
    bias = _bias(inputs, attrs, query, key, 0 if past_k is None else past_k.shape[2])
    precision = read_dtype(attrs, "softmax_precision")
    if precision is not None and precision.numpy not in (q.dtype, widen(q[:0]).dtype):
        raise UnsupportedCaseError
    output = _attend(widen(query), widen(key), widen(value), bias, attrs)
    if is_flat:
        output = output.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[1], -1)
    return [round_to(output, q.dtype), key, value][: max(1, context.n_outputs)]


def _heads(x: Array, n_heads: int) -> Array:
    """Return `[batch, heads, sequence, size]` of that, or of `[batch, sequence, heads * size]`."""
    if x.ndim == 4:
        return x
    if x.ndim != 3 or n_heads < 1 or x.shape[2] % n_heads:
        raise ValueError(f"{list(x.shape)} cannot be split into {n_heads} heads")
    return x.reshape(x.shape[0], x.shape[1], n_heads, -1).transpose(0, 2, 1, 3)


def _bias(inputs: Inputs, attrs: Attrs, query: Array, key: Array, n_past: int) -> Array | None:
    """Return what is added to the scores, broadcastable to them: -inf where a key must not be seen."""
    mask, lengths = optional(inputs, 3), optional(inputs, 6)
    n_queries, n_keys = query.shape[2], key.shape[2]
    dtype = widen(query[:0]).dtype
    total: Array | None = None
    if mask is not None:
        total = _as_bias(mask, dtype) if mask.dtype == np.bool_ else mask.astype(dtype)
        missing = n_keys - total.shape[-1]
        if missing > 0:
            wider = np.full((*total.shape[:-1], missing), -np.inf, dtype)
            total = np.concatenate((total, wider), axis=-1)
    allowed = _allowed(attrs, n_queries, n_keys, n_past, lengths)
    if allowed is not None:
        seen = _as_bias(allowed, dtype)
        total = seen if total is None else total + seen
    return total


def _as_bias(allowed: Array, dtype: np.dtype[Any]) -> Array:
    return np.where(allowed, np.zeros((), dtype), np.full((), -np.inf, dtype))


def _allowed(attrs: Attrs, n_queries: int, n_keys: int, n_past: int, lengths: Array | None) -> Array | None:
    """Return which key a query may see, `[queries, keys]` or `[batch, 1, queries, keys]`; None for all."""
    left, right = read_int(attrs, "left_window_size", -1), read_int(attrs, "right_window_size", -1)
    keys = np.arange(n_keys)
    offset = np.asarray(n_past) if lengths is None else (lengths.reshape(-1, 1, 1, 1) - n_queries)
    distance = np.arange(n_queries)[:, None] + offset - keys
    found: list[Array] = []
    if read_flag(attrs, "is_causal"):
        found.append(distance >= 0)
    if left >= 0:
        found.append(distance <= left)
    if right >= 0:
        found.append(-distance <= right)
    if lengths is not None:
        found.append(keys < lengths.reshape(-1, 1, 1, 1))
    if not found:
        return None
    allowed = found[0]
    for more in found[1:]:
        allowed = allowed & more
    return allowed


def _attend(query: Array, key: Array, value: Array, bias: Array | None, attrs: Attrs) -> Array:
    batch, n_heads, n_queries, size = query.shape
    n_groups = key.shape[1]
    if n_groups < 1 or n_heads % n_groups or key.shape[:3] != value.shape[:3] or key.shape[3] != size:
        shapes = [list(item.shape) for item in (query, key, value)]
        raise ValueError(f"the shapes {shapes} of query, key and value do not fit")
    kind = query.dtype.type
    scale = kind(math.sqrt(read_float(attrs, "scale", 1 / math.sqrt(max(size, 1)))))
    # Heads that share a key become rows of one product, so that keys are not repeated in memory.
    rows = (query * scale).reshape(batch, n_groups, (n_heads // n_groups) * n_queries, size)
    scores = np.matmul(rows, (key * scale).swapaxes(2, 3)).reshape(batch, n_heads, n_queries, -1)
    cap = read_float(attrs, "softcap", 0.0)
    if cap > 0:
        scores /= kind(cap)
        np.tanh(scores, out=scores)
        scores *= kind(cap)
    if bias is not None:
        scores = scores + bias
    weights = _masked_softmax(scores)
    weights = weights.reshape(batch, n_groups, (n_heads // n_groups) * n_queries, -1)
    return np.matmul(weights, value).reshape(batch, n_heads, n_queries, -1)


def _masked_softmax(scores: Array) -> Array:
    """Return softmax over the last axis, in place; a row that may see nothing gives zeros."""
    if not scores.size:
        return scores
    top = max_rows(scores)
    top[np.isneginf(top)] = 0
    scores -= top
    np.exp(scores, out=scores)
    total = sum_rows(scores)
    total[total == 0] = 1
    scores /= total
    return scores


def rotary_embedding(inputs: Inputs, attrs: Attrs, context: KernelContext) -> list[Array]:
    """RotaryEmbedding of all or the first elements of each head, as halves or interleaved."""
    x, cosine, sine = required(inputs, 0), required(inputs, 1), required(inputs, 2)
    positions = optional(inputs, 3)
    heads = _heads(x, read_int(attrs, "num_heads", 0))
    size = read_int(attrs, "rotary_embedding_dim", 0) or heads.shape[3]
    if positions is not None:
        cosine, sine = cosine[positions], sine[positions]
    if cosine.shape[-1] * 2 != size or sine.shape[-1] * 2 != size:
        raise ValueError(f"caches {list(cosine.shape)} and {list(sine.shape)} do not rotate {size} elements")
    cosine, sine = widen(cosine)[:, None], widen(sine)[:, None]
    wide = widen(heads)
    is_interleaved = read_flag(attrs, "interleaved")
    even = (..., slice(0, size, 2)) if is_interleaved else (..., slice(0, size // 2))
    odd = (..., slice(1, size, 2)) if is_interleaved else (..., slice(size // 2, size))
    result = np.array(wide)
    result[even] = cosine * wide[even] - sine * wide[odd]
    result[odd] = sine * wide[even] + cosine * wide[odd]
    if x.ndim == 3:
        result = result.transpose(0, 2, 1, 3).reshape(x.shape)
    return [round_to(result, x.dtype)]


KERNELS: Final[Mapping[str, Kernel]] = {"Attention": attention, "RotaryEmbedding": rotary_embedding}
