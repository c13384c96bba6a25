"""A wrong backward pass behind a right forward pass is found without an adapter, and a right one is conformant."""

import pytest
import torch

import attnspec
from attnspec.frameworks.known import is_installed

MECHANISMS = ("attention", "attention_gradient")
DEFINITIONS = ("attention.definition", "attention_gradient.definition")
PRECISION = ("attention.contract.precision", "attention_gradient.contract.precision")


def forward(q, k, v, scale, causal):
    groups = q.shape[1] // max(k.shape[1], 1)
    keys, values = (x.repeat_interleave(groups, 1).float() for x in (k, v))
    scores = scale * (q.float() @ keys.mT)
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + scores.shape[-1] - scores.shape[-2])
    hidden &= torch.tensor(causal)
    p = torch.softmax(scores.masked_fill(hidden, -1e30), -1).masked_fill(hidden.all(-1, keepdim=True), 0.0)
    return p.masked_fill(hidden, 0.0), keys, values


def grouped(x, like):
    """The sum over the heads that share one of `like`."""
    batch, heads, length, dim = x.shape
    return x.reshape(batch, like.shape[1], heads // max(like.shape[1], 1), length, dim).sum(2)


RIGHT = {
    "p": lambda p: p,
    "delta": lambda dp, p: (dp * p).sum(-1, keepdim=True),
    "ds": lambda p, dp, delta, scale: scale * p * (dp - delta),
    "dq": lambda ds, keys: ds @ keys,
    "dk": lambda ds, q: ds.mT @ q,
    "dv": lambda p, d: p.mT @ d,
    "sum": grouped,
}


def attention_by(**wrong):
    """An attention function with a backward pass of its own, of which some steps are exchanged."""
    step = {**RIGHT, **wrong}

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, scale, causal):
            ctx.save_for_backward(q, k, v)
            ctx.more = scale, causal
            p, _, values = forward(q, k, v, scale, causal)
            return (p @ values).to(q.dtype)

        @staticmethod
        def backward(ctx, d):
            (q, k, v), (scale, causal) = ctx.saved_tensors, ctx.more
            p, keys, values = forward(q, k, v, scale, causal)
            d, p = d.float(), step["p"](p)
            dp = d @ values.mT
            ds = step["ds"](p, dp, step["delta"](dp, p), scale)
            dq, dk, dv = step["dq"](ds, keys), step["dk"](ds, q.float()), step["dv"](p, d)
            dk, dv = step["sum"](dk, k), step["sum"](dv, v)
            return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None

    def attention(q, k, v, *, causal=False, scale=None):
        return Attention.apply(q, k, v, q.shape[-1] ** -0.5 if scale is None else scale, causal)

    return attention


def overwriting(p, d):
    d.mul_(2)
    return p.mT @ (d / 2)


def of_the_first(x, like):
    return x[:, :: max(x.shape[1] // max(like.shape[1], 1), 1)]


def of_tiled(x, like):
    batch, heads, length, dim = x.shape
    return x.reshape(batch, heads // max(like.shape[1], 1), like.shape[1], length, dim).sum(1)


def half(x):
    return x.half().float()


FAULTY = {
    "no_scale": {"ds": lambda p, dp, delta, scale: p * (dp - delta)},
    "scale_twice": {"ds": lambda p, dp, delta, scale: scale * scale * p * (dp - delta)},
    "no_delta": {"delta": lambda dp, p: 0.0 * p},
    "mean_for_delta": {"delta": lambda dp, p: (dp * p).mean(-1, keepdim=True)},
    "delta_of_weights": {"delta": lambda dp, p: p.sum(-1, keepdim=True)},
    "delta_added": {"ds": lambda p, dp, delta, scale: scale * p * (dp + delta)},
    "no_weights": {"ds": lambda p, dp, delta, scale: scale * (dp - delta)},
    "weights_squared": {"ds": lambda p, dp, delta, scale: scale * p * p * (dp - delta)},
    "no_d_q": {"dq": lambda ds, keys: 0 * (ds @ keys)},
    "no_d_k": {"dk": lambda ds, q: 0 * (ds.mT @ q)},
    "no_d_v": {"dv": lambda p, d: 0 * (p.mT @ d)},
    "d_q_negative": {"dq": lambda ds, keys: -(ds @ keys)},
    "d_q_of_absolute_keys": {"dq": lambda ds, keys: ds @ keys.abs()},
    "d_k_twice": {"dk": lambda ds, q: 2 * (ds.mT @ q)},
    "d_v_of_flipped_keys": {"dv": lambda p, d: p.flip(-1).mT @ d},
    "d_v_unweighted": {"dv": lambda p, d: torch.ones_like(p).mT @ d},
    "d_v_without_first_query": {"dv": lambda p, d: p[..., 1:, :].mT @ d[..., 1:, :]},
    "first_head_of_a_group": {"sum": of_the_first},
    "tiled_groups": {"sum": of_tiled},
    "mean_of_a_group": {"sum": lambda x, like: grouped(x, like) / max(x.shape[1] // max(like.shape[1], 1), 1)},
    "small_weights_dropped": {"p": lambda p: p.where(p > 0.05, 0.0)},
    "weights_in_half": {"p": half},
    "gradient_of_scores_in_half": {"dq": lambda ds, keys: half(half(ds) @ keys)},
}


def checked(function, **more):
    """A check in this process that explains nothing, unless otherwise asked for."""
    more = {"mechanisms": MECHANISMS, "isolate": False, "explain_time": 0, **more}
    return attnspec.check(function, operator="attention", framework="torch", **more)


def verdicts(report):
    """The mechanisms of which something fails, and all that were tried."""
    cells = [line for line in report.lines if line["kind"] == "cell"]
    failing = {cell["mechanism"] for cell in cells if cell["verdict"] in ("fail", "error", "internal")}
    return failing, {cell["mechanism"] for cell in cells}


@pytest.mark.parametrize("name", FAULTY)
def test_a_wrong_backward_pass_behind_a_right_forward_pass_is_found(name):
    contracts = PRECISION if name.endswith("in_half") else ()
    report = checked(attention_by(**FAULTY[name]), profile="smoke", laws=(*DEFINITIONS, *contracts))
    assert ({"attention_gradient"}, {*MECHANISMS}) == verdicts(report)
    assert not report


def test_a_backward_pass_that_writes_over_its_cotangent_is_found():
    report = checked(attention_by(dv=overwriting), profile="smoke")
    assert {"attention_gradient"} == verdicts(report)[0]


def test_inputs_that_are_detached_are_found():
    right = attention_by()

    def detached(q, k, v, *, causal=False, scale=None):
        return right(q, k.detach(), v, causal=causal, scale=scale)

    assert {"attention_gradient"} == verdicts(checked(detached, profile="smoke", laws=DEFINITIONS))[0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_right_backward_pass_is_conformant(dtype):
    report = checked(attention_by(), profile="smoke", dtypes=(dtype,), laws=DEFINITIONS)
    assert (set(), {*MECHANISMS}) == verdicts(report)
    assert report


def without_gradients(q, k, v, *, causal=False, scale=None):
    with torch.no_grad():
        return attention_by()(q, k, v, causal=causal, scale=scale)


def through_numpy(q, k, v, *, causal=False, scale=None):
    q, k, v = (torch.from_numpy(x.numpy().copy()) for x in (q, k, v))
    return without_gradients(q, k, v, causal=causal, scale=scale)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (without_gradients, "its output does not depend on its inputs by autograd"),
        (through_numpy, "its inputs cannot be differentiated: RuntimeError: Can't call numpy() on Tensor"),
    ],
)
def test_a_function_for_inference_is_checked_for_no_gradients_and_a_line_says_so(function, why):
    report = checked(function, profile="smoke", laws=DEFINITIONS)
    assert (set(), {"attention"}) == verdicts(report)
    (line,) = [line for line in report.lines if line["kind"] == "subject"]
    (said,) = [text for text in line["beside"] if "gradients" in text]
    assert said.startswith(f"its gradients are not checked: not differentiable: {why}")


def test_a_function_that_is_declared_for_inference_is_not_asked():
    wrong = attention_by(**FAULTY["no_d_v"])
    report = checked(wrong, profile="smoke", laws=DEFINITIONS, differentiable=False)
    assert (set(), {"attention"}) == verdicts(report)
    assert [] == [
        text for line in report.lines if line["kind"] == "subject" for text in line["beside"] if "grad" in text
    ]


def test_gradients_are_judged_in_the_layout_of_the_function():
    right = attention_by()

    def exchanged(q, k, v, *, causal=False, scale=None):
        return right(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal, scale=scale).transpose(1, 2)

    report = checked(exchanged, profile="smoke", laws=DEFINITIONS, layout="bshd")
    assert (set(), {*MECHANISMS}) == verdicts(report)


class Opened(torch.autograd.Function):
    """silu(gate) * up, with the slope that it is given."""

    @staticmethod
    def forward(ctx, gate, up, slope):
        ctx.save_for_backward(gate, up)
        ctx.slope = slope
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def backward(ctx, d):
        gate, up = ctx.saved_tensors
        return d * up * ctx.slope(gate, torch.sigmoid(gate)), d * torch.nn.functional.silu(gate), None


@pytest.mark.parametrize(
    ("slope", "failing"),
    [
        (lambda gate, share: share * (1 + gate * (1 - share)), set()),
        (lambda gate, share: share, {"swiglu_gradient"}),
        (lambda gate, share: share * (1 - share), {"swiglu_gradient"}),
    ],
    ids=["right", "slope_without_its_product", "slope_of_the_sigmoid"],
)
def test_the_gradient_of_a_gated_layer_is_checked_with_it(slope, failing):
    def swiglu(x, w_gate, w_up, w_down):
        return Opened.apply(x @ w_gate, x @ w_up, slope) @ w_down

    laws = ("swiglu.definition", "swiglu_gradient.definition")
    report = attnspec.check(swiglu, framework="torch", profile="smoke", laws=laws, isolate=False, explain_time=0)
    assert (failing, {"swiglu", "swiglu_gradient"}) == verdicts(report)


@pytest.mark.parametrize(
    ("framework", "text"),
    [
        ("jax", "import jax\ndef softmax(x):\n    return jax.nn.softmax(x)\n"),
        (
            "jax",
            "import jax\ndef wrong_softmax(x):\n    return jax.nn.softmax(x) + 0 * x - jax.lax.stop_gradient(0 * x)\n",
        ),
        ("mlx", "import mlx.core as mx\ndef softmax(x):\n    return mx.softmax(x, axis=-1, precise=True)\n"),
        ("mlx", "import mlx.core as mx\ndef wrong_softmax(x):\n    return mx.stop_gradient(mx.softmax(x, axis=-1))\n"),
    ],
)
def test_functions_of_jax_and_mlx_are_differentiated_too(tmp_path, framework, text):
    if not is_installed(framework):
        pytest.skip(f"{framework} is not installed")
    path = tmp_path / "kernel.py"
    path.write_text(text)
    name = "wrong_softmax" if "wrong" in text else "softmax"
    laws = ("softmax.definition", "softmax_gradient.definition")
    report = attnspec.check(f"{path}:{name}", profile="smoke", laws=laws, explain_time=0)
    expected = {"softmax_gradient"} if "stop_gradient(mx" in text else set()
    assert (expected, {"softmax", "softmax_gradient"}) == verdicts(report)


def known_as(name, function):
    """A function of a known interface whose attention is another one's."""

    def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return function(q, k, v, causal=causal, scale=softmax_scale).transpose(1, 2)

    def flash_attn_qkvpacked_func(qkv, dropout_p=0.0, softmax_scale=None, causal=False):
        return flash_attn_func(*qkv.unbind(2), softmax_scale=softmax_scale, causal=causal)

    def unbatched(q, k, v, causal=False, sm_scale=None):
        return flash_attn_func(q[None], k[None], v[None], softmax_scale=sm_scale, causal=causal)[0]

    return {
        "flash_attn_func": flash_attn_func,
        "flash_attn_qkvpacked_func": flash_attn_qkvpacked_func,
        "single_prefill_with_kv_cache": unbatched,
    }[name]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("flash_attn_func", "float32"),
        ("flash_attn_func", "bfloat16"),
        ("flash_attn_qkvpacked_func", "float32"),
        ("single_prefill_with_kv_cache", "float32"),
    ],
)
def test_gradients_come_along_through_a_known_interface(name, dtype):
    more = {"like": name, "dtypes": (dtype,), "profile": "smoke", "laws": DEFINITIONS[1:]}
    assert (set(), {"attention_gradient"}) == verdicts(checked(known_as(name, attention_by()), **more))
    wrong = attention_by(**FAULTY["no_scale"])
    assert ({"attention_gradient"}, {"attention_gradient"}) == verdicts(checked(known_as(name, wrong), **more))


def test_the_gradient_of_a_bias_is_asked_of_a_parameter_that_is_passed_it():
    def biased(query, key, value, bias=None, mask=None, *, scale=None, is_causal=False):
        q, k, v = (x.transpose(1, 2) for x in (query, key, value))
        visible = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
        visible = visible.tril() if is_causal else visible
        visible = visible if mask is None else visible & mask
        added = (0.0 if bias is None else bias.detach()) + torch.zeros(()).masked_fill(~visible, float("-inf"))
        groups = {"scale": scale, "enable_gqa": q.shape[1] != k.shape[1]}
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, added.to(q.dtype), **groups).transpose(1, 2)

    more = {"like": "jax_dot_product_attention", "profile": "smoke", "laws": DEFINITIONS[1:]}
    report = checked(biased, explain_time=2, **more)
    assert "The bias has no gradient" in str(report)


def test_what_writes_to_its_inputs_is_not_differentiated_and_a_line_says_so():
    def normed(x, weight, *, eps):
        x.copy_(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight)

    written = {"operator": "rms_norm", "framework": "torch", "in_place": "x", "profile": "smoke"}
    assert attnspec.check(normed, laws=("rms_norm.definition",), **written)
    laws = ("rms_norm.definition", "rms_norm_gradient.definition")
    report = attnspec.check(normed, laws=laws, **written)
    (line,) = [line for line in report.lines if line["kind"] == "subject"]
    assert ["its gradients are not checked: it writes to its inputs"] == line["beside"]


def test_gradients_come_along_with_what_declares_itself():
    wrong = known_as("flash_attn_func", attention_by(**FAULTY["no_d_v"]))
    declared = attnspec.adapter(like="flash_attn_func")(wrong)
    report = attnspec.check(declared, profile="smoke", laws=DEFINITIONS[1:], explain_time=0)
    assert ({"attention_gradient"}, {"attention_gradient"}) == verdicts(report)
