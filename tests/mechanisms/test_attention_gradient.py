"""The gradients of attention: witnesses against difference quotients, wrong kernels found, right ones left alone."""

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.torch.attention_gradient import differentiated, differentiated_apart
from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request
from attnspec.judging.conventions import identified, words_of
from attnspec.judging.engine import run
from attnspec.judging.judge import Kind, judged
from attnspec.judging.trial import Trial
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.registered import shipped
from attnspec.subjects.targets import subject

GRADIENT = library()["attention_gradient"]
NAMES = ("q", "k", "v", "bias", "sink")


def by_definition(q, k, v, d_out, **more):
    return Frame(GRADIENT, {"q": q, "k": k, "v": v, "d_out": d_out, **more}).outputs()


WITNESSES = [pytest.param(f, id=f.__name__) for f in (reference.attention_gradient, by_definition)]


def drawn(heads=2, kv_heads=1, q_len=2, k_len=3, head_dim=2, value_dim=3):
    rng = np.random.default_rng(0)
    shapes = [(heads, q_len, head_dim), (kv_heads, k_len, head_dim), (kv_heads, k_len, value_dim)]
    return [rng.standard_normal((1, *shape)) for shape in (*shapes, (heads, q_len, value_dim))]


# Two witnesses


def loss(q, k, v, bias, sink, d_out, seen, softcap):
    """The sum of out * d_out, in many digits; the sink is one more key without a value."""
    total = mpmath.mpf(0)
    for h, i in np.ndindex(q.shape[1:3]):
        g = h * k.shape[1] // q.shape[1]
        scores = [mpmath.fdot(q[0, h, i], key) / mpmath.sqrt(q.shape[3]) for key in k[0, g]]
        if softcap is not None:
            scores = [softcap * mpmath.tanh(s / softcap) for s in scores]
        terms = [mpmath.exp(s + bias[i, j]) * seen[i, j] for j, s in enumerate(scores)]
        products = [mpmath.fdot(d_out[0, h, i], value) for value in v[0, g]]
        total += mpmath.fdot(terms, products) / (mpmath.fsum(terms) + mpmath.exp(sink[h]))
    return total


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("softcap", [None, 0.5])
@pytest.mark.parametrize("grouped", [False, True])
def test_gradients_are_limits_of_difference_quotients(witness, softcap, grouped):
    q, k, v, d_out = drawn(kv_heads=1 if grouped else 2)
    bias, sink, seen = np.array([[0.5, -1.0, 0.0], [0.0, 2.0, 1.0]]), np.array([0.3, -0.7]), np.tri(2, 3, 1)
    found = witness(q, k, v, d_out, bias=bias, sink=sink, softcap=softcap, mask=seen > 0)
    exact = np.vectorize(mpmath.mpf, otypes=[object])
    with mpmath.workdps(40):
        inputs, step = dict(zip(NAMES, map(exact, (q, k, v, bias, sink)), strict=True)), mpmath.mpf(10) ** -12
        for name, x in inputs.items():
            expected = np.zeros(x.shape)
            for place in np.ndindex(x.shape):
                ends = []
                for sign in (1, -1):
                    moved = x.copy()
                    moved[place] += sign * step
                    ends.append(loss(**inputs | {name: moved}, d_out=exact(d_out), seen=seen, softcap=softcap))
                expected[place] = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(found[f"d_{name}"], expected, rtol=1e-11, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("shape", [(4, 5), (2, 4, 5), (3, 1, 1, 5), (1, 2, 4, 1), (1, 1, 4, 5), (3, 2, 4, 5)])
def test_the_gradient_of_a_bias_has_its_shape_and_the_sum_of_what_it_reaches(witness, shape):
    rng = np.random.default_rng(1)
    q, k, v, d_out = (rng.standard_normal((3, 2, n, 2)) for n in (4, 5, 5, 4))
    bias = rng.standard_normal(shape)
    found = witness(q, k, v, d_out, bias=bias)["d_bias"]
    whole = torch.from_numpy(witness(q, k, v, d_out, bias=bias + np.zeros((3, 2, 4, 5)))["d_bias"])
    np.testing.assert_allclose(found, whole.sum_to_size(shape).numpy(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("zeros", (0.0, 0.0, 0.0)),
        ("mean_value", (0.0, 0.0, 1.5)),
        ("mean_score", (1.125, 0.75, 1.5)),
        ("nan_values", (0.0, 0.0, np.nan)),
        ("nans", (np.nan, np.nan, np.nan)),
    ],
)
def test_what_flows_through_a_query_that_sees_nothing_is_what_the_convention_says(witness, word, expected):
    q, k, v = (np.array(x).reshape(1, 1, -1, 1) for x in ([1.0], [0.0, 1.5], [-1.0, 0.0]))
    d_out = np.full((1, 1, 1, 1), 3.0)
    found = witness(q, k, v, d_out, mask=np.zeros((1, 2), bool), empty_row=word)
    np.testing.assert_allclose([found[f"d_{name}"][0, 0, -1, 0] for name in "qkv"], expected)


@pytest.mark.parametrize("witness", WITNESSES)
def test_beside_a_sink_nothing_flows_through_a_query_that_sees_nothing(witness):
    found = witness(*drawn(), mask=np.zeros((2, 3), bool), sink=np.zeros(2), empty_row="nans")
    assert [0.0] * 4 == [np.abs(found[f"d_{name}"]).max() for name in ("q", "k", "v", "sink")]


def test_the_reference_refuses_a_gradient_of_another_shape():
    q, k, v, d_out = drawn()
    with pytest.raises(ValueError, match="a gradient of the shape"):
        reference.attention_gradient(q, k, v, d_out[:, :, :-1])


# Kernels


def attended(q, k, v, bias=None, *, mask=None, causal=False):
    """Attention by elementary operations in single precision, aligned at the last key."""
    keys, values = (x.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2] if causal else k.shape[2])
    seen = seen if mask is None else seen & mask
    s = q.float() @ keys.mT * q.shape[3] ** -0.5
    p = (s if bias is None else s + bias.float()).masked_fill(~seen, -torch.inf).softmax(-1)
    return (p.masked_fill(~seen, 0.0) @ values).to(q.dtype)


def right(q, k, v, d_out, *, mask=None, bias=None, causal=False):
    """Automatic differentiation."""
    return differentiated(
        lambda q, k, v, bias: attended(q, k, v, bias, mask=mask, causal=causal), d_out, q=q, k=k, v=v, bias=bias
    )


def unshared(q, k, v, d_out, *, mask=None, causal=False):
    """The gradients of the copies of keys and values, of which one is returned."""
    group = q.shape[1] // k.shape[1]
    keys, values = (x.repeat_interleave(group, 1) for x in (k, v))
    found = right(q, keys, values, d_out, mask=mask, causal=causal)
    return found | {name: found[name][:, ::group] for name in ("d_k", "d_v")}


def contiguous(q, k, v, d_out, *, mask=None, causal=False):
    """The gradient of the output has strides of its own, which are not looked at."""
    whole = torch.empty(0, dtype=d_out.dtype).set_(d_out.untyped_storage())[d_out.storage_offset() :]
    return right(q, k, v, whole[torch.arange(d_out.numel()) % len(whole)].reshape(d_out.shape), mask=mask)


WRONG = {"unshared": unshared, "contiguous": contiguous}


def tried(function, scenarios=()):
    """The subject, and its cells of the definition on some scenarios, or on those of a smoke test."""
    one = subject(Adapter("function", "attention_gradient", function, "torch"))
    drawn = plan(GRADIENT, one.claims, PROFILES["smoke"], 0, "float32").scenarios
    only = [sample for sample in drawn if sample.case.label in scenarios]
    laws = frozenset({"definition"})
    return one, run(Request(one, GRADIENT, "float32", PROFILES["smoke"], laws=laws, only=only)).cells


def test_a_right_kernel_breaks_nothing():
    one, cells = tried(right)
    assert [] == [(cell.law, cell.says) for cell in cells if cell.bad and cell.level == "must"]
    assert "zeros" == identified(one, GRADIENT, "float32", "cpu")["empty_row"].word


@pytest.mark.parametrize("function", WRONG.values(), ids=WRONG)
def test_a_wrong_kernel_is_found(function):
    _, cells = tried(function)
    assert ["definition"] == [cell.law for cell in cells if cell.bad]


def test_the_gradient_of_a_sum_is_one_number_expanded():
    strides = set()

    def watching(q, k, v, d_out):
        strides.add(d_out.stride())
        return right(q, k, v, d_out)

    tried(watching, ["sum_of_outputs"])
    assert (0, 0, 0, 0) in strides


def test_gradients_are_taken_where_there_are_none_and_leave_none_behind():
    q, k, v, d_out = (torch.from_numpy(x) for x in drawn())
    with torch.no_grad():
        found = differentiated(attended, d_out, q=q, k=k, v=v, bias=None)
        apart = differentiated_apart(attended, d_out, q=q, k=k, v=v, bias=None)
    assert ["d_q", "d_k", "d_v"] == list(found) == list(apart)
    assert [True] * 3 == [torch.equal(found[name], apart[name]) for name in found]
    assert [False] * 4 == [x.requires_grad for x in (q, k, v, d_out)]


def test_the_gradient_of_a_bias_is_judged_where_the_case_itself_has_no_bias():
    one = subject(next(a for a in shipped() if a.name == "torch_sdpa_gradient"))
    found = identified(one, GRADIENT, "float32", "cpu")
    bench = Bench(one, GRADIENT, "float32", "cpu", words_of(GRADIENT, found))
    law, grades = GRADIENT.laws["shared_bias"], [one.claims.grade("float32")]
    samples = plan(GRADIENT, one.claims, PROFILES["quick"], 0, "float32").scenarios
    outcomes = [judged(Trial(bench, sample), law, grades) for sample in samples[:12]]
    assert Kind.HELD in {outcome.kind for outcome in outcomes}
    assert "does not return d_bias" not in {outcome.says for outcome in outcomes}


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("heads", [2, 4])
def test_both_witnesses_have_the_gradients_of_the_logsumexp_as_well(heads, softcap):
    draw = np.random.default_rng(0)
    shapes = {"q": (2, heads, 3, 5), "k": (2, 2, 7, 5), "v": (2, 2, 7, 4), "d_out": (2, heads, 3, 4)}
    given = {name: draw.normal(size=shape) for name, shape in shapes.items()} | {
        "d_lse": draw.normal(size=(2, heads, 3))
    }
    q, k, v = (torch.from_numpy(given[name]).requires_grad_() for name in "qkv")
    keys, values = (x.repeat_interleave(heads // 2, 1) for x in (k, v))
    scores = q @ keys.mT * 5**-0.5
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    outputs = torch.softmax(scores, -1) @ values, torch.logsumexp(scores, -1)
    cotangents = [torch.from_numpy(given[name]) for name in ("d_out", "d_lse")]
    expected = dict(zip(("d_q", "d_k", "d_v"), torch.autograd.grad(outputs, (q, k, v), cotangents), strict=True))
    by_reference = reference.attention_gradient(**given, softcap=softcap)
    by_definition = Frame(library()["lse_gradient"], {**given, "softcap": softcap}).outputs()
    for name, gradient in expected.items():
        np.testing.assert_allclose(by_reference[name], gradient, 0, 1e-12)
        np.testing.assert_allclose(by_definition[name], gradient, 0, 1e-12)
