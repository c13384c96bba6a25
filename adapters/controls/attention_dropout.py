"""Right, but different, as in `controls_attention`: attention that drops weights, by other generators and orders."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import CONVENTIONS, DTYPES, positions


def scores(q: Any, k: Any, causal: bool, mask: Any, bias: Any, scale: float | None) -> Any:
    """The scores in single precision, minus infinity where a key is hidden: [batch, heads, q_len, k_len]."""
    import torch

    keys = k.float().repeat_interleave(q.shape[1] // k.shape[1], 1)
    s = q.float() @ keys.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    s = s if bias is None else s + bias.float()
    reached = positions(q, k, causal, None, None)
    return s.masked_fill(~(reached if mask is None else reached & mask), -torch.inf)


def visible(s: Any, v: Any, group: int) -> Any:
    """The values in single precision, zeros where no query looks: [batch, heads, k_len, value_dim]."""
    unread = (s == float("-inf")).all(2)[..., None]
    return v.float().repeat_interleave(group, 1).masked_fill(unread, 0.0)


@adapter("attention", dtypes=DTYPES, conventions=CONVENTIONS)
def control_dropout_of_weights(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
) -> Any:
    """Weights dropped and scaled in single precision, then rounded to the dtype of the values."""
    import torch

    s = scores(q, k, causal, mask, bias, scale)
    weights = torch.softmax(s, -1).nan_to_num(0.0)
    if dropout_p:
        kept = torch.rand(weights.shape, generator=torch.Generator().manual_seed(seed or 0)) >= dropout_p
        weights = weights * kept / (1 - dropout_p)
    values = visible(s, v, q.shape[1] // k.shape[1])
    return (weights.to(v.dtype).float() @ values).to(q.dtype)


@adapter("attention", dtypes=DTYPES, conventions=CONVENTIONS)
def control_dropout_in_tiles(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
) -> Any:
    """Tiles of 16 keys, each with a generator of its own; the sum is of all weights, and everything is divided last."""
    import numpy as np
    import torch

    s = scores(q, k, causal, mask, bias, scale)
    values = visible(s, v, q.shape[1] // k.shape[1])
    top = torch.nn.functional.pad(s, (0, 1), value=-1e30).amax(-1, keepdim=True)
    terms, out = torch.exp(s - top), torch.zeros(*q.shape[:3], v.shape[3])
    for tile, start in enumerate(range(0, k.shape[2], 16)):
        part = terms[..., start : start + 16]
        drawn = np.random.Generator(np.random.Philox([seed or 0, tile])).random(part.shape)
        kept = part * torch.from_numpy(drawn >= dropout_p)
        out = out + kept.to(v.dtype).float() @ values[:, :, start : start + 16]
    total = terms.sum(-1, keepdim=True)
    return (out / torch.where(total > 0, total, 1.0) * (1 / (1 - dropout_p))).to(q.dtype)
