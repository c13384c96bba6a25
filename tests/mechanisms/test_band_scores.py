"""The scores of a sliding window: both witnesses, wrong kernels found, and other right ones left alone."""

import mpmath
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

BAND = library()["band_scores"]
BEYOND = {"minus_infinity": -np.inf, "zeros": 0.0}


def by_definition(q, k, **more):
    return Frame(BAND, {"q": q, "k": k, **more}).outputs()["scores"]


WITNESSES = [pytest.param(f, id=f.__name__) for f in (reference.band_scores, by_definition)]


def drawn(length):
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, length, 2, 3)), rng.standard_normal((2, length, 2, 3))


@pytest.mark.parametrize("word", BEYOND)
@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize(("length", "window"), [(6, 1), (5, 2), (2, 3), (1, 1)])
def test_the_band_is_right_in_many_digits(witness, length, window, word):
    q, k = drawn(length)
    expected = np.full((2, length, 2, 2 * window + 1), BEYOND[word])
    with mpmath.workdps(40):
        for b, i, h, j in np.ndindex(2, length, 2, length):
            if abs(j - i) <= window:
                expected[b, i, h, j - i + window] = mpmath.fdot(
                    map(mpmath.mpf, q[b, i, h]), map(mpmath.mpf, k[b, j, h])
                )
    np.testing.assert_allclose(expected, witness(q, k, window=window, beyond_ends=word), rtol=1e-12)


@pytest.mark.parametrize("witness", WITNESSES)
def test_a_column_is_so_many_positions_further_on(witness):
    q, k, none = np.ones((1, 4, 1, 1)), np.arange(4.0).reshape(1, 4, 1, 1), -np.inf
    expected = [[none, none, 0, 1, 2], [none, 0, 1, 2, 3], [0, 1, 2, 3, none], [1, 2, 3, none, none]]
    np.testing.assert_array_equal(expected, witness(q, k, window=2)[0, :, 0])


def test_the_reference_refuses_what_is_no_window():
    q, k = drawn(4)
    with pytest.raises(ValueError, match="a window of 0"):
        reference.band_scores(q, k, window=0)
    with pytest.raises(ValueError, match="over queries"):
        reference.band_scores(q, k[:, :-1], window=1)


# Kernels


def places(length, window):
    """The position of every entry, and whether there is one."""
    column = torch.arange(length)[:, None] + torch.arange(2 * window + 1) - window
    return column, (column >= 0) & (column < length)


def dense(q, k, *, window, fill=-torch.inf, of=places):
    column, inside = of(q.shape[1], window)
    products = torch.einsum("bihd,bjhd->bhij", q, k)
    band = products[:, :, torch.arange(q.shape[1])[:, None], column.clamp(0, q.shape[1] - 1)]
    return band.masked_fill(~inside, fill).transpose(1, 2)


def shifted(q, k, *, window):
    """One diagonal after the other."""
    length = q.shape[1]
    keys = torch.nn.functional.pad(k, (0, 0, 0, 0, window, window))
    band = torch.stack([(q * keys[:, c : c + length]).sum(-1) for c in range(2 * window + 1)], -1)
    return band.masked_fill(~places(length, window)[1][:, None], -torch.inf)


def whole_chunks(q, k, *, window):
    band = dense(q, k, window=window)
    band[:, q.shape[1] // (2 * window) * 2 * window :] = 0
    return band


def blind_corner(q, k, *, window):
    """The first queries do not see the keys before them, as a lower triangle that was forgotten leaves it."""
    band = dense(q, k, window=window)
    band[:, 1:window, :, 1:window] = band[:, 1:window, :, 1:window].clamp(max=0)
    return band


def turned(length, window):
    column, inside = places(length, window)
    return column.flip(1), inside.flip(1)


def round_the_ends(length, window):
    column, inside = places(length, window)
    return column % length, inside | True


def heads_for_positions(q, k, *, window):
    batch, length, heads, head_dim = q.shape
    return dense(q.reshape(batch, heads, length, head_dim).transpose(1, 2), k, window=window)


WRONG = {
    "columns reversed": lambda q, k, *, window: dense(q, k, window=window, of=turned),
    "over the ends": lambda q, k, *, window: dense(q, k, window=window, of=round_the_ends),
    "queries and keys exchanged": lambda q, k, *, window: dense(k, q, window=window),
    "scaled": lambda q, k, *, window: dense(q * q.shape[-1] ** -0.5, k, window=window),
    "whole chunks alone": whole_chunks,
    "a corner of the first chunk": blind_corner,
    "heads for positions": heads_for_positions,
    "ends at ones": lambda q, k, *, window: dense(q, k, window=window, fill=1.0),
    "one key too few": lambda q, k, *, window: dense(q, torch.cat([k[:, :-1], 0 * k[:, :1]], 1), window=window),
}
RIGHT = {
    "dense": dense,
    "shifted": shifted,
    "zeros": lambda q, k, *, window: dense(q, k, window=window, fill=0.0),
    "lowest": lambda q, k, *, window: dense(q, k, window=window, fill=torch.finfo(q.dtype).min),
}


def cells(function, laws=None):
    one = subject(Adapter("function", "band_scores", function, "torch"))
    return run(Request(one, BAND, "float32", PROFILES["quick"], laws=laws, first=laws is not None)).cells


@pytest.mark.parametrize("function", WRONG.values(), ids=WRONG)
def test_a_wrong_kernel_is_found(function):
    assert ["definition"] == [cell.law for cell in cells(function, frozenset({"definition"})) if cell.bad]


@pytest.mark.parametrize("function", RIGHT.values(), ids=RIGHT)
def test_a_right_kernel_breaks_nothing(function):
    assert [] == [(cell.law, cell.says) for cell in cells(function) if cell.bad and cell.level == "must"]
