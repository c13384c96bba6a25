"""Positions of several axes: both witnesses against fifty digits, and what has been reported as wrong."""

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.positions import control_mrope_by_axis
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["mrope"], values).outputs()["out"],
    "reference": reference.mrope,
}


@pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
@pytest.mark.parametrize(
    ("striped", "sections", "axes"),
    [(False, [1, 2, 2], [0, 1, 1, 2, 2]), (True, [3, 1, 1], [0, 1, 2, 0, 0]), (True, [2, 2, 1], [0, 1, 2, 0, 1])],
)
def test_each_pair_turns_by_the_position_on_its_axis(witness, striped, sections, axes):
    x = np.arange(1.0, 11).reshape(1, 1, 1, 10)
    positions = np.array([[[4]], [[700]], [[-3]]])
    y = witness(x=x, positions=positions, sections=np.array(sections), base=100.0, striped=striped)[0, 0, 0]
    with mpmath.workdps(50):
        for i, a in enumerate(axes):
            turn = int(positions[a, 0, 0]) * mpmath.mpf(100) ** (mpmath.mpf(-2 * i) / 10)
            expected = (1 + i) * mpmath.cos(turn) - (6 + i) * mpmath.sin(turn)
            assert pytest.approx(float(expected), abs=1e-9) == y[i]


@pytest.mark.parametrize("changed", [{"sections": [1, 1]}, {"positions": np.zeros((3, 1, 2), int)}])
def test_the_reference_refuses_what_is_outside_the_domain(changed):
    given = {"x": np.ones((1, 1, 1, 6)), "positions": np.zeros((3, 1, 1), int), "sections": [1, 1, 1]}
    with pytest.raises(ValueError, match="every pair has an axis"):
        reference.mrope(**{**given, **changed})


def failures(function):
    one = subject(Adapter("function", "mrope", function, "torch"))
    cells = run(
        Request(one, library()["mrope"], "float32", PROFILES["quick"], laws=frozenset({"definition"}), first=True)
    ).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def by_the_first_axis(x, positions, *, sections, base=10000.0, interleaved=False, striped=False):
    given = {"sections": sections, "base": base, "interleaved": interleaved, "striped": striped}
    return control_mrope_by_axis(x, torch.broadcast_to(positions[:1], positions.shape), **given)


def by_one_pairing(x, positions, *, sections, base=10000.0, interleaved=False, striped=False):
    return control_mrope_by_axis(x, positions, sections=sections, base=base, striped=striped)


@pytest.mark.parametrize("function", [by_the_first_axis, by_one_pairing])
def test_what_has_been_reported_is_found(function):
    assert "definition" in failures(function)
