"""The clipped loss of a policy: the reference by hand, variants beside it, and a plain function."""

import math

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters.controls import policy as controls

GIVEN = {
    "log_probs": np.log([[0.5, 0.5, 0.9], [0.2, 0.8, 0.1]]),
    "old_log_probs": np.log([[0.25, 0.5, 0.1], [0.4, 0.8, 0.3]]),
    "advantages": np.array([1.0, -2.0]),
    "mask": np.array([[True, True, False], [True, False, False]]),
}
TERMS = [-1.2, -1.0, 1.6]  # the first ratio is clipped from above, the last one from below


@pytest.mark.parametrize(
    ("averaging", "expected"),
    [
        ("grpo", ((TERMS[0] + TERMS[1]) / 2 + TERMS[2]) / 2),
        ("bnpo", sum(TERMS) / 3),
        ("dr_grpo", sum(TERMS) / (2 * 4)),
    ],
)
def test_ratios_are_clipped_and_means_are_of_what_the_mask_leaves(averaging, expected):
    found = reference.policy_loss(**GIVEN, averaging=averaging, max_len=4)
    assert math.isclose(expected, found, rel_tol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("averaging", ["grpo", "bnpo", "dr_grpo"])
def test_variants_agree_with_the_reference(averaging, beta):
    given = {**GIVEN, "ref_log_probs": np.log([[0.3, 0.6, 0.1], [0.5, 0.5, 0.5]])}
    given["importance"] = np.array([[0.5, 2.0, 1.0], [3.0, 1.0, 1.0]])
    options = {"beta": beta, "averaging": averaging, "max_len": 4}
    expected = reference.policy_loss(**given, **options)
    arrays = {name: torch.as_tensor(x) for name, x in given.items()}
    for variant in (controls.control_policy_at_once, controls.control_policy_by_signs):
        assert math.isclose(expected, float(variant(**arrays, **options)), rel_tol=1e-5)


def test_the_reference_refuses_items_without_advantages():
    with pytest.raises(ValueError, match="an advantage for each item"):
        reference.policy_loss(**{**GIVEN, "advantages": np.ones(3)})


def losing(ignored):
    def policy_loss(
        log_probs,
        advantages,
        mask,
        old_log_probs=None,
        ref_log_probs=None,
        importance=None,
        *,
        beta=0.0,
        epsilon_low=0.2,
        epsilon_high=0.2,
        averaging="grpo",
        max_len=1,
    ):
        given = (log_probs, advantages, mask, old_log_probs, ref_log_probs, None if ignored else importance)
        bounds = {"epsilon_low": epsilon_low, "epsilon_high": epsilon_high}
        found = controls.control_policy_at_once(*given, beta=beta, **bounds, averaging=averaging, max_len=max_len)
        return found.to(torch.float32)

    return policy_loss


def test_a_function_without_its_importance_weights_is_found():
    def checked(function):
        how = {"profile": "smoke", "dtypes": ("float32",), "explain_time": 0}
        return attnspec.check(function, operator="policy_loss", **how)

    assert checked(losing(ignored=False)).conformant
    assert not checked(losing(ignored=True)).conformant


@pytest.mark.parametrize("averaging", ["grpo", "bnpo", "dr_grpo"])
def test_gradients_are_those_of_the_loss(averaging):
    given = {**GIVEN, "ref_log_probs": np.log([[0.3, 0.6, 0.1], [0.5, 0.5, 0.5]])}
    options, step = {"beta": 0.5, "averaging": averaging, "max_len": 4}, 1e-6
    found = reference.policy_loss_gradient(**given, d_out=np.float64(-3.0), **options)
    for at in np.ndindex(2, 3):
        moved = np.zeros((2, 3))
        moved[at] = step
        above, below = (
            reference.policy_loss(**{**given, "log_probs": given["log_probs"] + s * moved}, **options) for s in (1, -1)
        )
        assert math.isclose(found[at], -3 * (above - below) / (2 * step), rel_tol=1e-6, abs_tol=1e-9)


def test_a_policy_without_an_earlier_one_has_the_gradient_of_its_own_ratio():
    given = {name: x for name, x in GIVEN.items() if name != "old_log_probs"}
    found = reference.policy_loss_gradient(**given, d_out=np.float64(1.0), averaging="bnpo")
    np.testing.assert_allclose(found, [[-1 / 3, -1 / 3, 0], [2 / 3, 0, 0]], rtol=1e-12)
