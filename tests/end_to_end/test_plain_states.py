"""Recurrences as people write them, with the state that they are given and leave: only the right ones conform.

Nothing is said of them but their names and parameters.
"""

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted


def recurrence(q, k, v, *, state=None, decay=None, beta=None, scale=None):
    """Outputs, and the states before and after each token, [batch, heads, key_dim, value_dim]."""
    q, k, v = (x.float() for x in (q, k, v))
    s = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1]) if state is None else state.float()
    out, states = [], [s]
    for t in range(q.shape[2]):
        s = s if decay is None else s * decay[:, :, t].float().exp()[..., None]
        new = v[:, :, t]
        if beta is not None:
            new = beta[:, :, t, None].float() * (new - (k[:, :, t, :, None] * s).sum(-2))
        s = s + k[:, :, t, :, None] * new[..., None, :]
        states.append(s)
        out.append((q[:, :, t, :, None] * (q.shape[-1] ** -0.5 if scale is None else scale) * s).sum(-2))
    return (torch.stack(out, 2) if out else torch.zeros(*q.shape[:3], v.shape[-1])), states


def turned(state):
    return None if state is None else state.transpose(-1, -2)


def linear_attention(q, k, v, initial_state=None, output_final_state=False):
    o, states = recurrence(q, k, v, state=initial_state)
    return o.to(q.dtype), states[-1] if output_final_state else None


def linear_attention_by_values(q, k, v, state=None):
    o, states = recurrence(q, k, v, state=turned(state))
    return o.to(q.dtype), turned(states[-1])


def linear_attention_without_its_state(q, k, v, initial_state=None, output_final_state=False):
    return linear_attention(q, k, v, None, output_final_state)


def linear_attention_one_token_late(q, k, v, initial_state=None, output_final_state=False):
    o, states = recurrence(q, k, v, state=initial_state)
    return o.to(q.dtype), states[-2 if q.shape[2] else -1] if output_final_state else None


def linear_attention_by_values_one_token_late(q, k, v, state=None):
    o, states = recurrence(q, k, v, state=turned(state))
    return o.to(q.dtype), turned(states[-2 if q.shape[2] else -1])


def gated_linear_attention(q, k, v, gk, initial_state=None, output_final_state=False):
    q, k, v, gk = (x.transpose(1, 2) for x in (q, k, v, gk))
    o, states = recurrence(q, k, v, state=initial_state, decay=gk)
    return o.transpose(1, 2).to(q.dtype), states[-1] if output_final_state else None


def gated_linear_attention_of_half_the_state(q, k, v, gk, initial_state=None, output_final_state=False):
    half = None if initial_state is None else initial_state / 2
    return gated_linear_attention(q, k, v, gk, half, output_final_state)


def gated_delta_rule(q, k, v, g, beta, scale=None, h0=None, return_state=True):
    o, states = recurrence(q, k, v, state=h0, decay=g[..., None], beta=beta, scale=scale)
    return (o.to(q.dtype), states[-1]) if return_state else o.to(q.dtype)


def gated_delta_rule_by_values(q, k, v, g, beta, initial_state=None, output_final_state=False):
    o, states = recurrence(q, k, v, state=turned(initial_state), decay=g[..., None], beta=beta)
    return o.to(q.dtype), turned(states[-1]) if output_final_state else None


def gated_delta_rule_one_token_late(q, k, v, g, beta, scale=None, h0=None, return_state=True):
    o, states = recurrence(q, k, v, state=h0, decay=g[..., None], beta=beta, scale=scale)
    last = states[-2 if q.shape[2] else -1]
    return (o.to(q.dtype), last) if return_state else o.to(q.dtype)


def kimi_delta_attention(q, k, v, g, beta, prev_state=None, return_final_state=False):
    o, states = recurrence(q, k, v, state=prev_state, decay=g, beta=beta)
    return o.to(q.dtype), states[-1] if return_final_state else None


def kimi_delta_attention_of_half_the_state(q, k, v, g, beta, prev_state=None, return_final_state=False):
    half = None if prev_state is None else prev_state / 2
    return kimi_delta_attention(q, k, v, g, beta, half, return_final_state)


def faded(q):
    decays = torch.log1p(-(2.0 ** (-5.0 - torch.arange(q.shape[1], dtype=torch.float64))))
    return decays[None, :, None, None].expand(*q.shape[:3], 1)


def retention(q, k, v, initial_state=None, output_final_state=False):
    o, states = recurrence(q, k, v, state=initial_state, decay=faded(q))
    return o.to(q.dtype), states[-1] if output_final_state else None


def retention_of_a_state_that_lasts(q, k, v, initial_state=None, output_final_state=False):
    o, s = retention(q, k, v, None, True)
    if initial_state is not None:
        o, s = o + (q.float() * q.shape[-1] ** -0.5 @ initial_state).to(o.dtype), s + initial_state
    return o, s if output_final_state else None


def ssd(x, dt, A, B, C, D=None, initial_states=None, return_final_states=False):
    heads = x.shape[1] // max(B.shape[1], 1)
    b, c = (y.repeat_interleave(heads, 1).float() for y in (B, C))
    s = torch.zeros(*x.shape[:2], x.shape[-1], b.shape[-1]) if initial_states is None else initial_states.float()
    out = []
    for t in range(x.shape[2]):
        kept = s * (dt[:, :, t].float() * A).exp()[..., None, None]
        s = kept + (dt[:, :, t, None].float() * x[:, :, t].float())[..., None] * b[:, :, t, None]
        out.append((s * c[:, :, t, None]).sum(-1))
    o = torch.stack(out, 2) if out else torch.zeros_like(x)
    o = (o if D is None else o + D[:, None, None] * x.float()).to(x.dtype)
    return (o, s) if return_final_states else o


def ssd_without_its_state(x, dt, A, B, C, D=None, initial_states=None, return_final_states=False):
    return ssd(x, dt, A, B, C, D, None, return_final_states)


def causal_conv1d(x, weight, bias=None, initial_state=None, output_final_state=False):
    count = weight.shape[-1] - 1
    before = torch.zeros(*x.shape[:2], count) if initial_state is None else initial_state
    seen = torch.cat([before.to(x.dtype), x], -1)
    y = F.conv1d(seen, weight[:, None], bias, groups=x.shape[1]) if x.shape[-1] else x
    return y, seen[..., seen.shape[-1] - count :] if output_final_state else None


def causal_conv1d_of_as_many_columns(x, weight, bias=None, conv_state=None):
    y, s = causal_conv1d(x, weight, bias, None if conv_state is None else conv_state[..., 1:], True)
    return y, F.pad(s, (1, 0))


def causal_conv1d_without_its_state(x, weight, bias=None, initial_state=None, output_final_state=False):
    return causal_conv1d(x, weight, bias, None, output_final_state)


def convolved_step(x, state, weight, bias=None, activation=None):
    """The output of one token [batch, channels], and what was seen of it, of as many columns as there are weights."""
    seen = torch.cat([state[..., 1:].to(x.dtype), x[..., None]], -1)
    y = (seen * weight).sum(-1) + (0 if bias is None else bias)
    return F.silu(y) if activation in ("silu", "swish") else y, seen


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None):
    y, seen = convolved_step(x, conv_state, weight, bias, activation)
    conv_state.copy_(seen)
    return y


def causal_conv1d_update_of_silu(x, conv_state, weight, bias=None, activation="silu"):
    return causal_conv1d_update(x, conv_state, weight, bias, activation)


def causal_conv1d_update_of_a_function(x, conv_state, weight, bias=None, activation=None):
    y = causal_conv1d_update(x, conv_state, weight, bias)
    return y if activation is None else activation(y)


def causal_conv1d_step(x, conv_state, weight, bias=None):
    return convolved_step(x, conv_state, weight, bias)


def causal_conv1d_in_place(x, cache, weight, bias=None):
    y, s = causal_conv1d(x, weight, bias, cache, True)
    cache.copy_(s)
    return y


def causal_conv1d_update_of_the_last_state(x, conv_state, weight, bias=None, activation=None):
    y = causal_conv1d_update(x, conv_state, weight, bias, activation)
    conv_state[..., -1] = 0
    return y


def causal_conv1d_update_of_silu_twice(x, conv_state, weight, bias=None, activation="silu"):
    y = causal_conv1d_update(x, conv_state, weight, bias, activation)
    return y if activation is None else F.silu(y)


def causal_conv1d_step_of_no_state(x, conv_state, weight, bias=None):
    return convolved_step(x, 0 * conv_state, weight, bias)


def causal_conv1d_in_place_one_token_late(x, cache, weight, bias=None):
    y, s = causal_conv1d(x, weight, bias, cache, True)
    cache.copy_(s.roll(1, -1))
    return y


def linear_attention_by_values_of_a_state(q, k, v, state):
    return linear_attention_by_values(q, k, v, state)


RIGHT = [
    linear_attention,
    linear_attention_by_values,
    gated_linear_attention,
    gated_delta_rule,
    gated_delta_rule_by_values,
    kimi_delta_attention,
    retention,
    ssd,
    causal_conv1d,
    causal_conv1d_of_as_many_columns,
    causal_conv1d_in_place,
    linear_attention_by_values_of_a_state,
]
OF_ONE_TOKEN = [
    causal_conv1d_update,
    causal_conv1d_update_of_silu,
    causal_conv1d_update_of_a_function,
    causal_conv1d_step,
]
WRONG = [
    linear_attention_without_its_state,
    linear_attention_one_token_late,
    linear_attention_by_values_one_token_late,
    gated_linear_attention_of_half_the_state,
    gated_delta_rule_one_token_late,
    kimi_delta_attention_of_half_the_state,
    retention_of_a_state_that_lasts,
    ssd_without_its_state,
    causal_conv1d_without_its_state,
    causal_conv1d_update_of_the_last_state,
    causal_conv1d_update_of_silu_twice,
    causal_conv1d_step_of_no_state,
    causal_conv1d_in_place_one_token_late,
]


def is_tested_with_its_state(function, report):
    tested = {cell["law"] for cell in report.cells if cell["verdict"] == "pass"}
    assert {"handed_on", "fading"} & tested, tested


test_a_right_function_conforms_with_its_state = conforming(RIGHT, is_tested_with_its_state)
test_a_right_function_of_one_token_conforms = conforming(OF_ONE_TOKEN)
test_a_wrong_function_does_not = refuted(WRONG)
