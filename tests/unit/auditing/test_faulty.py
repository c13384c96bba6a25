"""Faulty functions are refuted by laws, and not by errors of their own."""

import pytest

from attnspec.adapters import Adapter
from attnspec.auditing import faulty


def wrong(x):
    return 2 * x


def slips(x):
    raise ValueError("a slip")


@pytest.mark.parametrize(("function", "says"), [(wrong, ""), (slips, "raises an error, which is no refutation")])
@pytest.mark.parametrize("declared", [False, True])
def test_a_fault_that_raises_an_error_is_reported_unless_it_is_meant_to(monkeypatch, function, says, declared):
    made = Adapter("fault", "softmax", function, "torch", dtypes=("float32",))
    monkeypatch.setattr(faulty, "faults", lambda: {"fault:fault": made})
    monkeypatch.setitem(globals(), "RAISING", ("fault",) if declared else ())
    found = faulty.audited_fault("fault:fault").faults
    assert bool(says and not declared) == bool(found)
    assert all(says in text for text in found)
