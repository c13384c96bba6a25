"""Functions of paged caches as people write them: pages in rows of a table or one after the other, queries packed."""

import itertools

import torch

from .test_plain_functions import conforming, refuted


def attend(q, k, v):
    """What queries [queries, heads, dim] see of keys [keys, kv_heads, dim], of which they are the last."""
    groups = q.shape[1] // k.shape[1]
    k, v = (x.float().transpose(0, 1).repeat_interleave(groups, 0) for x in (k, v))
    scores = q.float().transpose(0, 1) @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    place = torch.arange(len(q))[:, None] + k.shape[1] - len(q)
    hidden = torch.arange(k.shape[1]) > place
    return torch.nan_to_num(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(0, 1)


def tokens_of(cache, pages, count):
    return cache[pages.long()].flatten(0, 1)[:count]


def decode(q, k_cache, v_cache, kv_indptr, kv_indices, kv_last_page_len):
    out = q.new_empty(*q.shape[:2], v_cache.shape[-1])
    for item, (start, end) in enumerate(zip(kv_indptr[:-1].tolist(), kv_indptr[1:].tolist(), strict=True)):
        count = (end - start - 1) * k_cache.shape[1] + int(kv_last_page_len[item])
        k, v = (tokens_of(cache, kv_indices[start:end], count) for cache in (k_cache, v_cache))
        out[item] = attend(q[item : item + 1], k, v)[0]
    return out


def decode_by_lengths(q, k_cache, v_cache, indptr, indices, seq_lens):
    return decode(q, k_cache, v_cache, indptr, indices, (seq_lens - 1) % k_cache.shape[1] + 1)


def prefill(q, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, kv_last_page_len):
    out = q.new_empty(*q.shape[:2], v_cache.shape[-1])
    for item, last in enumerate(kv_last_page_len.tolist()):
        start, end = kv_indptr[item : item + 2].tolist()
        own = slice(*qo_indptr[item : item + 2].tolist())
        count = (end - start - 1) * k_cache.shape[1] + last
        out[own] = attend(q[own], *(tokens_of(cache, kv_indices[start:end], count) for cache in (k_cache, v_cache)))
    return out


def flash_attn_paged(q, k_cache, v_cache, cu_seqlens_q, seqused_k, block_table, causal=False):
    out = q.new_empty(*q.shape[:2], v_cache.shape[-1])
    for item, count in enumerate(seqused_k.tolist()):
        own = slice(*cu_seqlens_q[item : item + 2].tolist())
        pages = block_table[item, : -(-count // k_cache.shape[1])]
        k, v = (tokens_of(cache, pages, count) for cache in (k_cache, v_cache))
        rows = [own] if causal else [slice(at, at + 1) for at in range(own.start, own.stop)]
        for some in rows:  # each query alone sees all keys
            out[some] = attend(q[some], k, v)
    return out


def decode_of_full_pages(q, k_cache, v_cache, kv_indptr, kv_indices, kv_last_page_len):
    full = torch.full_like(kv_last_page_len, k_cache.shape[1])
    return decode(q, k_cache, v_cache, kv_indptr, kv_indices, full)


def decode_without_the_last_token(q, k_cache, v_cache, kv_indptr, kv_indices, kv_last_page_len):
    return decode(q, k_cache, v_cache, kv_indptr, kv_indices, (kv_last_page_len - 1).clamp(min=1))


def prefill_one_key_ahead(q, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, kv_last_page_len):
    out = prefill(q, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, kv_last_page_len)
    for start, end in itertools.pairwise(qo_indptr.tolist()):
        out[start : end - 1] = out[start + 1 : end].clone()
    return out


def flash_attn_paged_of_the_first_item(q, k_cache, v_cache, cu_seqlens_q, seqused_k, block_table):
    most = int(seqused_k.min()) if len(seqused_k) else 0
    return flash_attn_paged(q, k_cache, v_cache, cu_seqlens_q, seqused_k.clamp(max=most), block_table, causal=True)


def seen_naively(q, k, v, causal=True):
    """What queries see of keys, of which they are the last: NaN where all are hidden, and zero where there is none."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q * q.shape[-1] ** -0.5, k).float()
    hidden = torch.ones(scores.shape[1:]).triu(len(k) - len(q) + 1 if causal else len(k)).bool()
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, -torch.inf).softmax(-1).to(v.dtype), v)


def ref_paged_attn(query, key_cache, value_cache, query_lens, kv_lens, block_tables, seen=seen_naively):
    rows, out = query.split([int(n) for n in query_lens]), []
    for item, (q, count) in enumerate(zip(rows, map(int, kv_lens), strict=True)):
        pages = block_tables[item, : -(-count // key_cache.shape[1])]
        out.append(seen(q, *(tokens_of(cache, pages, count) for cache in (key_cache, value_cache))))
    return torch.cat(out)


def ref_paged_attn_of_lost_items(query, key_cache, value_cache, query_lens, kv_lens, block_tables):
    def seen(q, k, v):
        return attend(q, k, v) if len(k) else torch.nan * attend(q, k, v)

    return ref_paged_attn(query, key_cache, value_cache, query_lens, kv_lens, block_tables, seen)


def ref_paged_attn_of_lost_rows(query, key_cache, value_cache, query_lens, kv_lens, block_tables):
    def seen(q, k, v):
        return seen_naively(q, k, v) if len(k) != 1 else torch.nan * attend(q, k, v)

    return ref_paged_attn(query, key_cache, value_cache, query_lens, kv_lens, block_tables, seen)


def varlen_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, causal=False):
    bounds = (itertools.pairwise(each.tolist()) for each in (cu_seqlens_q, cu_seqlens_k))
    items = [seen_naively(q[a:b], k[c:d], v[c:d], causal) for (a, b), (c, d) in zip(*bounds, strict=True)]
    return torch.cat([q.new_zeros(0, q.shape[1], v.shape[2]), *items])


def varlen_attention_of_lost_items(q, k, v, cu_seqlens_q, cu_seqlens_k, causal=False):
    out = varlen_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, causal).nan_to_num()
    bounds = (itertools.pairwise(each.tolist()) for each in (cu_seqlens_q, cu_seqlens_k))
    for (a, b), (c, d) in zip(*bounds, strict=True):
        out[a:b] = torch.nan if c == d else out[a:b]
    return out


RIGHT = {
    decode: "bhd_nhd",
    decode_by_lengths: "bhd_nhd",
    prefill: "thd_nhd",
    flash_attn_paged: "thd_nhd",
}
WRONG = (
    decode_of_full_pages, decode_without_the_last_token, prefill_one_key_ahead, flash_attn_paged_of_the_first_item,
    ref_paged_attn_of_lost_items, ref_paged_attn_of_lost_rows, varlen_attention_of_lost_items,
)  # fmt: skip
NAIVE = (ref_paged_attn, varlen_attention)


def is_read_in_its_layout(function, report):
    assert {RIGHT[function]} == {cell["run"]["layout"] for cell in report.cells if cell.get("run")}


def has_nan_where_keys_are_hidden(function, report):
    assert "empty_row = hidden_nans" in str(report)


test_a_naive_function_conforms = conforming(NAIVE, has_nan_where_keys_are_hidden, "quick")
test_a_right_function_conforms = conforming(RIGHT, is_read_in_its_layout)
test_a_wrong_function_does_not = refuted(WRONG)
