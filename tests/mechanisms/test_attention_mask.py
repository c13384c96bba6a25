"""Masks as models make them: definition and reference against torch, and what the rows of padding may hold."""

import numpy as np
import pytest
import torch

import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def defined(**values):
    return Frame(library()["attention_mask"], values).outputs()["mask"]


def referred(**values):
    return reference.attention_mask(**values)


@pytest.mark.parametrize("query_length", [None, 1, 3])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("witness", [defined, referred])
def test_masks_are_triangles_of_torch(witness, query_length, window):
    present = np.array([[True] * 6, [False, False, True, True, False, True]])
    found = witness(present=present, query_length=query_length, causal=True, window=window, chunk=None)
    seen = torch.ones(6, 6, dtype=torch.bool).tril()
    seen = seen if window is None else seen.triu(1 - window)
    expected = seen[-(query_length or 6) :] & torch.from_numpy(present)[:, None]
    np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize(
    "given",
    [{"query_length": 4}, {"query_length": 0}, {"causal": False, "window": 2}, {"causal": False, "chunk": 2}],
)
def test_the_reference_refuses_what_has_no_mask(given):
    with pytest.raises(ValueError, match="as many tokens as queries"):
        reference.attention_mask(np.ones((1, 3), bool), **given)
