"""Pytest defaults for this repository: one thread for products of small matrices, and nothing random."""

import os

import hypothesis
import pytest

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

hypothesis.settings.register_profile("house", derandomize=True, database=None, deadline=None, max_examples=60)
hypothesis.settings.load_profile("house")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test writes, it writes outside the repository."""
    monkeypatch.chdir(str(tmp_path))
