"""Beam search: the reference against all sequences, faulty searches found, right ones left alone."""

import itertools

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

GENERATOR = np.random.default_rng(5)


def table(vocab):
    x = GENERATOR.normal(size=(vocab, vocab))
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def bad(function, dtype="float32", **declared):
    one = subject(Adapter("function", "beam_search", function, "torch", dtypes=(dtype,), **declared))
    cells = run(Request(one, library()["beam_search"], dtype, PROFILES["quick"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


# The reference


def score(log_probs, start, tokens):
    return sum(log_probs[a, b] for a, b in itertools.pairwise((start, *tokens)))


@pytest.mark.parametrize(("vocab", "length"), [(2, 4), (3, 3), (4, 2), (5, 1)])
def test_a_beam_that_keeps_every_prefix_finds_the_best_of_all_sequences(vocab, length):
    log_probs = table(vocab)
    best = sorted(itertools.product(range(vocab), repeat=length), key=lambda t: -score(log_probs, 0, t))
    found = reference.beam_search(log_probs, start=0, width=vocab**length, length=length)
    np.testing.assert_allclose([score(log_probs, 0, t) for t in best], found["scores"], rtol=1e-12)
    assert list(best[0]) == found["tokens"][0].tolist()


def test_a_beam_of_one_is_greedy():
    log_probs, token, greedy = table(6), 2, []
    for _ in range(5):
        token = int(log_probs[token].argmax())
        greedy.append(token)
    assert [greedy] == reference.beam_search(log_probs, start=2, width=1, length=5)["tokens"].tolist()


def test_the_same_steps_in_another_order_leave_tokens_open_and_scores_determined():
    log_probs = np.log(np.array([[0.51, 0.3, 0.19], [0.62, 0.29, 0.09], [0.5, 0.26, 0.24]]))
    margin = reference.beam_search(log_probs, start=0, width=7, length=4)["margin"]
    assert (True, True) == (bool(margin["tokens"].min() < 1e-12), margin["scores"] > 1e-3)


def test_a_tie_that_leads_elsewhere_leaves_everything_open():
    log_probs = np.log(np.array([[0.2, 0.4, 0.4], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]]))
    margin = reference.beam_search(log_probs, start=0, width=1, length=2)["margin"]
    assert ([[0.0]], 0.0) == (margin["tokens"].tolist(), margin["scores"])


# Searches


def searched(log_probs, start, width, length, pruned=None, ranked=lambda h: h[0]):
    """Right, so that what is changed about it is wrong."""
    beam = [(0.0, ())]
    for _ in range(length):
        longer = []
        for total, tokens in beam:
            row = log_probs[tokens[-1] if tokens else start].double()
            own = [(total + float(row[token]), (*tokens, token)) for token in range(len(row))]
            longer += own if pruned is None else sorted(own, reverse=True)[:pruned]
        beam = sorted(longer, key=ranked, reverse=True)[:width]
    return answer(beam, log_probs)


def answer(beam, log_probs):
    scores = torch.tensor([total for total, _ in beam], dtype=torch.float64)
    return {"tokens": torch.tensor([tokens for _, tokens in beam]), "scores": scores.to(log_probs.dtype)}


def right(log_probs, *, start, width, length):
    return searched(log_probs, start, width, length)


def in_arrays(log_probs, *, start, width, length):
    scores, tokens = torch.zeros(1), torch.full((1, 1), start)
    for _ in range(length):
        c = torch.log_softmax(log_probs.float()[tokens[:, -1]], -1) + scores[:, None]
        scores, best = c.flatten().sort(descending=True)
        scores, best = scores[:width], best[:width]
        tokens = torch.cat([tokens[best // len(log_probs)], best[:, None] % len(log_probs)], 1)
    return {"tokens": tokens[:, 1:], "scores": scores.to(log_probs.dtype)}


@pytest.mark.parametrize(("function", "dtype"), [(right, "float32"), (right, "bfloat16"), (in_arrays, "float32")])
def test_right_searches_break_nothing(function, dtype):
    assert set() == bad(function, dtype)


def one_branch_each(log_probs, *, start, width, length):
    """After the first step every hypothesis keeps its own best extension, and they do not compete."""
    first = log_probs[start].double().sort(descending=True)
    beam = [(float(s), (int(t),)) for s, t in zip(first.values[:width], first.indices[:width], strict=True)]
    for _ in range(length - 1):
        rows = [(total, tokens, log_probs[tokens[-1]].double()) for total, tokens in beam]
        beam = [(total + float(row.max()), (*tokens, int(row.argmax()))) for total, tokens, row in rows]
    return answer(sorted(beam, reverse=True), log_probs)


def two_branches_each(log_probs, *, start, width, length):
    return searched(log_probs, start, width, length, pruned=2)


def ranked_by_the_last_step(log_probs, *, start, width, length):
    def last(hypothesis):
        tokens = (start, *hypothesis[1])
        return float(log_probs[tokens[-2], tokens[-1]])

    return searched(log_probs, start, width, length, ranked=last)


def ranked_by_probability_sums(log_probs, *, start, width, length):
    found = searched(log_probs.exp(), start, width, length)
    steps = torch.cat([torch.full((len(found["tokens"]), 1), start), found["tokens"]], 1)
    return {**found, "scores": log_probs[steps[:, :-1], steps[:, 1:]].sum(1)}


def divided_by_length(log_probs, *, start, width, length):
    found = searched(log_probs, start, width, length)
    return {**found, "scores": found["scores"] / length}


def greedy_first_step(log_probs, *, start, width, length):
    first = int(log_probs[start].argmax())
    if length == 1:
        return searched(log_probs, start, width, length)
    found = searched(log_probs, first, width, length - 1)
    tokens = torch.cat([torch.full((len(found["tokens"]), 1), first), found["tokens"]], 1)
    return {"tokens": tokens, "scores": found["scores"] + log_probs[start, first]}


def widest_is_three(log_probs, *, start, width, length):
    found = searched(log_probs, start, min(width, 3), length)
    missing = min(width, len(log_probs) ** length) - len(found["scores"])
    rows = [*range(len(found["scores"])), *[0] * missing]
    return {name: x[rows] for name, x in found.items()}


FAULTY = (
    one_branch_each,
    two_branches_each,
    ranked_by_the_last_step,
    ranked_by_probability_sums,
    divided_by_length,
    greedy_first_step,
    widest_is_three,
)


@pytest.mark.parametrize("function", FAULTY)
def test_a_faulty_search_is_not_conformant(function):
    assert "definition" in bad(function)
