"""Codes with scales that reach a kernel by the parameters of known interfaces, and what goes wrong with them."""

import pytest
import torch

import attnspec


def kernel(item):
    """A function that takes the scale of the item that `item` says for each."""

    def flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        softmax_scale=None,
        q_descale=None,
        k_descale=None,
        v_descale=None,
    ):
        scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
        starts = [ends.tolist() for ends in (cu_seqlens_q, cu_seqlens_k)]
        group, outs = q.shape[1] // k.shape[1], [q.new_zeros(0, q.shape[1], v.shape[2]).float()]

        def meant(x, descale, i):
            return x.float() if descale is None else x.float() * descale[item(i), :, None]

        for i, (a, b, c, d) in enumerate(zip(starts[0], starts[0][1:], starts[1], starts[1][1:], strict=False)):
            by_head = None if q_descale is None else q_descale.repeat_interleave(group, 1)
            keys, values = (
                meant(x[c:d], s, i).repeat_interleave(group, 1) for x, s in ((k, k_descale), (v, v_descale))
            )
            s = torch.einsum("qhd,khd->hqk", meant(q[a:b], by_head, i), keys) * scale
            outs.append(torch.einsum("hqk,khd->qhd", s.softmax(-1), values))
        return torch.cat(outs).to(torch.bfloat16 if q.dtype.itemsize == 1 else q.dtype)

    return flash_attn_varlen_func


def verdict(item, dtype):
    given = {"profile": "smoke", "isolate": False, "laws": "quantized_pack.definition", "dtypes": (dtype,)}
    report = attnspec.check(kernel(item), like="flash_attn_varlen_func", **given)
    return {line["verdict"] for line in report.lines if line["kind"] == "cell"}, str(report)


@pytest.mark.parametrize(("dtype", "expected"), [("bfloat16", "pass"), ("float16", "not_declared")])
def test_codes_are_tried_in_the_dtype_of_what_is_returned_for_them(dtype, expected):
    assert {expected} == verdict(lambda i: i, dtype)[0]


def test_the_scale_of_another_item_is_found_and_named():
    found, text = verdict(lambda i: 0, "bfloat16")
    assert {"fail"} == found
    assert "Like      quantized_pack.scale_of_first_item" in text


def decoding(values_scaled=True):
    """Decoding over pages as FlashInfer has it: both scales of a product are one number."""

    def trtllm_batch_decode_with_kv_cache(
        query,
        kv_cache,
        workspace_buffer,
        block_tables,
        seq_lens,
        max_seq_len,
        bmm1_scale,
        bmm2_scale,
        window_left=-1,
        out=None,
    ):
        rows, group = len(query) // len(seq_lens), query.shape[1] // kv_cache.shape[2]
        for i, length in enumerate(seq_lens.tolist()):
            pages = kv_cache[block_tables[i].clamp_min(0).long()].float()
            k, v = (x.transpose(0, 1).flatten(1, 2)[:, :length].repeat_interleave(group, 0) for x in pages.unbind(1))
            place = slice(i * rows, (i + 1) * rows)
            ahead = torch.arange(length) - torch.arange(rows)[:, None] - (length - rows)
            hidden = (ahead > 0) | ((-ahead > window_left) & (window_left >= 0))
            scores = (query[place].float().transpose(0, 1) @ k.mT * bmm1_scale).masked_fill(hidden, -torch.inf)
            weights = scores.softmax(-1).nan_to_num()
            out[place] = ((weights @ v).transpose(0, 1) * (bmm2_scale if values_scaled else 1)).to(out.dtype)
        return out

    return trtllm_batch_decode_with_kv_cache


@pytest.mark.parametrize(("values_scaled", "expected"), [(True, {"pass"}), (False, {"fail"})])
def test_scales_of_a_cache_are_in_those_of_both_products(values_scaled, expected):
    given = {"profile": "smoke", "isolate": False, "explain_time": 0}
    report = attnspec.check(decoding(values_scaled), laws="quantized_pages.definition", **given)
    assert expected == {line["verdict"] for line in report.lines if line["kind"] == "cell"}, report
