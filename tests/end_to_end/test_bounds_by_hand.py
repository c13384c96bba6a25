"""docs/bounds.md: the example that is worked by hand has the numbers of the suite."""

from pathlib import Path

import numpy as np
import pytest

from attnspec.cases.samples import Case, Sample
from attnspec.judging.conventions import NEAR
from attnspec.judging.environments import FALSE_ALARM
from attnspec.judging.judge import VACUOUS
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import FP32, GRADES
from attnspec.numerics.numbers import Number
from attnspec.numerics.parts import K
from attnspec.strategies import Case as Judged
from attnspec.subjects.targets import subject, undecorated

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "bounds.md").read_text("utf-8")
UNIT = 2.0**-24
GIVEN = {"codes": [[200]], "scale": 0.5, "zero_point": 3.0}


def dequantize(codes, scale, zero_point):
    raise NotImplementedError


def bound(dtype):
    sample = Sample(library()["dequantize"], Case("dequantize", "by hand", 0, literals=GIVEN), dtype)
    kernel = undecorated(dequantize, "dequantize", None, "numpy", dtypes=(dtype,))
    return Judged(sample, subject(kernel), dtype).bounds["x"].item()


def test_every_step_errs_as_it_is_worked_out():
    m = library()["dequantize"]
    frame = Frame(m, {name: np.asarray(x) for name, x in GIVEN.items()}, grade=FP32, dtype="float32")
    scale, codes, zero = (Number(np.asarray(x), grade=FP32) for x in (0.5, 200.0, 3.0))
    steps = [(scale * codes, "100 u", "100 u"), (scale * zero, "1.5 u", "1.5 u"), (frame["x"], "98.5 u", "200 u")]
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith(("| `scale", "| the difference"))]
    found = [(f"{x.value.item():g}", own, f"{x.radius.item() / UNIT:g} u") for x, own, _ in steps]
    assert found == [(row[1], row[2], row[3].removesuffix(" |")) for row in rows]


def test_the_bound_is_that_of_the_page():
    assert f"The bound is {bound('float32') / UNIT:.0f} u = {bound('float32'):.3g}." in PAGE
    assert f"adds 0.25, and the bound is {bound('bfloat16'):.6g}." in PAGE


def test_a_long_sum_has_the_two_bounds_of_the_page():
    one = Number(np.ones((1, 300)), grade=FP32) @ Number(np.full((300, 1), 1 / 300), grade=FP32)
    worst, likely = one.worst.item() / UNIT, one.radius.item() / UNIT
    assert f"the worst case is {worst:.0f} u, and the likely bound {likely:.0f} u" in PAGE


def test_numbers_that_are_chosen_are_those_of_the_code():
    assert (6.0, 1 / 16, 0.1, 1e-14) == (K, NEAR, VACUOUS, FALSE_ALARM)
    for text in (
        "is 6 standard deviations",
        "by a sixteenth of the largest entry",
        "exceeds a tenth of what is compared",
        "at a probability of 1e-14 for each claim",
    ):
        assert text in PAGE


@pytest.mark.parametrize("grade", ["fp32", "bf16", "bf16_naive"])
def test_grades_are_known_and_named(grade):
    assert (True, True) == (grade in GRADES, f"`{grade}`" in PAGE)
