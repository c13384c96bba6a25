"""Functions as people write them, of many operators: the right ones conform and the wrong ones do not.

Nothing is said of them but their names and parameters.
"""

import math

import pytest
import torch
import torch.nn.functional as F

import attnspec


def route(router_logits, top_k):
    weights, ids = torch.topk(torch.softmax(router_logits.float(), -1), top_k, -1)
    return weights / weights.sum(-1, keepdim=True), ids


def moe_gate(logits, num_experts_per_tok):
    weights, ids = torch.topk(torch.sigmoid(logits.float()), num_experts_per_tok, -1)
    return ids, weights


def route_to_the_next(router_logits, top_k):
    weights, ids = route(router_logits, top_k)
    return weights, (ids + 1) % router_logits.shape[-1]


def moe_ffn(x, topk_ids, topk_weights, w1, w2, w3):
    out = torch.zeros_like(x)
    for expert in range(w1.shape[0]):
        tokens, places = (topk_ids == expert).nonzero(as_tuple=True)
        hidden = F.silu(x[tokens] @ w1[expert].T) * (x[tokens] @ w3[expert].T)
        out.index_add_(0, tokens, hidden @ w2[expert].T * topk_weights[tokens, places, None])
    return out


def moe_ffn_without_weights(x, topk_ids, topk_weights, w1, w2, w3):
    return moe_ffn(x, topk_ids, torch.ones_like(topk_weights), w1, w2, w3)


def moe_forward(x, gate_weight, w1, w2, w3, top_k):
    ids, weights = moe_gate_of(x @ gate_weight.T, top_k)
    return moe_ffn(x, ids, weights / weights.sum(-1, keepdim=True), w1, w2, w3)


def moe_forward_of_the_worst(x, gate_weight, w1, w2, w3, top_k):
    return moe_forward(x, -gate_weight, w1, w2, w3, top_k)


def moe_gate_of(logits, k):
    weights, ids = torch.topk(torch.softmax(logits.float(), -1), k, -1)
    return ids, weights


def gqa(x, wq, wk, wv, wo, n_heads, n_kv_heads):
    split = [
        y.unflatten(-1, (n, -1)).transpose(1, 2)
        for y, n in ((x @ wq, n_heads), (x @ wk, n_kv_heads), (x @ wv, n_kv_heads))
    ]
    q, k, v = split[0], *(y.repeat_interleave(n_heads // n_kv_heads, 1) for y in split[1:])
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2) @ wo


def mqa(q, k, v):
    scores = torch.einsum("bhsd,btd->bhst", q, k) / math.sqrt(q.shape[-1])
    return torch.einsum("bhst,btd->bhsd", scores.softmax(-1), v)


def linear_attention_of_elu(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    states, sums = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2), k.cumsum(2)
    return torch.einsum("bhtd,bhtde->bhte", q, states) / (torch.einsum("bhtd,bhtd->bht", q, sums)[..., None] + 1e-6)


def permute_tokens(x, topk_ids, num_experts):
    experts = topk_ids.reshape(-1)
    counts = torch.bincount(experts, minlength=num_experts)  # which has no place for what is sent nowhere
    return x[torch.argsort(experts, stable=True) // topk_ids.shape[1]], counts


def store_kv(k_cache, v_cache, k, v, slots):
    kept, size = slots >= 0, k_cache.shape[1]
    pages, rows = slots[kept] // size, slots[kept] % size
    k_cache[pages, rows], v_cache[pages, rows] = k[kept], v[kept]
    return k_cache, v_cache


def store_kv_of_padding(k_cache, v_cache, k, v, slots):
    return store_kv(k_cache, v_cache, k, v, slots.clamp(min=0))


def top_k_top_p(logits, k, p):
    ranked, order = logits.sort(-1)
    if k is not None:
        ranked = ranked.masked_fill(ranked < ranked.gather(1, (ranked.shape[1] - k.long())[:, None]), -torch.inf)
    if p is not None:
        dropped = ranked.float().softmax(-1).cumsum(-1) <= 1 - p[:, None].float()
        dropped[:, -1] = False
        ranked = ranked.masked_fill(dropped, -torch.inf)
    return torch.empty_like(logits).scatter_(-1, order, ranked)


def repetition_penalty(logits, prompt_ids, output_ids, repetition_penalty):
    out = logits.clone()
    for row, ids in enumerate(torch.cat([prompt_ids, output_ids], 1)):
        seen = ids[ids >= 0].unique()
        factor = repetition_penalty[row]  # which every call has
        out[row, seen] = torch.where(out[row, seen] > 0, out[row, seen] / factor, out[row, seen] * factor)
    return out


def per_token_group_quant(x, group_size):
    grouped = x.float().reshape(x.shape[0], -1, group_size)
    scale = grouped.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448
    return (grouped / scale).clamp(-448, 448).reshape(x.shape).to(torch.float8_e4m3fn), scale.squeeze(-1)


def dequantize_int8(codes_int8, scale):
    return codes_int8.float() * scale


def fused_add_rmsnorm(x, residual, weight, eps=1e-6):
    residual.add_(x)
    square = residual.float().pow(2).mean(-1, keepdim=True)
    x.copy_(residual.float() * torch.rsqrt(square + eps) * weight.float())


def fused_add_rmsnorm_without_eps(x, residual, weight, eps=1e-6):
    fused_add_rmsnorm(x, residual, weight, 0.0)


def geglu(x):
    gate, up = x.chunk(2, -1)
    return F.gelu(gate, approximate="tanh") * up


def geglu_with_half_the_gate(x):
    return geglu(x) / 2


def geglu_of_another_gate(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def swiglu_fwd_turned_round(gate, up):
    return F.silu(up) * gate


def softmax_topk_of_sigmoids(router_logits, top_k):
    weights, ids = torch.topk(router_logits.float().sigmoid(), top_k, -1)
    return weights / weights.sum(-1, keepdim=True), ids


def per_token_quant_of_all(x):
    scale = x.float().abs().max() / 127
    return (x.float() / scale).round().to(torch.int8), scale.expand(len(x), 1)


def softmax(x):
    rows, _ = x.shape
    return torch.stack([torch.softmax(x[row], -1) for row in range(rows)]) if rows else x


def rms_norm(x, weight, eps=1e-6):
    _, _, n = x.shape
    return (x.float() * torch.rsqrt(x.float().pow(2).sum(-1, keepdim=True) / n + eps) * weight.float()).to(x.dtype)


def rms_norm_of_all(x, weight, eps=1e-6):
    _, _, _ = x.shape
    return (x.float() * torch.rsqrt(x.float().pow(2).mean() + eps) * weight.float()).to(x.dtype)


def get_alibi_slopes(n_heads):
    below = 2 ** math.floor(math.log2(n_heads))
    own = [2 ** (-8 * (i + 1) / below) for i in range(below)]
    return torch.tensor(own + [2 ** (-8 * (i + 0.5) / below) for i in range(n_heads - below)])


def get_slopes(num_heads):
    return get_alibi_slopes(num_heads).tolist()


def get_slopes_of_the_next_head(num_heads):
    return get_alibi_slopes(num_heads + 1)[1:].tolist()


def build_alibi_bias(num_heads, seq_len):
    place = torch.arange(seq_len)
    return get_alibi_slopes(num_heads)[:, None, None] * -(place[:, None] - place).abs()


def multi_head_attention(x, w_q, w_k, w_v, w_o, n_heads):
    q, k, v = (F.linear(x, w).unflatten(-1, (n_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    return F.linear(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2), w_o)


def mamba_scan(x, dt, A, B, C, D=None):
    state, out = torch.zeros(x.shape[0], x.shape[2], A.shape[1]), []
    for t in range(x.shape[1]):
        state = torch.exp(dt[:, t, :, None] * A) * state + (dt[:, t] * x[:, t])[..., None] * B[:, t, None]
        out.append((state * C[:, t, None]).sum(-1))
    return torch.stack(out, 1) + (0 if D is None else D * x)


def grouped_gemm(a, b, group_sizes):
    ends = group_sizes.cumsum(0).tolist()
    return torch.cat(
        [a[end - n : end] @ b[g] for g, (end, n) in enumerate(zip(ends, group_sizes.tolist(), strict=True))]
    )


def block_sparse_attention(q, k, v, block_mask, block_size):
    seen = block_mask.repeat_interleave(block_size, 2).repeat_interleave(block_size, 3)
    scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~seen[..., : q.shape[2], : k.shape[2]], -torch.inf)
    return torch.nan_to_num(scores.softmax(-1)) @ v.float()


def retention(q, k, v):
    place, heads = torch.arange(q.shape[2]), torch.arange(q.shape[1])
    apart = (place[:, None] - place).clamp(min=0)
    decays = (1 - torch.exp2(-5.0 - heads))[:, None, None] ** apart * (place[:, None] >= place)
    return (q @ k.transpose(-1, -2) * decays) @ v


def dynamic_scaled_int8_quant(out, input, scale):  # noqa: A002 - as it is called
    scale.copy_(input.float().abs().amax(-1, keepdim=True) / 127)
    out.copy_((input.float() / scale.where(scale > 0, 1)).round())


def of_floors(out, input, scale):  # noqa: A002
    scale.copy_(input.float().abs().amax(-1, keepdim=True) / 127)
    out.copy_((input.float() / scale.where(scale > 0, 1)).floor())


of_floors.__name__ = "dynamic_scaled_int8_quant"  # by which its interface is known


def custom_kernel(data):
    q, k, v = data
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def custom_kernel_without_scale(data):
    q, k, v = data
    return torch.softmax(q @ k.transpose(-1, -2), -1) @ v


def kv_cache_attention(q, k, v, k_cache, v_cache, cache_seqlens):
    out = q.new_empty(*q.shape[:3], v.shape[-1])
    for item, start in enumerate(cache_seqlens.tolist()):
        end = start + q.shape[1]
        k_cache[item, start:end], v_cache[item, start:end] = k[item], v[item]
        keys, values = (
            x[item, :end].repeat_interleave(q.shape[2] // k.shape[2], 1).transpose(0, 1) for x in (k_cache, v_cache)
        )
        scores = q[item].transpose(0, 1) @ keys.mT * q.shape[-1] ** -0.5
        hidden = torch.ones(q.shape[1], end, dtype=torch.bool).triu(1 + start)
        out[item] = (scores.masked_fill(hidden, float("-inf")).softmax(-1) @ values).transpose(0, 1)
    return out


def kv_cache_attention_of_a_copy(q, k, v, k_cache, v_cache, cache_seqlens):
    return kv_cache_attention(q, k, v, k_cache.clone(), v_cache.clone(), cache_seqlens)


def rms_norm_of_views(x, weight, eps=1e-6):
    rows = x.view(-1, x.shape[-1]).float()
    return (rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype).view(x.shape)


def softmax_of_memory(x):
    dense = torch.empty(x.shape).stride()
    return torch.softmax(x.as_strided(x.shape, dense), -1)


def naive_recurrent_gla(q, k, v, gk):
    q, k, v, gate = (x.transpose(1, 2).float() for x in (q, k, v, gk))
    state, out = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]), torch.zeros_like(v)
    for at in range(q.shape[2]):
        state = state * gate[:, :, at, :, None].exp() + k[:, :, at, :, None] * v[:, :, at, None]
        out[:, :, at] = (q[:, :, at, :, None] * q.shape[-1] ** -0.5 * state).sum(-2)
    return out.transpose(1, 2)


def naive_gla_of_other_gates(q, k, v, gk):
    return naive_recurrent_gla(q, k, v, gk.roll(1, 1))


RIGHT = (
    route, moe_gate, moe_ffn, permute_tokens, store_kv, top_k_top_p, repetition_penalty, per_token_group_quant,
    dequantize_int8, fused_add_rmsnorm, geglu, softmax, rms_norm, get_alibi_slopes, build_alibi_bias,
    multi_head_attention, mamba_scan, grouped_gemm, block_sparse_attention, retention, moe_forward, gqa, mqa,
    linear_attention_of_elu, get_slopes, dynamic_scaled_int8_quant,
    custom_kernel, kv_cache_attention, rms_norm_of_views,
    naive_recurrent_gla,
)  # fmt: skip
WRONG = (
    route_to_the_next, moe_ffn_without_weights, store_kv_of_padding, fused_add_rmsnorm_without_eps,
    geglu_with_half_the_gate, rms_norm_of_all, moe_forward_of_the_worst, get_slopes_of_the_next_head,
    geglu_of_another_gate, swiglu_fwd_turned_round, softmax_topk_of_sigmoids, per_token_quant_of_all,
    of_floors, custom_kernel_without_scale, kv_cache_attention_of_a_copy, naive_gla_of_other_gates,
)  # fmt: skip


def report_of(function, profile, **options):
    """What a check of one dtype says, without what explains a failure."""
    return attnspec.check(function, dtypes=("float32",), isolate=False, explain_time=0, profile=profile, **options)


def conforming(right, beside=lambda function, report: None, profile="smoke"):
    """A test that right functions conform, and of what has to hold `beside` that of each and its report.

    By default each is tried on the cases that show every known mistake.
    """

    @pytest.mark.parametrize("function", right, ids=lambda f: f.__name__)
    def conforms(function):
        report = report_of(function, profile)
        assert {function.__name__: "conformant"} == report.verdicts, [cell["law"] for cell in report.failures]
        beside(function, report)

    return conforms


def refuted(wrong, profile="smoke"):
    """A test that wrong functions do not conform, by default on the same cases: the first failure of each is enough."""

    @pytest.mark.parametrize("function", wrong, ids=lambda f: f.__name__)
    def is_refuted(function):
        assert {function.__name__: "violated"} == report_of(function, profile, exitfirst=True).verdicts

    return is_refuted


test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)
test_a_wrong_function_that_fewer_cases_show_does_not = refuted((softmax_of_memory,), "quick")
