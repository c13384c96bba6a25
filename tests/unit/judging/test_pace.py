"""A subject that is slow is not wrong: what it has no time for is not tested, and who is stuck is told so."""

import time

import numpy as np
import pytest
from click.testing import CliRunner

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.cli import main
from attnspec.execution.calling import Call
from attnspec.execution.faults import Fault
from attnspec.judging import pace
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

LIMIT = 30.0


class Clocked:
    """A caller whose calls take a time of their own, and have no answer if that is longer than the limit."""

    def __init__(self, caller, clock, takes):
        self.caller, self.clock, self.takes, self.hung = caller, clock, takes, []

    def session(self):
        return self.caller.session()

    def call(self, call):
        seconds = self.takes(sum(x.size for x in call.inputs.values()))
        self.clock[0] += min(seconds, LIMIT)
        if seconds <= LIMIT:
            return self.caller.call(call)
        self.hung.append(sum(x.size for x in call.inputs.values()))
        return self.caller.call(call).__class__(fault=Fault("hung", "did not reply within 30 s"))


def softmax(x):
    with np.errstate(all="ignore"):
        p = np.exp(x - x.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True)


@pytest.fixture
def clocked(monkeypatch):
    clock = [0.0]

    def made(takes, function=softmax):
        adapter = Adapter("mine", "softmax", function, "numpy", conventions={"empty_row": "nans"})
        one = subject(adapter)
        one.caller = Clocked(one.caller, clock, takes)
        return one

    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    return made


def result_of(one, **more):
    return run(Request(one, library()["softmax"], "float32", PROFILES["quick"], **more))


def cells(result):
    return {cell.law: (cell.verdict, cell.says) for cell in result.cells}


def test_a_slow_subject_is_right_where_it_has_time_and_partial(clocked):
    one = clocked(lambda entries: entries / 100)
    result = result_of(one)
    assert [] == [cell.law for cell in result.cells if cell.bad]
    assert "pass" == cells(result)["definition"][0]
    assert result.ended.startswith("too slow: a case with ")
    assert "did not reply within 30 s; at the rate of what it answers it takes " in result.ended
    assert " or raise --time-limit" in result.ended


def test_few_slow_cases_are_waited_for(clocked):
    one = clocked(lambda entries: entries / 20)
    result = result_of(one)
    assert 0 < len(one.caller.hung) <= pace.PATIENT + 1
    assert min(one.caller.hung) > 20 * LIMIT
    assert result.ended


def test_what_was_slow_in_one_mechanism_is_not_tried_in_another(clocked):
    one = clocked(lambda entries: entries / 20)
    result_of(one)
    before = len(one.caller.hung)
    result = result_of(one, seed=1)
    assert len(one.caller.hung) <= before + 1
    assert result.ended


def test_a_wrong_subject_that_is_slow_is_wrong(clocked):
    result = result_of(clocked(lambda entries: entries / 100, lambda x: softmax(x) / 2))
    assert "fail" == cells(result)["definition"][0]


@pytest.mark.parametrize("stuck", [lambda entries: entries % 33 == 0 and entries < 500, lambda entries: entries >= 0])
def test_a_subject_that_is_stuck_on_a_small_case_is_an_error(clocked, stuck):
    result = result_of(clocked(lambda entries: np.inf if stuck(entries) else 1e-4))
    assert ("error", "did not reply within 30 s") == cells(result)["definition"]


def test_a_rate_by_which_a_case_had_to_be_answered_is_not_told(clocked):
    """A subject that takes a time for every entry, and far more for a row beyond its cache."""
    result = result_of(clocked(lambda entries: entries / 1e6 + (entries > 2000) * 1e6))
    assert "did not reply within 30 s; what it answers takes 0.0" in result.ended


def products(mechanism, q_len, k_len, heads=1):
    """The work of attention over as many queries, keys and heads of four channels."""
    q, k = (np.zeros((1, heads, n, 4)) for n in (q_len, k_len))
    sizes = {"batch": 1, "kv_heads": heads, "heads": heads, "q_len": q_len, "k_len": k_len}
    call = Call({"q": q, "k": k, "v": k}, {}, "float32", "cpu", "contiguous", False)
    return pace.work(mechanism, call, {**sizes, "head_dim": 4, "value_dim": 4})


def test_work_is_of_two_measures_and_counts_a_size_that_follows_once():
    attention = library()["attention"]
    assert pace.Work(4 * (3 + 5 + 5), 3 * 5 * 16) == products(attention, 3, 5)
    assert 2 * products(attention, 3, 5).steps == products(attention, 3, 5, heads=2).steps


def test_a_long_case_of_few_entries_is_not_waited_for_where_several_were_slow():
    attention, known = library()["attention"], pace.Pace()
    known.answer(products(attention, 1, 900), {}, 0.1)
    known.slow += [products(attention, n, n) for n in (400, 300, 200)]
    assert known.too_large(products(attention, 100, 100))
    assert not known.too_large(products(attention, 1, 800))


def test_a_law_by_itself_is_tried_where_there_is_time_and_partial(clocked):
    one = clocked(lambda entries: entries * 2.0)
    result = result_of(one, laws={"share"})
    assert ("pass", True) == (cells(result)["share"][0], bool(result.ended))


SLOW = """
import time
import numpy as np
from attnspec import adapter

@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def slow(x):
    time.sleep(x.size / 1000)
    with np.errstate(all="ignore"):
        p = np.exp(x - x.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True)
"""


def test_a_slow_kernel_is_partial_and_says_which_limits_to_declare(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "slow.py").write_text(SLOW)
    result = CliRunner().invoke(main, ["check", "slow.py", "--law", "definition", "--time-limit", "2"])
    assert 5 == result.exit_code
    assert "PARTIAL" in result.output
    assert "too slow: a case with " in result.output
    assert "NOT CONFORMANT" not in result.output


LOOP = """
import time
import numpy as np
from attnspec import adapter

@adapter("attention", framework="numpy")
def looped(q, k, v):
    out = np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            time.sleep(0.0005)
            with np.errstate(all="ignore"):
                own = h * k.shape[1] // q.shape[1]
                scores = q[b, h] @ k[b, own].T / np.sqrt(q.shape[3], dtype=q.dtype)
                p = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
                total = p.sum(-1, keepdims=True)
                out[b, h] = p @ v[b, own] / np.where(total > 0, total, 1)
    return out
"""


def test_a_loop_over_heads_is_partial_where_there_are_too_many_of_them(tmp_path, monkeypatch):
    """It has half a minute of work on the scenario `crowd`, of 65540 items, and answers every other one."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "looped.py").write_text(LOOP)
    asked = ["check", "looped.py", "--law", "definition", "--mechanism", "attention", "--time-limit", "1"]
    result = CliRunner().invoke(main, asked)
    assert 5 == result.exit_code, result.output
    assert "PARTIAL         looped (float32)   1 cell: 1 pass" in result.output
    said = " ".join(result.output.split())
    assert "too slow: a case with batch = 65540 did not reply within 1 s; what it answers takes " in said
    assert " s or less; declare limits={'batch': range(1, 1025)} or raise --time-limit" in said


def test_cases_that_are_no_must_are_left_out_where_the_subject_is_slow_or_would_take_long():
    known = pace.Pace({pace.Work(100, 10): 0.1})
    assert [False, False, True] == [known.spares(entries) for entries in (100, 5000, 5001)]
    known.slow.append(pace.Work(200, 10))
    assert known.spares(1)
    assert not pace.Pace().spares(10**6)
