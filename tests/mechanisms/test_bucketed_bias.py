"""Biases by buckets: both witnesses against buckets that are known, and what goes wrong with them."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.bias import control_buckets_by_borders
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["bucketed_bias"], values).outputs()["bias"],
    "reference": reference.bucketed_bias,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
NUMBERS = np.arange(32.0)[:, None]


@witnesses
def test_distances_of_a_decoder_have_the_buckets_of_32_up_to_128(witness):
    bias = witness(table=NUMBERS, q_len=1, k_len=200, bidirectional=False, max_distance=128)[0, 0]
    behind = [0, 1, 15, 16, 18, 19, 20, 21, 23, 24, 113, 112, 199]
    expected = [0, 1, 15, 16, 16, 17, 17, 18, 18, 19, 31, 30, 31]
    assert expected == bias[[199 - distance for distance in behind]].tolist()


@witnesses
def test_an_encoder_has_other_buckets_ahead(witness):
    bias = witness(table=NUMBERS, q_len=30, k_len=30, bidirectional=True, max_distance=128)[0]
    assert [11, 9, 8, 8, 8, 8] == bias[23, [0, 10, 12, 13, 14, 15]].tolist()
    assert [0, 17, 23, 24, 27] == bias[3, [3, 4, 10, 11, 26]].tolist()


def test_the_reference_refuses_more_queries_than_keys():
    with pytest.raises(ValueError, match="as many keys as queries"):
        reference.bucketed_bias(NUMBERS, q_len=2, k_len=1)


def failures(function):
    one = subject(Adapter("function", "bucketed_bias", function, "torch"))
    cells = run(Request(one, library()["bucketed_bias"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def from_the_first_key(table, *, q_len, k_len, bidirectional=False, max_distance=128):
    options = {"bidirectional": bidirectional, "max_distance": max_distance}
    return control_buckets_by_borders(table, q_len=k_len, k_len=k_len, **options)[:, :q_len]


def without_the_distance(table, *, q_len, k_len, bidirectional=False, max_distance=128):
    return control_buckets_by_borders(table, q_len=q_len, k_len=k_len, bidirectional=bidirectional)


@pytest.mark.parametrize("wrong", [from_the_first_key, without_the_distance])
def test_what_goes_wrong_is_found(wrong):
    assert "definition" in failures(wrong)


def test_borders_that_are_looked_up_are_right():
    assert set() == failures(control_buckets_by_borders)


def gradient_by_definition(**values):
    return Frame(library()["bucketed_bias_gradient"], values).outputs()["d_table"]


def gradient_by_reference(**values):
    return reference.bucketed_bias_gradient(**values)["d_table"]


@pytest.mark.parametrize("witness", [gradient_by_definition, gradient_by_reference])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_gradient_of_the_table_is_the_derivative_of_the_bias(witness, bidirectional):
    table = torch.zeros(16, 2, dtype=torch.float64, requires_grad=True)
    asked = {"q_len": 7, "k_len": 30, "bidirectional": bidirectional, "max_distance": 20}
    d_out = np.cos(np.arange(2 * 7 * 30.0)).reshape(2, 7, 30)
    control_buckets_by_borders(table, **asked).backward(torch.from_numpy(d_out))
    found = witness(table=np.zeros((16, 2)), d_out=d_out, **asked)
    np.testing.assert_allclose(found, table.grad, rtol=1e-12, atol=1e-13)


def test_the_reference_refuses_a_cotangent_of_another_shape():
    with pytest.raises(ValueError, match="for every entry"):
        reference.bucketed_bias_gradient(NUMBERS, np.ones((1, 2, 2)), q_len=2, k_len=3)
