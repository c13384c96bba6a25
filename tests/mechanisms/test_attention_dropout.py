"""Dropout of attention weights: faulty implementations found, right ones left alone, and others not asked for it."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.attention_dropout import control_dropout_in_tiles
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

DECLARED = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}


def cells(function, laws=None):
    one = subject(Adapter("function", "attention", function, "torch", conventions=DECLARED))
    return run(Request(one, library()["attention_dropout"], "float32", PROFILES["quick"], laws=laws)).cells


def bad(function, laws=None):
    return {cell.law for cell in cells(function, laws) if cell.bad and cell.level == "must"}


# What the definition says


def defined(q, k, v, **options):
    values = {"q": q, "k": k, "v": v, **options}
    return Frame(library()["attention_dropout"], values).outputs("out")["out"]


def referred(q, k, v, **options):
    return reference.attention(q, k, v, **options)["out"]


@pytest.mark.parametrize("witness", [defined, referred])
def test_weights_are_zero_or_divided_by_the_share_that_is_kept(witness):
    q, k = (np.random.default_rng(0).normal(size=(2, 3, 8, 5)) for _ in range(2))
    identity = np.broadcast_to(np.eye(8), (2, 3, 8, 8))
    whole = reference.attention(q, k, identity)["weights"]
    weights = witness(q, k, identity, dropout_p=0.25, seed=7)
    kept = weights > 0
    np.testing.assert_allclose(whole[kept] / 0.75, weights[kept], rtol=1e-12)
    assert 0 < np.mean(~kept) < 0.5


# Implementations


def uniform(shape, seed):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed or 0))


def weights_of(q, k, causal):
    """The weights, and the shape of their dropout."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    s = q @ k.mT * q.shape[-1] ** -0.5
    row, column = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], torch.arange(k.shape[2])
    return torch.softmax(s.masked_fill((column > row) & causal, -torch.inf), -1).nan_to_num(0.0)


def values_of(q, v):
    return v.repeat_interleave(q.shape[1] // v.shape[1], 1)


def right(q, k, v, *, causal=False, dropout_p=0.0, seed=None):
    w = weights_of(q, k, causal)
    return w * (uniform(w.shape, seed) >= dropout_p) / (1 - dropout_p) @ values_of(q, v)


def without(q, k, v, *, causal=False):
    return weights_of(q, k, causal) @ values_of(q, v)


def mask_for_all_queries(q, k, v, *, causal=False, dropout_p=0.0, seed=None):
    w = weights_of(q, k, causal)
    kept = uniform((*w.shape[:2], 1, w.shape[3]), seed) >= dropout_p
    return w * kept / (1 - dropout_p) @ values_of(q, v)


def mask_for_all_heads(q, k, v, *, causal=False, dropout_p=0.0, seed=None):
    w = weights_of(q, k, causal)
    kept = uniform((w.shape[0], 1, *w.shape[2:]), seed) >= dropout_p
    return w * kept / (1 - dropout_p) @ values_of(q, v)


def output_dropped(q, k, v, *, causal=False, dropout_p=0.0, seed=None):
    out = weights_of(q, k, causal) @ values_of(q, v)
    return out * (uniform(out.shape, seed) >= dropout_p) / (1 - dropout_p)


def scores_dropped(q, k, v, *, causal=False, dropout_p=0.0, seed=None):
    w = weights_of(q, k, causal)
    kept = w * (uniform(w.shape, seed) >= dropout_p)
    return kept / kept.sum(-1, keepdim=True).clamp(min=1e-9) @ values_of(q, v)


def not_rescaled(q, k, v, *, causal=False, dropout_p=0.0, seed=None):
    w = weights_of(q, k, causal)
    return w * (uniform(w.shape, seed) >= dropout_p) @ values_of(q, v)


def causal_lost(q, k, v, *, causal=False, dropout_p=0.0, seed=None):
    return right(q, k, v, causal=causal and not dropout_p, dropout_p=dropout_p, seed=seed)


def same_in_every_tile(q, k, v, *, causal=False, dropout_p=0.0, seed=None):
    w = weights_of(q, k, causal)
    drawn = uniform((*w.shape[:3], 16), seed).repeat(1, 1, 1, w.shape[3] // 16 + 1)[..., : w.shape[3]]
    return w * (drawn >= dropout_p) / (1 - dropout_p) @ values_of(q, v)


def unseeded(q, k, v, *, causal=False, dropout_p=0.0, seed=None):
    w = torch.nn.functional.dropout(weights_of(q, k, causal), dropout_p)
    return w @ values_of(q, v)


def ignored(q, k, v, *, causal=False, dropout_p=0.0, seed=None):
    return without(q, k, v, causal=causal)


FAULTY = [
    (mask_for_all_queries, "queries_apart"),
    (mask_for_all_heads, "heads_apart"),
    (output_dropped, "weights_and_not_outputs"),
    (scores_dropped, "two_values"),
    (not_rescaled, "two_values"),
    (causal_lost, "hidden_stay_hidden"),
    (same_in_every_tile, "tiles_apart"),
    (unseeded, "contract.repeatable"),
    (ignored, "rate"),
]


@pytest.mark.parametrize(("function", "law"), FAULTY)
def test_a_faulty_implementation_breaks_the_law_that_is_about_its_fault(function, law):
    assert law in bad(function, {law, "nothing_to_drop"})


def test_a_right_implementation_breaks_nothing():
    assert set() == bad(right)


def test_an_implementation_without_dropout_is_not_asked_for_it():
    assert {"not_declared"} == {cell.verdict for cell in cells(without)}


def test_a_weight_that_is_too_small_for_the_dtype_is_no_error_of_precision():
    tiles = Adapter("tiles", "attention", control_dropout_in_tiles, "torch", ("float16",), conventions=DECLARED)
    laws = {"nothing_to_drop", "contract.precision"}
    asked = Request(subject(tiles), library()["attention_dropout"], "float16", PROFILES["quick"], laws=laws)
    assert {"nothing_to_drop": "pass", "contract.precision": "pass"} == {c.law: c.verdict for c in run(asked).cells}
