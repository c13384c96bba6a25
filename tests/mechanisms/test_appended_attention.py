"""Attention that writes into its cache: the definition against a loop over tokens, and the precision of its angles."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.appended_attention import control_appended_at_once
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

RNG = np.random.default_rng(3)
BATCH, ROWS, LENGTH, CAPACITY, HEADS = 2, 4, 3, 9, 4
INPUTS = {
    "q": RNG.normal(size=(BATCH, LENGTH, HEADS, 4)),
    "k": RNG.normal(size=(BATCH, LENGTH, 2, 4)),
    "v": RNG.normal(size=(BATCH, LENGTH, 2, 3)),
    "key_cache": RNG.normal(size=(ROWS, CAPACITY, 2, 4)),
    "value_cache": RNG.normal(size=(ROWS, CAPACITY, 2, 3)),
    "k_lens": np.array([5, 2]),
    "rows": np.array([3, 1]),
}


def turned(x, position, base):
    """Channels 0 and 2, and 1 and 3, as complex numbers, turned."""
    if base is None:
        return x
    pairs = (x[..., :2] + 1j * x[..., 2:]) * np.exp(1j * position * np.array([1.0, base**-0.5]))
    return np.concatenate([pairs.real, pairs.imag], -1)


def token_by_token(q, k, v, key_cache, value_cache, k_lens, rows, base, window_left):
    """Every token is written, and attends to what is written so far, before the next one comes."""
    keys, values, out = key_cache.copy(), value_cache.copy(), np.zeros((*q.shape[:3], v.shape[3]))
    for item, i, head in np.ndindex(*q.shape[:3]):
        row, place, group = rows[item], k_lens[item] + i, head // 2
        keys[row, place] = turned(k[item, i], place, base)
        values[row, place] = v[item, i]
        seen = slice(0 if window_left is None else max(place - window_left, 0), place + 1)
        query = turned(q[item, i, head], place, base)
        weights = np.exp(keys[row, seen, group] @ query / 2)
        out[item, i, head] = weights / weights.sum() @ values[row, seen, group]
    return {"out": out, "keys": keys, "values": values}


@pytest.mark.parametrize("base", [None, 10000.0])
@pytest.mark.parametrize("window_left", [None, 2])
def test_a_call_gives_what_its_tokens_give_one_by_one(base, window_left):
    expected = token_by_token(**INPUTS, base=base, window_left=window_left)
    given = INPUTS | {"base": base, "window_left": window_left}
    for actual in (Frame(library()["appended_attention"], given).outputs(), reference.appended_attention(**given)):
        for name, x in expected.items():
            np.testing.assert_allclose(x, actual[name], rtol=1e-12)


def kernel(factor, rounded):
    """New tokens turned by tables of another base, which may have the dtype of the queries, and written as they are."""

    def appended_attention(q, k, v, key_cache, value_cache, k_lens, rows=None, *, base=None):
        if base is not None:
            half = q.shape[3] // 2
            positions = (k_lens[:, None] + torch.arange(q.shape[1]))[..., None, None]
            angle = positions.double() * (base * factor) ** (-torch.arange(half).double() / half)
            cos, sin = (x.to(q.dtype if rounded else torch.float32).float() for x in (angle.cos(), angle.sin()))
            q, k = (
                torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)
                for x in (q, k)
                for a, b in [x.float().split(half, -1)]
            )
        return control_appended_at_once(q, k, v, key_cache, value_cache, k_lens, rows)

    return appended_attention


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("factor", "rounded", "broken"), [(1.0, False, False), (1.0, True, False), (1.05, True, True)])
def test_tables_may_have_the_dtype_of_the_queries_and_not_another_base(dtype, factor, rounded, broken):
    fixed = {"scale": None, "window_left": None, "softcap": None, "interleaved": False, "rotary_dim": None}
    one = Adapter("function", "appended_attention", kernel(factor, rounded), "torch", dtypes=(dtype,), fixed=fixed)
    cells = run(Request(subject(one), library()["appended_attention"], dtype, PROFILES["quick"])).cells
    assert broken == any(cell.bad and cell.level == "must" for cell in cells)
