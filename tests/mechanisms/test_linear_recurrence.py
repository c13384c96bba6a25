"""The gated linear recurrence: definition and reference against states written out, and functions of its interfaces."""

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
    assert {like} == {cell["run"]["like"] for cell in report.lines if "run" in cell}
    assert not checked(made(fault)).conformant
