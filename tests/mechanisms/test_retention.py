"""Retention: both witnesses against the parallel form by hand, and states and rotations that go wrong."""

import numpy as np
import pytest

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls import retention as controls
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["retention"], values).outputs(),
    "reference": reference.retention,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
RNG = np.random.default_rng(0)
GIVEN = {name: RNG.normal(size=(1, 3, 5, 4)) for name in "qkv"}
GAMMA = {
    "powers": np.array([31 / 32, 63 / 64, 127 / 128]),
    "between": np.array([31 / 32, 127 / 128, 511 / 512]),
}


@witnesses
@pytest.mark.parametrize("decays", GAMMA)
@pytest.mark.parametrize("scaled", ["by_query", "by_key"])
def test_values_fade_with_every_token_in_between(witness, decays, scaled):
    age = np.subtract.outer(np.arange(5), np.arange(5))
    fading = np.tril(GAMMA[decays][:, None, None] ** age)
    expected = (GIVEN["q"] @ GIVEN["k"].swapaxes(2, 3) / 2 * fading) @ GIVEN["v"]
    found = witness(**GIVEN, decays=decays, scaled=scaled)["out"]
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)


@witnesses
def test_the_first_pair_turns_by_one_and_the_last_by_the_inverse_of_the_base(witness):
    x = np.zeros((1, 1, 2, 4))
    x[..., ::2] = 1.0
    given = {"q": x, "k": x, "v": np.array([[[[1.0], [0.0]]]])}
    found = np.asarray(witness(**given, scale=1.0, base=100.0, decays="powers", scaled="by_query")["out"])
    np.testing.assert_allclose(found[0, 0, :, 0], [2.0, 31 / 32 * (np.cos(1.0) + np.cos(0.01))], rtol=1e-12)


@pytest.mark.parametrize(
    ("changed", "says"), [({"v": GIVEN["v"][:, :, 1:]}, "every key a value"), ({"base": 9.0}, "in pairs")]
)
def test_the_reference_refuses_what_does_not_belong_together(changed, says):
    given = {name: x[..., :3] for name, x in GIVEN.items()}
    with pytest.raises(ValueError, match=says):
        reference.retention(**{**given, **changed})


def failures(function):
    words = {"decays": "powers", "scaled": "by_query"}
    one = subject(Adapter("function", "retention", function, "torch", conventions=words))
    cells = run(Request(one, library()["retention"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def without_offset(q, k, v, state=None, *, scale=None, base=None, offset=0):
    return controls.control_retention_in_chunks(q, k, v, state, scale=scale, base=base)


def of_the_first_head(q, k, v, state=None, *, scale=None, base=None, offset=0):
    given = (None if x is None else x.transpose(0, 1) for x in (q, k, v, state))
    head = [x if x is None else x.reshape(-1, 1, *x.shape[2:]) for x in given]
    found = controls.control_retention_in_chunks(*head, scale=scale, base=base, offset=offset)
    return {name: x.unflatten(0, (q.shape[1], -1))[:, :, 0].transpose(0, 1) for name, x in found.items()}


@pytest.mark.parametrize("wrong", [without_offset, of_the_first_head])
def test_lost_positions_and_lost_heads_are_found(wrong):
    assert "definition" in failures(wrong)


def test_chunks_are_right():
    assert set() == failures(controls.control_retention_in_chunks)
