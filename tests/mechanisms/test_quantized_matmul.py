"""Products with quantized matrices: the definition and the reference against integers, for codes of every width."""

import numpy as np
import pytest

from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def defined(*arrays, **options):
    names = ("x", "codes", "scales", "offsets")
    values = {**dict(zip(names, arrays, strict=True)), **options}
    return Frame(library()["quantized_matmul"], values).outputs()["out"]


def referred(*arrays, **options):
    return reference.quantized_matmul(*arrays, **options)


@pytest.mark.parametrize("witness", [defined, referred])
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_a_weight_is_its_code_times_the_scale_of_its_group_plus_an_offset(bits, turned, witness):
    outs, groups = 5, 3
    n = 32 * groups
    codes = np.arange(outs * n).reshape(outs, n) * 7 % 2**bits
    scales = 1.0 + np.arange(outs * groups).reshape(outs, groups)
    offsets = -scales * (np.arange(groups) % 2**bits)
    x = (np.arange(2 * (n if turned else outs)) % 11 - 5.0).reshape(2, -1)
    matrix = np.array([[scales[i, j // 32] * codes[i, j] + offsets[i, j // 32] for j in range(n)] for i in range(outs)])
    expected = x @ matrix.T if turned else x @ matrix
    found = witness(x, codes, scales, offsets, bits=bits, group_size=32, transpose_weights=turned)
    np.testing.assert_array_equal(expected, found)


@pytest.mark.parametrize("word", ["mirrored", "one_more"])
def test_what_lies_below_the_range_is_the_least_code_of_the_convention(word):
    one = np.ones((1, 1, 1, 1))
    values = {"q": 0 * one, "k": one, "v": -40 * one, "chunks": np.array([1]), "k_scale": one, "v_scale": one / 8}
    words = {"grouping": "block", "own_chunk": "as_kept", "least_code": word}
    found = Frame(library()["written_cache"], {**values, "cache_dtype": "i8", **words}).outputs()["out"]
    expected = {"mirrored": -127 / 8, "one_more": -16.0}[word]
    assert expected == found.item()
    given = {name: x for name, x in values.items() if name not in ("q", "k", "v")}
    assert (
        expected
        == reference.cached_attention(
            values["q"], values["k"], values["v"], **given, cache_dtype="int8", **words
        ).item()
    )
