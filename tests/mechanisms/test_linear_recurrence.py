"""The gated linear recurrence: definition and reference against states written out, and functions of its interfaces."""

import itertools

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def defined(**values):
    return Frame(library()["linear_recurrence"], values).outputs()


@pytest.mark.parametrize("log_space", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("witness", [defined, reference.linear_recurrence])
def test_each_channel_fades_by_its_own_factors(witness, reverse, log_space):
    rng = np.random.default_rng(5)
    x, a, state = rng.normal(size=(2, 3, 5)), rng.random((2, 3, 5)), rng.normal(size=(2, 3))
    given = np.log(a) if log_space else a
    found = witness(x=x, a=given, state=state, reverse=reverse, log_space=log_space)
    for item, channel in np.ndindex(2, 3):
        h = state[item, channel]
        for t in [4, 3, 2, 1, 0] if reverse else range(5):
            h = a[item, channel, t] * h + x[item, channel, t]
            np.testing.assert_allclose(found["out"][item, channel, t], h, rtol=1e-12)
        np.testing.assert_allclose(found["final_state"][item, channel], h, rtol=1e-12)


def test_the_reference_refuses_what_does_not_fit():
    x = np.ones((2, 3, 4))
    with pytest.raises(ValueError, match="every token has a factor"):
        reference.linear_recurrence(x, x[..., 1:])
    with pytest.raises(ValueError, match="every channel a state"):
        reference.linear_recurrence(x, x, np.ones((2, 2)))


def stepped(decay, x, state=None, *, reverse=False, fault=None):
    """States [batch, length, channels] and the last one."""
    state = torch.zeros(x.shape[0], x.shape[2]) if state is None else state.float()
    start, rows, order = state, [], range(x.shape[1])
    for t in reversed(order) if reverse and fault != "forwards" else order:
        state = decay[:, t].float() * state + x[:, t].float()
        rows.append(state)
    out = torch.stack(rows[::-1] if reverse and fault != "forwards" else rows, 1) if rows else x
    return out.to(x.dtype), start if fault == "kept" else state


def hgrn(fault=None):
    def fused_recurrent_hgrn(x, g, initial_state=None, output_final_state=False):
        return stepped(g.float().exp(), x, initial_state, fault=fault)

    return fused_recurrent_hgrn


def accelerated(fault=None):
    def scan(gates, tokens, reverse=False):
        return stepped(gates.mT, tokens.mT, reverse=reverse, fault=fault)[0].mT.contiguous()

    return scan


def checked(function):
    return attnspec.check(function, profile="smoke", dtypes=("float32",), explain_time=0)


@pytest.mark.parametrize(
    ("made", "like", "fault"), [(hgrn, "fused_recurrent_hgrn", "kept"), (accelerated, "accelerated_scan", "forwards")]
)
def test_a_function_is_taken_for_its_interface(made, like, fault):
    report = checked(made())
    assert report.conformant, report
    assert {like} == {line["run"]["like"] for line in report.lines if "like" in line.get("run", {})}
    assert not checked(made(fault)).conformant


def defined_gradient(**values):
    return Frame(library()["linear_recurrence_gradient"], values).outputs()


@pytest.mark.parametrize("log_space", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("witness", [defined_gradient, reference.linear_recurrence_gradient])
def test_gradients_are_the_derivatives_of_outputs_and_of_the_state_that_is_left(witness, reverse, log_space):
    rng = np.random.default_rng(6)
    inputs = {"x": rng.normal(size=(2, 3, 5)), "a": rng.random((2, 3, 5)), "state": rng.normal(size=(2, 3))}
    inputs["a"] = np.log(inputs["a"]) if log_space else inputs["a"]
    asked = {"d_out": rng.normal(size=(2, 3, 5)), "d_final_state": rng.normal(size=(2, 3))}
    leaves = {name: torch.from_numpy(x).requires_grad_() for name, x in inputs.items()}
    h, total = leaves["state"], 0
    for t in reversed(range(5)) if reverse else range(5):
        factor = leaves["a"][..., t].exp() if log_space else leaves["a"][..., t]
        h = factor * h + leaves["x"][..., t]
        total = total + (h * torch.from_numpy(asked["d_out"][..., t])).sum()
    (total + (h * torch.from_numpy(asked["d_final_state"])).sum()).backward()
    found = witness(**inputs, **asked, reverse=reverse, log_space=log_space)
    for name, leaf in leaves.items():
        np.testing.assert_allclose(np.asarray(found[f"d_{name}"]), leaf.grad, rtol=1e-10, atol=1e-12, err_msg=name)


def test_the_reference_refuses_a_cotangent_of_other_tokens():
    x = np.ones((2, 3, 4))
    with pytest.raises(ValueError, match="every entry"):
        reference.linear_recurrence_gradient(x, x, x[..., 1:])


def with_backward(of_state):
    """A recurrence with a backward pass of its own, whose first factor has the gradient of what `of_state` gives."""

    class Recurrence(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, a, h0):
            out, state = stepped(a, x, h0)
            ctx.save_for_backward(a, out, h0)
            return out, state

        @staticmethod
        def backward(ctx, d_out, d_state):
            a, out, h0 = ctx.saved_tensors
            worth, rows = d_state, []
            for t in reversed(range(a.shape[1])):
                rows.append(worth + d_out[:, t])
                worth = a[:, t] * rows[-1]
            d_x = torch.stack(rows[::-1], 1) if rows else torch.zeros_like(out)
            before = torch.cat((of_state(h0)[:, None], out[:, :-1]), 1)
            return d_x, d_x * before, worth

    def linear_scan(x, a, h0=None):
        return Recurrence.apply(x, a, torch.zeros(x.shape[0], x.shape[2]) if h0 is None else h0)

    return linear_scan


@pytest.mark.parametrize(("of_state", "right"), [(lambda h: h, True), (torch.zeros_like, False)])
def test_a_wrong_backward_pass_behind_a_right_recurrence_is_found(of_state, right):
    report = checked(with_backward(of_state))
    assert right == report.conformant, report
    failing = {cell["mechanism"] for cell in report.cells if cell["verdict"] == "fail"}
    assert failing == (set() if right else {"linear_recurrence_gradient"})


def defined_pack(**values):
    return Frame(library()["packed_linear_recurrence"], values).outputs()


@pytest.mark.parametrize("log_space", [False, True])
@pytest.mark.parametrize("witness", [defined_pack, reference.packed_linear_recurrence])
def test_each_item_of_a_pack_begins_with_its_own_state(witness, log_space):
    rng = np.random.default_rng(7)
    x, a, state = rng.normal(size=(6, 3)), rng.random((6, 3)), rng.normal(size=(4, 3))
    lens, given = np.array([2, 0, 3, 1]), np.log(a) if log_space else a
    found = witness(x=x, a=given, lens=lens, state=state, log_space=log_space)
    t = 0
    for item, length in enumerate(lens):
        h = state[item]
        for _ in range(length):
            h = a[t] * h + x[t]
            np.testing.assert_allclose(found["out"][t], h, rtol=1e-10)
            t += 1
        np.testing.assert_allclose(found["final_state"][item], h, rtol=1e-10)


def test_the_reference_refuses_a_state_too_few():
    x = np.ones((3, 2))
    with pytest.raises(ValueError, match="every item a state"):
        reference.packed_linear_recurrence(x, x, np.array([1, 2]), np.ones((1, 2)))


def packing(of_nothing):
    """hgrn of a batch or of a pack, where `of_nothing` says what an item without tokens leaves."""

    def fused_recurrent_hgrn(x, g, initial_state=None, output_final_state=False, cu_seqlens=None):
        if cu_seqlens is None:
            return stepped(g.float().exp(), x, initial_state)
        states = torch.zeros(len(cu_seqlens) - 1, x.shape[2]) if initial_state is None else initial_state.clone()
        out, starts = torch.zeros_like(x), cu_seqlens.tolist()
        for item, (a, b) in enumerate(itertools.pairwise(starts)):
            rows, last = stepped(g[:, a:b].float().exp(), x[:, a:b], states[item : item + 1])
            out[:, a:b] = rows
            states[item] = last[0] if b > a else of_nothing(states[item], out[0, b - 1].float())
        return out, states

    return fused_recurrent_hgrn


@pytest.mark.parametrize(
    ("of_nothing", "right"), [(lambda given, before: given, True), (lambda given, before: before, False)]
)
def test_an_item_without_tokens_is_seen_in_the_calls_of_packs_alone(of_nothing, right):
    report = checked(packing(of_nothing))
    assert right == report.conformant, report
    assert "packed_linear_recurrence" in {cell["mechanism"] for cell in report.cells}
    failing = {cell["mechanism"] for cell in report.cells if cell["verdict"] == "fail"}
    assert failing == (set() if right else {"packed_linear_recurrence"})
