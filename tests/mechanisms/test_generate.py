"""Greedy generation: two witnesses against a search by hand, faults as people make them, and what is right."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.generate import framed, layers_of, normed, stepped
from attnspec.cases.plans import plan
from attnspec.cases.profiles import Profile
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import BF16, FP32
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import subject

SCENARIOS = [
    "plain", "two_chunks", "ragged", "nothing_new", "padding_within", "successors", "successors_to_the_end",
    "successors_of_most", "successors_of_most_and_cached",
]  # fmt: skip


QUICK = Profile("scenarios", covering=0, draws=0, admitted=2)


def samples(dtype, names):
    """Scenarios, as they are drawn for a subject that takes everything."""
    mechanism = library()["generate"]
    drawn = plan(mechanism, DefinitionSubject(mechanism, "definition").claims, QUICK, 0, dtype).scenarios
    return [sample for sample in drawn if sample.case.scenario in names]


def failures(function, dtype="float32", laws=None):
    """The laws that a function breaks on a few scenarios."""
    one = subject(
        Adapter("function", "generate", function, "torch", dtypes=(dtype,), conventions={"pairing": "halves"})
    )
    cells = run(Request(one, library()["generate"], dtype, QUICK, laws=laws, only=samples(dtype, SCENARIOS))).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


# The witnesses


def idle_model(vocab, dim):
    """Blocks that add nothing, so that a token is followed by the one whose embedding meets its own best."""
    draw = np.random.default_rng(0)
    square, wide = np.zeros((1, dim, dim)), np.zeros((1, dim, 3))
    ones = np.ones((1, dim))
    return draw.normal(size=(vocab, dim)), ones, square, square, square, square, ones, wide, wide, wide.mT, np.ones(dim)


@pytest.mark.parametrize("end", [None, 0, 1, 4])
def test_both_witnesses_follow_the_nearest_embedding_up_to_the_end(end):
    weights = idle_model(9, 4)
    followed_by = np.argmax(weights[0] @ weights[0].T, axis=1)
    prompts, lengths = np.array([[1, 5, 7], [2, 0, 0], [3, 4, 0]]), np.array([3, 1, 2])
    expected = np.full((3, 6), 8)
    for b, n in enumerate(lengths):
        text = list(prompts[b, :n])
        while len(text) < n + 3 and (len(text) == n or text[-1] != end):
            text.append(followed_by[text[-1]])
        expected[b, : len(text)] = text
    options = {"heads": 1, "new_tokens": 3, "pad": 8, "end": end}
    np.testing.assert_array_equal(expected, reference.generate(prompts, lengths, *weights, **options))
    given = dict(zip(library()["generate"].inputs, (prompts, lengths, *weights), strict=True))
    np.testing.assert_array_equal(expected, Frame(library()["generate"], {**given, **options}).outputs()["tokens"])


@pytest.mark.parametrize("lengths", [[0, 1], [1, 4], [1]])
def test_the_reference_refuses_lengths_that_are_none(lengths):
    with pytest.raises(ValueError, match="every prompt has a length"):
        reference.generate(np.zeros((2, 3), int), np.array(lengths), *idle_model(5, 2), heads=1, new_tokens=1)


def doubt(name, grade, dtype):
    """Which of the tokens of a scenario a grade leaves in doubt."""
    (sample,) = samples(dtype, [name])
    tokens = Frame(library()["generate"], sample.values, grade=grade, dtype=dtype).outputs()["tokens"]
    return np.broadcast_to(np.asarray(getattr(tokens, "radius", 0.0)) != 0, tokens.shape)


def test_single_precision_leaves_no_token_in_doubt_and_half_precision_all_new_ones():
    assert not doubt("plain", FP32, "float32").any()
    expected = np.zeros((2, 7), bool)
    expected[0, 4:], expected[1, 2:5] = True, True
    np.testing.assert_array_equal(expected, doubt("plain", BF16, "bfloat16"))


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name.startswith("successors")])
def test_the_successors_are_beyond_doubt_in_half_precision(name):
    assert not doubt(name, BF16, "bfloat16").any()


# Generation through a cache, put together from parts of which some are exchanged


def own_length(row, n, pad):
    return n


def last_new(n, shortest, new_tokens):
    return n + new_tokens


def past(cache, start, n):
    return cache, start


def chosen(logits):
    return logits[-1].argmax()


def ended(token, end):
    return token == end


def kept(tokens, new_tokens, pad):
    return tokens


PARTS = {part.__name__: part for part in (own_length, last_new, past, chosen, ended, kept)}


def generation_of(**exchanged):
    part = {**PARTS, **exchanged}

    def generate(
        prompts, lengths, embedding, *weights, heads, kv_heads=None, eps=1e-5, base=1e4, new_tokens, chunks=None,
        pad=0, end=None,
    ):  # fmt: skip
        *stacked, final_norm = weights
        tokens, layers = framed(prompts, lengths, embedding, new_tokens, pad), layers_of(tuple(stacked))
        for row, length in zip(tokens, lengths.tolist(), strict=True):
            n = part["own_length"](row, length, pad)
            cache, start, stop = [None] * len(layers), 0, part["last_new"](n, int(lengths.min()), new_tokens)
            ends = [n] if chunks is None else sorted({min(e, n) for e in np.cumsum(chunks)})
            for until in [*ends, *range(n + 1, stop)]:
                x = embedding[row[start:until]][None]
                for i, w in enumerate(layers):
                    old, at = part["past"](cache[i], start, n)
                    x, cache[i] = stepped(x, old, at, w, heads, kv_heads, eps, base)
                start = until
                if n <= until < stop:
                    row[until] = part["chosen"](normed(x[0], final_norm, eps) @ embedding.T)
                    if part["ended"](row[until], end):
                        break
        return part["kept"](tokens, new_tokens, pad)

    return generate


FAULTS = {
    "every_step_forgets": {"past": lambda cache, start, n: (cache, start) if start < n else (None, 0)},
    "every_chunk_forgets": {"past": lambda cache, start, n: (cache, start) if start >= n else (None, 0)},
    "positions_from_zero": {"past": lambda cache, start, n: (cache, 0) if start >= n else (cache, start)},
    "length_by_value": {"own_length": lambda row, n, pad: max(int((row != pad).sum()), 1)},
    "counted_from_the_shortest": {"last_new": lambda n, shortest, new_tokens: shortest + new_tokens},
    "one_missing": {"last_new": lambda n, shortest, new_tokens: n + max(new_tokens - 1, 0)},
    "first_logits_of_a_chunk": {"chosen": lambda logits: logits[0].argmax()},
    "least": {"chosen": lambda logits: logits[-1].argmin()},
    "end_ignored": {"ended": lambda token, end: False},
    "nothing_for_nothing": {"kept": lambda tokens, n, pad: tokens if n else torch.full_like(tokens, pad)},
}
ANYWHERE = sorted(FAULTS.keys() - {"positions_from_zero"})  # rotation shows in models that half precision cannot judge


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_generation_from_which_faults_are_made_is_right(dtype):
    assert [] == failures(generation_of(), dtype)


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_generation_is_found(name):
    assert failures(generation_of(**FAULTS[name]), laws=["definition"])


@pytest.mark.parametrize("name", ANYWHERE)
def test_faulty_generation_is_found_in_half_precision(name):
    assert failures(generation_of(**FAULTS[name]), "bfloat16", laws=["definition"])
