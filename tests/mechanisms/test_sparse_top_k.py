"""Attention to the k largest scores: both witnesses, wrong kernels found, and other right ones left alone."""

import itertools

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.conventions import identified
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import FP32, FP64
from attnspec.subjects.targets import subject

SPARSE = library()["sparse_top_k"]


def by_definition(q, k, v, **more):
    return Frame(SPARSE, {"q": q, "k": k, "v": v, **more}).outputs()["out"]


WITNESSES = [pytest.param(f, id=f.__name__) for f in (reference.sparse_top_k, by_definition)]


def drawn(q_len, k_len, head_dim):
    rng = np.random.default_rng(0)
    return [rng.standard_normal((2, 1, n, head_dim)) for n in (q_len, k_len, k_len)]


def with_many_digits(q, k, v, keep):
    out = np.zeros((*q.shape[:3], v.shape[3]))
    with mpmath.workdps(40):
        for b, h, i in np.ndindex(q.shape[:3]):
            scores = [mpmath.fdot(map(mpmath.mpf, q[b, h, i]), map(mpmath.mpf, key)) for key in k[b, h]]
            best = max(itertools.combinations(range(len(scores)), keep), key=lambda kept: sum(scores[j] for j in kept))
            weights = [mpmath.exp(scores[j] / mpmath.sqrt(q.shape[3])) for j in best]
            for c in range(v.shape[3]):
                out[b, h, i, c] = mpmath.fdot(weights, [v[b, h, j, c] for j in best]) / mpmath.fsum(weights)
    return out


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize(("sizes", "keep"), [((3, 5, 3), 2), ((1, 4, 1), 1), ((2, 4, 2), 4), ((4, 1, 2), 1)])
def test_the_output_is_right_in_many_digits(witness, sizes, keep):
    inputs = drawn(*sizes)
    np.testing.assert_allclose(with_many_digits(*inputs, keep), witness(*inputs, keep=keep), rtol=1e-11)


@pytest.mark.parametrize(("word", "expected"), [("first", 1.5), ("last", 5.0), ("every", 3.0)])
@pytest.mark.parametrize("witness", WITNESSES)
def test_of_equal_scores_the_convention_says_which_are_kept(witness, word, expected):
    values = np.array([1.0, 2.0, 2.0, 6.0, 4.0]).reshape(1, 1, 5, 1)
    actual = witness(np.ones((1, 1, 1, 1)), np.ones((1, 1, 5, 1)), values, keep=2, ties=word)
    np.testing.assert_allclose([[[[expected]]]], actual, rtol=1e-15)


def bound_of(keys, keep, grade):
    """One query of one against keys of one channel, with the values 1, 2, 3 and so on."""
    k = np.reshape(keys, (1, 1, -1, 1))
    values = {"q": np.ones((1, 1, 1, 1)), "k": k, "v": np.arange(1.0, 1 + k.size).reshape(k.shape), "keep": keep}
    return Frame(SPARSE, values, grade=grade, dtype="float32").outputs()["out"]


def test_near_ties_are_left_open_by_as_much_as_they_matter():
    apart, near = bound_of([0.5, 0.25, 0.125], 1, FP32), bound_of([0.5, 0.5 + 2.0**-25, 0.125], 1, FP32)
    assert apart.radius.item() < 1e-5
    assert abs(near.value.item() - 1.0) <= near.radius.item() >= abs(near.value.item() - 2.0)
    assert np.isfinite(near.radius).all()


def test_ties_of_whole_numbers_are_decided():
    assert 1.5 == bound_of([2.0, 2.0, 2.0], 2, FP32).value.item()
    assert bound_of([2.0, 2.0, 2.0], 2, FP64).radius.item() < 1e-14


@pytest.mark.parametrize("more", [{"keep": 0}, {"keep": 6}, {"keep": 2, "chunks": 0}])
def test_the_reference_refuses_to_keep_nothing_or_more_than_there_is(more):
    with pytest.raises(ValueError, match="runs"):
        reference.sparse_top_k(*drawn(3, 5, 2), **more)


# Kernels


def kept_by_topk(s, keep):
    return torch.zeros_like(s, dtype=torch.bool).scatter(-1, s.topk(keep, -1).indices, True)


def kept_by_threshold(s, keep):
    return s >= s.topk(keep, -1).values[..., -1:]


def scored(q, k):
    return q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5


def kernel_of(kept=kept_by_topk, scores=scored, weights=lambda s: torch.softmax(s, -1), fill=-torch.inf):
    def kernel(q, k, v, *, keep, chunks=1):
        s = [scores(part, k) for part in q.tensor_split(chunks, 2)]
        return torch.cat([weights(x.masked_fill(~kept(x, keep), fill)) @ v for x in s], 2)

    return kernel


def in_equal_runs(q, k, v, *, keep, chunks=1):
    """The remainder of the queries is lost, or made up for with zeros."""
    n = q.shape[2] // chunks
    outs = [kernel_of()(q[:, :, i * n : (i + 1) * n], k, v, keep=keep) for i in range(chunks)]
    out = torch.cat(outs, 2)
    return torch.nn.functional.pad(out, (0, 0, 0, q.shape[2] - out.shape[2]))


def gathered(q, k, v, *, keep):
    """The values of the best keys, gathered, in double precision."""
    best, index = scored(q.double(), k.double()).topk(keep, -1)
    values = v.double()[:, :, None].expand(-1, -1, q.shape[2], -1, -1)
    picked = values.gather(3, index[..., None].expand(*index.shape, v.shape[3]))
    return (best.softmax(-1)[..., None] * picked).sum(3).to(q.dtype)


WRONG = {
    "one too few": kernel_of(lambda s, keep: kept_by_topk(s, max(keep - 1, 1))),
    "strictly above the last": kernel_of(lambda s, keep: s > s.topk(keep, -1).values[..., -1:] - (keep == 1)),
    "smallest": kernel_of(lambda s, keep: kept_by_topk(-s, keep)),
    "by size": kernel_of(lambda s, keep: kept_by_topk(s.abs(), keep)),
    "of all queries together": kernel_of(lambda s, keep: kept_by_topk(s.sum(-2, keepdim=True), keep).expand_as(s)),
    "of the first query": kernel_of(lambda s, keep: kept_by_topk(s[..., :1, :], keep).expand_as(s)),
    "filled with zeros": kernel_of(fill=0.0),
    "not normalised again": kernel_of(weights=lambda s: torch.where(s > -torch.inf, s, -30.0).exp()),
    "unscaled": kernel_of(scores=lambda q, k: q @ k.transpose(-1, -2)),
    "the remainder lost": in_equal_runs,
    "no selection": kernel_of(lambda s, keep: s == s),
}
RIGHT = {"mask": kernel_of(), "threshold": kernel_of(kept_by_threshold), "gathered": gathered}


def tried(function, laws=None):
    one = subject(Adapter("function", "sparse_top_k", function, "torch"))
    return one, run(Request(one, SPARSE, "float32", PROFILES["quick"], laws=laws, first=laws is not None)).cells


@pytest.mark.parametrize("function", WRONG.values(), ids=WRONG)
def test_a_wrong_kernel_is_found(function):
    _, cells = tried(function, frozenset({"definition"}))
    assert ["definition"] == [cell.law for cell in cells if cell.bad]


@pytest.mark.parametrize("function", RIGHT.values(), ids=RIGHT)
def test_a_right_kernel_breaks_nothing(function):
    _, cells = tried(function)
    assert [] == [(cell.law, cell.says) for cell in cells if cell.bad and cell.level == "must"]


def test_keeping_every_one_of_equal_scores_is_observed():
    one, _ = tried(kernel_of(kept_by_threshold), frozenset({"definition"}))
    assert "every" == identified(one, SPARSE, "float32", "cpu")["ties"].word
