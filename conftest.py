"""Pytest defaults for this repository: one thread for products of small matrices, and nothing random."""

import ctypes
import gc
import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest

from attnspec.execution.threads import keep_to_one
from attnspec.reporting import progress
from attnspec.subjects.registered import AUDITED, families

keep_to_one()
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell has ignored for what it runs behind its back

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
with suppress(OSError, AttributeError):  # where there is glibc, what is freed is kept for the next arrays
    for option, size in ((M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 2**24), (M_MMAP_THRESHOLD, 2**25)):
        ctypes.CDLL(None).mallopt(option, size)

hypothesis.settings.register_profile("house", derandomize=True, database=None, deadline=None, max_examples=60)
hypothesis.settings.load_profile("house")


def pytest_collection_finish() -> None:
    """What was collected stays to the end: garbage is looked for less often, and not in that."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Errors in finalizers are looked for in garbage that is collected once; pytest would do so ten times."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _cached(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Caches of this session alone, and of all of its processes.

    A test may change attnspec, and the user's own are kept apart.
    """
    own = tmp_path_factory.getbasetemp()
    session = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    os.environ["ATTNSPEC_CACHE"] = str(session / "cache")


@pytest.fixture(autouse=True, scope="session")
def _registered() -> None:
    """Every adapter that comes along: one that is imported first while a test has a registry of its own is lost."""
    for audited in ("", *AUDITED):
        families(audited)


@pytest.fixture(scope="session")
def _folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders of tests, as many as are asked for; the next one is made at no cost, whereas pytest lists all of its."""
    own = tmp_path_factory.mktemp("own")
    return (own / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, _folders: Iterator[Path]) -> None:
    """Whatever a test writes, it writes outside the repository; and nothing that is told depends on time."""
    named = "tmp_path" in request.fixturenames
    folder = request.getfixturevalue("tmp_path") if named else next(_folders)
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(progress, "FIRST", 1e6)
    monkeypatch.setattr("attnspec.diagnosis.fitting.SECONDS", 1e6)
