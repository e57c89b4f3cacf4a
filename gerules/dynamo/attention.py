"""Attention as its parts: on a CPU, torch would hand over one operator that only its own CPU kernel has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def decompositions(torch: Any) -> dict[Any, Callable[..., Any]]:
    """Return what AOTAutograd puts in the place of operators while it traces."""
    flash: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default

    def attention(
        query: Any,
        key: Any,
        value: Any,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        attn_mask: Any = None,
        scale: float | None = None,
    ) -> tuple[Any, Any]:
        # The kernel computes in float32 whatever it is given.
        dtype = query.dtype
        if dtype in (torch.float16, torch.bfloat16):
            query, key, value = query.float(), key.float(), value.float()
        scores = torch.matmul(query, key.transpose(-2, -1))
        scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
        if is_causal:
            shape = scores.shape[-2:]
            allowed = torch.ones(shape, dtype=torch.bool, device=scores.device).tril()
            scores = torch.where(allowed, scores, -math.inf)
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                scores = torch.where(attn_mask, scores, -math.inf)
            else:
                scores = scores + attn_mask.to(scores.dtype)
        weights = torch.softmax(scores, -1)
        if attn_mask is not None:
            # A row that sees nothing is zero, and not NaN.
            sees_nothing = (scores == -math.inf).all(-1, keepdim=True)
            weights = torch.where(sees_nothing, 0.0, weights)
        return torch.matmul(weights, value).to(dtype), torch.logsumexp(scores, -1)

    return {flash: attention}
