"""The gated delta rule: both witnesses by hand, chunks of a kernel, and what has been reported as wrong."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.delta_rule import control_delta_rule_at_once, control_delta_rule_by_tokens
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["gated_delta_rule"], values).outputs(),
    "reference": reference.gated_delta_rule,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)


def waves(*shape, by):
    """Numbers without a pattern that a wrong index would keep."""
    return np.sin(by * np.arange(1, 1 + np.prod(shape))).reshape(shape)


def inputs(heads=2, key_heads=2):
    q, k = (waves(2, key_heads, 5, 3, by=by) for by in (1.1, 1.7))
    return {
        "q": q,
        "k": 0.6 * k,
        "v": waves(2, heads, 5, 4, by=2.3),
        "beta": waves(2, heads, 5, by=0.9) ** 2,
        "gate": -(waves(2, heads, 5, by=1.3) ** 2),
        "state": waves(2, heads, 3, 4, by=0.7),
    }


@witnesses
def test_a_step_decays_then_replaces_then_reads(witness):
    given = inputs()
    found = witness(**given, scale=0.5)
    state = given["state"]
    for t in range(5):
        k, beta = given["k"][:, :, t, :, None], given["beta"][:, :, t, None, None]
        state = np.exp(given["gate"][:, :, t, None, None]) * (np.eye(3) - beta * k * k.swapaxes(-1, -2)) @ state
        state = state + beta * k * given["v"][:, :, t, None]
        read = 0.5 * (given["q"][:, :, t, :, None] * state).sum(-2)
        np.testing.assert_allclose(found["out"][:, :, t], read, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found["final_state"], state, rtol=1e-12)


@witnesses
def test_heads_of_values_share_keys_in_blocks(witness):
    given = inputs(heads=4)
    copied = {**given, "q": given["q"].repeat(2, 1), "k": given["k"].repeat(2, 1)}
    np.testing.assert_array_equal(witness(**given, normalise=True)["out"], witness(**copied, normalise=True)["out"])


def test_the_reference_refuses_what_is_outside_the_domain():
    with pytest.raises(ValueError, match="every key has a value"):
        reference.gated_delta_rule(**{**inputs(), "v": np.ones((2, 2, 4, 4))})


def test_a_chunk_is_its_tokens():
    given = {name: torch.from_numpy(x).float() for name, x in inputs().items()}
    one, other = control_delta_rule_by_tokens(**given), control_delta_rule_at_once(**given)
    for output in ("out", "final_state"):
        torch.testing.assert_close(one[output], other[output])


def failures(function):
    one = subject(Adapter("function", "gated_delta_rule", function, "torch"))
    cells = run(
        Request(
            one, library()["gated_delta_rule"], "float32", PROFILES["quick"], laws=frozenset({"definition"}), first=True
        )
    ).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


@pytest.mark.parametrize(
    "changed",
    [
        {"gate": lambda g: g.cumsum(1) - g.cumsum(1).roll(1, 2) if g.shape[2] > 1 else g},
        {"gate": lambda g: 0 * g},
        {"state": lambda s: 0 * s},
        {"state": lambda s: s.roll(1, 0)},
        {"beta": lambda b: b.square()},
    ],
    ids=["axis", "gate", "state", "rows", "beta"],
)
def test_what_goes_from_token_to_token_wrongly_is_found(changed):
    def kernel(q, k, v, beta, gate=None, state=None, *, scale=None, normalise=False):
        given = {"beta": beta, "gate": gate, "state": state}
        given = {name: changed.get(name, lambda x: x)(x) if x is not None else x for name, x in given.items()}
        return control_delta_rule_by_tokens(q, k, v, **given, scale=scale, normalise=normalise)

    assert "definition" in failures(kernel)
