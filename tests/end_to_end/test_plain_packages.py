"""Functions as packages have them beside their kernels, to compare these with: right and wrong ones."""

import torch
import torch.nn.functional as F

import attnspec

from .test_plain_functions import conforming, refuted, report_of


def rope(x, *, seqpos=None, theta=10000, adjacents=True):
    return turned(x, seqpos, theta, adjacents)


def rope_of_the_other_pairs(x, *, seqpos=None, theta=10000, adjacents=True):
    return turned(x, seqpos, theta, not adjacents)


def turned(x, seqpos, theta, adjacents):
    """[batch, length, heads, dim]."""
    dim, place = x.shape[-1], torch.arange(x.shape[1]) if seqpos is None else seqpos
    angle = torch.outer(place.float(), theta ** (-torch.arange(0, dim, 2) / dim))
    turn = torch.polar(torch.ones_like(angle), angle)[:, None]
    pairs = x.float().unflatten(-1, (-1, 2)) if adjacents else x.float().unflatten(-1, (2, -1)).transpose(-1, -2)
    out = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
    return (out if adjacents else out.transpose(-1, -2)).flatten(-2).type_as(x)


def attention_band_mask_ref(batch_size, q, k, v, sm_scale, causal, window_left, window_right):
    return banded(batch_size, q, k, v, sm_scale, window_left, 0 if causal else window_right)


def attention_band_mask_of_one_less(batch_size, q, k, v, sm_scale, causal, window_left, window_right):
    return banded(batch_size, q, k, v, sm_scale, window_left - 1, 0 if causal else window_right)


def by_items(x, batch):
    tokens, heads, dim = x.shape
    return x.reshape(batch, tokens // batch, heads, dim).transpose(1, 2).float()


def banded(batch, q, k, v, scale, left, right):
    """Rows of tokens, and windows that are not bounded at -1."""
    q, k, v = (by_items(x, batch) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    apart = torch.arange(k.shape[2]) - torch.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None]
    hidden = ((apart > right) & (right >= 0)) | ((-apart > left) & (left >= 0))
    scores = (q @ k.mT * scale).masked_fill(hidden, -torch.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(0, 1)


def ssd_minimal_discrete(X, A, B, C, block_len, initial_states=None):
    return in_blocks(X, A, B, C, block_len, initial_states, lambda total, running: total - running)


def ssd_without_decay_to_the_end(X, A, B, C, block_len, initial_states=None):
    return in_blocks(X, A, B, C, block_len, initial_states, lambda total, running: 0 * running)


def in_blocks(x, a, b, c, block_len, state, left):
    """Tokens of [batch, length, heads, dim]; the state of a block is read by the next."""
    state, out = x.new_zeros(len(x), x.shape[2], x.shape[3], b.shape[3]) if state is None else state[:, 0], []
    for v, gate, k, q in zip(*(one.split(block_len, 1) for one in (x, a, b, c)), strict=True):
        running = gate.cumsum(1)
        apart = (running[:, :, None] - running[:, None]).permute(0, 3, 1, 2)
        seen = torch.ones(v.shape[1], v.shape[1]).tril().bool()
        scores = torch.einsum("bihn,bjhn->bhij", q, k) * apart.masked_fill(~seen, -torch.inf).exp()
        own = torch.einsum("bhij,bjhp->bihp", scores, v)
        out.append(own + torch.einsum("bihn,bhpn,bih->bihp", q, state, running.exp()))
        total = running[:, -1:]
        added = torch.einsum("bjhn,bjh,bjhp->bhpn", k, left(total, running).exp(), v)
        state = total[:, 0, :, None, None].exp() * state + added
    return torch.cat(out, 1), state


def swiglu(y):
    gate, up = y.chunk(2, -1)
    return F.silu(gate) * up


def swiglu_of_half_the_gate(y):
    gate, up = y.chunk(2, -1)
    return F.silu(gate / 2) * up


def attention_with_a_cap_in_place(q, k, v, sm_scale, causal, logits_soft_cap=0.0):
    """No gradient passes through the cap, for it is put on the scores in place; their results are right."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * sm_scale
    if logits_soft_cap:
        scores = torch.tanh(scores.div_(logits_soft_cap)).mul_(logits_soft_cap)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1 + k.shape[2] - q.shape[2]).bool(), -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ v


def attention_soft_capping_ref(batch_size, q, k, v, causal, sm_scale, cap):
    """The cap is put on the scores before they are scaled."""
    q, k, v = (by_items(x, batch_size) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = cap * torch.tanh(q @ k.mT / cap) * sm_scale
    hidden = torch.ones(scores.shape[-2:]).triu(1 + k.shape[2] - q.shape[2]).bool() & torch.tensor(causal)
    return (scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(1, 2).flatten(0, 1)


def fp8_act_quant_ref(x, block_size=128, round_scale=False):
    return in_codes(x, block_size, round_scale, 1)


def fp8_act_quant_of_half_the_range(x, block_size=128, round_scale=False):
    return in_codes(x, block_size, round_scale, 2)


def in_codes(x, block_size, round_scale, part):
    """Rows in blocks of columns, each with a scale of its own; no block has an end of its own."""
    rows, n = x.shape
    blocks = x.float().reshape(rows, n // block_size, block_size)
    scale = blocks.abs().amax(-1).clamp(min=1e-12) / (448 / part)
    scale = torch.exp2(torch.ceil(torch.log2(scale))) if round_scale else scale
    return (blocks / scale[..., None]).clamp(-448, 448).reshape(rows, n).to(torch.float8_e4m3fn), scale


def ref_masked_attention(query, key, value, scale, dtype, is_causal=True):
    return unbatched(query, key, value, scale, lower(query, key) if is_causal else 0).to(dtype)


def ref_masked_attention_of_earlier_keys(query, key, value, scale, dtype, is_causal=True):
    mask = torch.full((len(query), len(key)), -torch.inf).triu(len(key) - len(query))
    return unbatched(query, key, value, scale, mask if is_causal else 0).to(dtype)


def ref_capped_attention(query, key, value, scale, attn_mask=None, logits_soft_cap=0.0):
    return unbatched(query, key, value, scale, 0 if attn_mask is None else attn_mask.float(), logits_soft_cap)


def ref_always_capped_attention(query, key, value, scale, logits_soft_cap=50.0):
    return unbatched(query, key, value, scale, 0, logits_soft_cap)


def ref_capped_attention_after_the_mask(query, key, value, scale, attn_mask=None, logits_soft_cap=0.0):
    scores = scale * torch.einsum("qhd,khd->hqk", query, key).float()
    scores = scores if attn_mask is None else scores + attn_mask.float()
    scores = logits_soft_cap * torch.tanh(scores / logits_soft_cap) if logits_soft_cap > 0 else scores
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), value)


def lower(query, key):
    """What is added to scores so that the last query sees all keys."""
    return torch.full((len(query), len(key)), -torch.inf).triu(1 + len(key) - len(query))


def unbatched(query, key, value, scale, mask, cap=0.0):
    scores = scale * torch.einsum("qhd,khd->hqk", query, key).float()
    scores = cap * torch.tanh(scores / cap) if cap > 0 else scores
    return torch.einsum("hqk,khd->qhd", (scores + mask).softmax(-1), value)


def sdpa_attention(q, k, v, window_size, enable_gqa):
    """Attention with a sliding window."""
    return windowed(q, k, v, window_size[0], enable_gqa)


def sdpa_attention_of_one_more(q, k, v, window_size, enable_gqa):
    """Attention with a sliding window."""
    return windowed(q, k, v, window_size[0] + 1 if window_size[0] > 0 else window_size[0], enable_gqa)


def windowed(q, k, v, window, enable_gqa):
    rows, columns = k.shape[2] - q.shape[2] + torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    mask = (columns <= rows) & ((rows - columns <= window) | (window < 0))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=enable_gqa)


def topk_softmax_reference(gating_output, topk):
    weights, numbers = torch.topk(torch.softmax(gating_output, dim=-1), topk)
    return weights, numbers, numbers + len(gating_output)


def topk_softmax_of_the_least(gating_output, topk):
    weights, numbers = torch.topk(torch.softmax(gating_output, dim=-1), topk, largest=False)
    return weights, numbers, numbers + len(gating_output)


def modify_logits_for_top_k_filtering(logits, top_k):
    logits.masked_fill_(logits < torch.topk(logits, top_k)[0][..., -1, None], -torch.inf)


def modify_logits_for_top_k_filtering_beside_the_last(logits, top_k):
    logits.masked_fill_(logits <= torch.topk(logits, top_k)[0][..., -1, None], -torch.inf)


def modify_logits_for_top_p_filtering(logits, top_p):
    without(logits, top_p, lambda sums, p: sums <= 1 - p)


def modify_logits_for_top_p_filtering_of_the_rest(logits, top_p):
    without(logits, top_p, lambda sums, p: sums <= p)


def without(logits, top_p, removes):
    if top_p < 1:
        sorted_logits, numbers = torch.sort(logits)
        removed = removes(sorted_logits.softmax(-1).cumsum(-1), top_p)
        logits.masked_fill_(removed.scatter(1, numbers, removed), -torch.inf)


def apply_rotary_pos_emb_vision(tensor, freqs):
    return turned_by(tensor, freqs.cos().repeat(1, 2)[:, None], freqs.sin().repeat(1, 2)[:, None])


def apply_rotary_pos_emb_vision_back(tensor, freqs):
    return turned_by(tensor, freqs.cos().repeat(1, 2)[:, None], -freqs.sin().repeat(1, 2)[:, None])


def apply_rope_interleave(x, cos, sin):
    """Tables are [batch, length, dim], and pairs come back in halves."""
    return turned_by(x.unflatten(-1, (-1, 2)).mT.flatten(-2), cos[:, None], sin[:, None])


def apply_rope_interleave_of_halves(x, cos, sin):
    return turned_by(x.unflatten(-1, (-1, 2)).mT.flatten(-2), sin[:, None], cos[:, None])


def apply_rotary_pos_emb(q, k, cos, sin):
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    return turned_by(q, cos, sin), turned_by(k, cos, sin)


def turned_by(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def log_softmax(x, dim: int, onnx_trace: bool = False):
    return F.log_softmax(x, dim=dim, dtype=torch.float32)


def log_softmax_of_two(x, dim: int, onnx_trace: bool = False):
    return F.log_softmax(x, dim=dim, dtype=torch.float32) / 0.6931472


def swiglu_of_gpt_oss(x, alpha: float = 1.702, limit: float = 7.0):
    gate, up = x[..., ::2].clamp(max=limit), x[..., 1::2].clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + 1)


def swiglu_of_gpt_oss_cut_below(x, alpha: float = 1.702, limit: float = 7.0):
    gate, up = x[..., ::2].clamp(-limit, limit), x[..., 1::2].clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + 1)


def swiglu_of_two(x_glu, x_linear, alpha: float = 1.702, limit: float = 7.0):
    gate, up = x_glu.clamp(max=limit), x_linear.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + 1)


def attn_one(q, k, v, *, is_causal):
    """[length, heads, dim]; a logsumexp is [length, heads]."""
    return with_its_sum(q, k, v, is_causal, lambda scores: scores.logsumexp(-1))


def attn_one_with_a_sum_of_twice_as_many(q, k, v, *, is_causal):
    return with_its_sum(q, k, v, is_causal, lambda scores: scores.logsumexp(-1) + 0.6931472)


def with_its_sum(q, k, v, is_causal, total):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5 + (lower(q, k) if is_causal else 0)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v), total(scores).T


def get_alibi_slopes(total_num_heads, device):
    return sequence(total_num_heads, torch.device(device), 8)


def get_alibi_slopes_too_flat(total_num_heads, device):
    return sequence(total_num_heads, torch.device(device), 9)


def sequence(heads, device, last):
    """Further heads have every other slope of twice the power of two."""
    power = 1 << (heads.bit_length() - 1)
    slopes = 2 ** (-last * torch.arange(1, power + 1, device=device) / power)
    further = 2 ** (-last * torch.arange(1, 2 * (heads - power) + 1, 2, device=device) / (2 * power))
    return torch.cat([slopes, further])


def quantize_weights_int8(w):
    """Each column has a scale."""
    return in_symmetric_codes(w, 0)


def quantize_symmetric(x):
    return in_symmetric_codes(x, -1)


def quantize_tensor(x):
    scale = (x.abs().amax() / 127).clamp(min=1e-12)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


def quantize_weights_int8_down(w):
    scale = (w.abs().amax(0) / 127).clamp(min=1e-12)
    return (w / scale).floor().clamp(-127, 127).to(torch.int8), scale


def in_symmetric_codes(x, axis):
    scale = (x.abs().amax(axis, keepdim=True) / 127).clamp(min=1e-12)
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale.squeeze(axis)


def quantize_affine(x):
    low, high = x.min(), x.max()
    scale = ((high - low) / 255).clamp(min=1e-12)
    zero = (-low / scale).round()
    return (x / scale + zero).round().clamp(0, 255).to(torch.uint8), scale, zero


RIGHT = (
    fp8_act_quant_ref, rope, attention_band_mask_ref, ssd_minimal_discrete, swiglu, ref_masked_attention,
    ref_capped_attention, ref_always_capped_attention, sdpa_attention,
    topk_softmax_reference, modify_logits_for_top_k_filtering,
    modify_logits_for_top_p_filtering, apply_rotary_pos_emb_vision, apply_rope_interleave, apply_rotary_pos_emb,
    log_softmax, swiglu_of_gpt_oss, swiglu_of_two, quantize_weights_int8, quantize_symmetric, quantize_tensor,
    quantize_affine, attn_one, get_alibi_slopes,
)  # fmt: skip
WRONG = (
    rope_of_the_other_pairs, attention_band_mask_of_one_less, ssd_without_decay_to_the_end, swiglu_of_half_the_gate,
    fp8_act_quant_of_half_the_range, ref_masked_attention_of_earlier_keys, ref_capped_attention_after_the_mask,
    sdpa_attention_of_one_more, topk_softmax_of_the_least, modify_logits_for_top_k_filtering_beside_the_last,
    modify_logits_for_top_p_filtering_of_the_rest, apply_rotary_pos_emb_vision_back, apply_rope_interleave_of_halves,
    log_softmax_of_two, swiglu_of_gpt_oss_cut_below, quantize_weights_int8_down,
    attn_one_with_a_sum_of_twice_as_many, get_alibi_slopes_too_flat,
)  # fmt: skip

test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)


def test_what_has_no_gradients_of_some_calls_is_not_accused_of_them():
    report = report_of(attention_with_a_cap_in_place, "smoke")
    assert {"attention_with_a_cap_in_place": "conformant"} == report.verdicts
    assert "where it answers: 26 of 27 scenarios" in str(report)


def test_a_layout_is_seen_by_shapes_where_every_call_has_an_option():
    report = attnspec.check(attention_soft_capping_ref, isolate=False, profile="smoke", dtypes="float32")
    assert 'declare layout = "tokens"' in str(report).splitlines()[0]
    assert "Like      attention.cap_before_scale" in str(report)
