"""Torch kernels as people write them."""

import torch


def varlen_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=False, softmax_scale=None):
    """q [total_q, heads, dim]"""
    outs = []
    for i in range(cu_seqlens_q.numel() - 1):
        qs = q[cu_seqlens_q[i] : cu_seqlens_q[i + 1]]
        ks = k[cu_seqlens_k[i] : cu_seqlens_k[i + 1]]
        vs = v[cu_seqlens_k[i] : cu_seqlens_k[i + 1]]
        g = qs.shape[1] // ks.shape[1]
        ks, vs = ks.repeat_interleave(g, 1), vs.repeat_interleave(g, 1)
        s = torch.einsum("shd,thd->hst", qs, ks) * (q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale)
        if causal:
            keep = torch.ones(len(qs), len(ks), dtype=torch.bool, device=q.device).tril(len(ks) - len(qs))
            s = s.masked_fill(~keep, float("-inf"))
        outs.append(torch.einsum("hst,thd->shd", torch.softmax(s, -1).nan_to_num(0.0), vs))
    return torch.cat(outs)


def triton_attention(q, k, v, causal, sm_scale, out=None):
    """The interface of Triton's tutorial: [batch, heads, n_ctx, dim]."""
    out = torch.empty(*q.shape[:3], v.shape[3], dtype=q.dtype) if out is None else out
    g = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    s = q @ k.transpose(-1, -2) * sm_scale
    if causal:
        keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        s = s.masked_fill(~keep, float("-inf"))
    out.copy_(torch.softmax(s, -1).nan_to_num(0.0) @ v)
    return out


def memory_efficient(query, key, value, attn_bias=None, p=0.0, scale=None):
    """xFormers: [B, M, H, K]."""
    scale = 1 / query.shape[-1] ** 0.5 if scale is None else scale
    q, k, v = (x.transpose(1, 2) for x in (query * scale, key, value))
    a = q @ k.transpose(-2, -1)
    if attn_bias is not None:
        a = a + attn_bias
    return (a.softmax(-1) @ v).transpose(1, 2)


def qkvpacked(qkv, causal=False, softmax_scale=None):
    """qkv [batch, length, 3, heads, dim]"""
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    a = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale)
    if causal:
        a = a.masked_fill(torch.ones_like(a, dtype=torch.bool).triu(1), float("-inf"))
    return (a.softmax(-1) @ v).transpose(1, 2)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    """As vLLM has it: both are changed in place."""
    residual.add_(x)
    y = residual.float()
    x.copy_((y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight)


def flash_attention_backward(dout, q, k, v, out, softmax_lse, causal, softmax_scale):
    """Gradients of q, k and v [batch, length, heads, dim], by the logsumexp [batch, heads, length]."""
    q, k, v, out, dout = (x.float().transpose(1, 2) for x in (q, k, v, out, dout))
    a = q @ k.transpose(-1, -2) * softmax_scale
    if causal:
        hidden = torch.ones_like(a, dtype=torch.bool).triu(1 + k.shape[2] - q.shape[2])
        a = a.masked_fill(hidden, float("-inf"))
    p = (a - softmax_lse[..., None]).exp()
    ds = p * (dout @ v.transpose(-1, -2) - (dout * out).sum(-1, keepdim=True)) * softmax_scale
    return tuple(x.transpose(1, 2) for x in (ds @ k, ds.transpose(-1, -2) @ q, p.transpose(-1, -2) @ dout))


def rms_norm_bwd(dy, x, w, rstd):
    """Gradients of x [rows, n] and w [n], by one over the root mean square [rows]."""
    assert x.ndim == 2
    normed, pulled = x.float() * rstd[:, None], dy.float() * w.float()
    dx = (pulled - normed * (normed * pulled).mean(-1, keepdim=True)) * rstd[:, None]
    return dx.to(x.dtype), (dy.float() * normed).sum(0).to(x.dtype)


def add_rms_norm(hidden_states, residual, weight, variance_epsilon=1e-6):
    hidden_states = hidden_states + residual
    residual = hidden_states
    h = hidden_states.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + variance_epsilon)
    return weight * h.to(hidden_states.dtype), residual
