"""The time mixing of RWKV-6 and RWKV-7 of flash-linear-attention: in torch, and in Triton.

Source: https://github.com/fla-org/flash-linear-attention (fla/ops/rwkv4, rwkv6, rwkv7, generalized_delta_rule/dplr)
Receptances are scaled by one over the root of the key size unless a scale is given, but for `chunk_rwkv7`.
"""

# Decorators of the package hide the parameters of its functions.
# pyright: reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

from .. import adapter
from ..triton.interpreter import declared
from .kernels import stepped
from .naive import naive

DTYPES = ("float32", "bfloat16", "float16")
NAIVE: dict[str, Any] = {"dtypes": DTYPES, "package": "fla", "extra": "fla"}
KERNELS: dict[str, Any] = {"dtypes": DTYPES, "package": "fla.ops"}


def whole(k: Any, v: Any, state: Any, *tokens: Any) -> None:
    """Refuse arrays that do not fit, of which no kernel takes notice: [batch, length, heads, dim]."""
    if v.shape[:3] != k.shape[:3] or any(x.shape != k.shape for x in tokens):
        raise ValueError("arrays differ in their items, tokens or channels")
    if state is not None and tuple(state.shape[-2:]) != (k.shape[-1], v.shape[-1]):
        raise ValueError("a state is of other keys and values")


@adapter("wkv6", **NAIVE)
def fla_naive_recurrent_rwkv6(
    r: Any, k: Any, v: Any, w: Any, u: Any, state: Any = None, *, scale: float | None = 1.0
) -> Any:
    """naive_recurrent_rwkv6, token by token."""
    call = naive("rwkv6", "recurrent_naive").naive_recurrent_rwkv6
    return stepped(call, r, k, v, w, u, scale=scale, state=state)


@adapter("wkv6", fixed={"scale": 1.0}, limits={"length": (32, 64)}, **NAIVE)
def fla_naive_chunked_rwkv6(r: Any, k: Any, v: Any, w: Any, u: Any) -> Any:
    """naive_chunk_rwkv6, in chunks of 32 tokens, which it has to be given whole."""
    return naive("rwkv6", "chunk_naive").naive_chunk_rwkv6(r, k, v, w, u)


@adapter("wkv7", fixed={"scale": None}, **NAIVE)
def fla_naive_recurrent_dplr(r: Any, w: Any, k: Any, v: Any, a: Any, b: Any, state: Any = None) -> Any:
    """dplr_recurrence, token by token."""
    return stepped(naive("generalized_delta_rule/dplr").dplr_recurrence, r, k, v, a, b, w, state=state)


@declared("wkv4", **{**KERNELS, "dtypes": ("float32",)})
def fla_recurrent_rwkv4(w: Any, u: Any, k: Any, v: Any, past: Any = None, lse: Any = None) -> Any:
    """fused_recurrent_rwkv4, whose state, two sums and a running maximum, has the dtype of the keys."""
    import torch
    from fla.ops.rwkv4 import fused_recurrent_rwkv4

    if k.shape != v.shape or w.shape != k.shape[2:]:
        raise ValueError("arrays differ in their items, tokens or channels")
    state = torch.zeros(len(k), 3, 1, k.shape[2], dtype=torch.float32, device=k.device)
    state[:, 2] = -1e38
    if past is not None:
        state = torch.stack((past, torch.ones_like(past), lse), 1)[:, :, None]
    out, left = fused_recurrent_rwkv4(w, u, k, v, state)
    total, weight, top = left[:, :, 0].float().unbind(1)
    return {"out": out, "final_past": total / weight, "final_lse": top + weight.log()}


@declared("wkv6", layout="bshd", **KERNELS)
def fla_recurrent_rwkv6(r: Any, k: Any, v: Any, w: Any, u: Any, state: Any = None, *, scale: float | None = 1.0) -> Any:
    """fused_recurrent_rwkv6, token by token."""
    from fla.ops.rwkv6 import fused_recurrent_rwkv6

    whole(k, v, state, r, w)
    return stepped(fused_recurrent_rwkv6, r, k, v, w, u, scale=scale, state=state)


@declared("wkv6", layout="bshd", **KERNELS)
def fla_chunked_rwkv6(r: Any, k: Any, v: Any, w: Any, u: Any, state: Any = None, *, scale: float | None = 1.0) -> Any:
    """chunk_rwkv6, in chunks of 64 tokens."""
    from fla.ops.rwkv6 import chunk_rwkv6

    whole(k, v, state, r, w)
    return stepped(chunk_rwkv6, r, k, v, w, u, scale=scale, state=state)


@declared("wkv7", layout="bshd", **KERNELS)
def fla_recurrent_rwkv7(
    r: Any, w: Any, k: Any, v: Any, a: Any, b: Any, state: Any = None, *, scale: float | None = 1.0
) -> Any:
    """fused_recurrent_rwkv7, token by token."""
    from fla.ops.rwkv7 import fused_recurrent_rwkv7

    whole(k, v, state, r, w, a, b)
    return stepped(fused_recurrent_rwkv7, r, w, k, v, a, b, scale=scale, state=state)


@declared("wkv7", layout="bshd", **KERNELS)
def fla_chunked_rwkv7(
    r: Any, w: Any, k: Any, v: Any, a: Any, b: Any, state: Any = None, *, scale: float | None = 1.0
) -> Any:
    """chunk_rwkv7, in chunks of 16 tokens; the interpreter has no `tl.gather`, and takes rows out by sums."""
    from unittest.mock import patch

    from fla.ops.generalized_delta_rule.dplr import chunk_A_fwd
    from fla.ops.rwkv7 import chunk_rwkv7

    whole(k, v, state, r, w, a, b)
    with patch.object(chunk_A_fwd, "IS_GATHER_SUPPORTED", r.device.type != "cpu"):
        return stepped(chunk_rwkv7, r, w, k, v, a, b, scale=scale, state=state)
