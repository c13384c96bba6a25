"""How far an output may be from the definition."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec.judging.bounds import Stray
from attnspec.numerics.grades import BF16, FP32

ROW = np.array([0.5, 1.5, -1.0])
SPIKE = np.array([0.0, 0.0, 5.0])


def test_an_output_allows_its_own_rounding_alone(trial_of):
    trial = trial_of()
    y = trial.number("y", trial.base, None)
    np.testing.assert_array_equal(ROW, y.value)
    np.testing.assert_array_equal(np.array([2.0**-25, 2.0**-24, 2.0**-24]), y.radius)


def test_a_looser_grade_allows_more(trial_of):
    trial = trial_of()
    none, fp32, bf16 = (trial.number("y", trial.base, grade, fair=False).radius[1] for grade in (None, FP32, BF16))
    assert none < fp32 <= bf16


def test_the_bound_of_the_worst_case_is_no_smaller(trial_of):
    trial = trial_of()
    likely, worst = (trial.number("y", trial.base, BF16, worst=worst).radius for worst in (False, True))
    assert (likely <= worst).all()


def test_an_output_with_a_dtype_of_its_own_is_rounded_as_that(trial_of):
    trial = trial_of(dtype="bfloat16")
    top, y = (trial.number(name, trial.base, None).radius for name in ("top", "y"))
    assert (2.0**-24, 2.0**-8) == (float(top), float(y[1]))


def test_entries_far_from_the_definition_have_a_wide_bound(trial_of):
    trial = trial_of(y=ROW + SPIKE)
    fair, plain = (trial.number("y", trial.base, FP32, fair=fair).radius for fair in (True, False))
    assert (4 / 16, True) == (fair[2], bool(plain[2] < 1e-5))
    np.testing.assert_array_equal(plain[:2], fair[:2])


def test_nan_has_no_bound_that_hides_it(trial_of):
    trial = trial_of(y=ROW * np.nan)
    for grade in (None, FP32, BF16):
        with pytest.raises(Stray, match="y is NaN where the definition has a number"):
            trial.number("y", trial.base, grade)


def masked(made):
    def tree_mask(parents, *, cached):
        seen = torch.eye(parents.shape[1], dtype=torch.bool).repeat(len(parents), 1, 1)
        for item, node in np.argwhere(parents.numpy() >= 0):
            seen[item, node] |= seen[item, parents[item, node]]  # parents come before their children
        return made(torch.cat((seen.new_ones(*seen.shape[:2], cached), seen), 2))

    return tree_mask


@pytest.mark.parametrize(
    ("made", "failing"),
    [
        (lambda seen: seen, set()),
        (lambda seen: seen.float(), {"contract.dtype"}),
        (lambda seen: 2 * seen.int(), {"contract.dtype", "definition", "each_path_alone"}),
    ],
    ids=["booleans", "zeros and ones", "zeros and twos"],
)
def test_booleans_that_are_returned_as_numbers_are_zeros_and_ones(made, failing):
    laws = [f"tree_mask.{law}" for law in ("definition", "contract.dtype", "each_path_alone")]
    report = attnspec.check(masked(made), profile="smoke", dtypes=("float32",), laws=laws, explain_time=0)
    cells = {cell["law"]: cell["verdict"] for cell in report.lines if cell["kind"] == "cell"}
    assert dict.fromkeys(cells, "pass") | dict.fromkeys(failing, "fail") == cells
