"""Biases of a window and their gradient: witnesses against what is known, and indices that go wrong."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: np.asarray(Frame(library()["window_bias"], values).outputs()["bias"]),
    "reference": reference.window_bias,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)


@witnesses
def test_a_window_of_two_by_three_reads_the_offsets_of_query_less_key(witness):
    table = np.array([10 * down + right for down in (-1, 0, 1) for right in (-2, -1, 0, 1, 2)])[:, None]
    bias = witness(table=table * 1.0, height=2, width=3)[0]
    assert [0, -1, -2, -10, -11, -12] == bias[0].tolist()
    assert [11, 10, 9, 1, 0, -1] == bias[4].tolist()


GRADIENTS = {
    "definition": lambda **values: np.asarray(Frame(library()["window_bias_gradient"], values).outputs()["d_table"]),
    "reference": lambda **values: reference.window_bias_gradient(**values)["d_table"],
}


@pytest.mark.parametrize("witness", GRADIENTS.values(), ids=GRADIENTS)
@pytest.mark.parametrize(("height", "width"), [(2, 3), (4, 1), (3, 3)])
def test_the_gradient_is_that_of_an_index_into_the_table(witness, height, width):
    rng = np.random.default_rng(0)
    table = torch.from_numpy(rng.normal(size=((2 * height - 1) * (2 * width - 1), 2))).requires_grad_()
    d_out = rng.normal(size=(2, height * width, height * width))
    by_index(table, height, width, 2 * width - 1).backward(torch.from_numpy(d_out))
    found = witness(table=table.detach().numpy(), d_out=d_out, height=height, width=width)
    np.testing.assert_allclose(found, table.grad, rtol=1e-12, atol=1e-13)


def test_the_reference_refuses_a_cotangent_of_other_pairs():
    with pytest.raises(ValueError, match="an entry for every pair"):
        reference.window_bias_gradient(np.ones((9, 1)), np.ones((1, 4, 3)), height=2, width=2)


def test_the_reference_refuses_a_table_of_another_window():
    with pytest.raises(ValueError, match="for every offset"):
        reference.window_bias(np.ones((8, 1)), height=2, width=2)


def failures(function):
    one = subject(Adapter("function", "window_bias", function, "torch"))
    cells = run(Request(one, library()["window_bias"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def by_index(table, height, width, stride):
    place = torch.arange(height * width)
    row, column = place // width, place % width
    index = (row[:, None] - row + height - 1) * stride + column[:, None] - column + width - 1
    return table[index.clamp(max=len(table) - 1)].permute(2, 0, 1)


def right(table, *, height, width):
    return by_index(table, height, width, 2 * width - 1)


def as_if_square(table, *, height, width):
    return by_index(table, height, width, 2 * height - 1)


@pytest.mark.parametrize(("function", "wrong"), [(right, False), (as_if_square, True)])
def test_an_index_as_if_windows_were_square_is_found(function, wrong):
    assert wrong == ("definition" in failures(function))
