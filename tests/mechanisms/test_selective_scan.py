"""The selective scan: definition and reference against states written out, and functions of its interfaces."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def defined(**values):
    return Frame(library()["selective_scan"], values).outputs()


def given(seed=3):
    rng = np.random.default_rng(seed)
    shape = (2, 3, 5)
    arrays = {"x": rng.normal(size=shape), "dt": 0.1 + rng.random(shape), "z": rng.normal(size=shape)}
    arrays |= {"a": -rng.random((3, 4)), "b": rng.normal(size=(2, 4, 5)), "c": rng.normal(size=(2, 4, 5))}
    return {**arrays, "d": rng.normal(size=3), "dt_bias": rng.random(3), "state": rng.normal(size=(2, 3, 4))}


@pytest.mark.parametrize("softplus", [False, True])
@pytest.mark.parametrize("witness", [defined, reference.selective_scan])
def test_each_entry_of_a_state_fades_by_its_own_decay(witness, softplus):
    values = given()
    found = witness(**values, softplus=softplus)
    for item, channel in np.ndindex(2, 3):
        state = [*values["state"][item, channel]]
        for t in range(5):
            step = values["dt"][item, channel, t] + values["dt_bias"][channel]
            step = np.log1p(np.exp(step)) if softplus else step
            x, z = values["x"][item, channel, t], values["z"][item, channel, t]
            for n in range(4):
                state[n] = np.exp(step * values["a"][channel, n]) * state[n] + step * x * values["b"][item, n, t]
            read = sum(state[n] * values["c"][item, n, t] for n in range(4)) + values["d"][channel] * x
            np.testing.assert_allclose(found["out"][item, channel, t], read * z / (1 + np.exp(-z)), rtol=1e-12)
        np.testing.assert_allclose(found["final_state"][item, channel], state, rtol=1e-12)


def updating(*, kept=False, heads=False):
    """selective_state_update as mamba has it, of channels or of heads with as many of them."""

    def selective_state_update(
        state, x, dt, A, B, C, D=None, z=None, dt_bias=None, dt_softplus=False, state_batch_indices=None
    ):
        dt = dt.float() if dt_bias is None else dt.float() + dt_bias
        dt = torch.nn.functional.softplus(dt) if dt_softplus else dt
        if heads:
            B, C = (y.repeat_interleave(x.shape[1] // y.shape[1], 1)[..., None, :] for y in (B, C))
        else:
            B, C = B[:, None], C[:, None]
        left = (dt[..., None] * A).exp() * state + (dt * x.float())[..., None] * B.float()
        state.copy_(state if kept else left)
        out = (left * C.float()).sum(-1)
        out = out if D is None else out + D * x.float()
        return (out if z is None else out * torch.nn.functional.silu(z.float())).to(x.dtype)

    return selective_state_update


def checked(function, operator):
    how = {"profile": "smoke", "dtypes": ("float32",), "explain_time": 0}
    return attnspec.check(function, operator=operator, **how)


@pytest.mark.parametrize("operator", [None, "state_space"])
def test_a_step_that_changes_its_state_is_checked_by_channels_and_by_heads(operator):
    heads = operator is not None
    report = checked(updating(heads=heads), operator)
    assert report.conformant, report
    like = "selective_state_update_heads" if heads else "selective_state_update"
    assert {like} == {cell["run"]["like"] for cell in report.lines if "run" in cell}
    assert not checked(updating(heads=heads, kept=True), operator).conformant


def test_a_whole_sequence_is_checked_by_the_parameters_of_mamba():
    def selective_scan_fn(
        u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False, return_last_state=False
    ):
        names = {"d": D, "z": z, "dt_bias": delta_bias}
        arrays = {name: x.numpy() for name, x in names.items() if x is not None}
        x, dt, a, b, c = (y.double().numpy() for y in (u, delta, A, B, C))
        found = reference.selective_scan(x, dt, a, b, c, **arrays, softplus=delta_softplus)
        return tuple(torch.tensor(found[name]).to(u.dtype) for name in ("out", "final_state"))

    report = checked(selective_scan_fn, None)
    assert report.conformant, report
    assert {"selective_scan"} == {cell["operator"] for cell in report.lines if cell["kind"] == "cell"}


ARRAYS = ("x", "dt", "a", "b", "c", "d", "z", "dt_bias")


def defined_gradient(**values):
    return Frame(library()["selective_scan_gradient"], values).outputs()


@pytest.mark.parametrize("softplus", [False, True])
@pytest.mark.parametrize("witness", [defined_gradient, reference.selective_scan_gradient])
def test_gradients_are_the_derivatives_of_outputs(witness, softplus):
    values, d_out = given(), np.random.default_rng(8).normal(size=(2, 3, 5))
    x, dt, a, b, c, d, z, dt_bias, state = leaves = [
        torch.from_numpy(values[name]).requires_grad_() for name in (*ARRAYS, "state")
    ]
    step = dt + dt_bias[:, None]
    step, rows = torch.nn.functional.softplus(step) if softplus else step, []
    for t in range(5):
        state = (step[:, :, t, None] * a).exp() * state + (step * x)[:, :, t, None] * b[:, None, :, t]
        rows.append((state * c[:, None, :, t]).sum(-1) + d * x[:, :, t])
    (torch.stack(rows, 2) * torch.nn.functional.silu(z)).backward(torch.from_numpy(d_out))
    found = witness(**values, d_out=d_out, softplus=softplus)
    for name, leaf in zip((*ARRAYS, "state"), leaves, strict=True):
        np.testing.assert_allclose(found[f"d_{name}"], leaf.grad, rtol=1e-9, atol=1e-12, err_msg=name)


def test_the_reference_refuses_steps_of_other_tokens():
    values = {name: given()[name] for name in ("x", "a", "b", "c")}
    with pytest.raises(ValueError, match="every token has a step"):
        reference.selective_scan_gradient(**values, dt=np.ones((2, 3, 4)), d_out=values["x"])


def states_of(x, dt, a, b):
    """What each token multiplies the state by, and the states before and after it."""
    fades = (dt[..., None] * a[:, None]).exp()
    kept = [x.new_zeros(*x.shape[:2], a.shape[1])]
    for t in range(x.shape[2]):
        kept.append(fades[:, :, t] * kept[-1] + (dt * x)[:, :, t, None] * b[:, None, :, t])
    return fades, torch.stack(kept[:-1], 2), torch.stack(kept[1:], 2)


def gradients(x, dt, a, b, c, d_out, faded):
    fades, before, after = states_of(x, dt, a, b)
    worth, rows = torch.zeros_like(before[:, :, 0]), []
    for t in reversed(range(x.shape[2])):
        rows.append(worth + d_out[:, :, t, None] * c[:, None, :, t])
        worth = rows[-1] * fades[:, :, t]
    worth = torch.stack(rows[::-1], 2)
    written, of_decay = (worth * b.mT[:, None]).sum(-1), worth * faded(fades, before)
    d_dt = (of_decay * a[:, None]).sum(-1) + x * written
    d_b, d_c = ((y * z[..., None]).sum(1).mT for y, z in ((worth, dt * x), (after, d_out)))
    return dt * written, d_dt, (dt[..., None] * of_decay).sum((0, 2)), d_b, d_c


def with_backward(faded):
    """A scan with a backward pass of its own, in which the state before a token has faded as is said."""

    class Scan(torch.autograd.Function):
        @staticmethod
        def forward(ctx, u, delta, A, B, C):
            ctx.save_for_backward(u, delta, A, B, C)
            return (states_of(u, delta, A, B)[2] * C.mT[:, None]).sum(-1)

        @staticmethod
        def backward(ctx, d_out):
            return gradients(*ctx.saved_tensors, d_out, faded)

    def selective_scan(u, delta, A, B, C):
        return Scan.apply(u, delta, A, B, C)

    return selective_scan


def backward_alone(faded):
    def selective_scan_bwd(u, delta, A, B, C, dout):
        return gradients(u, delta, A, B, C, dout, faded)

    return selective_scan_bwd


@pytest.mark.parametrize("made", [with_backward, backward_alone])
@pytest.mark.parametrize(
    ("faded", "right"), [(lambda fades, before: fades * before, True), (lambda fades, before: before, False)]
)
def test_a_backward_pass_that_forgets_to_let_the_state_fade_is_found(made, faded, right):
    report = checked(made(faded), None)
    failing = {cell["mechanism"] for cell in report.failures}
    assert failing == (set() if right else {"selective_scan_gradient"})
    tried = {cell["operator"] for cell in report.lines if cell["kind"] == "cell"}
    assert "selective_scan_gradient" in tried
