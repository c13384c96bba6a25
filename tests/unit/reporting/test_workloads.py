"""Which share of a workload was judged."""

from __future__ import annotations

from attnspec.reporting.matrix import text
from attnspec.reporting.workloads import shares, told

USES = [
    {"id": name, "operator": "softmax", "dtype": "float32", "says": f"rows = {n}", "count": n}
    for name, n in (("a", 600), ("b", 300), ("c", 50), ("d", 40))
]
HEADER = {
    "kind": "run",
    "workload": {"path": "w.ndjson", "uses": USES, "left": [{"interface": "it", "says": "dim is 1", "count": 11}]},
}


def cell(name, verdict, says=""):
    place = {"subject": "mine", "operator": "softmax", "mechanism": "softmax", "dtype": "float32", "device": "cpu"}
    return {
        "kind": "cell",
        **place,
        "law": f"workload.{name}",
        "verdict": verdict,
        "says": says,
        "level": "must",
        "cases": 1,
    }


CELLS = [cell("a", "pass"), cell("b", "fail"), cell("c", "not_declared", "does not take that")]


def test_calls_are_counted_as_often_as_they_were_made():
    (share,) = shares([HEADER], CELLS)
    assert (1001, 900, 300) == (share.calls, share.judged, share.wrong)
    assert "900 of 1001 calls of w.ndjson were judged (89.9%), of which 300 are wrong" == share.told


def test_what_was_not_judged_is_told_with_the_reason_the_most_frequent_first():
    assert [
        "  not judged: 50 x softmax in float32 (rows = 50): does not take that",
        "  not judged: 40 x softmax in float32 (rows = 40): not declared for the adapter",
        "  not judged: 11 x it: dim is 1",
    ] == [*told([HEADER], CELLS)][1:]


def test_a_run_without_a_workload_tells_nothing():
    assert [] == [*told([{"kind": "run"}], CELLS)]


def test_the_report_has_a_table_of_it():
    found = [*text([{**HEADER, "packages": {}}], CELLS)]
    at = next(at for at, line in enumerate(found) if line.startswith("== Workload "))
    assert "mine     w.ndjson  1001   89.9%   300" == found[at + 2]
