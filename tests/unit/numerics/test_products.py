"""Products in one order."""

from __future__ import annotations

import numpy as np

from attnspec.numerics.products import by_entry, product


def test_a_row_of_a_product_is_the_product_of_the_row_entry_by_entry():
    noise = np.random.default_rng(0)
    x, y = noise.normal(size=(2, 33, 65)), noise.normal(size=(2, 65, 24))
    with by_entry():
        whole = product(x, y)
        assert np.array_equal(whole[:, 5:6, 3:4], product(x[:, 5:6], y[..., 3:4]))
    np.testing.assert_allclose(product(x, y), whole, rtol=1e-12, atol=1e-12)
