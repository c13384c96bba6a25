"""Pages of keys and values in PyTorch: the experimental pages of FlexAttention, and a kernel for CUDA devices.

Documentation: https://docs.pytorch.org/docs/stable/nn.attention.varlen.html (block_table), and of the pages of
FlexAttention https://pytorch.org/blog/flexattention-for-inference/
The latter are one item of a batch, in which a `mask_mod` of places in an item becomes one of slots in the pool; what
stands in the table is set here, and not assigned by `reserve`. An entry of -1 is a page that is not there.
"""

from __future__ import annotations

from typing import Any

from . import Unsupported, adapter


@adapter(
    "paged_attention",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    conventions={"empty_row": "zeros", "grouping": "block"},
    compiled=True,
    slow=True,
    package="torch",
)
def torch_flex_paged(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """torch.nn.attention.experimental PagedAttention with flex_attention, not compiled."""
    import torch
    from torch.nn.attention.experimental._paged_attention import PagedAttention
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    (batch, q_len, heads, _), (pages, page_size, kv_heads, _) = q.shape, key_pages.shape
    paged = PagedAttention(pages, page_size, batch, device=str(q.device))
    for item, count in enumerate(k_lens.tolist()):
        used = -(-count // page_size)
        paged.page_table[item, :used] = table[item, :used]
        paged.physical_to_logical[item, table[item, :used]] = torch.arange(used, device=q.device)

    def place(b: Any, h: Any, i: Any, j: Any) -> Any:
        row = k_lens[b] - q_len + i
        return (row >= j) if window_left is None else (row >= j) & (row - j <= window_left)

    def capped(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score if softcap is None else softcap * torch.tanh(score / softcap)

    logical = create_block_mask(
        place, batch, None, q_len, table.shape[1] * page_size, device=str(q.device), BLOCK_SIZE=page_size
    )
    out = flex_attention(
        q.transpose(1, 2),
        *(x.flatten(0, 1).transpose(0, 1)[None].expand(batch, -1, -1, -1) for x in (key_pages, value_pages)),
        paged.get_score_mod(capped, k_lens),
        paged.convert_logical_block_mask(logical, kv_len=k_lens),
        scale,
        heads != kv_heads,
    )
    return out.transpose(1, 2)


@adapter(
    "paged_attention",
    dtypes=("float16", "bfloat16"),
    conventions={"grouping": "block"},
    devices=("cuda",),
    package="torch.nn.attention.varlen",
)
def torch_varlen_paged(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    window_left: int | None = None,
) -> Any:
    """torch.nn.attention.varlen.varlen_attn, with a block_table."""
    import torch
    from torch.nn.attention.varlen import varlen_attn

    if value_pages.shape != key_pages.shape:
        raise Unsupported("values have the shape of the keys")
    batch, q_len = q.shape[:2]
    out = varlen_attn(
        q.flatten(0, 1),
        key_pages,
        value_pages,
        torch.arange(0, batch * q_len + 1, q_len, device=q.device, dtype=torch.int32),
        None,
        q_len,
        table.shape[1] * key_pages.shape[1],
        scale=scale,
        window_size=(-1 if window_left is None else window_left, 0),
        enable_gqa=q.shape[2] != key_pages.shape[2],
        seqused_k=k_lens.int(),
        block_table=table.int(),
    )
    return out.unflatten(0, (batch, q_len))
