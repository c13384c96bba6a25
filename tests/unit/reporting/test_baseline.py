"""How subjects stood: read from results and from baselines, which have the same text for the same verdicts."""

import json
from pathlib import Path

import pytest

from attnspec.errors import UsageError
from attnspec.reporting.baseline import Group, State, Times, Verdict, is_baseline, state_of, updated, written
from attnspec.reporting.chain import Chain

KEY = ("mine", "softmax", "float32", "cpu")
HEAD = {"kind": "run", "format": 1, "attnspec": "0.1.0", "profile": "quick", "seed": 0}
CELL = {
    "kind": "cell",
    "subject": "mine",
    "operator": "softmax",
    "mechanism": "softmax",
    "law": "definition",
    "level": "must",
    "dtype": "float32",
    "device": "cpu",
    "verdict": "pass",
    "cases": 3,
    "worst": 0.123456,
    "says": "",
    "version": 1,
    "digest": "abc",
}


@pytest.fixture
def results(run_line):
    """Writes cells that differ from one another as told, as the results of a run."""

    def write(*cells, name="results.ndjson", **more):
        chain = Chain()
        lines = [{**run_line, **HEAD, **more}, *({**CELL, **cell} for cell in cells)]
        Path(name).write_text("".join(map(chain.text, lines)))
        return Path(name)

    return write


@pytest.fixture
def run_line():
    texts = dict.fromkeys(("python", "platform", "command", "started", "device", "shard", "isolation"), "")
    lists = {"require": [], "targets": []}
    more = {"packages": {}, "sources": {}, "fail_on": "must", "operator": None, "framework": None}
    return {**texts, **lists, **more, "device": "cpu"}


def test_results_and_the_baseline_made_of_them_are_the_same_state(results):
    run = {"cases": 3, "calls": 3, "seconds": 1.0, "grade": "fp32", "partial": False, "ended": ""}
    run["times"] = {"low": 0.1, "median": 0.2, "high": 0.4}
    word = {"word": "nans", "how": "observed", "agreed": 1, "cases": 1}
    path = results({"run": {**run, "conventions": {"empty_row": word}}}, {"law": "ratio", "worst": 0.0})
    state = state_of([path])
    assert {"definition": Verdict("pass", 0.123, "0.123 x bound"), "ratio": Verdict("pass", 0.0, "0 x bound")} == (
        state.groups[KEY].laws
    )
    Path("base.ndjson").write_text(written(state))
    again = state_of([Path("base.ndjson")])
    assert ("fp32", {"empty_row": "nans"}, "abc") == (
        again.groups[KEY].grade,
        again.groups[KEY].conventions,
        again.groups[KEY].digest,
    )
    assert [("definition", 0.123), ("ratio", 0.0)] == [(n, x.worst) for n, x in again.groups[KEY].laws.items()]
    assert Times(0.1, 0.2, 0.4) == again.groups[KEY].times
    assert written(state) == written(again)


def test_what_was_not_tried_is_no_verdict(results):
    state = state_of([results({}, {"law": "ratio", "verdict": "not_tested"})])
    assert ["definition"] == list(state.groups[KEY].laws)


def test_parts_of_a_run_are_one_state(results):
    one, other = results({}), results({"law": "ratio"}, name="other.ndjson")
    assert {"definition", "ratio"} == set(state_of([one, other]).groups[KEY].laws)
    with pytest.raises(UsageError, match="not of the same run: it has profile ci and seed 0"):
        state_of([one, results({"law": "ratio"}, name="other.ndjson", profile="ci")])


def test_a_baseline_has_the_same_order_whatever_the_order_of_a_run():
    groups = {
        ("b", *KEY[1:]): Group("x"),
        ("a", *KEY[1:]): Group("x", laws={"z": Verdict("pass"), "a": Verdict("pass")}),
    }
    other = {key: Group("x", laws=dict(reversed(group.laws.items()))) for key, group in reversed(groups.items())}
    assert written(State("0", "quick", 0, groups)) == written(State("0", "quick", 0, other))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"verdict": "well"}, 'base.ndjson:2: laws.definition.verdict is "well"'),
        ({"worst": "much"}, 'base.ndjson:2: laws.definition.worst is "much"; expected a number'),
    ],
)
def test_a_baseline_that_was_damaged_is_refused_at_its_line(change, says):
    lines = written(State("0", "quick", 0, {KEY: Group("x", laws={"definition": Verdict("pass", 1.0)})})).splitlines()
    group = json.loads(lines[1])
    group["laws"]["definition"] |= change
    Path("base.ndjson").write_text(f"{lines[0]}\n{json.dumps(group)}\n")
    with pytest.raises(UsageError) as caught:
        state_of([Path("base.ndjson")])
    assert str(caught.value).startswith(says)


def test_a_later_format_is_refused():
    Path("base.ndjson").write_text(written(State("9", "quick", 0, {})).replace('"format": 1', '"format": 2'))
    assert is_baseline(Path("base.ndjson"))
    with pytest.raises(UsageError, match="has format 2 of baselines, and this attnspec reads up to 1"):
        state_of([Path("base.ndjson")])


def test_an_update_leaves_the_times_of_calls_alone_that_are_the_same_within_their_spread():
    def timed(**times):
        groups = {(name, *KEY[1:]): Group("x", laws={"a": Verdict("pass")}, times=x) for name, x in times.items()}
        return State("0", "quick", 0, groups)

    before = timed(same=Times(1, 2, 3), slower=Times(1, 2, 3), faster=Times(4, 5, 6), untold=None)
    after = timed(same=Times(2, 3, 4), slower=Times(4, 5, 6), faster=Times(1, 2, 3), untold=None, new=Times(1, 2, 3))
    found = {name: group.times for (name, *_), group in updated(before, after).groups.items()}
    assert {
        "same": Times(1, 2, 3),
        "slower": Times(4, 5, 6),
        "faster": Times(1, 2, 3),
        "untold": None,
        "new": Times(1, 2, 3),
    } == found
