"""One thread for products of small matrices, requested before any library that computes them is imported."""

from __future__ import annotations

import os

ONE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The variables that libraries read when they are imported."""


def keep_to_one() -> None:
    """Have this process and those that it starts keep to one thread, unless something else was asked for."""
    for name, number in ONE.items():
        os.environ.setdefault(name, number)
