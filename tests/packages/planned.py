"""FlashInfer's wrappers as somebody else writes them: planned for a batch, and then run; logsumexps are to base two."""

import functools
import itertools
import math

import torch


def attend(q, k, v, scale, causal, window, softcap=None, sink=None, mask=None):
    """[batch, length, heads, dim], and logsumexp [batch, heads, length]."""
    dtype = q.dtype
    q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = s if softcap is None else softcap * torch.tanh(s / softcap)
    ahead = torch.arange(k.shape[2])[None] - torch.arange(q.shape[2])[:, None] - (k.shape[2] - q.shape[2])
    hidden = (ahead > 0) & causal if mask is None else ~mask
    if window[0] >= 0:
        hidden = hidden | (-ahead > window[0])
    s = s.masked_fill(hidden, float("-inf"))
    v = v.masked_fill(hidden.all(0)[:, None], 0.0)  # what no query sees may be anything
    lse = torch.logsumexp(s, -1)
    weights = torch.exp(s - lse.clamp_min(-1e30)[..., None])
    return (weights @ v).transpose(1, 2).to(dtype), lse


def each(q, k, v, q_starts, k_starts, *given):
    """The same for packed items: output [tokens, heads, dim] and logsumexp [heads, tokens]."""
    assert {torch.int32} == {q_starts.dtype, k_starts.dtype}
    parts = [
        attend(q[None, a:b], k[None, c:d], v[None, c:d], *given)
        for a, b, c, d in zip(q_starts[:-1], q_starts[1:], k_starts[:-1], k_starts[1:], strict=True)
    ]
    return torch.cat([out[0] for out, _ in parts]), torch.cat([lse[0] for _, lse in parts], 1)


def paged(q, k_pages, v_pages, table, lens, *given, mask=None):
    """The same over pages [pages, page_size, heads, dim]; masks of all items lie one behind the other."""
    assert {torch.int32} == {table.dtype, lens.dtype}
    size, found = k_pages.shape[1], []
    masks = [None] * len(lens) if mask is None else mask.split((q.shape[1] * lens).tolist())
    for item, (pages, n) in enumerate(zip(table, lens.tolist(), strict=True)):
        own = pages[: -(-n // size)].long()
        keys, values = (x[own].flatten(0, 1)[None, :n] for x in (k_pages, v_pages))
        own = masks[item] if mask is None else masks[item].view(q.shape[1], n)
        found.append(attend(q[item : item + 1], keys, values, *given, mask=own))
    return torch.cat([out for out, _ in found]), torch.cat([lse for _, lse in found])


BACKENDS = ("auto", "fa2", "fa3", "cutlass", "trtllm-gen")


def base_two(lse):
    return lse / math.log(2)


class Wrapper:
    def __init__(self, float_workspace_buffer, kv_layout="NHD", *, backend="auto"):
        assert (torch.uint8, "NHD", True) == (float_workspace_buffer.dtype, kv_layout, backend in BACKENDS)


def whole(indptr, indices, last_page_len, page_size):
    """A table of pages, and the lengths of items."""
    counts = indptr.diff()
    table = torch.zeros(len(counts), int(counts.max()), dtype=torch.int32)
    for item, (start, stop) in enumerate(itertools.pairwise(indptr)):
        table[item, : stop - start] = indices[start:stop]
    return table, ((counts - 1) * page_size + last_page_len).int()


class BatchPrefillWithRaggedKVCacheWrapper(Wrapper):
    def plan(
        self,
        qo_indptr,
        kv_indptr,
        num_qo_heads,
        num_kv_heads,
        head_dim_qk,
        head_dim_vo=None,
        custom_mask=None,
        packed_custom_mask=None,
        causal=False,
        pos_encoding_mode="NONE",
        use_fp16_qk_reduction=False,
        window_left=-1,
        logits_soft_cap=None,
        sm_scale=None,
        rope_scale=None,
        rope_theta=None,
        q_data_type="float16",
    ):
        self.sizes, self.dtype = (num_qo_heads, num_kv_heads, head_dim_qk), q_data_type
        self.given = (qo_indptr, kv_indptr, sm_scale, causal, (window_left, -1), logits_soft_cap)

    def run(self, q, k, v, *args, out=None, lse=None, return_lse=False, lse_base="log2", lse_layout="NH"):
        assert (self.sizes, self.dtype) == ((q.shape[1], k.shape[1], q.shape[2]), q.dtype)
        out, lse = each(q, k, v, *self.given)
        return (out, base_two(lse.T)) if return_lse else out


def logged(function):
    """What FlashInfer puts around each method of its interface."""

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapped


class BatchPrefillWithPagedKVCacheWrapper:
    """With all parameters that flashinfer/prefill.py has."""

    @logged
    def __init__(
        self,
        float_workspace_buffer,
        kv_layout="NHD",
        use_cuda_graph=False,
        qo_indptr_buf=None,
        paged_kv_indptr_buf=None,
        paged_kv_indices_buf=None,
        paged_kv_last_page_len_buf=None,
        custom_mask_buf=None,
        mask_indptr_buf=None,
        backend="auto",
        jit_args=None,
        jit_kwargs=None,
    ):
        assert (torch.uint8, "NHD", True) == (float_workspace_buffer.dtype, kv_layout, backend in BACKENDS)

    @logged
    def plan(
        self,
        qo_indptr,
        paged_kv_indptr,
        paged_kv_indices,
        paged_kv_last_page_len,
        num_qo_heads,
        num_kv_heads,
        head_dim_qk,
        page_size,
        head_dim_vo=None,
        custom_mask=None,
        packed_custom_mask=None,
        causal=False,
        pos_encoding_mode="NONE",
        use_fp16_qk_reduction=False,
        sm_scale=None,
        window_left=-1,
        logits_soft_cap=None,
        rope_scale=None,
        rope_theta=None,
        q_data_type="float16",
        kv_data_type=None,
        o_data_type=None,
        non_blocking=True,
        prefix_len_ptr=None,
        token_pos_in_items_ptr=None,
        token_pos_in_items_len=0,
        max_item_len_ptr=None,
        seq_lens=None,
        seq_lens_q=None,
        block_tables=None,
        max_token_per_sequence=None,
        max_sequence_kv=None,
        fixed_split_size=None,
        disable_split_kv=False,
    ):
        self.sizes, self.dtype = (num_qo_heads, num_kv_heads, head_dim_qk, page_size), q_data_type
        self.starts, self.given = qo_indptr, (sm_scale, causal, (window_left, -1), logits_soft_cap)
        self.pages, self.mask = whole(paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, page_size), custom_mask

    begin_forward = plan

    @logged
    def run(
        self,
        q,
        paged_kv_cache,
        *args,
        q_scale=None,
        k_scale=None,
        v_scale=None,
        out=None,
        lse=None,
        return_lse=False,
        enable_pdl=None,
        window_left=None,
        sinks=None,
        kv_cache_sf=None,
        lse_base="log2",
        lse_layout="NH",
    ):
        keys, values = paged_kv_cache
        assert (self.sizes, self.dtype) == ((q.shape[1], keys.shape[2], q.shape[2], keys.shape[1]), q.dtype)
        (length,) = set(self.starts.diff().tolist())
        q = q.unflatten(0, (-1, length))
        out, lse = paged(q, keys, values, *self.pages, *self.given, mask=self.mask)
        return (out.flatten(0, 1), base_two(lse.transpose(1, 2).flatten(0, 1))) if return_lse else out.flatten(0, 1)


class BatchDecodeWithPagedKVCacheWrapper(Wrapper):
    def plan(
        self,
        indptr,
        indices,
        last_page_len,
        num_qo_heads,
        num_kv_heads,
        head_dim,
        page_size,
        *,
        sm_scale=None,
        window_left=-1,
        logits_soft_cap=None,
        q_data_type="float16",
    ):
        self.sizes, self.dtype = (num_qo_heads, num_kv_heads, head_dim, page_size), q_data_type
        self.pages = whole(indptr, indices, last_page_len, page_size)
        self.given = (sm_scale, True, (window_left, -1), logits_soft_cap)

    def run(self, q, paged_kv_cache, *args, q_scale=None, k_scale=None, v_scale=None, return_lse=False):
        keys, values = paged_kv_cache
        assert (self.sizes, self.dtype) == ((q.shape[1], keys.shape[2], q.shape[2], keys.shape[1]), q.dtype)
        out, lse = paged(q[:, None], keys, values, *self.pages, *self.given)
        return (out[:, 0], base_two(lse[..., 0])) if return_lse else out[:, 0]
