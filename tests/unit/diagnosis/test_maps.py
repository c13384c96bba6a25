"""Weights are recovered from any black box, and where a subject is wrong is drawn and put into words."""

import numpy as np
import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cases.profiles import Profile
from attnspec.diagnosis.maps import mapped
from attnspec.diagnosis.weights import Weights, recovered, weighted
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import mistake, subject

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)


def failing(one, mechanism):
    result = run(Request(one, library()[mechanism], "float32", SCENARIOS, laws=frozenset({"definition"})))
    return result.bench, next(cell.failure for cell in result.cells if cell.bad)


def map_of(address):
    bench, failure = failing(mistake(address), address.partition(".")[0])
    return mapped(bench, failure, 0)


@pytest.mark.parametrize(
    ("address", "words", "rows"),
    [
        (
            "causal_mask.sees_next",
            "weight on hidden keys: the key after the last one visible to a query (key = query + 1)",
            ("o+....", "oo+...", "ooo+..", "oooo+.", "ooooo+", "oooooo"),
        ),
        (
            "causal_mask.strict",
            "no weight on visible keys: the last key visible to a query (key = query)",
            ("-.....", "o-....", "oo-...", "ooo-..", "oooo-.", "ooooo-"),
        ),
        (
            "causal_mask.ignored",
            "weight on hidden keys: every hidden key (key >= query + 1)",
            ("o+++++", "oo++++", "ooo+++", "oooo++", "ooooo+", "oooooo"),
        ),
        (
            "linformer.unshifted",
            "NaN: queries 1 to 3",
            ("oooooo", "!!!!!!", "!!!!!!", "!!!!!!", "oooooo", "oooooo"),
        ),
    ],
)
def test_a_map_shows_which_keys_have_another_weight(address, words, rows):
    found = map_of(address)
    assert (words, rows) == (found.words, found.rows)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("attention.no_scale", "other weights everywhere"),
        (
            "linformer.late_items",
            "no weight on visible keys: every visible key, in items from 128 on",
        ),
        ("rotary.first_head_alone", "out is wrong at every head but the first"),
        ("rotary.first_item_alone", "out is wrong at the last item"),
        ("layer_norm.first_weight", "out is wrong at every entry but the first"),
    ],
)
def test_a_pattern_is_told_in_words_alone_where_there_is_nothing_to_draw(address, words):
    found = map_of(address)
    assert (words, ()) == (found.words, found.rows)


@pytest.mark.parametrize("address", ["rotary.turned_twice", "layer_norm.not_centred", "generate.sampled"])
def test_where_there_is_no_pattern_nothing_is_said(address):
    assert None is map_of(address)


def plain_attention(q, k, v):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def test_the_weights_of_a_black_box_are_recovered_by_probing_its_values():
    one = subject(Adapter("function", "attention", plain_attention, "torch", dtypes=("float32",)))
    bench = Bench(one, library()["attention"], "float32", "cpu", library()["attention"].words)
    _, failure = failing(mistake("attention.no_scale"), "attention")
    trial = Trial(bench, failure.found)
    q, k = (torch.tensor(failure.found.values[name]) for name in ("q", "k"))
    expected = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1)[..., None].numpy()
    weights = recovered(trial)
    assert np.broadcast_to(expected, weights.subject.shape) == pytest.approx(weights.subject, abs=1e-6)
    assert np.broadcast_to(expected, weights.subject.shape) == pytest.approx(weights.definition, abs=1e-12)
    assert not weights.off()[0].any()


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        ("attention", True),
        ("aft_full", True),
        ("linformer", True),
        ("rotary", False),
        ("multi_head", False),
        ("packed_attention", False),
    ],
)
def test_what_is_linear_in_its_values_has_weights(mechanism, expected):
    bench, failure = failing(mistake(f"{mechanism}.{next(iter(library()[mechanism].mistakes))}"), mechanism)
    assert expected == weighted(bench, failure.found)


@pytest.mark.parametrize(
    ("subject_row", "off", "factor"),
    [
        ([0.4, 0.3, 0.2, 0.1], [False] * 4, 1.0),
        ([0.2, 0.15, 0.1, 0.55], [False, False, False, True], 0.5),
        ([0.2, 0.15, 0.1, 0.05], [True] * 4, 1.0),
        ([0.1, 0.2, 0.3, 0.4], [True] * 4, 1.0),
        ([0.4, 0.3, np.nan, 0.1], [False, False, True, False], 1.0),
    ],
)
def test_a_weight_is_off_beside_the_others_of_its_row(subject_row, off, factor):
    definition = np.asarray([0.4, 0.3, 0.2, 0.1])
    weights = Weights(*(np.asarray(x)[None, :, None] for x in (subject_row, definition, np.full(4, 1e-6))))
    found, factors = weights.off()
    assert (off, [factor]) == (found[0, :, 0].tolist(), pytest.approx(factors.ravel().tolist()))
