"""One sample on one subject: equal calls are made once, and outputs have the shape of the definition's."""

import numpy as np
import pytest

from attnspec.judging.trial import Faulted

ROW = np.array([0.5, 1.5, -1.0])


def test_equal_calls_are_made_once(trial_of):
    trial = trial_of()
    for replaced in ({}, {"x": ROW.copy()}, {"times": 1}, {"x": 2 * ROW}, {"x": ROW + ROW}):
        trial.reply(trial.settle(replaced))
    assert 2 == len(trial.bench.subject.calls)


def test_an_output_of_another_shape_is_a_fault(trial_of):
    trial = trial_of(y=ROW[:2])
    with pytest.raises(Faulted, match=r"^y has the shape \[2\], not \[3\]$") as caught:
        trial.number("y", trial.base, None)
    assert "misshapen" == caught.value.fault.kind
