"""Right, but different: native sparse attention query by query, and with dense masks and means by running sums."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def fitting(q: Any, k: Any, v: Any, selected: Any) -> None:
    """Refuse arrays that do not belong together."""
    if k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        raise ValueError("queries, keys and values belong together")
    if selected.shape[:3] != (q.shape[0], k.shape[1], q.shape[2]):
        raise ValueError("every query has a list for each head of keys")


@adapter("native_sparse_attention", dtypes=DTYPES, conventions={"empty_list": "zeros"})
def control_sparse_by_queries(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    compressed_gate: Any = None,
    selected_gate: Any = None,
    window_gate: Any = None,
    *,
    block_size: int = 4,
    window_left: int = 2,
    scale: float | None = None,
) -> Any:
    """Query by query, with the keys of each branch in one piece."""
    import torch

    fitting(q, k, v, selected)
    (batch, heads, q_len, head_dim), k_len, group = q.shape, k.shape[2], q.shape[1] // k.shape[1]
    factor = head_dim**-0.5 if scale is None else scale
    out = torch.zeros(batch, heads, q_len, v.shape[3])
    for item, head, row in torch.cartesian_prod(*map(torch.arange, (batch, heads, q_len))).tolist():
        last, (keys, values) = k_len - q_len + row, (x[item, head // group].float() for x in (k, v))
        whole = (last + 1) // block_size * block_size
        means = [x[:whole].unflatten(0, (-1, block_size)).mean(1) if whole else x[:0] for x in (keys, values)]
        numbers = selected[item, head // group, row]
        found = (numbers[numbers >= 0][:, None] * block_size + torch.arange(block_size)).flatten()
        found = found[found <= last]
        near = slice(max(last - window_left, 0), last + 1)
        branches = (compressed_gate, means), (selected_gate, [keys[found], values[found]])
        for gate, (own, read) in (*branches, (window_gate, [keys[near], values[near]])):
            if gate is not None and len(own):
                weights = (factor * (own @ q[item, head, row].float())).softmax(0)
                out[item, head, row] += gate[item, head, row].float() * (weights @ read)
    return out.to(q.dtype)


@adapter("native_sparse_attention", dtypes=DTYPES, conventions={"empty_list": "nans"})
def control_sparse_by_masks(
    q: Any,
    k: Any,
    v: Any,
    selected: Any,
    compressed_gate: Any = None,
    selected_gate: Any = None,
    window_gate: Any = None,
    *,
    block_size: int = 4,
    window_left: int = 2,
    scale: float | None = None,
) -> Any:
    """All keys under a mask for each branch, and means that are stored in the dtype of the keys."""
    import torch

    fitting(q, k, v, selected)
    group, (q_len, k_len), head_dim = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2]), q.shape[3]
    factor, blocks = head_dim**-0.5 if scale is None else scale, -(-k_len // block_size)
    row, column = torch.arange(q_len)[:, None] + k_len - q_len, torch.arange(k_len)
    padded = [torch.nn.functional.pad(x.float(), (0, 0, 0, blocks * block_size - k_len)) for x in (k, v)]
    means = [x.unflatten(2, (blocks, block_size)).mean(3).to(k.dtype) for x in padded]
    complete = (torch.arange(blocks) + 1) * block_size - 1 <= row
    named = (selected[..., None] == column // block_size).any(3).repeat_interleave(group, 1)
    near = (column <= row) & (row - column <= window_left)
    out = torch.zeros(*q.shape[:3], v.shape[3])
    branches = (compressed_gate, means, complete), (selected_gate, [k, v], named & (column <= row))
    for gate, pair, seen in (*branches, (window_gate, [k, v], near)):
        if gate is not None:
            keys, values = (x.float().repeat_interleave(group, 1) for x in pair)
            scores = (factor * (q.float() @ keys.mT)).masked_fill(~seen, -torch.inf)
            read = scores.softmax(-1) @ values
            out += gate.float()[..., None] * (read if gate is selected_gate else read.nan_to_num(0))
    return out.to(q.dtype)
