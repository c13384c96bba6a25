"""The choice of keys by a lightning indexer: witnesses by hand, and kernels that choose wrongly found."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

INDEXER = library()["lightning_indexer"]


def by_definition(q, k, w, **more):
    return np.asarray(Frame(INDEXER, {"q": q, "k": k, "w": w, **more}).outputs()["chosen"]) > 0


WITNESSES = [pytest.param(f, id=f.__name__) for f in (reference.lightning_indexer, by_definition)]


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("top_k", [1, 3, 9, 1000])
@pytest.mark.parametrize("causal", [False, True])
def test_the_keys_of_the_largest_scores_are_chosen(witness, causal, top_k):
    rng = np.random.default_rng(0)
    q, k, w = rng.normal(size=(2, 4, 12, 5)), rng.normal(size=(2, 9, 5)), rng.normal(size=(2, 4, 12))
    scores = np.einsum("bih,bihs->bis", w, np.maximum(np.einsum("bihd,bsd->bihs", q, k), 0))
    expected = np.zeros((2, 4, 9), bool)
    for b, i in np.ndindex(2, 4):
        row = scores[b, i, : 6 + i if causal else 9]
        expected[b, i, : len(row)] = row >= np.sort(row)[::-1][min(top_k, len(row)) - 1]
    np.testing.assert_array_equal(witness(q, k, w, top_k=top_k, causal=causal), expected)


@pytest.mark.parametrize("witness", WITNESSES)
def test_a_query_that_sees_too_few_keys_has_all_of_them(witness):
    q, k, w = np.ones((1, 3, 1, 1)), np.arange(1.0, 5.0).reshape(1, 4, 1), np.ones((1, 3, 1))
    assert [2, 3, 3] == witness(q, k, w, top_k=3)[0].sum(-1).tolist()


def test_the_reference_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="for queries"):
        reference.lightning_indexer(np.ones((1, 2, 1, 3)), np.ones((1, 2, 4)), np.ones((1, 2, 1)))


def chosen(q, k, w, *, top_k, causal=True, add=lambda m, w: (m * w[..., None]).sum(2), ties=lambda best, x: best):
    """A choice by torch.topk."""
    scores = add(torch.einsum("bihd,bsd->bihs", q.float(), k.float()).relu(), w.float())
    seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1] if causal else k.shape[1])
    scores = scores.masked_fill(~seen, -torch.inf)
    best = scores.topk(min(top_k, k.shape[1]), 2).indices
    return ties(torch.zeros(scores.shape, dtype=torch.bool).scatter(2, best, True), scores)


def failures(**changed):
    def lightning_indexer(q, k, w, *, top_k, causal=True):
        return chosen(q, k, w, top_k=top_k, causal=causal, **changed)

    one = subject(Adapter("function", "lightning_indexer", lightning_indexer, "torch"))
    cells = run(Request(one, INDEXER, "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def test_what_is_right_passes_though_hidden_keys_fill_short_rows():
    assert set() == failures()


def test_heads_that_are_added_without_weights_are_found():
    assert "determined" in failures(add=lambda m, w: m.sum(2))


def test_keys_as_good_as_the_last_one_that_are_chosen_beyond_their_number_are_found():
    def all_equal(best, scores):
        return scores >= scores.masked_fill(~best, torch.inf).amin(2, keepdim=True)

    assert "as_many" in failures(ties=all_equal)


@pytest.mark.parametrize(
    ("of_key", "found"), [(lambda scale: scale, False), (lambda scale: scale[:, :1], True)], ids=["own", "first"]
)
def test_codes_are_compared_with_the_scales_of_their_keys(of_key, found):
    def lightning_indexer(q, k, w, *, k_scale, top_k, causal=True):
        return chosen(q, k.float() * of_key(k_scale)[..., None], w, top_k=top_k, causal=causal)

    one = subject(Adapter("function", "lightning_indexer", lightning_indexer, "torch"))
    cells = run(Request(one, library()["quantized_indexer"], "float32", PROFILES["smoke"])).cells
    assert found == ("determined" in {cell.law for cell in cells if cell.bad})
