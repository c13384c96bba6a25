"""Functions as competitions and packages have them, each right and broken in one way."""

import math

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted


def rotated(x, cos, sin, is_neox_style, sign):
    cos, sin = cos[..., None, :], sin[..., None, :]
    first, second = x.chunk(2, -1) if is_neox_style else (x[..., ::2], x[..., 1::2])
    turned = first * cos - sign * second * sin, second * cos + sign * first * sin
    return torch.cat(turned, -1) if is_neox_style else torch.stack(turned, -1).flatten(-2)


def apply_rotary_emb_torch(x, cos, sin, is_neox_style):
    return rotated(x, cos, sin, is_neox_style, 1)


def apply_rotary_emb_turned_back(x, cos, sin, is_neox_style):
    return rotated(x, cos, sin, is_neox_style, -1)


def multi_head_attention_solve(Q, K, V, output, N, d_model, h):
    q, k, v = (x.view(N, h, -1).transpose(0, 1) for x in (Q, K, V))
    output.copy_(((q @ k.mT) * (d_model // h) ** -0.5).softmax(-1).matmul(v).transpose(0, 1).reshape(N, d_model))


def multi_head_attention_of_the_model(Q, K, V, output, N, d_model, h):
    q, k, v = (x.view(N, h, -1).transpose(0, 1) for x in (Q, K, V))
    output.copy_(((q @ k.mT) * d_model**-0.5).softmax(-1).matmul(v).transpose(0, 1).reshape(N, d_model))


def causal_self_attention(q, k, v):
    seen = torch.ones(q.shape[-2], q.shape[-2]).tril()
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    return scores.masked_fill(seen == 0, -math.inf).softmax(-1) @ v


def causal_self_attention_of_the_next(q, k, v):
    seen = torch.ones(q.shape[-2], q.shape[-2]).tril(1)
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    return scores.masked_fill(seen == 0, -math.inf).softmax(-1) @ v


def causal_attention_of_short_prefixes(q, k, v):
    before = k.shape[-2] - q.shape[-2]
    if before > 16:
        raise RuntimeError("out of range")
    seen = torch.ones(q.shape[-2], k.shape[-2]).tril(before)
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    return scores.masked_fill(seen == 0, -math.inf).softmax(-1).nan_to_num(0) @ v


def clipped(logp, old_logp, advantages, epsilon):
    ratio = (logp - old_logp).exp()
    return -torch.minimum(ratio * advantages[:, None], ratio.clamp(1 - epsilon, 1 + epsilon) * advantages[:, None])


def grpo_loss(logp, old_logp, advantages, mask, epsilon=0.2):
    return (clipped(logp, old_logp, advantages, epsilon) * mask).sum() / mask.sum()


def grpo_loss_of_all_tokens(logp, old_logp, advantages, mask, epsilon=0.2):
    return (clipped(logp, old_logp, advantages, epsilon) * mask).mean()


def grpo_loss_without_clipping(logp, old_logp, advantages, mask, epsilon=0.2):
    return (clipped(logp, old_logp, advantages, math.inf) * mask).sum() / mask.sum()


def torch_moe(a, w1, w2, score, topk, expert_map):
    weights, ids = torch.topk(score.float().softmax(-1), topk)
    ids = ids if expert_map is None else expert_map[ids]
    out = torch.zeros_like(a)
    for expert in range(w1.shape[0]):
        tokens, places = (ids == expert).nonzero(as_tuple=True)
        gate, up = (a[tokens] @ w1[expert].T).chunk(2, -1)
        out.index_add_(0, tokens, F.silu(gate) * up @ w2[expert].T * weights[tokens, places, None].to(a.dtype))
    return out


def torch_moe_of_the_worst(a, w1, w2, score, topk, expert_map):
    return torch_moe(a, w1, w2, -score, topk, expert_map)


def selective_state_update_ref(state, x, dt, A, B, C, D=None, z=None, dt_bias=None, dt_softplus=False):
    dt = dt if dt_bias is None else dt + dt_bias
    dt = F.softplus(dt) if dt_softplus else dt
    state.copy_(state * (dt[..., None] * A).exp() + (dt * x)[..., None] * B[:, None])
    out = (state * C[:, None]).sum(-1) + (0 if D is None else D * x)
    return out if z is None else out * F.silu(z)


def torch_selective_state_update(state, x, dt, A, B, C, D=None, z=None, dt_bias=None, dt_softplus=False):
    state = state.clone()
    return selective_state_update_ref(state, x, dt, A, B, C, D, z, dt_bias, dt_softplus), state


def naive_selective_state_update(state, x, dt, A, B, C, D=None, z=None, dt_bias=None, dt_softplus=False):
    return selective_state_update_ref(state.clone(), x, dt, A, B, C, D, z, dt_bias, dt_softplus)  # and lost


class Core(torch.nn.Module):
    """Causal attention without weights, by three arrays."""

    def forward(self, query, key, value):
        return causal_self_attention(query, key, value)


RIGHT = (
    apply_rotary_emb_torch, multi_head_attention_solve, causal_self_attention, grpo_loss, Core, torch_moe,
    selective_state_update_ref, torch_selective_state_update,
)  # fmt: skip
WRONG = (
    apply_rotary_emb_turned_back, multi_head_attention_of_the_model, causal_self_attention_of_the_next,
    causal_attention_of_short_prefixes, grpo_loss_without_clipping, torch_moe_of_the_worst,
    naive_selective_state_update,
)  # fmt: skip


test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)
test_a_wrong_function_that_fewer_cases_show_does_not = refuted((grpo_loss_of_all_tokens,), "quick")
