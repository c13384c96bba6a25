"""Turned keys in a cache: the definition against a loop over slots, and scales off by little."""

import ml_dtypes
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.rotary_cache import coded
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

RNG = np.random.default_rng(3)
Q, K, V = RNG.normal(size=(4, 2, 4)), 90 * RNG.normal(size=(4, 1, 4)), RNG.normal(size=(4, 1, 4))
KEYS, VALUES = np.arange(24.0).reshape(3, 2, 1, 4), -np.arange(24.0).reshape(3, 2, 1, 4)
POSITIONS, SLOTS = np.array([7, 0, 3, 3]), np.array([5, -1, 0, 2])
INPUTS = {"q": Q, "k": K, "v": V, "key_cache": KEYS, "value_cache": VALUES, "positions": POSITIONS, "slots": SLOTS}
SCALES = {"k_scale": np.array([0.125]), "v_scale": np.array([0.3])}


def turned(x, position):
    """Channels 0 and 2, and 1 and 3, as complex numbers, turned."""
    pairs = (x[..., :2] + 1j * x[..., 2:]) * np.exp(1j * position * np.array([1.0, 0.01]))
    return np.concatenate([pairs.real, pairs.imag], -1)


def in_float8(x):
    return np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(float)


@pytest.mark.parametrize("name", ["rotary_cache", "coded_rotary_cache"])
def test_keys_and_values_are_in_the_slots_of_their_tokens_and_nowhere_else(name):
    scales = SCALES if name == "coded_rotary_cache" else {}
    keys, values = KEYS.copy().reshape(6, 1, 4), VALUES.copy().reshape(6, 1, 4)
    for token, slot in enumerate(SLOTS):
        if slot >= 0:
            key, value = turned(K[token], POSITIONS[token]), V[token]
            keys[slot] = in_float8(key / scales["k_scale"]) if scales else key
            values[slot] = in_float8(value / scales["v_scale"]) if scales else value
    q_out = np.stack([turned(Q[token], POSITIONS[token]) for token in range(4)])
    for given in (Frame(library()[name], {**INPUTS, **scales}).outputs(), reference.rotary_cache(**INPUTS, **scales)):
        np.testing.assert_allclose(q_out, given["q_out"], rtol=1e-13)
        np.testing.assert_allclose(keys.reshape(KEYS.shape), given["keys"], rtol=1e-13)
        np.testing.assert_allclose(values.reshape(VALUES.shape), given["values"], rtol=1e-13)


def kernel(factor):
    """Keys in halves of a head, and all slots at once, by a scale of the keys with a factor."""

    def rotary_cache(q, k, v, key_cache, value_cache, positions, slots, k_scale, v_scale):
        half, found = q.shape[2] // 2, []
        angle = positions.float()[:, None, None] * 10000.0 ** (-torch.arange(half) / half)
        for x in (q.float(), k.float()):
            a, b = x[..., :half], x[..., half:]
            found.append(torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1))
        caches = []
        for cache, new, scale in ((key_cache, found[1], k_scale * factor), (value_cache, v, v_scale)):
            flat = cache.reshape(-1, *cache.shape[2:]).clone()
            flat[slots[slots >= 0]] = coded(new[slots >= 0], scale, cache.dtype)
            caches.append(flat.reshape(cache.shape))
        return {"q_out": found[0].to(q.dtype), "keys": caches[0], "values": caches[1]}

    return rotary_cache


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("factor", "broken"), [(1.0, False), (65 / 64, True), (63 / 64, True)])
def test_a_scale_that_is_off_by_one_part_in_64_is_refuted(dtype, factor, broken):
    fixed = {"base": 10000.0, "interleaved": False, "rotary_dim": None}
    one = Adapter("function", "rotary_cache", kernel(factor), "torch", dtypes=(dtype,), fixed=fixed)
    cells = run(Request(subject(one), library()["coded_rotary_cache"], dtype, PROFILES["smoke"])).cells
    assert broken == any(cell.bad and cell.level == "must" for cell in cells)
