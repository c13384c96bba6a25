"""Gradients that depend on how they are asked for are found: one by one, after a call without any, a second time."""

import pytest
import torch

import attnspec

CONTRACT = "contract.backward"


def normed_by(**wrong):
    """Root mean square normalisation with a backward pass of its own, of which some steps are exchanged."""

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, eps):
            inverse = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
            ctx.weight, ctx.passes = weight, 0
            ctx.kept = x.float() * inverse, inverse
            return (ctx.kept[0] * weight.float()).to(x.dtype)

        @staticmethod
        def backward(ctx, d):
            ctx.passes += 1
            normed, inverse = ctx.kept
            if "before" in wrong:
                wrong["before"](ctx)
            g = d.float() * ctx.weight.float()
            d_x = (inverse * (g - normed * (g * normed).mean(-1, keepdim=True))).to(d.dtype)
            d_weight = (d.float() * normed).flatten(0, -2).sum(0).to(d.dtype)
            if "after" in wrong:
                return *wrong["after"](ctx, d_x, d_weight), None
            return d_x, d_weight, None

    def rms_norm(x, weight, *, eps):
        return Norm.apply(x, weight, eps)

    return rms_norm


def scales_what_it_kept(ctx):
    ctx.kept[0].mul_(2 if ctx.passes > 1 else 1)


def refuses_a_second_pass(ctx):
    if ctx.passes > 1:
        raise RuntimeError("what was saved is gone")


def adds_to_grad_itself(ctx, d_x, d_weight):
    ctx.weight.grad = d_weight if ctx.weight.grad is None else ctx.weight.grad + d_weight
    return d_x, d_weight


def adds_up_over_passes(ctx, d_x, d_weight):
    ctx.sum = d_weight + getattr(ctx, "sum", 0)
    return d_x, ctx.sum


def takes_the_input_for_asked(ctx, d_x, d_weight):
    return d_x, d_weight if ctx.needs_input_grad[0] else torch.zeros_like(d_weight)


def returns_what_is_asked_first(ctx, d_x, d_weight):
    asked = [x for x, is_asked in zip((d_x, d_weight), ctx.needs_input_grad, strict=False) if is_asked]
    return (*asked, None)[:2] if len(asked) == 2 else (None, d_x.flatten(0, -2)[0])


def leaves_out_what_is_not_asked(ctx, d_x, d_weight):
    return tuple(x if asked else None for x, asked in zip((d_x, d_weight), ctx.needs_input_grad, strict=False))


BY_SHAPE = """
import torch

needed = {}

def rms_norm(x, weight, *, eps):
    is_needed = needed.setdefault(x.shape, x.requires_grad)
    normed = torch.nn.functional.rms_norm(x, weight.shape, weight, eps)
    return normed
"""
"""A function that keeps by shape whether gradients are needed, and makes nothing of it yet."""


def found(function, **more):
    more = {"mechanisms": ("rms_norm_gradient",), "operator": "rms_norm", "isolate": False, **more}
    report = attnspec.check(function, framework="torch", profile="smoke", dtypes=("float32",), **more)
    (cell,) = [line for line in report.lines if line["kind"] == "cell" and line["law"] == CONTRACT]
    bad = {line["law"] for line in report.lines if line["kind"] == "cell" and line["verdict"] in ("fail", "error")}
    return cell["verdict"], cell["says"], bad


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"before": scales_what_it_kept}, "a second backward pass gave a different 'd_x'"),
        ({"after": adds_to_grad_itself}, "a second backward pass gave a different 'd_weight'"),
        ({"after": adds_up_over_passes}, "a second backward pass gave a different 'd_weight'"),
        ({"after": takes_the_input_for_asked}, "a backward pass for 'd_weight' alone gave a different 'd_weight'"),
        ({"after": returns_what_is_asked_first}, "a backward pass for 'd_weight' alone gave a different 'd_weight'"),
    ],
    ids=lambda x: next(iter(x.values())).__name__ if isinstance(x, dict) else "",
)
def test_gradients_that_depend_on_how_they_are_asked_for_are_found(wrong, says):
    assert ("fail", says, {CONTRACT}) == found(normed_by(**wrong))


@pytest.mark.parametrize("wrong", [{}, {"before": refuses_a_second_pass}, {"after": leaves_out_what_is_not_asked}])
def test_a_backward_pass_that_is_right_or_refuses_is_not_blamed(wrong):
    assert ("pass", "", set()) == found(normed_by(**wrong))


@pytest.mark.parametrize(
    ("kept", "verdict", "says"),
    [
        ("normed if is_needed else normed.detach()", "fail", "had no result: not differentiable"),
        ("normed if is_needed else 0.5 * (normed + normed.detach())", "fail", "gave a different 'd_x'"),
        ("normed if is_needed or x.requires_grad else normed.detach()", "pass", ""),
    ],
)
def test_gradients_that_a_call_without_any_makes_wrong_or_missing_are_found(tmp_path, kept, verdict, says):
    path = tmp_path / "by_shape.py"
    path.write_text(BY_SHAPE.replace("return normed", f"return {kept}"))
    told = f"a backward pass after a call without gradients {says}" if says else ""
    has, tells, bad = found(f"{path}:rms_norm", isolate=True)
    assert (verdict, told, {CONTRACT} if says else set()) == (has, tells[: len(told)], bad)


def test_gradients_of_keys_and_values_in_one_array_are_asked_for_in_other_ways_too():
    def flash_attn_kvpacked_func(q, kv, dropout_p=0.0, softmax_scale=None):
        k, v = (x.transpose(1, 2).repeat_interleave(q.shape[2] // kv.shape[3], 1) for x in kv.unbind(2))
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(q.transpose(1, 2), k, v, scale=softmax_scale).transpose(1, 2)

    more = {"operator": "attention", "mechanisms": ("attention_gradient",), "like": "flash_attn_kvpacked_func"}
    assert ("pass", "", set()) == found(flash_attn_kvpacked_func, **more)
