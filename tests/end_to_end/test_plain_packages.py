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


RIGHT = (fp8_act_quant_ref, rope, attention_band_mask_ref, ssd_minimal_discrete, swiglu)
WRONG = (
    rope_of_the_other_pairs,
    attention_band_mask_of_one_less,
    ssd_without_decay_to_the_end,
    swiglu_of_half_the_gate,
    fp8_act_quant_of_half_the_range,
)

test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)


def test_what_has_no_gradients_of_some_calls_is_not_accused_of_them():
    report = report_of(attention_with_a_cap_in_place, "smoke")
    assert {"attention_with_a_cap_in_place": "conformant"} == report.verdicts
    assert "modified by an inplace operation" in str(report)


def test_a_layout_is_seen_by_shapes_where_every_call_has_an_option():
    report = attnspec.check(attention_soft_capping_ref, isolate=False, profile="smoke", dtypes="float32")
    assert 'declare layout = "tokens"' in str(report).splitlines()[0]
    assert "Like      attention.cap_before_scale" in str(report)
