"""Right, but different: compressed attention query by query, and by convolutions under a dense mask."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def fitting(q: Any, k: Any, v: Any) -> None:
    """Refuse arrays that do not belong together."""
    if k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        raise ValueError("queries, keys and values belong together")


def by_block(x: Any, positions: Any, matrix: Any, second: Any, stride: int, block_size: int) -> Any:
    """The blocks that are whole, each compressed by itself in float32: [batch, heads, blocks, size]."""
    import torch

    found = []
    for start in range(0, x.shape[2] - block_size + 1, stride):
        block = x[:, :, start : start + block_size].float()
        block = block if positions is None else block + positions.float()
        one = block.mean(2) if matrix is None else torch.einsum("bgrd,grde->bge", block, matrix.float())
        found.append(one if second is None else torch.einsum("bge,gef->bgf", one.relu(), second.float()))
    return torch.stack(found, 2) if found else x[:, :, :0].float()


@adapter("compressed_attention", dtypes=DTYPES)
def control_compressed_by_queries(
    q: Any,
    k: Any,
    v: Any,
    k_positions: Any = None,
    v_positions: Any = None,
    k_map: Any = None,
    v_map: Any = None,
    k_second: Any = None,
    v_second: Any = None,
    *,
    stride: int,
    block_size: int,
    select_size: int,
    scale: float | None = None,
) -> Any:
    """Query by query, and the weight of each stride of keys spread over them before blocks are added up."""
    import torch

    fitting(q, k, v)
    (batch, heads, q_len, head_dim), (kv_heads, k_len) = q.shape, k.shape[1:3]
    factor = head_dim**-0.5 if scale is None else scale
    keys = by_block(k, k_positions, k_map, k_second, stride, block_size)
    values = by_block(v, v_positions, v_map, v_second, stride, block_size)
    out = torch.zeros(batch, heads, q_len, v.shape[3])
    blocks = -(-k_len // select_size)
    units = torch.zeros(batch, kv_heads, q_len, blocks * select_size // stride)
    for item, head, row in torch.cartesian_prod(*map(torch.arange, (batch, heads, q_len))).tolist():
        whole = max((k_len - q_len + row + 1 - block_size) // stride + 1, 0)
        if not whole:
            continue
        own = head // (heads // kv_heads)
        weights = (factor * (keys[item, own, :whole] @ q[item, head, row].float())).softmax(0)
        out[item, head, row] = weights @ values[item, own, :whole]
        for ahead in range(block_size // stride):
            units[item, own, row, ahead : ahead + whole] += weights
    return {"out": out.to(q.dtype), "importance": units.unflatten(3, (blocks, -1)).sum(4)}


@adapter("compressed_attention", dtypes=DTYPES)
def control_compressed_by_convolution(
    q: Any,
    k: Any,
    v: Any,
    k_positions: Any = None,
    v_positions: Any = None,
    k_map: Any = None,
    v_map: Any = None,
    k_second: Any = None,
    v_second: Any = None,
    *,
    stride: int,
    block_size: int,
    select_size: int,
    scale: float | None = None,
) -> Any:
    """The map as a convolution with a stride, positions as its bias, and importance by a second convolution."""
    import torch
    from torch.nn.functional import conv1d, pad

    fitting(q, k, v)
    (batch, heads, q_len, head_dim), (kv_heads, k_len) = q.shape, k.shape[1:3]
    factor = head_dim**-0.5 if scale is None else scale

    def convolved(x: Any, positions: Any, matrix: Any, second: Any) -> Any:
        size = x.shape[3]
        if matrix is None:
            matrix = torch.eye(size).expand(kv_heads, block_size, size, size) / block_size
        kernel = matrix.float().permute(0, 3, 2, 1).flatten(0, 1)
        padded = pad(x.float(), (0, 0, 0, max(block_size - k_len, 0))).mT.flatten(1, 2)
        found = conv1d(padded, kernel, stride=stride, groups=kv_heads).unflatten(1, (kv_heads, -1)).mT
        if positions is not None:
            found = found + torch.einsum("grd,grde->ge", positions.float(), matrix.float())[:, None]
        return found if second is None else found.relu() @ second.float()

    keys, values = convolved(k, k_positions, k_map, k_second), convolved(v, v_positions, v_map, v_second)
    group, present = heads // kv_heads, keys.shape[2]
    ends = torch.arange(present) * stride + block_size - 1
    seen = ends <= torch.arange(q_len)[:, None] + k_len - q_len
    scores = factor * (q.float().unflatten(1, (kv_heads, group)) @ keys[:, :, None].mT)
    weights = scores.masked_fill(~seen, -torch.inf).softmax(4).nan_to_num(0)
    out = (weights @ values[:, :, None]).flatten(1, 2)
    ahead, per = block_size // stride, select_size // stride
    counts = conv1d(torch.ones(1, 1, per), torch.ones(1, 1, ahead), padding=ahead - 1)
    blocks = -(-k_len // select_size)
    room = (blocks - 1) * per + counts.shape[2] - (ahead - 1) - present
    rows = pad(weights.sum(2).flatten(0, 2)[:, None], (ahead - 1, room))
    importance = conv1d(rows, counts, stride=per)[:, 0].unflatten(0, (batch, kv_heads, q_len))
    return {"out": out.to(q.dtype), "importance": importance}
