"""Caches whose keys lie in pieces of sixteen bytes, as the first kernels of paged attention have them."""

import pytest

import attnspec

SOURCE = """
import torch

{text}
"""
WRITE = """
def reshape_and_cache(key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, k_scale, v_scale):
    x, size = {x}, value_cache.shape[3]
    for token, slot in enumerate(slot_mapping.tolist()):
        if slot >= 0:
            page, place = slot // size, {place}
            key_cache[page, :, :, place] = key[token].reshape(key.shape[1], -1, x)
            value_cache[page, :, :, place] = value[token]
"""
READ = """
def paged_attention_{version}(
    out, {scratch}query, key_cache, value_cache, num_kv_heads, scale, block_tables, seq_lens, block_size, max_seq_len,
    alibi_slopes, kv_cache_dtype, k_scale, v_scale,
):
    group = query.shape[1] // num_kv_heads
    for item, count in enumerate(seq_lens.tolist()):
        pages = block_tables[item, : -(-count // block_size)].long()
        keys = key_cache[pages].permute(1, 0, 3, 2, 4).reshape(num_kv_heads, -1, query.shape[2]).float()
        values = value_cache[pages].permute(1, 0, 3, 2).reshape(num_kv_heads, -1, query.shape[2]).float()
        keys, values = (each.repeat_interleave(group, 0) for each in (keys, values))
        places = torch.arange(keys.shape[1])
        scores = (query[item].float()[:, None] @ keys.mT)[:, 0] * scale
        if alibi_slopes is not None:
            scores = scores + alibi_slopes[:, None] * (places - count + 1)
        shares = scores.masked_fill(places >= count, -torch.inf).softmax(-1)
        {tail}
        out[item] = (shares[:, None] @ values)[:, 0]
"""
SCRATCH = "exp_sum, max_logits, tmp_out, "
ZEROED = "values = values.masked_fill(places[:, None] >= count, 0.0)"


def report_of(tmp_path, text, dtypes=("float32", "bfloat16"), profile="smoke"):
    (tmp_path / "kernels.py").write_text(SOURCE.format(text=text))
    name = text.partition("def ")[2].partition("(")[0]
    report = attnspec.check(
        f"{tmp_path / 'kernels.py'}:{name}", profile=profile, dtypes=dtypes, explain_time=0, isolate=False
    )
    return report.verdicts[name], report


@pytest.mark.parametrize("x", ["key_cache.shape[4]", "16 // key.element_size()"])
def test_pieces_have_sixteen_bytes_in_every_dtype(tmp_path, x):
    verdict, report = report_of(tmp_path, WRITE.format(x=x, place="slot % size"))
    assert verdict == "conformant", report


@pytest.mark.parametrize("place", ["(slot + 1) % size", "slot % (size + 1) % size"])
def test_what_is_written_to_another_place_is_refuted(tmp_path, place):
    verdict, _ = report_of(tmp_path, WRITE.format(x="key_cache.shape[4]", place=place), "float32")
    assert verdict == "violated"


@pytest.mark.parametrize(("version", "scratch"), [("v1", ""), ("v2", SCRATCH)])
@pytest.mark.parametrize(("tail", "expected"), [(ZEROED, "conformant"), ("pass", "violated")])
def test_what_lies_behind_the_last_token_is_left_alone(tmp_path, version, scratch, tail, expected):
    text = READ.format(version=version, scratch=scratch, tail=tail)
    verdict, report = report_of(tmp_path, text, "float32", "quick")
    assert verdict == expected, report
