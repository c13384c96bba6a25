"""The workload that a run is asked to try."""

from __future__ import annotations

import pytest

from attnspec.errors import UsageError
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.workloads import Left, Use, gathered, write
from attnspec.runs.groups import groups, header_of
from attnspec.runs.options import Options
from attnspec.runs.workload import asked, calls_in, dtypes_in, part_of

KNOWN = NONE.library()


def softmax(rows, count, dtype="float32", **more):
    return Use("softmax", dtype, {"rows": rows, "n": 4}, count=count, **more)


WORKLOAD = gathered(
    [softmax(1, 2), softmax(2, 5), softmax(3, 9, "float16"), softmax(1, 4, device="cuda"), Left("it", "why", 3)]
)


def test_calls_are_named_the_most_frequent_first_wherever_they_were_made():
    assert [(1, 6), (2, 5)] == [
        (use.sizes["rows"], use.count) for use in calls_in(WORKLOAD, "softmax", "float32").values()
    ]
    assert ["float32", "float16"] == dtypes_in(WORKLOAD, "softmax")
    assert {} == calls_in(WORKLOAD, "attention")


def test_the_header_has_every_call_and_what_is_left():
    found = part_of(WORKLOAD, "w.ndjson")
    assert [9, 6, 5] == [use["count"] for use in found["uses"]]
    assert [{"interface": "it", "says": "why", "count": 3}] == found["left"]


def test_groups_have_the_calls_of_their_dtype_alone(tmp_path):
    write(tmp_path / "w.ndjson", WORKLOAD)
    options = Options(targets=("torch_softmax",), workload=str(tmp_path / "w.ndjson"))
    found = groups(options)
    assert {("float32", 2), ("float16", 1)} == {(group.dtype, len(group.laws)) for group in found}
    header = header_of(options, found, "")
    assert 3 == len(header["workload"]["uses"])
    assert str(tmp_path / "w.ndjson") in header["sources"]


def test_a_workload_and_laws_contradict_one_another(tmp_path):
    write(tmp_path / "w.ndjson", WORKLOAD)
    with pytest.raises(UsageError, match="--workload selects the calls, and --law selects others"):
        asked(Options(workload=str(tmp_path / "w.ndjson"), laws=("definition",)), KNOWN)
    assert asked(Options(), KNOWN) is None
