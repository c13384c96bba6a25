"""Filters of probabilities that are renormalised: by hand, beside a reference, and through FlashInfer's interfaces."""

import numpy as np
import pytest

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

PROBS = np.array([[0.2, 0.5, 0.3], [0.125, 0.125, 0.75]])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"k": np.array([2, 1])}, [[0, 0.625, 0.375], [0, 0, 1]]),
        ({"p": np.array([0.45, 0.99])}, [[0, 1, 0], [0.125, 0.125, 0.75]]),
        ({"k": np.array([3, 2])}, [[0.2, 0.5, 0.3], [np.nan] * 3]),
        ({}, PROBS.tolist()),
    ],
)
def test_what_stays_is_divided_by_its_sum(given, expected):
    np.testing.assert_allclose(reference.renormalised_filter(PROBS, **given), expected, rtol=1e-12)
    call = {"probs": PROBS, **given}
    np.testing.assert_allclose(Frame(library()["renormalised_filter"], call).outputs()["out"], expected, rtol=1e-12)


FLASHINFER = """
import torch

def top_p_renorm_probs(probs, top_p, is_deterministic=False):
    x, order = probs.sort(dim=-1, descending=True, stable=True)
    kept = x * (x.cumsum(-1) - x < top_p[:, None])
    return torch.zeros_like(probs).scatter(-1, order, kept / kept.sum(-1, keepdim=True))

def top_k_renorm_probs(probs, top_k, is_deterministic=False):
    x, order = probs.sort(dim=-1, descending=True, stable=True)
    kept = x * (torch.arange(x.shape[1]) < top_k[:, None])
    return torch.zeros_like(probs).scatter(-1, order, kept / kept.sum(-1, keepdim=True))

def top_k_mask_logits(logits, top_k):
    ranks = logits.argsort(dim=-1, descending=True, stable=True).argsort(-1)
    return logits.masked_fill(ranks >= top_k[:, None], -torch.inf)
"""


@pytest.mark.parametrize(
    ("function", "right", "wrong", "like"),
    [
        (
            "top_p_renorm_probs",
            "x.cumsum(-1) - x < ",
            "x.cumsum(-1) - x * (torch.arange(x.shape[1]) == 0) <= ",
            "renormalised_filter.crossing_left_out",
        ),
        ("top_p_renorm_probs", " / kept.sum(-1, keepdim=True)", "", "renormalised_filter.not_renormalised"),
        ("top_k_renorm_probs", "top_k[:, None]", "top_k[0]", "renormalised_filter.k_of_first_row"),
        ("top_k_mask_logits", "top_k[:, None]", "top_k.max()", "filter_rows.largest_k"),
    ],
)
def test_filters_of_flashinfer_are_told_and_their_faults_are_named(function, right, wrong, like, tmp_path):
    head, tail = FLASHINFER.split(f"def {function}")
    source, faulty = tmp_path / "right.py", tmp_path / "faulty.py"
    source.write_text(FLASHINFER)
    faulty.write_text(f"{head}def {function}{tail.replace(right, wrong, 1)}")
    law = f"{like.partition('.')[0]}.definition"
    report = attnspec.check(f"{source}:{function}", laws=law, isolate=False)
    assert f"{function} is treated as {function}" in str(report).splitlines()[0]
    assert report.conformant
    report = attnspec.check(f"{faulty}:{function}", laws=law, isolate=False)
    assert f"Like      {like}" in str(report)
