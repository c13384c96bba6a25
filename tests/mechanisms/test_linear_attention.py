"""Linear attention: both witnesses by hand, chunks of a kernel, and what goes from token to token wrongly."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.linear_attention import (
    control_linear_attention_at_once,
    control_linear_attention_by_tokens,
)
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

MECHANISM = library()["linear_attention"]
ABSENT = {"gate": 0, "state": 0, "key_sum": 0, "eps_place": "to_normaliser"}
OPTIONS = {"scale": None, "feature_map": "identity", "normalise": False, "eps": 1e-6, "causal": True}
WITNESSES = {
    "definition": lambda **values: Frame(MECHANISM, {**ABSENT, **OPTIONS, **values}).outputs(),
    "reference": reference.linear_attention,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)


def waves(*shape, by):
    """Numbers without a pattern that a wrong index would keep."""
    return np.sin(by * np.arange(1, 1 + np.prod(shape))).reshape(shape)


def inputs():
    return {
        "q": waves(2, 3, 5, 4, by=1.1),
        "k": waves(2, 3, 5, 4, by=1.7),
        "v": waves(2, 3, 5, 2, by=2.3),
        "gate": -(waves(2, 3, 5, 4, by=1.3) ** 2),
        "state": waves(2, 3, 4, 2, by=0.7),
        "key_sum": waves(2, 3, 4, by=0.9) ** 2,
    }


def elu(x):
    return np.where(x > 0, x + 1, np.exp(x))


@witnesses
def test_a_step_fades_then_adds_then_reads(witness):
    given = inputs()
    found = witness(**given, scale=0.5, feature_map="elu_plus_one" if witness is WITNESSES["definition"] else "elu")
    state = given["state"]
    for t in range(5):
        state = np.exp(given["gate"][:, :, t, :, None]) * state
        state = state + elu(given["k"][:, :, t, :, None]) * given["v"][:, :, t, None]
        read = 0.5 * (elu(given["q"][:, :, t, :, None]) * state).sum(-2)
        np.testing.assert_allclose(found["out"][:, :, t], read, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found["final_state"], state, rtol=1e-12)


@witnesses
@pytest.mark.parametrize("causal", [True, False])
def test_with_the_normaliser_values_are_averaged(witness, causal):
    given = {name: abs(x) for name, x in inputs().items() if name in ("q", "k", "v")}
    found = witness(**given, normalise=True, eps=0.01, scale=1.0, causal=causal)
    weights = given["q"] @ given["k"].swapaxes(-1, -2) * (np.tri(5) if causal else 1)
    expected = weights @ given["v"] / (weights.sum(-1, keepdims=True) + 0.01)
    np.testing.assert_allclose(found["out"], expected, rtol=1e-12)


@witnesses
def test_eps_may_be_added_to_the_keys(witness):
    given = {name: abs(x) for name, x in inputs().items() if name in ("q", "k", "v")}
    found = witness(**given, normalise=True, eps=0.01, eps_place="to_keys")
    weights = given["q"] @ given["k"].swapaxes(-1, -2) * np.tri(5)
    expected = weights @ given["v"] / (weights.sum(-1, keepdims=True) + 0.01 * given["q"].sum(-1, keepdims=True))
    np.testing.assert_allclose(found["out"], expected, rtol=1e-12)


@witnesses
def test_one_gate_for_a_head_is_that_of_each_of_its_channels(witness):
    given = inputs()
    one = given["gate"][..., :1]
    expected = witness(**{**given, "gate": np.repeat(one, 4, -1)})["out"]
    np.testing.assert_array_equal(expected, witness(**{**given, "gate": one})["out"])


def test_the_reference_refuses_what_is_outside_the_domain():
    with pytest.raises(ValueError, match="every key has a value"):
        reference.linear_attention(**{**inputs(), "v": np.ones((2, 3, 4, 2))})


def test_all_tokens_at_once_are_the_tokens_one_by_one():
    given = {name: torch.from_numpy(x).float() for name, x in inputs().items()}
    one, other = control_linear_attention_by_tokens(**given), control_linear_attention_at_once(**given)
    for output in ("out", "final_state", "final_sum"):
        torch.testing.assert_close(one[output], other[output])


def failures(function):
    one = subject(Adapter("function", "linear_attention", function, "torch"))
    cells = run(Request(one, MECHANISM, "float32", PROFILES["quick"], laws=frozenset({"definition"}), first=True)).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


@pytest.mark.parametrize(
    "changed",
    [
        {"gate": lambda g: g.cumsum(1)},
        {"gate": lambda g: 0 * g},
        {"state": lambda s: s.roll(1, 0)},
        {"key_sum": lambda z: 0 * z},
    ],
    ids=["axis", "gate", "rows", "sum"],
)
def test_what_goes_from_token_to_token_wrongly_is_found(changed):
    def kernel(q, k, v, gate=None, state=None, key_sum=None, *, scale=None, feature_map="identity", normalise=False):
        given = {"gate": gate, "state": state, "key_sum": key_sum}
        given = {name: changed.get(name, lambda x: x)(x) if x is not None else x for name, x in given.items()}
        options = {"scale": scale, "feature_map": feature_map, "normalise": normalise}
        return control_linear_attention_by_tokens(q, k, v, **given, **options)

    assert "definition" in failures(kernel)
