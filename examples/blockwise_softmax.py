"""A correct kernel that looks nothing like the formula: it reads the keys in blocks and keeps a running maximum.

attnspec check examples/blockwise_softmax.py
"""

import torch

from attnspec import adapter

BLOCK = 16


@adapter("attention", dtypes=("float32", "bfloat16"), conventions={"causal_alignment": "bottom_right"})
def blockwise_softmax(q, k, v, *, causal=False, scale=None):
    """Attention over blocks of 16 keys, accumulated in float32."""
    q_len, k_len, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    k, v = (x.float().repeat_interleave(group, dim=1) for x in (k, v))
    position = torch.arange(q_len)[:, None] + k_len - q_len
    scale = q.shape[3] ** -0.5 if scale is None else scale

    top = torch.full((*q.shape[:3], 1), -torch.inf)
    total = torch.zeros_like(top)
    out = torch.zeros(*q.shape[:3], v.shape[3])
    for start in range(0, k_len, BLOCK):
        block = slice(start, start + BLOCK)
        scores = q.float() @ k[:, :, block].transpose(-1, -2) * scale
        if causal:
            scores = scores.masked_fill(torch.arange(k_len)[block] > position, -torch.inf)
        new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
        safe_top = torch.where(new_top == -torch.inf, 0.0, new_top)
        weights, rescale = torch.exp(scores - safe_top), torch.exp(top - safe_top)
        total = total * rescale + weights.sum(-1, keepdim=True)
        out = out * rescale + weights @ v[:, :, block]
        top = new_top
    return torch.where(total > 0, out / total, 0.0).to(q.dtype)
