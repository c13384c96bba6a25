"""Latent attention: both witnesses against fifty digits, its two forms, and what has been reported as wrong."""

import functools

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.latent import (
    control_latents_absorbed,
    control_latents_expanded,
    control_rows_gathered,
)
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import BF16
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["latent_attention"], values).outputs(),
    "reference": reference.latent_attention,
}
OVER_PAGES = {
    "definition": lambda **values: Frame(library()["latent_pages"], values).outputs(),
    "reference": reference.latent_pages,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)


def waves(by, *shape):
    return np.sin(by * np.arange(1, 1 + np.prod(shape))).reshape(shape)


GIVEN = {
    "q_nope": waves(1.1, 1, 2, 2, 3),
    "q_rope": waves(1.7, 1, 2, 2, 4),
    "latent": waves(0.9, 1, 5, 6),
    "k_rope": waves(2.3, 1, 5, 4),
    "w_uk": waves(0.7, 2, 6, 3),
    "w_uv": waves(1.3, 2, 6, 2),
}


def turn(x, position, base, interleaved):
    """One rope part in fifty digits."""
    pairs = len(x) // 2
    found = [mpmath.mpf(float(entry)) for entry in x]
    for i in range(pairs):
        m, n = (2 * i, 2 * i + 1) if interleaved else (i, i + pairs)
        angle = position * mpmath.mpf(base) ** (mpmath.mpf(-i) / pairs)
        a, b = found[m], found[n]
        found[m] = a * mpmath.cos(angle) - b * mpmath.sin(angle)
        found[n] = a * mpmath.sin(angle) + b * mpmath.cos(angle)
    return found


@witnesses
@pytest.mark.parametrize("interleaved", [False, True])
def test_contents_and_turned_rope_parts_make_one_score(witness, interleaved):
    found = witness(**GIVEN, causal=True, base=100.0, interleaved=interleaved)
    g = {name: x[0] if len(x) == 1 else x for name, x in GIVEN.items()}
    with mpmath.workdps(50):
        for h, i in np.ndindex(2, 2):
            place = turn(g["q_rope"][h, i], 3 + i, 100, interleaved)
            scores = []
            for t in range(4 + i):
                key = mpmath.matrix(g["latent"][t : t + 1]) * mpmath.matrix(g["w_uk"][h])
                content = mpmath.fdot(g["q_nope"][h, i], list(key))
                scores.append(
                    (content + mpmath.fdot(place, turn(g["k_rope"][t], t, 100, interleaved))) / mpmath.sqrt(7)
                )
            weights = [mpmath.exp(s) for s in scores]
            total = mpmath.fsum(weights)
            latent = [mpmath.fdot(weights, g["latent"][: 4 + i, c]) / total for c in range(6)]
            expected = [float(mpmath.fdot(latent, g["w_uv"][h, :, c])) for c in range(2)]
            np.testing.assert_allclose(found["out"][0, h, i], expected, rtol=1e-12)
            assert pytest.approx(float(mpmath.log(total)), abs=1e-12) == found["lse"][0, h, i]


def test_the_reference_refuses_more_queries_than_tokens():
    with pytest.raises(ValueError, match="the last tokens"):
        reference.latent_attention(**{**GIVEN, "latent": GIVEN["latent"][:, :1], "k_rope": GIVEN["k_rope"][:, :1]})


def test_the_bound_holds_what_either_form_rounds():
    frame = Frame(library()["latent_attention"], GIVEN, grade=BF16, dtype="bfloat16")
    by_keys, absorbed = (frame["q_nope"] @ frame["keys"].map(lambda x: x.swapaxes(-1, -2))), frame["absorbed"]
    by_latents = absorbed @ frame["latents"].map(lambda x: x.swapaxes(-1, -2))
    assert np.all(frame["content"].worst >= np.maximum(by_keys.worst, by_latents.worst))
    assert np.all(frame["content"].worst < by_keys.worst + by_latents.worst)


def failures(function, operator="latent_attention"):
    one = subject(Adapter("function", operator, function, "torch", conventions={"lse_base": "natural"}))
    cells = run(Request(one, library()[operator], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def changed(change):
    """The absorbed form on inputs and options that a change has passed through."""

    @functools.wraps(control_latents_absorbed)
    def latent_attention(q_nope, q_rope, latent, k_rope, w_uk, w_uv, **options):
        inputs = {"q_nope": q_nope, "q_rope": q_rope, "latent": latent, "k_rope": k_rope, "w_uk": w_uk, "w_uv": w_uv}
        return control_latents_absorbed(**{**inputs, **options, **change(**inputs, **options)})

    return latent_attention


def scaled_by_the_latent(latent, q_rope, scale=None, **_):
    return {"scale": (latent.shape[2] + q_rope.shape[3]) ** -0.5 if scale is None else scale}


def matrix_of_the_values(w_uk, w_uv, **_):
    return {"w_uk": w_uv if w_uk.shape == w_uv.shape else w_uk}


@pytest.mark.parametrize(
    "change",
    [
        lambda **_: {"base": None},
        lambda q_rope, **_: {"q_rope": torch.zeros_like(q_rope)},
        lambda q_rope, **_: {"q_rope": q_rope[:, :1].expand_as(q_rope)},
        scaled_by_the_latent,
        matrix_of_the_values,
    ],
    ids=["never turned", "rope left out", "one rope query", "scaled by the latent", "the matrix of the values"],
)
def test_what_has_been_reported_is_found(change):
    assert "definition" in failures(changed(change))


def test_the_form_with_keys_of_every_head_is_right():
    def in_natural_logarithms(*inputs, **options):
        found = control_latents_expanded(*inputs, **options)
        return {**found, "lse": found["lse"] * np.log(2)}

    assert set() == failures(functools.wraps(control_latents_expanded)(in_natural_logarithms))


@pytest.mark.parametrize("witness", OVER_PAGES.values(), ids=OVER_PAGES)
def test_pages_of_rows_give_what_the_form_with_keys_of_every_head_gives(witness):
    table, rows = np.array([[2, 0, 1]]), np.zeros((3, 2, 10))
    for t in range(5):
        rows[table[0, t // 2], t % 2] = np.concatenate([GIVEN["latent"][0, t], GIVEN["k_rope"][0, t]])
    absorbed = np.concatenate([GIVEN["q_nope"] @ GIVEN["w_uk"].swapaxes(1, 2), GIVEN["q_rope"]], 3).swapaxes(1, 2)
    found = witness(q=absorbed, rows=rows, table=table, k_lens=np.array([5]), value_dim=6, scale=7**-0.5)
    expected = reference.latent_attention(**GIVEN, causal=True)
    np.testing.assert_allclose(found["out"].swapaxes(1, 2) @ GIVEN["w_uv"], expected["out"], rtol=1e-12)
    np.testing.assert_allclose(found["lse"], expected["lse"], rtol=1e-12)


def test_the_reference_refuses_an_item_without_a_length():
    with pytest.raises(ValueError, match="a table and a length"):
        reference.latent_pages(np.ones((1, 1, 1, 2)), np.ones((1, 1, 2)), np.zeros((1, 1), int), [], value_dim=1)


def tables_of_tokens(q, rows, table, k_lens, *, value_dim, scale=None):
    """Entries of a table name tokens where pages hold several."""
    tokens = rows.flatten(0, 1)[:, None] if rows.shape[1] > 1 else rows
    wide = table.repeat_interleave(rows.shape[1], 1)
    return control_rows_gathered(q, tokens, wide, k_lens, value_dim=value_dim, scale=scale)


def test_a_table_that_is_read_as_one_of_tokens_is_found_at_larger_pages():
    assert "definition" in failures(tables_of_tokens, "latent_pages")
    assert set() == failures(control_rows_gathered, "latent_pages")
