"""Pytest defaults for this repository: one thread for products of small matrices, and nothing random."""

import hypothesis
import pytest

from attnspec.execution.threads import keep_to_one
from attnspec.reporting import progress

keep_to_one()

hypothesis.settings.register_profile("house", derandomize=True, database=None, deadline=None, max_examples=60)
hypothesis.settings.load_profile("house")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test writes, it writes outside the repository; and no sign of life tells how slow the machine is."""
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.setattr(progress, "FIRST", 1e6)
