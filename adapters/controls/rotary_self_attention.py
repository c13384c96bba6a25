"""Right, but different: attention layers with rotary positions that compute as kernels do; no law may accuse them."""

from __future__ import annotations

from typing import Any

from .. import adapter
from . import decoder
from .decoder import split

DTYPES = ("float32", "bfloat16", "float16")


def turned(x: Any, base: float, width: int | None, neighbours: bool) -> Any:
    """The first channels in pairs, turned by their token's position, and the others as they are."""
    import torch

    width = int(x.shape[-1] if width is None else width)
    if width % 2 or not 0 < width <= x.shape[-1]:
        raise ValueError("an odd rotary width, or one that is wider than a head")
    return torch.cat([decoder.turned(x[..., :width], base, neighbours), x[..., width:]], -1)


def normed(x: Any, weight: Any, eps: float) -> Any:
    """Each head normalised by itself, or as it is without a weight."""
    return x if weight is None else decoder.normed(x, weight, eps)


def projected(x: Any, w: Any, b: Any) -> Any:
    """The product and its sum with the bias, each of which is stored."""
    return x @ w if b is None else x @ w + b


def layer(
    x: Any,
    matrices: tuple[Any, ...],
    heads: int,
    kv_heads: int | None = None,
    base: float = 10000.0,
    rotary_dim: int | None = None,
    eps: float = 1e-6,
    pairing: str = "halves",
    causal: bool = True,
    **more: Any,
) -> Any:
    """A layer whose steps store their results in the dtype of the input; `more` are its biases and norms, by name."""
    import torch

    wq, wk, wv, wo = matrices
    groups = heads if kv_heads is None else kv_heads
    if wq.shape[-1] % heads or heads % groups or wk.shape[-1] * heads != wq.shape[-1] * groups:
        raise ValueError("the matrices do not belong to these heads")
    q = normed(split(projected(x, wq, more.get("bq")), heads), more.get("q_norm"), eps)
    k = normed(split(projected(x, wk, more.get("bk")), groups), more.get("k_norm"), eps)
    q, k = (turned(a, base, rotary_dim, pairing == "neighbours") for a in (q, k))
    v = split(projected(x, wv, more.get("bv")), groups)
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return projected(o.transpose(1, 2).flatten(2), wo, more.get("bo"))


@adapter("rotary_self_attention", dtypes=DTYPES, conventions={"pairing": "halves"})
def control_rotary_attention(
    x: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    kv_heads: int | None = None,
    bq: Any = None,
    bk: Any = None,
    bv: Any = None,
    bo: Any = None,
    q_norm: Any = None,
    k_norm: Any = None,
    base: float = 10000.0,
    rotary_dim: int | None = None,
    eps: float = 1e-6,
    causal: bool = True,
) -> Any:
    """One step after the other, each storing its result in the dtype of the input."""
    more = {"bq": bq, "bk": bk, "bv": bv, "bo": bo, "q_norm": q_norm, "k_norm": k_norm}
    return layer(x, (wq, wk, wv, wo), heads, kv_heads, base, rotary_dim, eps, causal=causal, **more)


@adapter("rotary_self_attention", dtypes=DTYPES, conventions={"pairing": "neighbours"})
def control_rotary_attention_of_neighbours(
    x: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    kv_heads: int | None = None,
    bq: Any = None,
    bk: Any = None,
    bv: Any = None,
    q_norm: Any = None,
    k_norm: Any = None,
    base: float = 10000.0,
    rotary_dim: int | None = None,
    eps: float = 1e-6,
) -> Any:
    """Neighbouring channels in pairs, everything in double precision, rounded once."""
    more = {"bq": bq, "bk": bk, "bv": bv, "q_norm": q_norm, "k_norm": k_norm}
    wide: dict[str, Any] = {name: None if a is None else a.double() for name, a in more.items()}
    matrices = (wq.double(), wk.double(), wv.double(), wo.double())
    return layer(x.double(), matrices, heads, kv_heads, base, rotary_dim, eps, "neighbours", **wide).to(x.dtype)


@adapter("rotary_self_attention", dtypes=DTYPES, conventions={"pairing": "halves"})
def control_rotary_attention_token_by_token(
    x: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    kv_heads: int | None = None,
    q_norm: Any = None,
    k_norm: Any = None,
    base: float = 10000.0,
    rotary_dim: int | None = None,
    eps: float = 1e-6,
    causal: bool = True,
) -> Any:
    """Every token by itself, with the keys and values of those that it sees, in single precision throughout."""
    import torch

    a, (wq, wk, wv, wo) = x.float(), (w.float() for w in (wq, wk, wv, wo))
    groups = heads if kv_heads is None else kv_heads
    q_norm, k_norm = (None if norm is None else norm.float() for norm in (q_norm, k_norm))
    q = turned(normed(split(a @ wq, heads), q_norm, eps), base, rotary_dim, neighbours=False)
    k = turned(normed(split(a @ wk, groups), k_norm, eps), base, rotary_dim, neighbours=False)
    v = split(a @ wv, groups)
    q = q.unflatten(1, (groups, -1))  # [batch, groups, heads of one, length, channels]
    rows = []
    for t in range(x.shape[1]):
        seen = slice(0, t + 1 if causal else None)
        s = torch.einsum("bghd,bgkd->bghk", q[..., t, :], k[:, :, seen]) / q.shape[-1] ** 0.5
        rows.append(torch.einsum("bghk,bgkd->bghd", torch.softmax(s, -1), v[:, :, seen]).flatten(1) @ wo)
    return torch.stack(rows, 1).to(x.dtype)
