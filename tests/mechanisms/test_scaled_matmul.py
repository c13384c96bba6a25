"""Products of codes with scales: the definition and the reference against sums that are exact in integers."""

import numpy as np
import pytest

from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def defined(*arrays, **options):
    names = ("a", "b", "a_scale", "b_scale", "bias")
    values = {**dict(zip(names, arrays, strict=True)), **options}
    return Frame(library()["scaled_matmul"], values).outputs()["out"]


def referred(*arrays, **options):
    return reference.scaled_matmul(*arrays, **options)


@pytest.mark.parametrize("witness", [defined, referred])
@pytest.mark.parametrize(
    ("inner_block", "outs_block", "rows_of_scales", "columns_of_scales"),
    [
        (None, None, (1, 1), (1, 1)),
        (None, None, (3, 1), (1, 21)),
        (16, 16, (3, 3), (3, 2)),
        (32, None, (1, 2), (1, 21)),
    ],
)
def test_a_code_stands_for_itself_times_the_scale_of_its_stretch_and_block(
    inner_block, outs_block, rows_of_scales, columns_of_scales, witness
):
    rows, n, outs = 3, 37, 21
    a = np.arange(rows * n).reshape(rows, n) % 15 - 7.0
    b = np.arange(n * outs).reshape(n, outs) % 11 - 5.0
    a_scale = 2.0 ** (np.arange(np.prod(rows_of_scales)).reshape(rows_of_scales) % 5 - 2)
    b_scale = 3.0 + np.arange(np.prod(columns_of_scales)).reshape(columns_of_scales)
    bias = np.arange(outs) * 0.25
    expected = np.zeros((rows, outs))
    for i, j, m in np.ndindex(rows, outs, n):
        g, h = m // (inner_block or n), j // (outs_block or 1)
        of_row = a_scale[i % a_scale.shape[0], g % a_scale.shape[1]]
        expected[i, j] += a[i, m] * of_row * b[m, j] * b_scale[g % b_scale.shape[0], h % b_scale.shape[1]]
    found = witness(a, b, a_scale, b_scale, bias, inner_block=inner_block, outs_block=outs_block)
    np.testing.assert_allclose(expected + bias, found, rtol=1e-13)


@pytest.mark.parametrize(
    ("word", "expected"), [("divides", [[-448.0, 13.0, 0.001953125]]), ("multiplies", [[-120.0, 0.8125, 0.0]])]
)
def test_results_in_codes_are_the_nearest_ones_in_units_of_a_scale_or_of_its_reciprocal(word, expected):
    one = np.ones((1, 1))
    arrays = {"a": one, "b": np.array([[-480.0, 3.3, 0.0004]]), "a_scale": one, "b_scale": one}
    values = {**arrays, "out_scale": np.array([0.25]), "output_scale": word}
    found = [Frame(library()["coded_matmul"], values).outputs()["out"], reference.scaled_matmul(**values)]
    np.testing.assert_array_equal([expected, expected], found)
