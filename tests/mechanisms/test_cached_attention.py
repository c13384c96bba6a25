"""Caches of keys and values: two witnesses against exact digits, faults as people make them, and what is right."""

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.attention import online
from attnspec.adapters.controls.writing import encoded
from attnspec.adapters.flash_attention.cache import in_chunks
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame, refused
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

INFINITY = float("inf")


def failures(function, dtype="float32", laws=None):
    one = subject(Adapter("function", "cached_attention", function, "torch", dtypes=(dtype,)))
    cells = run(Request(one, library()["cached_attention"], dtype, PROFILES["quick"], laws=laws)).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


# The witnesses


def exactly(q, k, v, first):
    """One query over the keys from `first` on, in sixty digits."""
    with mpmath.workdps(60):
        scores = [mpmath.fsum(map(mpmath.fmul, q, row)) / mpmath.sqrt(len(q)) for row in k[first:]]
        weights = [mpmath.exp(s) for s in scores]
        return [float(mpmath.fsum(map(mpmath.fmul, weights, column)) / mpmath.fsum(weights)) for column in v[first:].T]


@pytest.mark.parametrize("window_left", [None, 0, 2])
@pytest.mark.parametrize("beams", [None, [1, 0], [1, 1]])
@pytest.mark.parametrize("chunks", [[7], [1] * 7, [3, 1, 3], [2, 5]])
def test_both_witnesses_have_the_digits_of_the_formula(chunks, beams, window_left):
    draw = np.random.default_rng(0)
    q, k, v = draw.normal(size=(2, 4, 7, 5)), draw.normal(size=(2, 2, 7, 5)), draw.normal(size=(2, 2, 7, 3))
    expected = np.empty((2, 4, 7, 3))
    for b, h, i in np.ndindex(2, 4, 7):
        past = chunks[0] if beams is not None and i >= chunks[0] else 0
        row = b if beams is None else beams[b]
        keys, values = (np.concatenate([x[row, h // 2, :past], x[b, h // 2, past : i + 1]]) for x in (k, v))
        expected[b, h, i] = exactly(q[b, h, i], keys, values, 0 if window_left is None else max(i - window_left, 0))
    options = {
        "chunks": np.array(chunks),
        "window_left": window_left,
        "beams": None if beams is None else np.array(beams),
    }
    np.testing.assert_allclose(reference.cached_attention(q, k, v, **options), expected, 0, 1e-13)
    frame = Frame(library()["cached_attention"], {"q": q, "k": k, "v": v, **options})
    np.testing.assert_allclose(frame.outputs()["out"], expected, 0, 1e-13)


@pytest.mark.parametrize(
    "call",
    [{"chunks": (2, 2)}, {"chunks": (3, 3)}, {"capacity": 4}, {"chunks": (5, 0)}, {"beams": (0,), "mask": True}],
    ids=str,
)
def test_the_reference_refuses_what_is_outside_the_domain(call):
    x = np.ones((1, 2, 5, 4))
    with pytest.raises(ValueError, match=r"chunks|full|rows"):
        reference.cached_attention(x, x, x, **{"chunks": (3, 2), **call})


@pytest.mark.parametrize("window_left", [None, 1])
def test_both_witnesses_of_a_cache_that_is_rewound_have_the_digits_of_the_formula(window_left):
    draw = np.random.default_rng(1)
    chunks, kept = [3, 2, 2], [[1, 2, 2], [3, 0, 1]]
    q, k, v = draw.normal(size=(2, 4, 7, 5)), draw.normal(size=(2, 2, 7, 5)), draw.normal(size=(2, 2, 7, 3))
    seen = {0: ([0, 1, 2], [0, 3, 4], [0, 3, 4, 5, 6]), 1: ([0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 2, 5, 6])}
    expected = np.empty((2, 4, 7, 3))
    for b, h, i in np.ndindex(2, 4, 7):
        tokens = [t for t in seen[b][0 if i < 3 else 1 if i < 5 else 2] if t <= i]
        first = 0 if window_left is None else max(len(tokens) - 1 - window_left, 0)
        expected[b, h, i] = exactly(q[b, h, i], k[b, h // 2, tokens], v[b, h // 2, tokens], first)
    given = {"chunks": np.array(chunks), "kept": np.array(kept), "window_left": window_left}
    np.testing.assert_allclose(reference.cached_attention(q, k, v, **given), expected, 0, 1e-13)
    frame = Frame(library()["rewound_cache"], {"q": q, "k": k, "v": v, **given})
    np.testing.assert_allclose(frame.outputs()["out"], expected, 0, 1e-13)


@pytest.mark.parametrize("call", [{"kept": [[4, 2]]}, {"kept": [[-1, 2]]}, {"capacity": 4}], ids=str)
def test_more_than_a_chunk_is_not_kept_and_what_is_kept_fits(call):
    x = np.ones((1, 2, 5, 4))
    given = {"chunks": np.array([3, 2]), "capacity": None, **call, "kept": np.array(call.get("kept", [[3, 2]]))}
    with pytest.raises(ValueError, match=r"part|full"):
        reference.cached_attention(x, x, x, **given)
    assert refused(library()["rewound_cache"], {"q": x, "k": x, "v": x, **given}).startswith("outside the domain")


@pytest.mark.parametrize(("cache_dtype", "word"), [("float8_e4m3fn", "e4m3"), ("int8", "i8")])
@pytest.mark.parametrize("own_chunk", ["as_kept", "as_fed", "first_as_fed"])
def test_both_witnesses_of_a_cache_that_makes_codes_have_those_of_torch(own_chunk, cache_dtype, word):
    draw, (a, b) = np.random.default_rng(3), ((0.0113, 0.0087) if word == "e4m3" else (0.021, 0.017))
    q, k, v = draw.normal(size=(1, 1, 40, 5)), draw.normal(size=(1, 1, 40, 5)), 2 * draw.normal(size=(1, 1, 40, 3))
    kept = [encoded(torch.from_numpy(x), s, cache_dtype).double().numpy() * s for x, s in ((k, a), (v, b))]
    expected = np.empty((1, 1, 40, 3))
    for i in range(40):
        start = 0 if i < 25 else 25 if i < 30 else 30
        as_fed = own_chunk == "as_fed" or (own_chunk == "first_as_fed" and i < 25)
        own = (k, v) if as_fed else kept
        keys, values = (
            np.concatenate([x[0, 0, :start], y[0, 0, start : i + 1]]) for x, y in zip(kept, own, strict=True)
        )
        expected[0, 0, i] = exactly(q[0, 0, i], keys, values, 0)
    given = {"chunks": np.array([25, 5, 10]), "own_chunk": own_chunk}
    given |= {"k_scale": np.full((1, 1, 1, 1), a), "v_scale": np.full((1, 1, 1, 1), b)}
    np.testing.assert_allclose(
        reference.cached_attention(q, k, v, **given, cache_dtype=cache_dtype), expected, 0, 1e-13
    )
    frame = Frame(library()["written_cache"], {"q": q, "k": k, "v": v, **given, "cache_dtype": word})
    np.testing.assert_allclose(frame.outputs()["out"], expected, 0, 1e-13)


@pytest.mark.parametrize(("cache_dtype", "word"), [("float8_e4m3fn", "e4m3"), ("int8", "i8")])
def test_both_witnesses_have_scales_that_grow_chunk_by_chunk(cache_dtype, word):
    draw, largest = np.random.default_rng(4), 448 if word == "e4m3" else 127
    q, k, v = (draw.normal(size=(1, 1, 12, size)) for size in (5, 5, 3))
    v[:, :, 4:6] *= 5
    kept = []
    for x in (k, v):
        steps = [abs(x[:, :, :end]).max() / largest for end in (4, 6, 12)]
        parts = zip((x[:, :, :4], x[:, :, 4:6], x[:, :, 6:]), steps, strict=True)
        codes = [encoded(torch.from_numpy(part / s), 1.0, cache_dtype).double().numpy() * s for part, s in parts]
        kept.append(np.concatenate(codes, 2))
    expected = np.array([exactly(q[0, 0, i], kept[0][0, 0, : i + 1], kept[1][0, 0, : i + 1], 0) for i in range(12)])
    given = {"q": q, "k": k, "v": v, "chunks": np.array([4, 2, 6])}
    found = reference.cached_attention(**given, cache_dtype=cache_dtype, scale_policy="running")
    np.testing.assert_allclose(found[0, 0], expected, 0, 1e-13)
    frame = Frame(library()["written_cache"], {**given, "cache_dtype": word, "scale_policy": "of_all_so_far"})
    np.testing.assert_allclose(frame.outputs()["out"][0, 0], expected, 0, 1e-13)


def attend(q, keys, values, *, k, v, cache_seqlens):
    """What flash_attn_with_kvcache does with counts of its own for each item."""
    outs = []
    for b, filled in enumerate(cache_seqlens.tolist()):
        end = filled + q.shape[1]
        keys[b, filled:end], values[b, filled:end] = k[b], v[b]
        row = (x.transpose(0, 1)[None] for x in (q[b], keys[b, :end], values[b, :end]))
        outs.append(online(*row, causal=True)[0][0].transpose(0, 1))
    return torch.stack(outs)


def test_calls_that_count_the_slots_of_each_item_rewind_them():
    draw, kept = np.random.default_rng(2), np.array([[1, 2, 2], [3, 0, 1]])
    q, k, v = (draw.normal(size=(2, 2, 7, 4)) for _ in range(3))
    given = [torch.from_numpy(x).float() for x in (q, k, v)]
    out = in_chunks(attend, *given, (3, 2, 2), 5, torch.from_numpy(kept))
    np.testing.assert_allclose(reference.cached_attention(q, k, v, chunks=(3, 2, 2), kept=kept), out, 0, 1e-6)
    with pytest.raises(ValueError, match="5 tokens do not fit into 4 slots"):
        in_chunks(attend, *given, (3, 2, 2), 4, torch.from_numpy(kept))


# A cache, put together from parts of which some are exchanged


def room(x, capacity):
    return x.new_zeros(*x.shape[:2], capacity, x.shape[3])


def slot(start, number):
    return start


def stop(start, n, capacity):
    return start + n


def row(start, n):
    return start + torch.arange(n)[:, None]


def reached(distance, window, n):
    return (distance >= 0) & (distance <= window)


def taken(keys, values, beams):
    return keys[beams], values[beams]


def kept(x):
    return x


PARTS = {part.__name__: part for part in (room, slot, stop, row, reached, taken, kept)}


def cache_of(**exchanged):
    part = {**PARTS, **exchanged}

    def cached(q, k, v, *, chunks, capacity=None, window_left=None, beams=None):
        length, group = q.shape[2], q.shape[1] // k.shape[1]
        capacity = length if capacity is None else capacity
        if capacity < length:
            raise ValueError("the cache is full")
        keys, values = part["room"](k, capacity), part["room"](v, capacity)
        outs, start = [], 0
        for number, n in enumerate(chunks):
            new, at = slice(start, start + n), part["slot"](start, number)
            keys[:, :, at : at + n], values[:, :, at : at + n] = part["kept"](k[:, :, new]), part["kept"](v[:, :, new])
            end = part["stop"](start, n, capacity)
            distance = part["row"](start, n) - torch.arange(end)
            seen = part["reached"](distance, INFINITY if window_left is None else window_left, n)
            found, held = (x[:, :, :end].float().repeat_interleave(group, 1) for x in (keys, values))
            s = (q[:, :, new].float() @ found.mT * q.shape[3] ** -0.5).masked_fill(~seen, -INFINITY)
            outs.append((torch.softmax(s, -1) @ held).to(q.dtype))
            if start == 0 and beams is not None:
                keys, values = part["taken"](keys, values, list(beams))
            start += n
        return torch.cat(outs, 2)

    return cached


def evicting_early(distance, window, n):
    return (distance >= 0) & (distance[-1:] <= window) | (distance == 0)


FAULTS = {
    "top_left": {"row": lambda start, n: torch.arange(n)[:, None]},
    "top_left_in_decode": {"row": lambda start, n: (start if n > 1 else 0) + torch.arange(n)[:, None]},
    "late_by_one": {"row": lambda start, n: max(start - 1, 0) + torch.arange(n)[:, None]},
    "second_place": {"slot": lambda start, number: min(start, 1) if number > 1 else start},
    "one_too_early": {"slot": lambda start, number: max(start - 1, 0)},
    "all_slots": {"stop": lambda start, n, capacity: capacity, "reached": lambda d, w, n: d <= w},
    "not_causal": {"reached": lambda d, w, n: d <= w},
    "not_causal_after_a_prompt": {"reached": lambda d, w, n: (d >= 0) & (d <= w) if len(d) == d.shape[1] else d <= w},
    "exclusive_window": {"reached": lambda d, w, n: (d >= 0) & (d < max(w, 1))},
    "no_window_in_decode": {"reached": lambda d, w, n: (d >= 0) & (d <= (w if n > 1 else INFINITY))},
    "evicting_early": {"reached": evicting_early},
    "rows_as_they_were": {"taken": lambda keys, values, beams: (keys, values)},
    "keys_alone_reordered": {"taken": lambda keys, values, beams: (keys[beams], values)},
    "stored_in_reverse": {"kept": lambda x: x.flip(2)},
    "stored_without_sign": {"kept": lambda x: x.abs()},
}


def test_the_cache_from_which_faults_are_made_is_right():
    assert [] == failures(cache_of())


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_cache_is_found(name):
    assert ["definition"] == failures(cache_of(**FAULTS[name]), laws=["definition"])


def test_a_cache_of_half_the_precision_is_found():
    assert ["contract.precision"] == failures(cache_of(kept=lambda x: x.half().float()))


def test_what_an_earlier_sequence_left_is_found():
    left = {}

    def cached(q, k, v, *, chunks):
        key = k.shape, v.shape[3]
        old = left.get(key, (k[:, :, :0], v[:, :, :0]))
        left[key] = k, v
        keys, values = (
            torch.cat([x, y], 2).repeat_interleave(q.shape[1] // k.shape[1], 1)
            for x, y in zip(old, (k, v), strict=True)
        )
        seen = torch.ones(q.shape[2], keys.shape[2], dtype=torch.bool).tril(keys.shape[2] - q.shape[2])
        return torch.nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=seen)

    assert failures(cached)


def test_reading_memory_that_nobody_wrote_is_found():
    def padded(x, capacity):
        return torch.empty(*x.shape[:2], capacity, x.shape[3], dtype=x.dtype)

    every = {"stop": lambda start, n, capacity: capacity, "reached": lambda d, w, n: d <= w}
    assert failures(cache_of(room=padded, **every))


def test_a_cache_that_is_the_callers_own_array_is_found():
    def cached(q, k, v, *, chunks):
        out = cache_of()(q, k, v, chunks=chunks)
        k[:, :, : chunks[0]] = 0
        return out

    assert failures(cached)


# What is right in its own way


def one_step_at_a_time(q, k, v, *, chunks):
    outs = [
        torch.nn.functional.scaled_dot_product_attention(
            q[:, :, t : t + 1], k[:, :, : t + 1], v[:, :, : t + 1], enable_gqa=True
        )
        for t in range(q.shape[2])
    ]
    return torch.cat(outs, 2)


def slots_beyond_are_hidden(q, k, v, *, chunks, capacity=None, window_left=None):
    """Garbage in the slots, all of which are read and hidden by position."""
    return cache_of(
        room=lambda x, n: x.new_full((*x.shape[:2], n, x.shape[3]), -3.0),
        stop=lambda start, n, capacity: capacity,
    )(q, k, v, chunks=chunks, capacity=capacity, window_left=window_left)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("function", [one_step_at_a_time, slots_beyond_are_hidden])
def test_a_correct_cache_is_not_accused(function, dtype):
    assert [] == failures(function, dtype)


@pytest.mark.parametrize(("least_scale", "expected"), [(0.0, 0.375), (0.5, 0.5), (0.1, 0.4)])
def test_a_scale_that_is_found_is_not_below_the_least_one(least_scale, expected):
    one = np.ones((1, 1, 1, 1))
    given = {"q": 0 * one, "k": one, "v": 0.375 * one, "chunks": np.array([1]), "least_scale": least_scale}
    frame = Frame(library()["written_cache"], {**given, "cache_dtype": "i8"})
    found = [frame.outputs()["out"], reference.cached_attention(**given, cache_dtype="int8")]
    np.testing.assert_allclose(np.full((2, 1, 1, 1, 1), expected), found, 1e-12)


def test_every_chunk_is_coded_by_the_scale_of_the_output():
    x = np.array([[[[3.0], [1.0], [900.0]]]])
    given = {"q": 0 * x, "k": x, "v": x, "chunks": np.array([1, 1, 1]), "out_scale": np.full((1, 1, 1, 1), 0.25)}
    found = [Frame(library()["quantized_output_cache"], given).outputs()["out"], reference.cached_attention(**given)]
    np.testing.assert_array_equal([[[[[12.0], [8.0], [448.0]]]]] * 2, found)


@pytest.mark.parametrize(("word", "expected"), [("mirrored", [7.0, -7.0, -3.0]), ("one_more", [7.0, -8.0, -3.0])])
def test_integers_of_four_bits_end_at_seven(word, expected):
    x, one = np.array([[[[40.0]], [[-40.0]], [[-3.2]]]]), np.ones((1, 1, 1, 1))
    given = {"q": 0 * x, "k": x, "v": x, "chunks": np.array([1]), "k_scale": one, "v_scale": one}
    given |= {"cache_bits": 4, "least_code": word}
    frame = Frame(library()["written_cache"], {**given, "cache_dtype": "i8"})
    found = [frame.outputs()["out"], reference.cached_attention(**given, cache_dtype="int8")]
    np.testing.assert_array_equal([expected, expected], [out.ravel() for out in found])
