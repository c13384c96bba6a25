"""The time mixing of RWKV: both witnesses by hand, its kin, and what goes from token to token wrongly."""

import numpy as np
import pytest

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls import time_mixing
from attnspec.adapters.faults.time_mixing import CHUNKS, MOVING, RUNNING
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

ABSENT = {"wkv4": {"past": 0.0, "lse": 0.0}, "wkv6": {"state": 0.0}, "wkv7": {"state": 0.0}}


def defined(name):
    options = {} if name == "wkv4" else {"scale": 1.0}
    return lambda **values: Frame(library()[name], {**options, **ABSENT[name], **values}).outputs()


def witnesses(name):
    found = {"definition": defined(name), "reference": getattr(reference, name)}
    return pytest.mark.parametrize("witness", found.values(), ids=found)


def waves(*shape, by):
    """Numbers without a pattern that a wrong index would keep."""
    return np.sin(by * np.arange(1, 1 + np.prod(shape))).reshape(shape)


def inputs(name):
    if name == "wkv4":
        k, v = waves(2, 5, 3, by=1.1), waves(2, 5, 3, by=1.7)
        return {"w": waves(3, by=2.1), "u": waves(3, by=0.4), "k": 3 * k, "v": v}
    r, k, v, w = (waves(2, 2, 5, n, by=by) for n, by in ((3, 1.1), (3, 1.7), (4, 2.3), (3, 1.3)))
    more = {"u": waves(2, 3, by=0.8)} if name == "wkv6" else {x: 0.5 * waves(2, 2, 5, 3, by=y) for x, y in AB}
    return {"r": r, "k": k, "v": v, "w": -(w**2), "state": waves(2, 2, 3, 4, by=0.7), **more}


AB = (("a", 0.9), ("b", 1.9))


@witnesses("wkv4")
def test_earlier_tokens_fall_by_the_rate_and_a_token_has_the_bonus_for_itself(witness):
    given = inputs("wkv4")
    found, rate = witness(**given), np.exp(given["w"])
    for t in range(5):
        p = np.exp([given["k"][:, i] - (t - 1 - i) * rate for i in range(t)] + [given["u"] + given["k"][:, t]])
        expected = (p * given["v"][:, : t + 1].swapaxes(0, 1)).sum(0) / p.sum(0)
        np.testing.assert_allclose(found["out"][:, t], expected, rtol=1e-12)
    left = np.exp([given["k"][:, i] - (4 - i) * rate for i in range(5)])
    np.testing.assert_allclose(found["final_lse"], np.log(left.sum(0)), rtol=1e-12)


@witnesses("wkv4")
def test_what_is_left_counts_like_one_token_that_falls(witness):
    given = inputs("wkv4")
    tokens = {"k", "v"}
    first = witness(**{n: x[:, :2] if n in tokens else x for n, x in given.items()})
    rest = {n: x[:, 2:] if n in tokens else x for n, x in given.items()}
    found = witness(**rest, past=first["final_past"], lse=first["final_lse"])
    np.testing.assert_allclose(found["out"], witness(**given)["out"][:, 2:], rtol=1e-12)


@witnesses("wkv6")
def test_the_state_is_read_before_it_fades_and_with_the_bonus(witness):
    given = inputs("wkv6")
    found, state = witness(**given, scale=0.5), given["state"]
    for t in range(5):
        product = given["k"][:, :, t, :, None] * given["v"][:, :, t, None]
        read = state + given["u"][:, :, None] * product
        expected = 0.5 * (given["r"][:, :, t, :, None] * read).sum(-2)
        np.testing.assert_allclose(found["out"][:, :, t], expected, rtol=1e-12, atol=1e-14)
        state = np.exp(given["w"][:, :, t, :, None]) * state + product
    np.testing.assert_allclose(found["final_state"], state, rtol=1e-12)


@witnesses("wkv7")
def test_what_was_held_for_a_before_fading_is_moved_to_b(witness):
    given = inputs("wkv7")
    found, state = witness(**given, scale=0.5), given["state"]
    for t in range(5):
        w, k, a, b = (given[name][:, :, t, :, None] for name in "wkab")
        state = np.exp(w) * state + b * (a * state).sum(-2, keepdims=True) + k * given["v"][:, :, t, None]
        expected = 0.5 * (given["r"][:, :, t, :, None] * state).sum(-2)
        np.testing.assert_allclose(found["out"][:, :, t], expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found["final_state"], state, rtol=1e-12)


@witnesses("wkv7")
def test_with_the_key_for_a_and_b_it_is_the_delta_rule(witness):
    given = inputs("wkv7") | {"w": np.zeros((2, 2, 5, 3))}
    k, beta = given["k"], np.full((2, 2, 5), 0.5)
    expected = reference.gated_delta_rule(given["r"], k, given["v"], beta, state=given["state"], scale=1.0)
    found = witness(**{**given, "a": -k, "b": 0.5 * k, "v": 0.5 * given["v"]})
    np.testing.assert_allclose(found["out"], expected["out"], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["wkv4", "wkv6", "wkv7"])
def test_the_reference_refuses_what_is_outside_the_domain(name):
    with pytest.raises(ValueError, match="every key has a value"):
        getattr(reference, name)(**{**inputs(name), "v": np.ones((2, 4, 3) if name == "wkv4" else (2, 2, 4, 4))})


def violated(name, kernel, laws=None):
    one = subject(Adapter("function", name, kernel, "torch"))
    cells = run(Request(one, library()[name], "float32", PROFILES["quick"], laws=laws, first=laws is not None)).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


@pytest.mark.parametrize("whole", [RUNNING, CHUNKS, MOVING], ids=lambda whole: whole.operator)
def test_what_faults_are_made_of_is_right(whole):
    assert not violated(whole.operator, whole.right())


def wkv6_with(change):
    def kernel(r, k, v, w, u, state=None, *, scale=1.0):
        given = {"w": w, "u": u, "state": state}
        given = {n: change[n](x) if n in change and x is not None else x for n, x in given.items()}
        return time_mixing.control_wkv6_by_tokens(r, k, v, **given, scale=scale)

    return kernel


@pytest.mark.parametrize(
    "change",
    [{"w": lambda w: w.cumsum(-1)}, {"u": lambda u: u.exp()}, {"state": lambda s: s.roll(1, 0)}],
    ids=["axis", "exponential", "rows"],
)
def test_what_goes_from_token_to_token_wrongly_is_found(change):
    assert "definition" in violated("wkv6", wkv6_with(change), {"definition"})
