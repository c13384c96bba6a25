"""Weight decay and operations: what is published, faults as people make them, and what is right in its own way."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject


def failures(function, operator, **declared):
    one = subject(Adapter("function", operator, function, **{"framework": "torch", **declared}))
    cells = run(Request(one, library()[operator], "float32", PROFILES["quick"])).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


# What is published

PALM = {
    "PaLM 8B": ({"layers": 32, "heads": 16, "dim": 4096}, 8.63e9),
    "PaLM 62B": ({"layers": 64, "heads": 32, "dim": 8192}, 62.50e9),
    "PaLM 540B": ({"layers": 118, "heads": 48, "dim": 18432}, 540.35e9),
}


@pytest.mark.parametrize("model", PALM)
def test_parameters_are_as_many_as_the_paper_of_palm_says(model):
    """Table 1: all heads of 256 channels share keys and values, and the feed-forward is four times as wide."""
    sizes, published = PALM[model]
    more = {"kv_heads": 1, "head_dim": 256, "hidden": 4 * sizes["dim"], "vocab": 256_000, "length": 2048}
    scores = 12 * sizes["layers"] * sizes["heads"] * 256 * 2048
    counted = (reference.model_flops(**sizes, **more) - scores) / 6
    assert published == pytest.approx(counted, abs=0.005e9)
    assert 6 * counted + scores == Frame(library()["model_flops"], {**sizes, **more}).outputs()["flops"]


@pytest.mark.parametrize("call", [{"layers": 0}, {"heads": 5}, {"kv_heads": 3}, {"head_dim": 0}])
def test_the_reference_refuses_sizes_that_do_not_fit(call):
    sizes = {"layers": 1, "heads": 4, "dim": 8, "hidden": 8, "vocab": 8, "length": 1}
    with pytest.raises(ValueError, match="positive|channel"):  # noqa: RUF043 - either
        reference.model_flops(**{**sizes, **call})


def test_both_witnesses_decay_what_has_two_axes_or_more():
    ranks = np.array([2, 0, 1, 4, 3, 1])
    expected = [True, False, False, True, True, False]
    assert expected == reference.decay_groups(ranks).tolist()
    assert expected == Frame(library()["decay_groups"], {"ranks": ranks}).outputs()["decayed"].tolist()


# Faults and what is right


def by_rank(ranks):
    if (ranks < 0).any():
        raise ValueError("fewer axes than none")
    return ranks > 1


@pytest.mark.parametrize(
    "function",
    [
        lambda ranks: ranks == 2,
        lambda ranks: ranks < 2,
        lambda ranks: ranks.bool(),
        lambda ranks: torch.sort(ranks).values >= 2,
        lambda ranks: (ranks >= 2).long(),
        lambda ranks: ranks[ranks >= 2] >= 2,
    ],
)
def test_a_fault_in_groups_is_found(function):
    assert failures(function, "decay_groups")


def test_the_rule_as_people_write_it_is_right():
    assert [] == failures(by_rank, "decay_groups")


def counted(layers, heads, dim, hidden, vocab, length, kv_heads, tied=1, scores=12):
    n = layers * (2 * dim * dim * (1 + (kv_heads or heads) / heads) + 3 * dim * hidden) + tied * vocab * dim
    return int(6 * n + scores * layers * dim * length)


def plain(*, layers, heads, dim, hidden, vocab, length, kv_heads=None):
    return counted(layers, heads, dim, hidden, vocab, length, kv_heads)


def embedding_counted_twice(*, layers, heads, dim, hidden, vocab, length, kv_heads=None):
    return counted(layers, heads, dim, hidden, vocab, length, kv_heads, tied=2)


def causal_half(*, layers, heads, dim, hidden, vocab, length, kv_heads=None):
    return counted(layers, heads, dim, hidden, vocab, length, kv_heads, scores=6)


def of_the_sequence(*, layers, heads, dim, hidden, vocab, length, kv_heads=None):
    return length * counted(layers, heads, dim, hidden, vocab, length, kv_heads)


def in_single_precision(*, layers, heads, dim, hidden, vocab, length, kv_heads=None):
    return int(np.float32(counted(layers, heads, dim, hidden, vocab, length, kv_heads)))


@pytest.mark.parametrize("function", [embedding_counted_twice, causal_half, of_the_sequence, in_single_precision])
def test_a_fault_in_counting_is_found(function):
    assert failures(function, "model_flops")


def test_the_formula_as_people_write_it_is_right():
    assert [] == failures(plain, "model_flops")
