"""Factors that become codes with a scale: the errors that are allowed, and kernels that make them."""

import numpy as np
import pytest

from attnspec.auditing.faulty import audited_fault
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.averages import average
from attnspec.numerics.codes import E4M3FN, coded
from attnspec.numerics.codings import E4M3_CODES, INT8_CENTRED, INT8_CODES, Coded, alike, centred, coding_error
from attnspec.numerics.grades import FP8, FP16, INT8, INT8_SCORES, INT8_SMOOTHED
from attnspec.numerics.numbers import Number
from attnspec.subjects.registered import faults


@pytest.mark.parametrize("tokens", [1, 4, 16])
def test_no_entry_errs_more_in_int8_whatever_shares_a_scale(tokens):
    x = np.random.default_rng(tokens).normal(size=(16, 8))
    parts = x.reshape(-1, tokens, 8)
    step = np.abs(parts).max((1, 2), keepdims=True) / 127
    error = np.abs((np.rint(parts / step) * step).reshape(x.shape) - x)
    assert (error <= coding_error(x, INT8_CODES) * (1 + 1e-12) + 1e-15).all()
    assert error.max() > 0.5 * coding_error(x, INT8_CODES).max() or tokens < 16


def test_no_entry_errs_more_in_float8():
    x = np.exp(3 * np.random.default_rng(0).normal(size=(64, 64)))
    scale = x.max() / E4M3FN.largest
    error = np.abs(coded(x / scale, E4M3FN) * scale - x)
    assert (error <= coding_error(x, E4M3_CODES) * (1 + 1e-12)).all()


def test_zero_and_the_largest_entry_are_codes():
    assert [[0.0, 0.0, 0.5 * 4 / 127]] == coding_error(np.array([[0.0, -4.0, 1.0]]), INT8_CODES).tolist()


def test_entries_of_one_value_are_counted_along_an_axis():
    x = np.array([[1.0, 2.0, 1.0], [1.0, 3.0, 3.0]])
    assert [[2, 1, 2], [1, 2, 2]] == alike(x, -1).tolist()
    assert [[2, 1, 1], [2, 1, 1]] == alike(x, -2).tolist()


def test_columns_are_centred_over_tokens():
    assert [[-1.0, 1.0]] == centred(np.array([[5.0, 7.0]])).tolist()
    offset = Coded.of(np.ones((1, 2)), 100 + np.array([[0.0, 1.0, 2.0], [2.0, 0.0, 1.0]]), INT8_CENTRED)
    plain = Coded.of(np.ones((1, 2)), 100 + np.array([[0.0, 1.0, 2.0], [2.0, 0.0, 1.0]]), INT8_CODES)
    assert 50 * offset.right.max() < plain.right.max()


def test_what_repeats_among_columns_errs_in_common():
    found = Coded.of(np.ones((1, 2)), np.array([[0.5, 0.5, 0.5], [1.0, 2.0, 3.0]]), INT8_CODES)
    assert [[True] * 3, [False] * 3] == (found.common > 0).tolist()
    assert [[False] * 3, [True, True, False]] == (found.alone > 0).tolist()


def test_entries_of_opposite_sign_err_together():
    for x in (np.array([[0.5, -0.5, 2.0]]), np.array([[0.5, 0.5, 2.0]])):
        found = Coded.of(x, x.T, INT8_CODES)
        step = 0.5 * 2 / 127
        np.testing.assert_allclose([[2 * step**2 / 3, 2 * step**2 / 3, 0]], found.of_left)
        np.testing.assert_allclose(found.of_left.T, found.alone)


def test_an_average_of_values_of_opposite_sign_may_err_by_all_their_errors():
    signs = np.array([[1.0], [-1.0]] * 32)
    found = [
        average(Number(np.ones((1, 65)), grade=FP8), np.concatenate([[[2.0]], v]))
        for v in (0.3 * signs, 0.3 + 0 * signs)
    ]
    assert found[0].variance[0, 0] == pytest.approx(found[1].variance[0, 0], rel=0.1)


def bounds(grade, **changed):
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=(1, 1, 9, 8)) for name in "qkv"}
    arrays |= {name: arrays[name] + offset for name, offset in changed.items()}
    return Frame(library()["attention"], arrays, grade=grade).outputs("out")["out"].radius


def test_codes_cost_more_than_half_precision():
    assert (bounds(FP16) < bounds(INT8_SCORES)).all()
    assert np.median(bounds(INT8_SCORES)) < np.median(bounds(FP8))


def test_an_offset_of_the_keys_costs_nothing_where_their_mean_is_taken_off():
    ratio = [np.median(bounds(grade, k=50.0) / bounds(grade)) for grade in (INT8_SCORES, INT8_SMOOTHED)]
    assert ratio[0] > 5
    assert 1 == pytest.approx(ratio[1], rel=0.3)


def averaged(k_len, weight):
    """The bound of an average of one value and nothing else, beside one weight of 1 and `k_len` of another."""
    w = Number(np.array([[1.0, *[weight] * k_len]]), grade=FP8)
    v = np.array([[0.0], *[[1.0]] * k_len])
    found = average(w, Number(v, grade=FP8))
    return float(found.radius[0, 0] / found.value[0, 0])


def test_weights_that_are_powers_of_two_lose_nothing_as_codes():
    assert averaged(4, 0.25) < 1 / 256
    assert averaged(4, 0.25 * (1 + 1e-4)) < 1 / 256
    assert averaged(4, 0.24) > 1 / 64, "powers neither of the largest nor of the sum"
    assert averaged(2, 0.25) > 1 / 64, "powers of the largest, but not of the sum"


SMALL = {
    "lost": np.full(200, 0.0035),
    "raised": np.full(200, 0.0042),
    "around_half_a_step": np.linspace(0.003, 0.005, 200),
    "within_a_step": np.linspace(0.0044, 0.0074, 200),
    "many_steps": np.linspace(0, 1, 200),
    "falling": 0.9 ** np.arange(200),
    "of_the_largest": np.ones(200),
}


def in_tiles(w, running):
    """Weights in int8, tile by tile from the last one on: in steps of one, or of the largest so far."""
    codes, top = np.zeros_like(w), 0.0
    for tile in reversed(np.arange(len(w)).reshape(3, -1)):
        top = max(top, w[tile].max()) if running else 1.0
        codes[tile] = np.rint(w[tile] / top * 127) / 127 * top
    return codes


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("name", SMALL)
def test_weights_in_int8_err_within_their_bound(name, running):
    rng = np.random.default_rng(0)
    w = np.concatenate([[1.0], SMALL[name]])
    codes = in_tiles(w, running)
    for x in (rng.normal(size=(201, 4)), 1 + 0.1 * rng.normal(size=(201, 4)), np.ones((201, 4))):
        v = np.rint(x / np.abs(x).max() * 127) * np.abs(x).max() / 127
        bound = average(Number(w[None], grade=INT8), Number(v, grade=INT8)).radius
        for total in (w.sum(), codes.sum()):
            assert (np.abs(codes @ v / total - w @ v / w.sum()) <= bound).all()


def test_the_largest_weights_are_codes():
    w, v = Number(np.ones((1, 9)), grade=INT8), Number(np.where(np.arange(9) % 2, 1.0, 0.0)[:, None], grade=INT8)
    assert average(w, v).radius[0, 0] < 1e-5
    assert average(Number(np.r_[1.0, np.full(8, 0.3)][None], grade=INT8), v).radius[0, 0] > 1e-3


FAULTS = [name for name, one in faults().items() if one.module.endswith(".codings")]


@pytest.mark.parametrize("name", FAULTS)
def test_a_scale_that_is_off_by_one_part_in_64_is_refuted_at_the_grade_of_the_codes(name):
    part = audited_fault(name)
    assert [] == part.faults
    assert 2 == len(part.notes)
