"""Scaled frequencies: both witnesses against fifty digits, and what has been reported as wrong."""

import math

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.positions import control_rope_by_wavelengths
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["rotary_frequencies"], values).outputs(),
    "reference": reference.rotary_frequencies,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)


@witnesses
def test_a_pair_of_llama_3_goes_by_the_number_of_its_turns(witness):
    given = {"base": 500000.0, "factor": 8.0, "trained": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    found = witness(kind="llama3", dim=128, **given)["frequencies"]
    with mpmath.workdps(50):
        for i in range(64):
            theta = mpmath.mpf(500000) ** (mpmath.mpf(-2 * i) / 128)
            smooth = min(max((8192 * theta / (2 * mpmath.pi) - 1) / 3, 0), 1)
            assert pytest.approx(float(theta * (smooth + (1 - smooth) / 8)), rel=1e-12) == found[i]


@witnesses
@pytest.mark.parametrize("truncate", [True, False])
def test_the_ramp_of_yarn_goes_from_pair_to_pair(witness, truncate):
    low, high = (64 * math.log(4096 / (2 * math.pi * n)) / (2 * math.log(150000)) for n in (32, 1))
    assert (8.09, 17.40) == (round(low, 2), round(high, 2))  # as gpt-oss has them
    low, high = (8, 18) if truncate else (low, high)
    given = {"base": 150000.0, "factor": 32.0, "trained": 4096, "truncate": truncate}
    found = witness(kind="yarn", dim=64, beta_fast=32.0, beta_slow=1.0, **given)
    share = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    plain = 150000.0 ** (-np.arange(32) / 32)
    np.testing.assert_allclose(found["frequencies"], plain * (1 - share + share / 32), rtol=1e-12)
    assert pytest.approx(0.1 * math.log(32) + 1) == found["scaling"]


@pytest.mark.parametrize("given", [{"dim": 7}, {"dim": 8, "base": 0.5}, {"dim": 8, "rotary_dim": 10}])
def test_the_reference_refuses_what_is_outside_the_domain(given):
    with pytest.raises(ValueError, match="in pairs"):
        reference.rotary_frequencies(**given)


def failures(function):
    one = subject(Adapter("function", "rotary_frequencies", function, "torch"))
    cells = run(Request(one, library()["rotary_frequencies"], "float32", PROFILES["quick"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def of_positions(*, dim, kind="default", base=10000.0, factor=4.0, trained=2048):
    """YaRN as a division of all positions."""
    frequencies = control_rope_by_wavelengths(dim=dim, base=base)["frequencies"]
    return {"frequencies": frequencies / (1 if kind == "default" else factor), "scaling": torch.tensor(1.0)}


def test_scaled_positions_are_not_scaled_frequencies():
    assert "definition" in failures(of_positions)


def test_a_configuration_that_is_ignored_is_found():
    def ignored(*, dim, kind="default", base=10000.0, factor=4.0):
        return {"frequencies": control_rope_by_wavelengths(dim=dim, base=base)["frequencies"], "scaling": 1.0}

    assert {"definition", "linear_divides"} <= failures(ignored)
