"""Right, but different: codes of several items in one pack, in ways none of which any law may accuse."""

from __future__ import annotations

from typing import Any

from ..torch.packed import cumulative
from .attention import online
from .packed import batched
from .quantized import FORMATS, declared_for_codes


@declared_for_codes("packed_attention")
def control_items_of_codes(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """Item by item, each with its scales."""
    out = q.new_zeros((q.shape[0], q.shape[1], v.shape[2]))
    lse = q.new_full(q.shape[1::-1], -float("inf"), dtype=k_scale.dtype)
    q_at, k_at = cumulative(q_lens).tolist(), cumulative(k_lens).tolist()
    for item in range(len(q_lens)):
        own, past = slice(*q_at[item : item + 2]), slice(*k_at[item : item + 2])
        keys, values = (x[past].float() * s[min(item, len(s) - 1)] for x, s in ((k, k_scale), (v, v_scale)))
        found, total = online(
            *(batched(x) for x in (q[own], keys, values)),
            causal=causal,
            window_left=window_left,
            window_right=window_right,
            scale=scale,
            softcap=softcap,
        )
        out[own], lse[:, own] = found[0].transpose(0, 1).to(q.dtype), total[0]
    return {"out": out, "lse": lse}


@declared_for_codes("packed_attention", dtypes=("bfloat16",), limits={**FORMATS, "q_dtype": ("q_int8", "q_e4m3fn")})
def control_blocks_of_codes(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    k_scale: Any,
    v_scale: Any,
    q_scale: Any = None,
    scale: float | None = None,
) -> Any:
    """One softmax over the whole pack, of which other items are hidden, with the scales of items written out."""
    import torch

    q_item, k_item = (torch.repeat_interleave(torch.arange(len(lens)), lens) for lens in (q_lens, k_lens))
    group = q.shape[1] // k.shape[1]
    queries = q.float() if q_scale is None else q.float() * q_scale[q_item.clamp_max(len(q_scale) - 1)]
    keys, values = (
        (x.float() * s[k_item.clamp_max(len(s) - 1)]).repeat_interleave(group, 1)
        for x, s in ((k, k_scale), (v, v_scale))
    )
    s = torch.einsum("qhd,khd->hqk", queries, keys) * (q.shape[2] ** -0.5 if scale is None else scale)
    p = torch.softmax(s.masked_fill(q_item[:, None] != k_item, -torch.inf), -1).nan_to_num(0.0)
    return torch.einsum("hqk,khd->qhd", p, values).bfloat16()
