"""Selective state spaces: both witnesses by hand, their dual form, and what goes from token to token wrongly."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.state_space import control_state_space_at_once, control_state_space_by_tokens
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

MECHANISM = library()["state_space"]
WITNESSES = {
    "definition": lambda **values: Frame(MECHANISM, {"softplus": False, **values}).outputs(),
    "reference": reference.state_space,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)


def waves(*shape, by):
    """Numbers without a pattern that a wrong index would keep."""
    return np.sin(by * np.arange(1, 1 + np.prod(shape))).reshape(shape)


def inputs(groups=2):
    return {
        "x": waves(2, 4, 5, 3, by=1.1),
        "dt": 0.1 + waves(2, 4, 5, by=1.7) ** 2,
        "a": -(waves(4, by=2.3) ** 2),
        "b": waves(2, groups, 5, 6, by=0.7),
        "c": waves(2, groups, 5, 6, by=1.9),
        "d": waves(4, by=0.4),
        "dt_bias": waves(4, by=0.9) ** 2,
        "state": waves(2, 4, 3, 6, by=1.3),
    }


@witnesses
@pytest.mark.parametrize("softplus", [False, True])
def test_a_step_fades_then_adds_then_reads(witness, softplus):
    given = inputs()
    found = witness(**given, softplus=softplus)
    b, c = (given[name].repeat(2, axis=1) for name in "bc")
    state = given["state"]
    for t in range(5):
        step = given["dt"][:, :, t] + given["dt_bias"]
        step = (np.log1p(np.exp(step)) if softplus else step)[..., None, None]
        x = given["x"][:, :, t]
        state = np.exp(given["a"][:, None, None] * step) * state + step * x[..., None] * b[:, :, t, None]
        expected = (state * c[:, :, t, None]).sum(-1) + given["d"][:, None] * x
        np.testing.assert_allclose(found["out"][:, :, t], expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found["final_state"], state, rtol=1e-12)


@witnesses
def test_its_dual_form_is_linear_attention(witness):
    given = inputs(groups=4)
    given |= {"d": 0.0, "dt_bias": 0.0, "state": 0.0}
    step = given["dt"]
    gate = (given["a"][:, None] * step)[..., None]
    values = step[..., None] * given["x"]
    expected = reference.linear_attention(given["c"], given["b"], values, gate, scale=1.0)["out"]
    np.testing.assert_allclose(witness(**given)["out"], expected, rtol=1e-12)


def test_the_reference_refuses_what_is_outside_the_domain():
    with pytest.raises(ValueError, match="every token has a step"):
        reference.state_space(**{**inputs(), "dt": np.ones((2, 4, 4))})


def test_all_tokens_at_once_are_the_tokens_one_by_one():
    given = {name: torch.from_numpy(x).float() for name, x in inputs().items()}
    one, other = control_state_space_by_tokens(**given), control_state_space_at_once(**given)
    for output in ("out", "final_state"):
        torch.testing.assert_close(one[output], other[output])


@pytest.mark.parametrize(
    "changed",
    [
        {"dt_bias": lambda bias: 0 * bias},
        {"a": lambda a: a.roll(1)},
        {"b": lambda b: b.flip(1)},
        {"state": lambda s: s.roll(1, 0)},
    ],
    ids=["bias", "heads", "groups", "rows"],
)
def test_what_goes_from_token_to_token_wrongly_is_found(changed):
    def kernel(x, dt, a, b, c, d=None, dt_bias=None, state=None, *, softplus=False):
        given = {"a": a, "b": b, "dt_bias": dt_bias, "state": state}
        given = {name: changed.get(name, lambda y: y)(y) if y is not None else y for name, y in given.items()}
        return control_state_space_by_tokens(x, dt, c=c, d=d, **given, softplus=softplus)

    one = subject(Adapter("function", "state_space", kernel, "torch"))
    cells = run(Request(one, MECHANISM, "float32", PROFILES["quick"], laws=frozenset({"definition"}), first=True)).cells
    assert "definition" in {cell.law for cell in cells if cell.bad and cell.level == "must"}
