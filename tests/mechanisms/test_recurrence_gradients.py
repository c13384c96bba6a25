"""Gradients of what goes from token to token: witnesses against autograd, and backward passes of people's own."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape)


def delta_rule(q, k, v, beta, gate, state, scale, normalise):
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() if normalise else x for x in (q, k))
    q, k = (x.repeat_interleave(v.shape[1] // q.shape[1], 1) for x in (q, k))
    rows = []
    for t in range(v.shape[2]):
        fade = gate[:, :, t].exp()
        state = state * fade.reshape(*fade.shape[:2], -1, 1)
        error = v[:, :, t] - (k[:, :, t, :, None] * state).sum(2)
        state = state + k[:, :, t, :, None] * (beta[:, :, t, None] * error)[:, :, None]
        rows.append(scale * (q[:, :, t, :, None] * state).sum(2))
    return torch.stack(rows, 2)


def kimi_delta_attention(q, k, v, gate, beta, state, scale, normalise):
    return delta_rule(q, k, v, beta, gate, state, scale, normalise)


def linear_attention(q, k, v, gate, state, key_sum, scale, feature_map, normalise, eps, causal):
    maps = {"identity": lambda x: x, "elu": lambda x: torch.nn.functional.elu(x) + 1, "relu": torch.relu}
    q, k = scale * maps[feature_map](q), maps[feature_map](k)
    states, sums = [], []
    for t in range(v.shape[2]):
        fade = gate[:, :, t].exp().expand(k[:, :, t].shape)
        state = fade[..., None] * state + k[:, :, t, :, None] * v[:, :, t, None]
        key_sum = fade * key_sum + k[:, :, t]
        states, sums = [*states, state], [*sums, key_sum]
    if not causal:
        states, sums = [state] * len(states), [key_sum] * len(sums)
    out = (q[..., None] * torch.stack(states, 2)).sum(3)
    return out / ((q * torch.stack(sums, 2)).sum(-1, keepdim=True) + eps) if normalise else out


def state_space(x, dt, a, b, c, d, dt_bias, state, softplus):
    step = dt + dt_bias[:, None]
    step = torch.nn.functional.softplus(step) if softplus else step
    b, c = (y.repeat_interleave(x.shape[1] // b.shape[1], 1) for y in (b, c))
    rows = []
    for t in range(x.shape[2]):
        fade = (a * step[:, :, t])[..., None, None].exp()
        state = fade * state + (step[:, :, t, None] * x[:, :, t])[..., None] * b[:, :, t, None]
        rows.append((state * c[:, :, t, None]).sum(-1) + d[:, None] * x[:, :, t])
    return torch.stack(rows, 2)


def convolution(x, weight, bias, state, silu):
    y = torch.nn.functional.conv1d(torch.cat((state, x), 2), weight[:, None], bias, groups=len(weight))
    return torch.nn.functional.silu(y) if silu else y


DELTA = {"q": normal(2, 2, 5, 3), "k": normal(2, 2, 5, 3), "v": normal(2, 4, 5, 4), "beta": normal(2, 4, 5) ** 2}
DELTA |= {"gate": -(normal(2, 4, 5) ** 2), "state": normal(2, 4, 3, 4)}
KIMI = {**DELTA, "gate": -(normal(2, 4, 5, 3) ** 2)}
LINEAR = {"q": normal(2, 2, 5, 3), "k": normal(2, 2, 5, 3), "v": normal(2, 2, 5, 4)}
LINEAR |= {"gate": -(normal(2, 2, 5, 3) ** 2), "state": normal(2, 2, 3, 4), "key_sum": normal(2, 2, 3) ** 2}
SPACE = {"x": normal(2, 4, 5, 3), "dt": normal(2, 4, 5) ** 2, "a": -(normal(4) ** 2), "b": normal(2, 2, 5, 2)}
SPACE |= {"c": normal(2, 2, 5, 2), "d": normal(4), "dt_bias": normal(4) ** 2, "state": normal(2, 4, 3, 2)}
CONVOLUTION = {"x": normal(2, 3, 7), "weight": normal(3, 4), "bias": normal(3), "state": normal(2, 3, 3)}
PLAIN = {"scale": 0.5, "feature_map": "identity", "normalise": False, "eps": 1e-3, "causal": True}
ELU = {**PLAIN, "feature_map": "elu", "normalise": True}
HEADS = {**LINEAR, "gate": LINEAR["gate"][..., :1]}
OPEN = {**LINEAR, "gate": 0 * LINEAR["gate"]}
CASES = {
    "delta rule": ("gated_delta_rule", delta_rule, DELTA, {"scale": 0.5, "normalise": False}),
    "normalised": ("gated_delta_rule", delta_rule, DELTA, {"scale": 3.0, "normalise": True}),
    "gates of channels": ("kimi_delta_attention", kimi_delta_attention, KIMI, {"scale": 0.5, "normalise": False}),
    "normalised with gates of channels": (
        "kimi_delta_attention",
        kimi_delta_attention,
        KIMI,
        {"scale": 3.0, "normalise": True},
    ),
    "linear": ("linear_attention", linear_attention, LINEAR, PLAIN),
    "rectified": ("linear_attention", linear_attention, LINEAR, {**PLAIN, "feature_map": "relu"}),
    "gates of heads": ("linear_attention", linear_attention, HEADS, PLAIN),
    "averaged": ("linear_attention", linear_attention, LINEAR, ELU),
    "state space": ("state_space", state_space, SPACE, {"softplus": False}),
    "softplus": ("state_space", state_space, SPACE, {"softplus": True}),
    "convolution": ("short_convolution", convolution, CONVOLUTION, {"silu": False}),
    "silu": ("short_convolution", convolution, CONVOLUTION, {"silu": True}),
}
WORDS = {"elu": "elu_plus_one", "relu": "rectified"}


@pytest.mark.parametrize("witness", ["definition", "reference"])
@pytest.mark.parametrize(("operator", "forward", "inputs", "options"), CASES.values(), ids=CASES)
def test_gradients_are_the_derivatives_of_the_outputs(witness, operator, forward, inputs, options):
    name = f"{operator}_gradient"
    leaves = {key: torch.from_numpy(x).requires_grad_() for key, x in inputs.items()}
    out = forward(**leaves, **options)
    d_out = np.cos(np.arange(out.numel())).reshape(out.shape)
    out.backward(torch.from_numpy(d_out))
    if witness == "reference":
        found = getattr(reference, name)(**inputs, d_out=d_out, **options)
    else:
        words = {key: WORDS.get(x, x) for key, x in options.items()}
        found = Frame(library()[name], {**inputs, "d_out": d_out, **words}).outputs()
    for key, x in leaves.items():
        expected = np.zeros(x.shape) if x.grad is None else x.grad
        np.testing.assert_allclose(np.asarray(found[f"d_{key}"]), expected, rtol=1e-9, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("witness", ["definition", "reference"])
@pytest.mark.parametrize("normalise", [False, True])
def test_without_a_mask_every_token_is_in_every_output(witness, normalise):
    inputs = {key: x for key, x in OPEN.items() if key != "gate"}
    leaves = {key: torch.from_numpy(x).requires_grad_() for key, x in inputs.items()}
    options = {**PLAIN, "feature_map": "elu", "normalise": normalise, "causal": False}
    out = linear_attention(**leaves, gate=torch.zeros(2, 2, 5, 1), **options)
    d_out = normal(*out.shape)
    out.backward(torch.from_numpy(d_out))
    given = {**inputs, "d_out": d_out, **options}
    found = (
        reference.linear_attention_gradient(**given)
        if witness == "reference"
        else Frame(library()["linear_attention_gradient"], {**given, "feature_map": "elu_plus_one"}).outputs()
    )
    for key in ("q", "k", "v", "state"):
        np.testing.assert_allclose(np.asarray(found[f"d_{key}"]), leaves[key].grad, rtol=1e-9, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("witness", ["definition", "reference"])
@pytest.mark.parametrize("width", [4, 1])
def test_what_a_later_segment_asks_of_the_final_state_goes_back_to_every_token(witness, width):
    rng = np.random.default_rng(3)
    shapes = {"q": (2, 2, 5, 4), "k": (2, 2, 5, 4), "v": (2, 2, 5, 3), "state": (2, 2, 4, 3)}
    inputs = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    inputs["gate"] = -np.abs(rng.normal(size=(2, 2, 5, width)))
    d_out, asked = rng.normal(size=(2, 2, 5, 3)), rng.normal(size=(2, 2, 4, 3))
    leaves = {name: torch.from_numpy(x).requires_grad_() for name, x in inputs.items()}
    state, rows = leaves["state"], []
    for t in range(5):
        state = leaves["gate"][:, :, t].exp()[..., None] * state
        state = state + leaves["k"][:, :, t, :, None] * leaves["v"][:, :, t, None]
        rows.append(0.3 * (leaves["q"][:, :, t, :, None] * state).sum(2))
    (torch.stack(rows, 2) * torch.from_numpy(d_out)).sum().add((state * torch.from_numpy(asked)).sum()).backward()
    given = {**inputs, "d_out": d_out, "d_final_state": asked, "scale": 0.3}
    found = (
        reference.linear_attention_gradient(**given)
        if witness == "reference"
        else Frame(library()["final_state_gradient"], given).outputs()
    )
    for name, leaf in leaves.items():
        np.testing.assert_allclose(np.asarray(found[f"d_{name}"]), leaf.grad, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("witness", ["definition", "reference"])
def test_what_a_later_segment_asks_goes_back_through_what_a_delta_rule_replaces(witness):
    rng = np.random.default_rng(4)
    shapes = {"q": (2, 1, 5, 4), "k": (2, 1, 5, 4), "v": (2, 2, 5, 3), "beta": (2, 2, 5), "state": (2, 2, 4, 3)}
    inputs = {name: 0.5 * rng.normal(size=shape) for name, shape in shapes.items()}
    inputs["gate"] = -np.abs(rng.normal(size=(2, 2, 5)))
    d_out, asked = rng.normal(size=(2, 2, 5, 3)), rng.normal(size=(2, 2, 4, 3))
    leaves = {name: torch.from_numpy(x).requires_grad_() for name, x in inputs.items()}
    q, k = (leaves[name].repeat_interleave(2, 1) for name in ("q", "k"))
    state, rows = leaves["state"], []
    for t in range(5):
        state = leaves["gate"][:, :, t].exp()[..., None, None] * state
        error = leaves["v"][:, :, t] - (k[:, :, t, :, None] * state).sum(2)
        state = state + k[:, :, t, :, None] * (leaves["beta"][:, :, t, None] * error)[:, :, None]
        rows.append(0.3 * (q[:, :, t, :, None] * state).sum(2))
    (torch.stack(rows, 2) * torch.from_numpy(d_out)).sum().add((state * torch.from_numpy(asked)).sum()).backward()
    given = {**inputs, "d_out": d_out, "d_final_state": asked, "scale": 0.3}
    found = (
        reference.gated_delta_rule_gradient(**given)
        if witness == "reference"
        else Frame(library()["delta_final_state_gradient"], given).outputs()
    )
    for name, leaf in leaves.items():
        np.testing.assert_allclose(np.asarray(found[f"d_{name}"]), leaf.grad, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("witness", ["definition", "reference"])
@pytest.mark.parametrize("length", [1, 3, 7])
def test_what_a_later_segment_asks_of_the_inputs_that_are_left_goes_back_to_them(witness, length):
    inputs = {**CONVOLUTION, "x": CONVOLUTION["x"][..., :length]}
    leaves = {name: torch.from_numpy(x).requires_grad_() for name, x in inputs.items()}
    out, d_out, asked = convolution(**leaves, silu=True), normal(2, 3, length), normal(2, 3, 3)
    left = torch.cat((leaves["state"], leaves["x"]), 2)[..., length:]
    (out * torch.from_numpy(d_out)).sum().add((left * torch.from_numpy(asked)).sum()).backward()
    given = {**inputs, "d_out": d_out, "d_final_state": asked, "silu": True}
    found = (
        reference.short_convolution_gradient(**given)
        if witness == "reference"
        else Frame(library()["convolution_state_gradient"], given).outputs()
    )
    for name, leaf in leaves.items():
        np.testing.assert_allclose(np.asarray(found[f"d_{name}"]), leaf.grad, rtol=1e-9, atol=1e-12, err_msg=name)


def test_the_references_refuse_what_is_outside_the_domain():
    with pytest.raises(ValueError, match="every key has a value"):
        reference.gated_delta_rule_gradient(
            **{**DELTA, "v": DELTA["v"][:, :, :-1]}, d_out=DELTA["v"][:, :, :-1], normalise=True
        )
    with pytest.raises(ValueError, match="every channel has weights"):
        reference.short_convolution_gradient(CONVOLUTION["x"], CONVOLUTION["weight"][:-1], CONVOLUTION["x"])


# Functions as people write them


class Fading(torch.autograd.Function):
    """A gate whose backward pass leaves it without a gradient behind the last whole chunk of four tokens."""

    @staticmethod
    def forward(ctx, gate):
        return gate.clone()

    @staticmethod
    def backward(ctx, d):
        length = d.shape[2] // 4 * 4 or d.shape[2]
        return torch.cat((d[:, :, :length], 0 * d[:, :, length:]), 2)


@pytest.mark.parametrize("wrong", [False, True])
def test_the_gradient_of_a_plain_recurrence_comes_along(wrong):
    def gated_delta_rule(q, k, v, beta, gate=None, state=None, *, scale=None):
        gate = torch.zeros_like(beta) if gate is None else Fading.apply(gate) if wrong else gate
        state = torch.zeros(*v.shape[:2], k.shape[3], v.shape[3]) if state is None else state
        return delta_rule(q, k, v, beta, gate, state, q.shape[3] ** -0.5 if scale is None else scale, False)

    laws = ("gated_delta_rule.definition", "gated_delta_rule_gradient.definition")
    more = {"operator": "gated_delta_rule", "framework": "torch", "profile": "quick", "isolate": False}
    report = attnspec.check(gated_delta_rule, dtypes=("float32",), laws=laws, **more)
    verdicts = {line["mechanism"]: line["verdict"] for line in report.lines if line["kind"] == "cell"}
    assert {"gated_delta_rule": "pass", "gated_delta_rule_gradient": "fail" if wrong else "pass"} == verdicts
