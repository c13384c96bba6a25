"""Kimi delta attention as models of Hugging Face transformers compute it where no kernel is installed.

Source: transformers/models/kimi_linear/modeling_kimi_linear.py, recurrent_kimi_delta_attention (token by token) and
chunk_kimi_delta_attention (in chunks of 64 tokens).
Arithmetic and states are in float32, whatever the dtype is; there are as many heads of keys as of values, and queries
are scaled by one over the root of the key size.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DECLARED: dict[str, Any] = {
    "layout": "bshd",
    "dtypes": ("float32", "bfloat16", "float16"),
    "limits": {"group": (1,)},
    "package": "transformers",
    "extra": "transformers",
}


def computed(name: str, q: Any, k: Any, v: Any, gate: Any, beta: Any, state: Any, normalise: bool) -> Any:
    """The outputs of one of the functions."""
    from transformers.models.kimi_linear import modeling_kimi_linear

    out, left = getattr(modeling_kimi_linear, name)(
        q, k, v, gate, beta, initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=normalise
    )
    return {"out": out, "final_state": left}


@adapter("kimi_delta_attention", **DECLARED)
def kimi_linear_recurrent(
    q: Any, k: Any, v: Any, gate: Any, beta: Any, state: Any = None, *, normalise: bool = False
) -> Any:
    """recurrent_kimi_delta_attention of transformers.models.kimi_linear."""
    return computed("recurrent_kimi_delta_attention", q, k, v, gate, beta, state, normalise)


@adapter("kimi_delta_attention", **DECLARED)
def kimi_linear_chunked(
    q: Any, k: Any, v: Any, gate: Any, beta: Any, state: Any = None, *, normalise: bool = False
) -> Any:
    """chunk_kimi_delta_attention of transformers.models.kimi_linear."""
    return computed("chunk_kimi_delta_attention", q, k, v, gate, beta, state, normalise)
