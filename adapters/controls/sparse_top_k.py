"""Right, but different: attention to the k largest scores as kernels compute it.

`control_selected` is also a second derivation: it never forms a row of weights over all keys.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def scores(q: Any, k: Any) -> Any:
    import torch

    return torch.einsum("bhid,bhjd->bhij", q.float(), k.float()) * q.shape[3] ** -0.5


@adapter("sparse_top_k", dtypes=DTYPES, conventions={"ties": "open"})
def control_gathered(q: Any, k: Any, v: Any, *, keep: int, chunks: int = 1) -> Any:
    """The k best by torch.topk for each run of queries, and their values gathered."""
    import torch

    outs = []
    for part in q.tensor_split(chunks, 2):
        best, index = scores(part, k).topk(keep, -1)  # [batch, heads, rows, keep]
        values = v.float()[:, :, None].expand(-1, -1, part.shape[2], -1, -1)
        picked = values.gather(3, index[..., None].expand(*index.shape, v.shape[3]))
        outs.append((best.softmax(-1)[..., None] * picked).sum(3))
    return torch.cat(outs, 2).to(q.dtype)


@adapter("sparse_top_k", dtypes=DTYPES, conventions={"ties": "every"})
def control_threshold(q: Any, k: Any, v: Any, *, keep: int) -> Any:
    """Everything below the last of the k best is masked."""
    s = scores(q, k)
    s = s.masked_fill(s < s.topk(keep, -1).values[..., -1:], float("-inf"))
    return (s.softmax(-1) @ v.float()).to(q.dtype)


@adapter("sparse_top_k", dtypes=DTYPES, conventions={"ties": "first"})
def control_scattered(q: Any, k: Any, v: Any, *, keep: int, chunks: int = 1) -> Any:
    """A stable sort, and the weights scattered into a matrix; runs of equal length, the last one shorter."""
    import torch

    length = -(-q.shape[2] // chunks) or 1
    outs = []
    for part in q.split(length, 2):
        ranked, index = scores(part, k).sort(dim=-1, descending=True, stable=True)
        weights = torch.zeros_like(ranked).scatter(-1, index[..., :keep], ranked[..., :keep].softmax(-1))
        outs.append(weights @ v.float())
    return torch.cat(outs, 2).to(q.dtype)


@adapter("sparse_top_k", dtypes=DTYPES, conventions={"ties": "last"})
def control_selected(q: Any, k: Any, v: Any, *, keep: int) -> Any:
    """The best key that is left, again and again, in double precision; of equal ones the last."""
    import torch

    s = torch.einsum("bhid,bhjd->bhij", q.double(), k.double()) * q.shape[3] ** -0.5
    top, out = s.amax(-1, keepdim=True), torch.zeros(*q.shape[:3], v.shape[3], dtype=torch.float64)
    total = torch.zeros_like(top)
    for _ in range(keep):
        best = s.shape[-1] - 1 - s.flip(-1).argmax(-1, keepdim=True)  # [batch, heads, q_len, 1]
        weight = torch.exp(s.gather(-1, best) - top)
        value = v.double().gather(2, best.expand(*best.shape[:3], v.shape[3]))
        out, total, s = out + weight * value, total + weight, s.scatter(-1, best, -torch.inf)
    return (out / total).to(q.dtype)
