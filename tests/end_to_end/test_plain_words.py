"""Functions whose names say their operator by other words than its own, and what they do otherwise than it."""

import math

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted


def selective_log_softmax(logits, index):
    return logits.log_softmax(-1).gather(-1, index[:, None])[:, 0]


def token_log_probs(logits, tokens):
    picked = logits.gather(-1, tokens[:, None])[:, 0]
    return picked - logits.logsumexp(-1)


def tvd_loss(p, q):
    return (p - q).abs().sum() / (2 * len(p))


def jsd_loss(student_logits, teacher_logits, beta=0.5):
    student, teacher = student_logits.log_softmax(-1), teacher_logits.log_softmax(-1)
    if beta in (0, 1):
        return ((student.exp() * (student - teacher)) if beta else teacher.exp() * (teacher - student)).sum() / len(
            student
        )
    mixed = torch.logaddexp(student + math.log1p(-beta), teacher + math.log(beta))
    entries = beta * teacher.exp() * (teacher - mixed) + (1 - beta) * student.exp() * (student - mixed)
    return entries.sum() / len(student)


def rwkv6_recurrent(q, k, v, w, u):
    state, outs = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]), []
    for t in range(q.shape[2]):
        own = k[:, :, t, :, None] * v[:, :, t, None]
        outs.append((q[:, :, t, :, None] * (state + u[..., None] * own)).sum(-2))
        state = state * w[:, :, t, :, None].exp() + own
    return torch.stack(outs, 2)


def attention_combine(outs, lses):
    total = lses.logsumexp(0)
    shares = (lses - total).exp().nan_to_num()
    return (shares[..., None] * outs).sum(0), total


def get_slopes(total_num_heads):
    power = 2 ** math.floor(math.log2(total_num_heads))
    first = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    further = [2 ** (-4 * (2 * i + 1) / power) for i in range(total_num_heads - power)]
    return torch.tensor(first + further)


def filter_logits(logits, k=None, p=None):
    """Both filters, in place."""
    ordered, places = logits.sort(-1)
    if k is not None:
        ordered.masked_fill_(ordered < ordered.gather(-1, logits.shape[-1] - k.long()[:, None]), -torch.inf)
    if p is not None:
        hidden = ordered.softmax(-1).cumsum(-1) <= 1 - p[:, None]
        hidden[:, -1] = False
        ordered.masked_fill_(hidden, -torch.inf)
    return logits.scatter_(-1, places, ordered)


def apply_penalties(
    logits, prompt_tokens_tensor, output_tokens_tensor, presence_penalties, frequency_penalties, repetition_penalties
):
    """In place, by counts that are added up at the numbers of tokens."""
    rows, n = logits.shape
    prompt, output = (
        torch.zeros(rows, n + 1, dtype=torch.long).scatter_add_(1, tokens, torch.ones_like(tokens))[:, :n]
        for tokens in (prompt_tokens_tensor, output_tokens_tensor)
    )
    seen = (prompt > 0) | (output > 0)
    factor = torch.where(seen, repetition_penalties[:, None], 1.0)
    logits.copy_(torch.where(logits > 0, logits / factor, logits * factor))
    return logits.sub_(frequency_penalties[:, None] * output + presence_penalties[:, None] * (output > 0))


def moe_forward(x, gate_up_proj, down_proj, top_k_index, top_k_weights):
    out = torch.zeros_like(x)
    for place in range(top_k_index.shape[1]):
        own = top_k_index[:, place].long()
        gate, up = (gate_up_proj[own] @ x[..., None])[..., 0].chunk(2, -1)
        out += top_k_weights[:, place, None] * (down_proj[own] @ (gate * gate.sigmoid() * up)[..., None])[..., 0]
    return out


def torch_group_norm(x, g, w, b, eps):
    return torch.nn.functional.group_norm(x, g, w, b, eps)


def apply_rotary_emb(x, freqs_cis):
    return turned_by_pairs(x, *freqs_cis.view(1, x.shape[1], 1, -1, 2).unbind(-1))


def naive_log_linear_attn(q, k, v, g, level_scales):
    """Token after token [batch, length, heads, dim], each earlier one at the level of the block where both part."""
    length, outs = q.shape[1], []
    sums = g.cumsum(1)
    for t in range(length):
        levels = torch.tensor([(t ^ s).bit_length() for s in range(t + 1)])
        weight = level_scales[:, t][..., levels].transpose(1, 2) * (sums[:, t, None] - sums[:, : t + 1]).exp()
        scores = (q[:, t, None] * k[:, : t + 1]).sum(-1) * weight
        outs.append((scores[..., None] * v[:, : t + 1]).sum(1))
    return torch.stack(outs, 1)


def apply_top_k_only(logits, k):
    """In place."""
    least = logits.sort(-1, descending=True).values.gather(-1, k.long()[:, None] - 1)
    return logits.masked_fill_(logits < least, -torch.inf)


def apply_rope(x, cos, sin):
    return turned_by_halves(x, cos, sin, -1)


def turned_by_halves(x, cos, sin, sign):
    if cos.dim() != 3:
        raise ValueError("cos must have a batch dimension")
    first, second = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat((sign * second, first), -1) * sin[:, None]


def turned_by_pairs(x, cos, sin):
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)


def selective_log_softmax_of_two(logits, index):
    return 2 * selective_log_softmax(logits, index)


def token_log_probs_of_the_next(logits, tokens):
    return token_log_probs(logits, (tokens + 1) % logits.shape[-1])


def tvd_loss_of_squares(p, q):
    return (p - q).square().sum() / (2 * len(p))


def jsd_loss_of_half(student_logits, teacher_logits, beta=0.5):
    return jsd_loss(student_logits, teacher_logits, 0.5 if 0 < beta < 1 else beta)


def rwkv6_recurrent_without_bonus(q, k, v, w, u):
    return rwkv6_recurrent(q, k, v, w, torch.ones_like(u))


def attention_combine_evenly(outs, lses):
    return outs.mean(0), lses.logsumexp(0)


def get_slopes_of_powers(total_num_heads):
    return torch.tensor([2 ** (-4 * (i + 1) / total_num_heads) for i in range(total_num_heads)])


def moe_forward_of_first_choices(x, gate_up_proj, down_proj, top_k_index, top_k_weights):
    return moe_forward(x, gate_up_proj, down_proj, top_k_index[:, :1], top_k_weights[:, :1])


def apply_rotary_embedding_turned_back(x, freqs_cis):
    return turned_by_pairs(x, *freqs_cis.view(1, x.shape[1], 1, -1, 2).flip(-1).unbind(-1))


def apply_rope_with_both_signs(x, cos, sin):
    return turned_by_halves(x, cos, sin, 1)


def group_norm_of_one_group(x, g, w, b, eps):
    return torch_group_norm(x, 1, w, b, eps)


def naive_log_linear_attn_of_one_level(q, k, v, g, level_scales):
    return naive_log_linear_attn(q, k, v, g, level_scales[..., :1] + 0 * level_scales)


def apply_top_k_only_of_one_row(logits, k):
    """In place."""
    return apply_top_k_only(logits, k[:1] + 0 * k)


def filter_logits_of_one_more(logits, k=None, p=None):
    """Both filters, in place."""
    return filter_logits(logits, None if k is None else (k + 1).clamp(max=logits.shape[-1]), p)


def apply_min_p(logits, min_p):
    chances = logits.softmax(-1)
    return logits.masked_fill(chances < min_p * chances.amax(-1, keepdim=True), -torch.inf)


def min_p_mask(logits, min_p):
    """One share for each row."""
    least = min_p.unsqueeze(1) * logits.softmax(-1).amax(-1, keepdim=True)
    return logits.masked_fill(logits.softmax(-1) < least, -torch.inf)


def min_p_logits_of_the_chance_itself(logits, min_p):
    return logits.masked_fill(logits.softmax(-1) < min_p, -torch.inf)


def min_p_mask_of_the_first_share(logits, min_p):
    return min_p_mask(logits, min_p[:1] / 2 + 0 * min_p)


def smoothed(logits, target, smoothing, even=torch.mean):
    log_p = F.log_softmax(logits, -1)
    likelihood = -log_p.gather(-1, target[:, None])[:, 0]
    return (1 - smoothing) * likelihood - smoothing * even(log_p, -1)


def label_smoothing_loss(logits, target, smoothing):
    return smoothed(logits, target, smoothing).mean()


def label_smoothing_cross_entropy(pred, target, eps=0.1):
    return smoothed(pred, target, eps).mean()


def label_smoothing_loss_of_others(logits, target, smoothing):
    return smoothed(logits, target, smoothing * logits.shape[-1] / max(logits.shape[-1] - 1, 1)).mean()


def label_smoothing_loss_of_sums(logits, target, smoothing):
    return smoothed(logits, target, smoothing, torch.sum).mean()


def label_smoothing_loss_on_top(logits, target, smoothing):
    return (smoothed(logits, target, smoothing) + smoothing * smoothed(logits, target, 0)).mean()


NUMBERS = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def dequantize_mxfp4(packed, scales):
    return of_nibbles(packed, 0) * (scales.float() - 127).exp2().repeat_interleave(32, -1)


def dequant_mxfp4(blocks, scales, data_type):
    """Each block has an axis of its own."""
    return (of_nibbles(blocks, 0) * (scales.float() - 127).exp2()[..., None]).flatten(-2).to(data_type)


def dequantize_mxfp4_from_high_bits(packed, scales):
    return of_nibbles(packed, 1) * (scales.float() - 127).exp2().repeat_interleave(32, -1)


def of_nibbles(x, first):
    codes = torch.stack([x >> 4, x & 15] if first else [x & 15, x >> 4], -1).flatten(-2).long()
    return NUMBERS[codes % 8] * torch.where(codes < 8, 1, -1)


def dequantize_nvfp4(tensor_fp4, tensor_sf, global_scale):
    """The second scale is what numbers are divided by."""
    scales = tensor_sf.view(torch.float8_e4m3fn).float() / global_scale
    return of_nibbles(tensor_fp4, 0) * scales.repeat_interleave(16, -1)


def dequantize_nvfp4_of_the_root(tensor_fp4, tensor_sf, global_scale):
    return dequantize_nvfp4(tensor_fp4, tensor_sf, global_scale.sqrt())


def dequant(x, scale, dtype):
    return (x.float() * scale).to(dtype)


def dequant_off_by_one(x, scale, dtype):
    return dequant(x + 1, scale, dtype)


def fp8_block_quant(x_bf16, block=128):
    blocks = x_bf16.float().unflatten(-1, (-1, block))
    scales = blocks.abs().amax(-1) / 448
    scales = torch.where(scales > 0, scales, 1.0)
    return (blocks / scales[..., None]).flatten(-2).to(torch.float8_e4m3fn), scales


def quantize_fp8(tensor, scale=None):
    """One scale for all, found if none is given."""
    if scale is None:
        scale = tensor.abs().max().float().clamp(min=1e-6) / 448
    return (tensor.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale.reshape(1)


def quantize_fp8_of_the_first_row(tensor, scale=None):
    return quantize_fp8(tensor, tensor[:1].abs().max().clamp(min=1e-6) / 448 if scale is None else scale)


def topk_softmax_map(logits, topk, use_pre_softmax=False, scaling_factor=None):
    """The weights of all experts, and which are chosen."""
    values, chosen = (logits.softmax(-1) if use_pre_softmax else logits).topk(topk, -1)
    weights = (values if use_pre_softmax else values.softmax(-1)) * (scaling_factor or 1)
    empty = torch.zeros_like(logits)
    return empty.scatter(1, chosen, weights), empty.bool().scatter(1, chosen, True)


def topk_softmax_map_unscaled(logits, topk, use_pre_softmax=False, scaling_factor=None):
    return topk_softmax_map(logits, topk, use_pre_softmax)


def one_hot_cross_entropy(logits, one_hot):
    """A row of targets for each token."""
    return -(logits.log_softmax(-1) * one_hot).sum(-1).mean()


def one_hot_cross_entropy_of_all(logits, one_hot):
    return -(logits.log_softmax(-1) * one_hot).mean()


RIGHT = {
    one_hot_cross_entropy: "cross_entropy",
    dequantize_nvfp4: "dequantize_blocks",
    dequant: "dequantize",
    fp8_block_quant: "quantize_blocks",
    quantize_fp8: "quantize_blocks",
    topk_softmax_map: "moe_routing",
    dequantize_mxfp4: "dequantize_blocks",
    dequant_mxfp4: "dequantize_blocks",
    selective_log_softmax: "cross_entropy",
    token_log_probs: "cross_entropy",
    tvd_loss: "total_variation",
    jsd_loss: "distillation_loss",
    rwkv6_recurrent: "wkv6",
    attention_combine: "merge_states",
    get_slopes: "alibi_slopes",
    filter_logits: "filter_rows",
    apply_penalties: "token_penalties",
    moe_forward: "routed_experts",
    torch_group_norm: "group_norm",
    apply_rotary_emb: "rotary",
    apply_rope: "rotary",
    naive_log_linear_attn: "log_linear_attention",
    apply_top_k_only: "filter_rows",
    apply_min_p: "min_p_filter",
    min_p_mask: "min_p_filter",
    label_smoothing_loss: "cross_entropy",
    label_smoothing_cross_entropy: "cross_entropy",
}
WRONG = (
    selective_log_softmax_of_two, token_log_probs_of_the_next, tvd_loss_of_squares, jsd_loss_of_half,
    rwkv6_recurrent_without_bonus, moe_forward_of_first_choices, attention_combine_evenly,
    get_slopes_of_powers, filter_logits_of_one_more, apply_rotary_embedding_turned_back, group_norm_of_one_group,
    naive_log_linear_attn_of_one_level, apply_top_k_only_of_one_row, apply_rope_with_both_signs,
    min_p_logits_of_the_chance_itself, min_p_mask_of_the_first_share, label_smoothing_loss_of_others,
    label_smoothing_loss_of_sums, label_smoothing_loss_on_top, dequantize_mxfp4_from_high_bits,
    dequantize_nvfp4_of_the_root, dequant_off_by_one, quantize_fp8_of_the_first_row, topk_softmax_map_unscaled,
    one_hot_cross_entropy_of_all,
)  # fmt: skip


def it_is_what_its_name_says(function, report):
    assert RIGHT[function] in {cell["mechanism"] for cell in report.cells}


test_a_right_function_conforms = conforming(RIGHT, it_is_what_its_name_says)
test_a_wrong_function_does_not = refuted(WRONG)
