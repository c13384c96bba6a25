"""Right, but different: Linformer as kernels compute it."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


@adapter("linformer", dtypes=DTYPES)
def control_mixed_by_blocks(q: Any, k: Any, v: Any, e: Any, f: Any) -> Any:
    """Keys and values mixed 16 positions at a time, the last ones first, and a softmax by powers of two."""
    import torch

    keys, values = (
        sum(
            (
                torch.einsum("pn,bhnd->bhpd", w[:, i : i + 16], x[:, :, i : i + 16])
                for i in reversed(range(0, x.shape[2], 16))
            ),
            torch.zeros(*x.shape[:2], w.shape[0], x.shape[3]),
        )
        for w, x in ((e.float(), k.float()), (f.float(), v.float()))
    )
    s = (q.float() * (1.4426950408889634 * q.shape[3] ** -0.5)) @ keys.transpose(2, 3)
    p = torch.exp2(s - s.amax(-1, keepdim=True))
    return (p @ values / p.sum(-1, keepdim=True)).to(q.dtype)


@adapter("linformer", dtypes=DTYPES)
def control_mixed_scores(q: Any, k: Any, v: Any, e: Any, f: Any) -> Any:
    """The scores of all positions, which are then mixed, and the weights spread over the positions."""
    import torch

    s = (q.float() @ k.float().transpose(2, 3)) @ e.float().T * q.shape[3] ** -0.5
    return ((torch.softmax(s, -1) @ f.float()) @ v.float()).to(q.dtype)


@adapter("linformer", dtypes=DTYPES)
def control_low_rank_layer(q: Any, k: Any, v: Any, e: Any, f: Any) -> Any:
    """A layer as models have it: what is mixed is stored in the dtype of the inputs."""
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(q, (k.transpose(2, 3) @ e.T).transpose(2, 3), f @ v)


@adapter("linformer", dtypes=DTYPES)
def control_linformer_float64(q: Any, k: Any, v: Any, e: Any, f: Any) -> Any:
    """Everything in double precision, rounded once."""
    import torch

    wide = [t.double() for t in (q, k, v, e, f)]
    s = torch.einsum("bhid,pn,bhnd->bhip", wide[0], wide[3], wide[1]) / q.shape[3] ** 0.5
    return torch.einsum("bhip,pn,bhnd->bhid", torch.softmax(s, -1), wide[4], wide[2]).to(q.dtype)
