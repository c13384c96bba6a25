"""Flash attention in Triton as a step of autograd, for the head sizes of tensor cores, written without attnspec.

attnspec check examples/triton/attention.py:attention

Without a device, Triton's interpreter runs it.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def forward(
    q, k, v, out, scale, length, causal: tl.constexpr, dim: tl.constexpr, rows: tl.constexpr, keys: tl.constexpr
):
    head, channel = tl.program_id(0).to(tl.int64) * length * dim, tl.arange(0, dim)
    row = tl.program_id(1) * rows + tl.arange(0, rows)
    own = tl.load(q + head + row[:, None] * dim + channel, mask=row[:, None] < length, other=0.0)
    top = tl.full([rows], -float("inf"), tl.float32)
    total, weighted = tl.zeros([rows], tl.float32), tl.zeros([rows, dim], tl.float32)
    end = min((tl.program_id(1) + 1) * rows, length) if causal else length
    for start in range(0, end, keys):
        key = start + tl.arange(0, keys)
        at, inside = head + key[:, None] * dim + channel, key[:, None] < length
        scores = tl.dot(own, tl.trans(tl.load(k + at, mask=inside, other=0.0))) * scale
        seen = (key < length) & ((row[:, None] >= key) | (not causal))
        scores = tl.where(seen, scores, -float("inf"))
        new = tl.maximum(top, tl.max(scores, 1))
        weights, kept = tl.exp(scores - new[:, None]), tl.exp(top - new)
        total, top = total * kept + tl.sum(weights, 1), new
        values = tl.load(v + at, mask=inside, other=0.0)
        weighted = weighted * kept[:, None] + tl.dot(weights.to(values.dtype), values)
    result = (weighted / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + head + row[:, None] * dim + channel, result, mask=row[:, None] < length)


class Attention(torch.autograd.Function):
    """Queries, keys and values [batch, heads, length, dim], all of one shape; the backward pass is that of torch."""

    @staticmethod
    def forward(ctx, q, k, v, causal, sm_scale):
        assert q.is_cuda, "arrays on a device"
        assert q.shape == k.shape == v.shape, "queries, keys and values of one shape"
        assert q.shape[-1] in (16, 32, 64, 128), "head sizes of 16, 32, 64 and 128"
        batch, heads, length, dim = q.shape
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        out = torch.empty_like(q)
        forward[(batch * heads, triton.cdiv(length, 64))](q, k, v, out, sm_scale, length, causal, dim, 64, 32)
        ctx.save_for_backward(q, k, v, out)
        ctx.causal, ctx.scale = causal, sm_scale
        return out

    @staticmethod
    def backward(ctx, d_out):
        q, k, v, out = (x.float() for x in ctx.saved_tensors)
        scores = q @ k.mT * ctx.scale
        if ctx.causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        weights, wanted = scores.softmax(-1), d_out.float()
        d_scores = weights * (wanted @ v.mT - (wanted * out).sum(-1, keepdim=True)) * ctx.scale
        found = d_scores @ k, d_scores.mT @ q, weights.mT @ wanted
        return *(x.to(d_out.dtype) for x in found), None, None


attention = Attention.apply
