"""The delta rule with a gate for each channel: both witnesses by hand, and what goes from token to token wrongly."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.kimi_delta_attention import control_kimi_delta_at_once, control_kimi_delta_by_tokens
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

MECHANISM = library()["kimi_delta_attention"]
WITNESSES = {
    "definition": lambda **values: Frame(MECHANISM, {"scale": None, "normalise": False, **values}).outputs(),
    "reference": reference.kimi_delta_attention,
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
        "gate": -(waves(2, heads, 5, 3, by=1.3) ** 2),
        "beta": waves(2, heads, 5, by=0.9) ** 2,
        "state": waves(2, heads, 3, 4, by=0.7),
    }


@witnesses
def test_each_channel_fades_by_its_own_gate_before_values_are_replaced(witness):
    given = inputs()
    found = witness(**given, scale=0.5)
    state = given["state"]
    for t in range(5):
        k, beta = given["k"][:, :, t, :, None], given["beta"][:, :, t, None, None]
        faded = np.exp(given["gate"][:, :, t, :, None]) * state
        state = faded - beta * k * (k * faded).sum(-2, keepdims=True) + beta * k * given["v"][:, :, t, None]
        read = 0.5 * (given["q"][:, :, t, :, None] * state).sum(-2)
        np.testing.assert_allclose(found["out"][:, :, t], read, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found["final_state"], state, rtol=1e-12)


@witnesses
def test_one_gate_for_all_channels_is_the_gated_delta_rule(witness):
    given = inputs(heads=4)
    alike = given["gate"][..., :1].repeat(3, -1)
    expected = reference.gated_delta_rule(**{**given, "gate": alike[..., 0]}, normalise=True)["out"]
    np.testing.assert_allclose(witness(**{**given, "gate": alike}, normalise=True)["out"], expected, rtol=1e-12)


def test_the_reference_refuses_what_is_outside_the_domain():
    with pytest.raises(ValueError, match="every key has a value"):
        reference.kimi_delta_attention(**{**inputs(), "v": np.ones((2, 2, 4, 4))})


def test_a_chunk_is_its_tokens():
    given = {name: torch.from_numpy(x).float() for name, x in inputs().items()}
    one, other = control_kimi_delta_by_tokens(**given), control_kimi_delta_at_once(**given)
    for output in ("out", "final_state"):
        torch.testing.assert_close(one[output], other[output])


@pytest.mark.parametrize(
    "changed",
    [
        {"gate": lambda g: g.mean(-1, keepdim=True).expand(g.shape)},
        {"gate": lambda g: g.cumsum(-1)},
        {"state": lambda s: s.roll(1, 0)},
    ],
    ids=["mean", "axis", "rows"],
)
def test_what_goes_from_token_to_token_wrongly_is_found(changed):
    def kernel(q, k, v, gate, beta, state=None, *, scale=None, normalise=False):
        given = {"gate": gate, "state": state}
        given = {name: changed.get(name, lambda x: x)(x) if x is not None else x for name, x in given.items()}
        return control_kimi_delta_by_tokens(q, k, v, beta=beta, **given, scale=scale, normalise=normalise)

    one = subject(Adapter("function", "kimi_delta_attention", kernel, "torch"))
    cells = run(Request(one, MECHANISM, "float32", PROFILES["quick"], laws=frozenset({"definition"}), first=True)).cells
    assert "definition" in {cell.law for cell in cells if cell.bad and cell.level == "must"}
