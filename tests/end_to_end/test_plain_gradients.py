"""Backward passes as people write them: with what the forward pass has kept, and with gradients of what calls lack."""

import torch

from .test_plain_functions import conforming, refuted


def rms_norm_backward(dY, X, W, RSTD):
    normed, slope = X * RSTD.reshape(*X.shape[:-1], 1), dY * W
    d_x = (slope - normed * (slope * normed).mean(-1, keepdim=True)) * RSTD.reshape(*X.shape[:-1], 1)
    return d_x, (dY * normed).reshape(-1, X.shape[-1]).sum(0)


def rms_norm_backward_without_the_correction(dY, X, W, RSTD):
    return dY * W * RSTD.reshape(*X.shape[:-1], 1), rms_norm_backward(dY, X, W, RSTD)[1]


def layer_norm_backward(dy, x, weight, bias, mean, rstd):
    mean, rstd = (torch.as_tensor(each).reshape(*x.shape[:-1], 1) for each in (mean, rstd))
    normed, slope = (x - mean) * rstd, dy * weight
    d_x = rstd * (slope - slope.mean(-1, keepdim=True) - normed * (slope * normed).mean(-1, keepdim=True))
    return d_x.to(x.dtype), *(each.reshape(-1, x.shape[-1]).sum(0).to(x.dtype) for each in (dy * normed, dy))


def layer_norm_backward_with_a_share_of_slopes(dy, x, weight, bias, mean, rstd):
    d_x, *others = layer_norm_backward(dy, x, weight, bias, mean, rstd)
    return d_x + (dy * weight).mean(-1, keepdim=True), *others


def delta_rule_backward(q, k, v, beta, do, initial_state=None, share=1.0):
    """[batch, length, heads, dim]; it returns the gradient of the state in front, and of no gate."""
    x = [each.detach().double().requires_grad_() for each in (q, k, v, beta)]
    first = torch.zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3]) if initial_state is None else initial_state
    first = first.detach().double().requires_grad_()
    with torch.enable_grad():
        state, outs = first, []
        for t in range(q.shape[1]):
            q_t, k_t, v_t, beta_t = (each[:, t] for each in x)
            error = v_t - torch.einsum("bhkv,bhk->bhv", state, k_t)
            state = state + torch.einsum("bhk,bhv->bhkv", k_t, beta_t[..., None] * error)
            outs.append(torch.einsum("bhkv,bhk->bhv", state, q_t) * q.shape[3] ** -0.5)
        out = torch.stack(outs, 1) if outs else v.double() * 0
        *found, d_first = torch.autograd.grad(out, [*x, first], do.double(), allow_unused=True)
    d_inputs = (torch.zeros_like(own) if each is None else each for each, own in zip(found, x, strict=True))
    d_state = None if initial_state is None or d_first is None else (share * d_first).to(initial_state.dtype)
    return *(each.to(own.dtype) for each, own in zip(d_inputs, (q, k, v, beta), strict=True)), d_state


def delta_rule_backward_of_half_the_state(q, k, v, beta, do, initial_state=None):
    return delta_rule_backward(q, k, v, beta, do, initial_state, 0.5)


def is_read(function, report):
    if function is layer_norm_backward:
        assert "`bias` is the bias of the forward pass, which no gradient depends on" in str(report)


test_a_right_function_conforms = conforming((rms_norm_backward, layer_norm_backward, delta_rule_backward), is_read)
test_a_wrong_function_does_not = refuted(
    (
        rms_norm_backward_without_the_correction,
        layer_norm_backward_with_a_share_of_slopes,
        delta_rule_backward_of_half_the_state,
    )
)
