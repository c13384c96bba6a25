"""Right, but different: transformer blocks that compute as kernels do, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
WEIGHTS = ("attention_norm", "wq", "wk", "wv", "wo", "mlp_norm", "w_gate", "w_up", "w_down")


def normed(x: Any, weight: Any, eps: float) -> Any:
    """Root mean square normalisation in single precision or better, stored in the dtype of the input."""
    import torch

    y = x if x.dtype == torch.float64 else x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def split(x: Any, heads: int) -> Any:
    """[batch, length, heads * head_dim] to [batch, heads, length, head_dim]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def turned(x: Any, base: float, neighbours: bool) -> Any:
    """Pairs of channels as complex numbers, turned by their token's position."""
    import torch

    first, second = (x[..., ::2], x[..., 1::2]) if neighbours else x.chunk(2, -1)
    theta = base ** (-torch.arange(x.shape[-1] // 2, dtype=torch.float64) * 2 / x.shape[-1])
    angle = torch.arange(x.shape[2])[:, None] * theta
    z = torch.complex(first.double(), second.double()) * torch.polar(torch.ones_like(angle), angle)
    parts = [z.real.to(x.dtype), z.imag.to(x.dtype)]
    return torch.stack(parts, -1).flatten(-2) if neighbours else torch.cat(parts, -1)


def block(x: Any, w: dict[str, Any], heads: int, kv_heads: int | None, eps: float, base: float, pairing: str) -> Any:
    """A block whose layers store their results in the dtype of the input."""
    import torch

    groups = heads if kv_heads is None else kv_heads
    if w["wq"].shape[-1] % heads or heads % groups or w["wk"].shape[-1] * heads != w["wq"].shape[-1] * groups:
        raise ValueError("the matrices do not belong to these heads")
    a = normed(x, w["attention_norm"], eps)
    q, k = (turned(split(a @ m, n), base, pairing == "neighbours") for m, n in ((w["wq"], heads), (w["wk"], groups)))
    o = torch.nn.functional.scaled_dot_product_attention(
        q, k, split(a @ w["wv"], groups), is_causal=True, enable_gqa=True
    )
    h = x + o.transpose(1, 2).flatten(2) @ w["wo"]
    a = normed(h, w["mlp_norm"], eps)
    return h + (torch.nn.functional.silu(a @ w["w_gate"]) * (a @ w["w_up"])) @ w["w_down"]


@adapter("transformer_block", dtypes=DTYPES, conventions={"pairing": "halves"})
def control_block(
    x: Any, *weights: Any, heads: int, kv_heads: int | None = None, eps: float = 1e-5, base: float = 10000.0
) -> Any:
    """One layer after the other, each storing its result in the dtype of the input."""
    return block(x, dict(zip(WEIGHTS, weights, strict=True)), heads, kv_heads, eps, base, "halves")


@adapter("transformer_block", dtypes=DTYPES, conventions={"pairing": "neighbours"})
def control_block_of_neighbours(
    x: Any, *weights: Any, heads: int, kv_heads: int | None = None, eps: float = 1e-5, base: float = 10000.0
) -> Any:
    """Neighbouring channels in pairs."""
    return block(x, dict(zip(WEIGHTS, weights, strict=True)), heads, kv_heads, eps, base, "neighbours")


@adapter("transformer_block", dtypes=DTYPES, conventions={"pairing": "halves"})
def control_block_float64(
    x: Any, *weights: Any, heads: int, kv_heads: int | None = None, eps: float = 1e-5, base: float = 10000.0
) -> Any:
    """Everything in double precision, rounded once."""
    wide = {name: w.double() for name, w in zip(WEIGHTS, weights, strict=True)}
    return block(x.double(), wide, heads, kv_heads, eps, base, "halves").to(x.dtype)


@adapter("transformer_block", dtypes=DTYPES, conventions={"pairing": "halves"})
def control_block_token_by_token(
    x: Any, *weights: Any, heads: int, kv_heads: int | None = None, eps: float = 1e-5, base: float = 10000.0
) -> Any:
    """Every token by itself, with the keys and values of those before it, in single precision throughout."""
    import torch

    w = {name: tensor.float() for name, tensor in zip(WEIGHTS, weights, strict=True)}
    groups = heads if kv_heads is None else kv_heads
    a = normed(x.float(), w["attention_norm"], eps)
    q, k = (turned(split(a @ m, n), base, neighbours=False) for m, n in ((w["wq"], heads), (w["wk"], groups)))
    v = split(a @ w["wv"], groups)
    q = q.unflatten(1, (groups, -1))  # [batch, groups, heads of one, length, head_dim]
    rows = []
    for t in range(x.shape[1]):
        s = torch.einsum("bghd,bgkd->bghk", q[..., t, :], k[:, :, : t + 1]) / q.shape[-1] ** 0.5
        o = torch.einsum("bghk,bgkd->bghd", torch.softmax(s, -1), v[:, :, : t + 1])
        h = x[:, t].float() + o.flatten(1) @ w["wo"]
        a = normed(h, w["mlp_norm"], eps)
        rows.append(h + (torch.nn.functional.silu(a @ w["w_gate"]) * (a @ w["w_up"])) @ w["w_down"])
    return torch.stack(rows, 1).to(x.dtype)


@adapter("decoder", dtypes=DTYPES, conventions={"pairing": "halves"})
def control_decoder(
    tokens: Any,
    embedding: Any,
    *weights: Any,
    heads: int,
    kv_heads: int | None = None,
    eps: float = 1e-5,
    base: float = 10000.0,
) -> Any:
    """One layer after the other, each storing its result in the dtype of the weights."""
    *stacked, final_norm = weights
    x = embedding[looked_up(tokens, embedding)]
    for layer in zip(*stacked, strict=True):
        x = block(x, dict(zip(WEIGHTS, layer, strict=True)), heads, kv_heads, eps, base, "halves")
    return normed(x, final_norm, eps) @ embedding.mT


@adapter("decoder", dtypes=DTYPES, conventions={"pairing": "neighbours"})
def control_decoder_float64(
    tokens: Any,
    embedding: Any,
    *weights: Any,
    heads: int,
    kv_heads: int | None = None,
    eps: float = 1e-5,
    base: float = 10000.0,
) -> Any:
    """Everything in double precision, one item of the batch at a time, rounded once."""
    import torch

    *stacked, final_norm = (w.double() for w in weights)
    rows = []
    for item in looked_up(tokens, embedding):
        x = embedding[item][None].double()
        for layer in zip(*stacked, strict=True):
            x = block(x, dict(zip(WEIGHTS, layer, strict=True)), heads, kv_heads, eps, base, "neighbours")
        rows.append((normed(x[0], final_norm, eps) @ embedding.double().mT).to(embedding.dtype))
    return torch.stack(rows) if rows else embedding.new_zeros(*tokens.shape, len(embedding))


def looked_up(tokens: Any, embedding: Any) -> Any:
    """The tokens, if every one has a row in the embedding."""
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < len(embedding):
        raise ValueError("a token without a row in the embedding")
    return tokens
