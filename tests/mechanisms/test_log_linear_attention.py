"""Log-linear attention: both witnesses against levels by bits, and levels that are told wrongly."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.log_linear import control_log_linear_by_levels, control_log_linear_by_states
from attnspec.adapters.faults.log_linear import IN_TURN
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["log_linear_attention"], values).outputs(),
    "reference": lambda **values: {"out": reference.log_linear_attention(**values)},
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)


@witnesses
@pytest.mark.parametrize("length", [1, 9, 67])
def test_the_level_of_a_token_is_the_highest_bit_in_which_both_differ(witness, length):
    q, k = (np.sin(by * np.arange(1, 1 + 2 * length * 3)).reshape(1, 2, length, 3) for by in (1.1, 1.7))
    v, gate = np.cos(np.arange(4 * length * 2)).reshape(1, 4, length, 2), -0.1 * np.ones((1, 4, length))
    scales = 1 + np.abs(np.sin(np.arange(4 * length * 8))).reshape(1, 4, length, 8)
    found = np.asarray(witness(q=q, k=k, v=v, gate=gate, level_scales=scales)["out"])
    for head, t in np.ndindex(4, length):
        row = np.zeros(2)
        for i in range(t + 1):
            scale = scales[0, head, t, (t ^ i).bit_length()] * np.exp(-0.1 * (t - i)) / np.sqrt(3)
            row += scale * (q[0, head // 2, t] @ k[0, head // 2, i]) * v[0, head, i]
        np.testing.assert_allclose(found[0, head, t], row, rtol=1e-10, atol=1e-12)


def test_the_reference_refuses_keys_without_values():
    x = np.ones((1, 1, 3, 2))
    with pytest.raises(ValueError, match="every key has a value"):
        reference.log_linear_attention(x, x, x[:, :, :2], x[..., 0], x)


def failures(function):
    one = subject(Adapter("function", "log_linear_attention", function, "torch"))
    cells = run(Request(one, library()["log_linear_attention"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def scales_of_the_token_before(q, k, v, gate, level_scales, **asked):
    before = torch.cat((level_scales[:, :, :1], level_scales[:, :, :-1]), 2)
    return control_log_linear_by_levels(q, k, v, gate, before, **asked)


def test_scales_of_another_token_are_found():
    assert "definition" in failures(scales_of_the_token_before)


RIGHT = [control_log_linear_by_states, control_log_linear_by_levels, IN_TURN.right()]


@pytest.mark.parametrize("right", RIGHT, ids=["by_states", "by_levels", "in_turn"])
def test_states_of_bits_and_masks_of_levels_are_right(right):
    assert set() == failures(right)
