"""Arrays of given strides."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnspec.execution.strided import seen_as, spread_out
from attnspec.frameworks.known import framework_named

STRIDES = (1, 8, 2)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_the_view_has_the_entries_and_the_strides(name):
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    framework = framework_named(name)
    memory = framework.make(spread_out(x, STRIDES), "float32", "cpu", "contiguous", 0)
    view = seen_as(framework, memory, x.shape, STRIDES)
    own = view.stride() if isinstance(view, torch.Tensor) else tuple(n // 4 for n in view.strides)
    assert (STRIDES, x.tolist()) == (own, framework.read(view).tolist())


def test_what_belongs_to_no_entry_is_nan():
    assert [0, None, 1] == [None if np.isnan(n) else n for n in spread_out(np.arange(2, dtype=np.float32), (2,))]


def test_an_array_without_entries_has_no_memory():
    assert 0 == spread_out(np.ones((0, 3), np.float32), (3, 1)).size
