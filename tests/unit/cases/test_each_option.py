"""Each option beyond a tile: without options, with each one that a subject takes, and with all of them."""

from dataclasses import replace

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.each_option import each_option
from attnspec.cases.plans import Plan
from attnspec.cases.profiles import PROFILES
from attnspec.judging.engine import Request, run
from attnspec.mechanisms.loader import library, load
from attnspec.subjects.claims import Claims
from attnspec.subjects.targets import subject

ATTENTION = library()["attention"]
SPEC = """
mechanism: shares
title: Shares
version: 1
sources: ["none"]
summary: Shares with options.
sizes:
  n: choice(1, 4)
inputs:
  x: normal(n)
  bias: maybe(normal(n), 0)
options:
  scale: choice(1.0, 0.5, 3.0)
  capped: choice(false, true)
  fixed: 0.0
definition:
  terms: exp(scale * (2 * tanh(x / 2) if capped else x) + bias)
  out: terms / sum(terms) + fixed
outputs: [out]
for_each_option:
  tiles: n = 70
  scaled: n = 80, scale = 3.0
laws:
  positive:
    says: It is positive.
    holds: out >= 0
"""


@pytest.fixture(scope="module")
def shares(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "shares.yaml"
    path.write_text(SPEC)
    return load([path])["shares"]


def found(mechanism, *names, few=False, **more):
    claims = Claims(frozenset(names), ("float32",), **more)
    return {x.case.label: x.values for x in each_option(mechanism, claims, 0, "float32", few=few)}


def test_each_option_is_tried_alone_and_all_are_tried_together(shares):
    cases = found(shares, "bias", "scale", "capped")
    labels = ["tiles", "tiles with bias", "tiles with scale", "tiles with capped", "tiles with all options"]
    assert [*labels, "scaled", "scaled with bias", "scaled with capped", "scaled with all options"] == list(cases)
    assert {70, 80} == {values["n"] for values in cases.values()}
    options = {label: (values["scale"], values["capped"], np.ndim(values["bias"])) for label, values in cases.items()}
    assert (1.0, False, 0) == options["tiles"]
    assert (0.5, False, 0) == options["tiles with scale"]
    assert (1.0, False, 1) == options["tiles with bias"]
    assert (3.0, True, 1) == options["tiles with all options"] == options["scaled with all options"]


def test_what_a_subject_does_not_take_is_left_out(shares):
    assert ["tiles", "tiles with capped"] == list(found(shares, "capped"))
    assert ["tiles", "tiles with bias"] == list(found(shares, "bias", "capped", fixed={"capped": True}))


def test_of_few_cases_are_those_without_options_and_with_all(shares):
    assert ["tiles", "tiles with all options"] == list(found(shares, "bias", "capped", few=True))


def test_all_but_the_smallest_profile_try_them_after_the_covering_array():
    claims = Claims(frozenset({"softcap"}), ("float32",))
    labels = {
        name: [x.case.label for x in Plan(ATTENTION, claims, profile, 0, "float32").pairs]
        for name, profile in (("smoke", PROFILES["smoke"]), ("quick", PROFILES["quick"]))
    }
    assert [] == labels["smoke"]
    assert ["pair 8", "tiles", "tiles with softcap", "decode", "decode with softcap"] == labels["quick"][7:]
    assert all(profile.options for name, profile in PROFILES.items() if name not in ("smoke", "serving"))


def test_a_cap_that_ends_with_the_first_tile_is_refuted_there():
    def capped(q, k, v, *, softcap=None):
        scores = np.einsum("bhsd,bhtd->bhst", q, k) * q.shape[-1] ** -0.5
        if softcap is not None:
            scores[..., :64] = softcap * np.tanh(scores[..., :64] / softcap)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    one = subject(Adapter("capped", "attention", capped, "numpy", dtypes=("float64",)))
    profile = replace(PROFILES["quick"], covering=0, draws=0)
    for options, verdict in ((False, "pass"), (True, "fail")):
        asked = Request(one, ATTENTION, "float64", replace(profile, options=options), laws={"definition"})
        assert {verdict} == {cell.verdict for cell in run(asked).cells if cell.law == "definition"}
