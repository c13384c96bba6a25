"""Products in one order."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from attnspec.numerics.products import MANY, by_entry, by_torch, distinct, product, quick, quickly, writable
from attnspec.numerics.workspace import Workspace


def test_a_row_of_a_product_is_the_product_of_the_row_entry_by_entry():
    noise = np.random.default_rng(0)
    x, y = noise.normal(size=(2, 33, 65)), noise.normal(size=(2, 65, 24))
    with by_entry():
        whole = product(x, y)
        assert np.array_equal(whole[:, 5:6, 3:4], product(x[:, 5:6], y[..., 3:4]))
    np.testing.assert_allclose(product(x, y), whole, rtol=1e-12, atol=1e-12)


def copies(x, n):
    return np.broadcast_to(x, (n, *x.shape[1:]))


def test_copies_that_are_views_are_there_once():
    y = np.ones((2, 1, 5, 3))
    views = np.broadcast_to(y, (2, 4, 5, 3))
    assert (2, 1, 5, 3) == distinct(views, (2, 4, 7, 5)).shape
    assert (2, 4, 5, 3) == distinct(views, (2, 1, 7, 5)).shape
    assert y is distinct(y, (2, 4, 7, 5))


def test_a_product_with_copies_is_that_with_each_of_them():
    noise = np.random.default_rng(0)
    x, y = noise.normal(size=(4, 33, 65)), noise.normal(size=(1, 65, 24))
    with quickly():
        assert quick()
        np.testing.assert_allclose(x @ copies(y, 4).copy(), product(x, copies(y, 4)), rtol=1e-13, atol=1e-13)
    assert not quick()


def test_coarse_products_are_those_of_bfloat16_where_there_are_many_entries_of_single_precision():
    noise = np.random.default_rng(0)
    x, y = (noise.normal(size=(300, 300)).astype(np.float32) for _ in range(2))
    assert x.size >= MANY
    with quickly(coarse=True):
        found = product(x, y)
        assert np.array_equal(x[:9] @ y[:, :9], product(x[:9], y[:, :9]))
        assert np.array_equal(x.astype(float) @ y, product(x.astype(float), y.astype(float)))
    gap = np.abs(found - x @ y).max()
    assert 1e-3 < gap < 0.5


def test_with_a_workspace_large_products_lie_in_it_and_are_the_same():
    noise = np.random.default_rng(0)
    x, y = noise.normal(size=(2, 200, 65)).astype(np.float32), noise.normal(size=(2, 65, 400)).astype(np.float32)
    work = Workspace()
    with quickly(workspace=work):
        assert by_torch(x @ y)
        assert not by_torch(x[:, :2])
        np.testing.assert_array_equal(product(x, y), x @ y)
        assert work.nbytes == 2 * 200 * 400 * 4
        product(x[:1, :3], y[:1])
        assert work.nbytes == 2 * 200 * 400 * 4
    assert not by_torch(x @ y)


def test_a_view_that_may_not_be_written_to_is_taken_by_torch_in_its_own_memory():
    torch = pytest.importorskip("torch")
    x = np.broadcast_to(np.arange(12, dtype=np.float32).reshape(1, 4, 3), (5, 4, 3))[:, 1:].swapaxes(1, 2)
    with warnings.catch_warnings(action="error"):
        taken = torch.from_numpy(writable(x))
    assert (x.shape, x.ctypes.data, x.tolist()) == (tuple(taken.shape), taken.data_ptr(), taken.tolist())
    assert not x.flags.writeable
