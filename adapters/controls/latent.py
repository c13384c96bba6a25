"""Right, but different: latent attention in both forms, none of which a law may accuse."""

from __future__ import annotations

import math
from typing import Any

from .. import adapter
from .attention import online

DTYPES = ("float32", "bfloat16", "float16")
NATURAL, TWO = {"lse_base": "natural"}, {"lse_base": "two"}


def turned(x: Any, first: int, base: float | None, interleaved: bool) -> Any:
    """A rope part [..., length, rope_dim] of tokens from one on, in single precision; unturned without a base."""
    import torch

    if base is None:
        return x.float()
    pairs = x.shape[-1] // 2
    angles = (first + torch.arange(x.shape[-2], dtype=torch.float64))[:, None] * base ** (-torch.arange(pairs) / pairs)
    turn = torch.polar(torch.ones_like(angles), angles)
    parts = x.double().unflatten(-1, (pairs, 2) if interleaved else (2, pairs))
    parts = parts if interleaved else parts.mT
    found = torch.view_as_real(torch.view_as_complex(parts.contiguous()) * turn)
    return (found if interleaved else found.mT).flatten(-2).float()


def checked(q_nope: Any, q_rope: Any, latent: Any, k_rope: Any, w_uk: Any) -> None:
    """Refuse inputs that do not belong together."""
    if k_rope.shape[:2] != latent.shape[:2] or q_rope.shape[3] != k_rope.shape[2] or w_uk.shape[1] != latent.shape[2]:
        raise ValueError("latents, rope parts and matrices do not belong together")
    if not 0 < latent.shape[1] >= q_nope.shape[2]:
        raise ValueError("queries are those of the last tokens")


@adapter("latent_attention", dtypes=DTYPES, conventions=NATURAL)
def control_latents_absorbed(
    q_nope: Any,
    q_rope: Any,
    latent: Any,
    k_rope: Any,
    w_uk: Any,
    w_uv: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    base: float | None = None,
    interleaved: bool = False,
) -> Any:
    """Absorbed, with an online softmax over blocks of 16 rows; what enters a product is in the dtype of the inputs."""
    import torch

    checked(q_nope, q_rope, latent, k_rope, w_uk)
    dtype, before = latent.dtype, latent.shape[1] - q_nope.shape[2]
    factor = (q_nope.shape[3] + q_rope.shape[3]) ** -0.5 if scale is None else scale
    absorbed = (q_nope.float() @ w_uk.float().mT).to(dtype)
    queries = torch.cat([absorbed, turned(q_rope, before, base, interleaved).to(dtype)], -1)
    rows = torch.cat([latent, turned(k_rope, 0, base, interleaved).to(dtype)], -1)[:, None]
    out, lse = online(queries, rows, latent[:, None], causal=causal, scale=factor)
    return {"out": (out.to(dtype).float() @ w_uv.float()).to(dtype), "lse": lse}


@adapter("latent_attention", dtypes=DTYPES, conventions=TWO)
def control_latents_expanded(
    q_nope: Any,
    q_rope: Any,
    latent: Any,
    k_rope: Any,
    w_uk: Any,
    w_uv: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    base: float | None = None,
    interleaved: bool = False,
) -> Any:
    """Keys and values of every head, kept in the dtype of the inputs, and powers of two over all tokens at once."""
    import torch

    checked(q_nope, q_rope, latent, k_rope, w_uk)
    dtype, before = latent.dtype, latent.shape[1] - q_nope.shape[2]
    factor = (q_nope.shape[3] + q_rope.shape[3]) ** -0.5 if scale is None else scale
    k, v = ((latent.float()[:, None] @ w.float()).to(dtype).float() for w in (w_uk, w_uv))
    places = turned(k_rope, 0, base, interleaved).to(dtype).float()[:, None]
    s = q_nope.float() @ k.mT + turned(q_rope, before, base, interleaved).to(dtype).float() @ places.mT
    s = s * (factor / math.log(2))
    if causal:
        s = s.masked_fill(torch.arange(s.shape[3]) > before + torch.arange(s.shape[2])[:, None], -torch.inf)
    top = s.amax(-1, keepdim=True)
    p = torch.exp2(s - top)
    total = p.sum(-1, keepdim=True)
    return {"out": (p @ v / total).to(dtype), "lse": (top + total.log2())[..., 0]}
