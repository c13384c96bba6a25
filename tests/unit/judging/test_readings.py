"""First calls show how a plain function reads its parameters, and what no way makes right stays wrong."""

import itertools
import math

import pytest
import torch

import attnspec
from attnspec.judging.readings import find_readings
from attnspec.subjects.readings import begun, line_of
from attnspec.subjects.targets import subject, undecorated


def attend(q, k, v, hidden=None, added=None):
    scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    if added is not None:
        scores = scores + added
    return (scores.softmax(-1) @ v.float()).to(q.dtype)


def as_it_is(q, k, v, mask=None):
    return attend(q, k, v, None if mask is None else ~mask)


def added(q, k, v, mask=None):
    return attend(q, k, v, added=mask)


def of_keys(q, k, v, key_padding_mask=None):
    return attend(q, k, v, None if key_padding_mask is None else ~key_padding_mask[:, None, None])


def of_padding(q, k, v, key_padding_mask=None):
    return attend(q, k, v, None if key_padding_mask is None else key_padding_mask[:, None, None])


def of_three_axes(q, k, v, mask=None):
    return attend(q, k, v, None if mask is None else ~mask[:, None])


def of_lengths(q, k, v, lengths):
    return attend(q, k, v, (torch.arange(k.shape[2]) >= lengths[:, None])[:, None, None])


def causal_kernel(q, k, v):
    return attend(q, k, v, torch.ones(q.shape[2], k.shape[2], dtype=bool).triu(1 + k.shape[2] - q.shape[2]))


def within(q, k, v, causal=False, window_size=(-1, -1)):
    row, column = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], torch.arange(k.shape[2])
    hidden = (column > row) if causal else torch.zeros(q.shape[2], k.shape[2], dtype=bool)
    left, right = window_size
    hidden = hidden | (column < row - left) if left >= 0 else hidden
    return attend(q, k, v, hidden | (column > row + right) if right >= 0 else hidden)


def rotary_from_zero(x, theta=10000.0):
    return turned(x, torch.arange(x.shape[2]), theta)


def rotary_from(x, start_pos, theta=10000.0):
    return turned(x, start_pos + torch.arange(x.shape[2]), theta)


def rotary_of_tables(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos[None, None] + torch.cat((-second, first), -1) * sin[None, None]


def rotary_of_a_part(x, cos, sin, rotary_ndims):
    first, second = x[..., :rotary_ndims].chunk(2, -1)
    turned_part = (first * cos - second * sin, second * cos + first * sin)
    return torch.cat((*turned_part, x[..., rotary_ndims:]), -1).to(x.dtype)


def rotary_of_rows(tensor, sin, cos):
    """[batch, length, heads, dim], and tables [batch, length, dim // 2] of pairs that are side by side."""
    sin, cos = (table[:, :, None].repeat_interleave(2, -1) for table in (sin, cos))
    beside = torch.stack((-tensor[..., 1::2], tensor[..., ::2]), -1).flatten(-2)
    return tensor * cos + beside * sin


def turned(x, positions, theta):
    angles = positions[:, None] * theta ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    first, second = x.float().chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


def swiglu(x, w1, w2, w3):
    return (torch.nn.functional.silu(x @ w1.T) * (x @ w3.T)) @ w2.T


def linear_attention(q, k, v):
    return ((q.float() @ k.float().transpose(-1, -2)).tril() @ v.float()).to(q.dtype)


def cross_entropy(logits, targets, ignore_index=-100):
    return torch.nn.functional.cross_entropy(logits, targets, ignore_index=ignore_index, reduction="none")


def merge_states(out1, lse1, out2, lse2):
    total = torch.logaddexp(lse1, lse2)
    return out1 * (lse1 - total).exp()[..., None] + out2 * (lse2 - total).exp()[..., None], total


def capped(q, k, v, softcap):
    scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
    return ((softcap * torch.tanh(scores / softcap)).softmax(-1) @ v.float()).to(q.dtype)


def windowed(q, k, v, window_size):
    """Sliding window attention."""
    row, column = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], torch.arange(k.shape[2])
    return attend(q, k, v, (column > row) | (column <= row - window_size))


def packed(q, k, v, cu_seqlens, max_seqlen):
    bounds, out = cu_seqlens.tolist(), torch.zeros(q.shape[0], q.shape[1], v.shape[-1], dtype=q.dtype)
    for first, end in itertools.pairwise(bounds):
        heads = [x[first:end].repeat_interleave(q.shape[1] // x.shape[1], 1).transpose(0, 1) for x in (q, k, v)]
        out[first:end] = attend(*heads).transpose(0, 1)
    return out


def of_other_items(q, k, v, key_padding_mask=None):
    return attend(q, k, v, None if key_padding_mask is None else ~key_padding_mask.roll(1, 0)[:, None, None])


def flipped(q, k, v, mask=None):
    return attend(q, k, v, mask)


def sloped(q, k, v, causal=False, alibi_slopes=None, sign=-1):
    distance = (torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2] - torch.arange(k.shape[2])).abs()
    added = None if alibi_slopes is None else sign * alibi_slopes[..., None, None] * distance
    hidden = torch.ones(q.shape[2], k.shape[2], dtype=bool).triu(1 + k.shape[2] - q.shape[2]) if causal else None
    return attend(q, k, v, hidden, added)


def sloped_upwards(q, k, v, causal=False, alibi_slopes=None):
    return sloped(q, k, v, causal, alibi_slopes, 1)


def unscaled(q, k, v, attn_mask=None):
    return attend(q * math.sqrt(q.shape[-1]), k, v, None if attn_mask is None else ~attn_mask)


def cut(q, k, v, *, mask=None):
    """With weights below a hundredth left out, which some way to read the mask has no case of."""
    scores = q.double() @ k.double().transpose(-1, -2) / math.sqrt(q.shape[-1])
    seen = torch.ones_like(scores, dtype=bool) if mask is None else torch.ones_like(scores, dtype=bool) & mask
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num()
    return (torch.where(weights < 0.01, 0.0, weights) @ v.double()).to(q.dtype)


def one_key_too_many(q, k, v, *, mask=None, causal=False):
    hidden = torch.zeros(q.shape[2], k.shape[2], dtype=bool) if mask is None else ~mask
    reach = 2 + k.shape[2] - q.shape[2]
    return attend(q, k, v, hidden | torch.ones(q.shape[2], k.shape[2], dtype=bool).triu(reach) if causal else hidden)


def backward(q, k, v, o, lse, do, causal=False, base=1.0, top_left=False):
    scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        shift = 0 if top_left else k.shape[2] - q.shape[2]
        scores = scores.masked_fill(torch.ones_like(scores, dtype=bool).triu(1 + shift), -torch.inf)
    p, d = (scores - lse[..., None] * base).exp(), do.float()
    ds = p * (d @ v.float().transpose(-1, -2) - (d * o.float()).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
    found = ds @ k.float(), ds.transpose(-1, -2) @ q.float(), p.transpose(-1, -2) @ d
    return tuple(x.to(q.dtype) for x in found)


def attention_bwd(q, k, v, o, lse, do, causal=False):
    return backward(q, k, v, o, lse, do, causal)


def attention_bwd_by_base_two(do, q, k, v, out, L):
    return backward(q, k, v, out, L, do, base=math.log(2))


def attention_bwd_from_the_first_key(q, k, v, o, lse, do, causal=False):
    return backward(q, k, v, o, lse, do, causal, top_left=True)


def attention_bwd_by_maximum_and_sum(q, k, v, o, do, m, l):  # noqa: E741 - as kernels have it
    return backward(q, k, v, o, m + l.log(), do)


def attention_bwd_without_output(q, k, v, o, lse, do):
    return backward(q, k, v, 0 * o, lse, do)


def varlen_attention_bwd(do, q, k, v, out, lse, cu_seqlens, max_seqlen):
    found = tuple(map(torch.zeros_like, (q, k, v)))
    for first, end in itertools.pairwise(cu_seqlens.tolist()):
        own = [x[first:end].transpose(0, 1)[None] for x in (q, k, v, out, do)]
        parts = backward(*own[:4], lse[None, :, first:end], own[4])
        for whole, part in zip(found, parts, strict=True):
            whole[first:end] = part[0].transpose(0, 1)
    return found


def softmax_backward(dy, y):
    return y * (dy - (dy * y).sum(-1, keepdim=True))


def rms_norm_bwd(dy, x, w, rstd):
    normed, pulled = x.float() * rstd[:, None], dy.float() * w.float()
    dx = (pulled - normed * (normed * pulled).mean(-1, keepdim=True)) * rstd[:, None]
    return dx.to(x.dtype), (dy.float() * normed).sum(0).to(x.dtype)


def layer_norm_bwd(dy, x, weight, mean, rstd):
    normed, pulled = (x.float() - mean) * rstd, dy.float() * weight.float()
    rest = pulled.mean(-1, keepdim=True) + normed * (normed * pulled).mean(-1, keepdim=True)
    return ((pulled - rest) * rstd).to(x.dtype), (dy.float() * normed).sum(0).to(x.dtype), dy.sum(0)


def rotary_backward(dy, cos, sin):
    first, second = dy.chunk(2, -1)
    return torch.cat((first * cos + second * sin, second * cos - first * sin), -1)


def rotary_backward_turned_on(dy, cos, sin):
    return rotary_backward(dy, cos, -sin)


def cross_entropy_backward(logits, targets):
    p = logits.float().softmax(-1)
    p[torch.arange(len(targets)), targets] -= 1
    return (p / len(targets)).to(logits.dtype)


def read(function, operator="attention"):
    one = subject(undecorated(function, function.__name__, operator, "torch"), declared=False)
    return one, find_readings(one, "cpu")


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (added, "`mask` is added to the scores"),
        (of_keys, "`key_padding_mask` is true for the keys of an item, [batch, k_len]"),
        (of_padding, "`key_padding_mask` is true for padding, [batch, k_len]"),
        (of_three_axes, "`mask` is true where a query may see a key, [batch, q_len, k_len]"),
        (of_lengths, "`lengths` is the number of keys of each item, [batch]"),
        (causal_kernel, "no parameter says so, and the function is causal"),
        (within, "`window_size` is how many keys a query sees before and after its own"),
        (capped, "`softcap` is a cap that every call has"),
        (sloped, "`alibi_slopes` has the slopes of a bias that falls with the distance, [heads]"),
    ],
)
def test_what_a_parameter_is_is_seen_from_results(function, says):
    _, (said,) = read(function)
    assert said.startswith(says)


@pytest.mark.parametrize(
    ("function", "operator", "says"),
    [
        (rotary_from_zero, "rotary", "no parameter says so, and positions are counted from zero"),
        (rotary_from, "rotary", "`start_pos` is the position of the first token"),
        (rotary_of_tables, "rotary", "`cos` and `sin` are tables of channels paired in halves, [length, dim]"),
        (rotary_of_a_part, "rotary", "`cos` and `sin` and `rotary_ndims` are tables of the pairs that are turned, in"),
        (packed, "packed_attention", "`cu_seqlens` says where items of queries begin and end, and those of keys as"),
        (swiglu, "swiglu", "`w1` and `w3` and `w2` are the weights"),
        (linear_attention, "linear_attention", "no parameter says so, and products of queries and keys are not"),
        (cross_entropy, "cross_entropy", "no parameter says so, and the losses of the tokens are neither"),
        (merge_states, "merge_states", "`out1` and `lse1` and `out2` and `lse2` are two results"),
    ],
)
def test_what_parameters_of_other_operators_are_is_seen_as_well(function, operator, says):
    _, (said, *_) = read(function, operator)
    assert said.startswith(says)


@pytest.mark.parametrize(
    ("function", "operator", "said"),
    [
        (attention_bwd, "attention", ["`lse` is the logsumexp of the scores of each query"]),
        (attention_bwd_by_base_two, "attention", ["`L` is the logsumexp of the scores of each query to base two"]),
        (attention_bwd_by_maximum_and_sum, "attention", ["`m` and `l` are the largest score of each query, and"]),
        (
            varlen_attention_bwd,
            "packed_attention",
            ["`lse` is the logsumexp", "`cu_seqlens` says where items", "`max_seqlen` is the longest length"],
        ),
        (softmax_backward, "softmax", ["`y` is the output of the forward pass"]),
        (rms_norm_bwd, "rms_norm", ["`rstd` is one over the root mean square of each row"]),
        (layer_norm_bwd, "layer_norm", ["`mean` and `rstd` are the mean of each row and one over its standard"]),
        (rotary_backward, "rotary", ["`cos` and `sin` are tables of pairs in halves, [length, dim // 2]"]),
        (cross_entropy_backward, "cross_entropy", ["no parameter says so, and the gradient of the loss is one"]),
        (
            attention_bwd_from_the_first_key,
            "attention",
            ["`lse` is the logsumexp", "no parameter says so, and queries are aligned with the first keys"],
        ),
    ],
)
def test_what_a_backward_pass_is_handed_of_the_forward_one_is_seen_as_well(function, operator, said):
    _, found = read(function, f"{operator}_gradient")
    found = [text for text in found if not text.startswith(("`o` is the output", "`out` is the output"))]
    assert len(said) == len(found)
    assert all(text.startswith(own) for text, own in zip(found, said, strict=True)), found


@pytest.mark.parametrize(
    ("function", "operator", "verdict"),
    [
        (attention_bwd, "attention", "conformant"),
        (attention_bwd_from_the_first_key, "attention", "conformant"),
        (attention_bwd_without_output, "attention", "violated"),
        (varlen_attention_bwd, "packed_attention", "conformant"),
        (softmax_backward, "softmax", "conformant"),
        (rms_norm_bwd, "rms_norm", "conformant"),
        (rotary_backward, "rotary", "conformant"),
        (rotary_backward_turned_on, "rotary", "violated"),
    ],
)
def test_a_backward_pass_is_checked(function, operator, verdict):
    laws = (f"{operator}_gradient.definition",)
    given = {"framework": "torch", "profile": "smoke", "laws": laws, "dtypes": "float32", "explain_time": 0}
    report = attnspec.check(function, operator=f"{operator}_gradient", exitfirst=verdict == "violated", **given)
    assert {function.__name__: verdict} == report.verdicts, report


def test_what_is_wrong_in_every_way_is_read_as_it_gives_results():
    _, (said,) = read(rotary_backward_turned_on, "rotary_gradient")
    assert (
        said == "`cos` and `sin` are tables of pairs in halves, [length, dim // 2], as the shapes of first results show"
    )


def cross_entropy_of_every_token(logits, targets):
    return (logits.float().logsumexp(-1) - logits.float()[torch.arange(len(targets)), targets]).mean()


def cross_entropy_of_some_tokens(logits, targets):
    counted, found = targets >= 0, logits.float().log_softmax(-1)
    return -(found[torch.arange(len(targets)), targets.clamp(0)] * counted).mean()


def test_who_fails_where_tokens_are_left_out_takes_none_and_who_is_wrong_there_is_refuted():
    said = "fails unless all(targets != ignore_index), with IndexError"
    for function, verdict in ((cross_entropy_of_every_token, "conformant"), (cross_entropy_of_some_tokens, "violated")):
        report = attnspec.check(
            function, operator="cross_entropy", profile="smoke", dtypes="float32", isolate=False, explain_time=0
        )
        assert ({function.__name__: verdict}, verdict == "conformant") == (report.verdicts, said in str(report))


def test_the_layout_is_found_once_parameters_are_read_rightly():
    report = attnspec.check(rotary_of_rows, operator="rotary", framework="torch", profile="smoke", dtypes="float32")
    assert {"rotary_of_rows": "conformant"} == report.verdicts, report
    assert 'declare layout = "bshd"' in str(report).splitlines()[0]


def test_two_parameters_are_read_one_after_the_other():
    _, said = read(windowed)
    assert ["`window_size` is how many keys a query sees at most, its own among them", "no parameter says so, and"] == [
        text[: text.index(", as")] if text.startswith("`") else text[:25] for text in said
    ]


@pytest.mark.parametrize("function", [as_it_is, flipped, unscaled, cut, one_key_too_many])
def test_what_the_operator_has_is_read_as_it_has_it_wherever_no_other_way_is_right(function):
    one, said = read(function)
    assert ([], line_of(one.adapter, one.mechanism, begun(one.adapter, one.mechanism))) == (said, one.adapter.like)


@pytest.mark.parametrize(
    ("function", "verdict"),
    [
        (of_padding, "conformant"),
        (of_lengths, "conformant"),
        (of_other_items, "violated"),
        (flipped, "violated"),
        (sloped, "conformant"),
        (sloped_upwards, "violated"),
    ],
)
def test_what_is_found_is_checked(function, verdict):
    laws = ("attention.definition", "padding_mask.definition", "alibi.definition")
    given = {"framework": "torch", "profile": "smoke", "dtypes": "float32", "explain_time": 0}
    report = attnspec.check(function, operator="attention", laws=laws, exitfirst=verdict == "violated", **given)
    assert {function.__name__: verdict} == report.verdicts, report
