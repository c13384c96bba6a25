"""Products of groups of rows: the definition and the reference against sums that are exact in integers."""

import numpy as np
import pytest

from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def defined(name, **values):
    return Frame(library()[name], values).outputs()


def given(lens, rows):
    x = np.arange(rows * 5).reshape(rows, 5) % 7 - 3.0
    w = np.arange(len(lens) * 5 * 4).reshape(len(lens), 5, 4) % 11 - 5.0
    return {"x": x, "w": w, "lens": np.array(lens), "bias": np.arange(len(lens) * 4).reshape(-1, 4) * 0.25}


def group_of(lens):
    return [g for g, length in enumerate(lens) for _ in range(length)]


@pytest.mark.parametrize(("lens", "rows"), [([2, 0, 3], 5), ([0, 1, 2], 6), ([4], 4), ([0, 0], 2)])
def test_a_row_is_multiplied_by_the_matrix_of_its_group(lens, rows):
    values, groups = given(lens, rows), group_of(lens)
    expected = [
        [sum(values["x"][t, m] * values["w"][g, m, j] for m in range(5)) + values["bias"][g, j] for j in range(4)]
        for t, g in enumerate(groups)
    ]
    found = [reference.grouped_matmul(**values), defined("grouped_matmul", **values)["out"]]
    for out in found:
        np.testing.assert_array_equal(np.reshape(expected, (-1, 4)), out[: len(groups)])


@pytest.mark.parametrize(("lens", "rows"), [([2, 0, 3], 5), ([0, 1, 2], 6), ([0, 0], 2)])
def test_a_matrix_without_rows_has_a_gradient_of_zero(lens, rows):
    values, groups = given(lens, rows), group_of(lens)
    values["d_out"] = np.arange(rows * 4).reshape(rows, 4) % 5 - 2.0
    d_w, d_bias = np.zeros(values["w"].shape), np.zeros((len(lens), 4))
    for t, g in enumerate(groups):
        d_w[g] += np.outer(values["x"][t], values["d_out"][t])
        d_bias[g] += values["d_out"][t]
    for found in (reference.grouped_matmul_gradient(**values), defined("grouped_matmul_gradient", **values)):
        np.testing.assert_array_equal(d_w, found["d_w"])
        np.testing.assert_array_equal(d_bias, found["d_bias"])


@pytest.mark.parametrize("inner_block", [None, 2])
def test_a_code_stands_for_itself_times_the_scales_of_its_row_and_of_its_group(inner_block):
    values, stretches = given([2, 0, 3], 5), 1 if inner_block is None else 3
    x_scale = 2.0 ** (np.arange(5 * stretches).reshape(5, stretches) % 3)
    w_scale = 3.0 + np.arange(3 * stretches * 2).reshape(3, stretches, 2)
    at, blocks = np.arange(5) // (inner_block or 5), np.arange(4) // 2
    meant = {"x": values["x"] * x_scale[:, at], "w": values["w"] * w_scale[:, at][:, :, blocks]}
    expected = reference.grouped_matmul(**{**values, **meant})
    coded = {**values, "x_scale": x_scale, "w_scale": w_scale, "inner_block": inner_block, "outs_block": 2}
    names = {"x_dtype": "x_int8", "w_dtype": "w_int8"}
    found = [reference.grouped_matmul(**coded), defined("scaled_grouped_matmul", **coded, **names)["out"]]
    np.testing.assert_array_equal([expected, expected], found)
