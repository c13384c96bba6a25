"""Subjects that attack the way that their answers take: none of their code, and no answer of another call, arrives."""

import resource
import subprocess
import sys

import numpy as np
import pytest

from attnspec.execution.calling import LARGEST, Call
from attnspec.execution.supervisor import Supervisor, available
from attnspec.runs.groups import groups, header_of
from attnspec.runs.options import Options
from attnspec.subjects.targets import resolve

pytestmark = pytest.mark.skipif(not available(), reason="processes are not isolated on this system")

KERNELS = """
import collections.abc, gc, itertools, os, sys
import numpy as np
from attnspec import adapter

def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)

def declared(function):
    return adapter("softmax", framework="numpy")(function)

MARK = (exec, ("import sys; sys.attnspec_mark = True",))

class Number(int):
    def __reduce__(self): return MARK

class Text(str):
    def __reduce__(self): return MARK
    def __eq__(self, other): sys.attnspec_mark = True; return str.__eq__(self, other)
    __hash__ = str.__hash__
    def isprintable(self): return True

class Array(np.ndarray):
    def __reduce__(self): return MARK

class Infinite(collections.abc.Mapping):
    def __iter__(self): return (f"key{n}" for n in itertools.count())
    def __getitem__(self, name): return np.zeros((1, 2))
    def __len__(self): return 1

class Same(Infinite):
    def __iter__(self): return itertools.repeat("p")

class Broken(Infinite):
    def __iter__(self): raise RuntimeError("no keys")

class Speechless(Exception):
    def __str__(self): raise RuntimeError("no words")

class Wordy(Exception):
    def __str__(self): return Text("a word")

@declared
def right(x): return softmax(x)

@declared
def keyed(x): return {Text("p"): softmax(x)}

@declared
def subclassed(x): return softmax(x).view(Array)

@declared
def numbered(x): return Number(3)

@declared
def surrogate(x): raise ValueError("\\ud800 and \\x1b[31m")

@declared
def speechless(x): raise Speechless

@declared
def wordy(x): raise Wordy

@declared
def verbose(x): raise ValueError("a" * 10**8 + "\\n" * 10**6)

@declared
def named(x): return {"\\ud800\\x1b[31m": x}

@declared
def endless(x): return Infinite()

@declared
def repeated(x): return Same()

@declared
def broken(x): return Broken()

@declared
def forks_and_raises(x):
    if not os.fork():
        raise ValueError("of a child")
    return softmax(x)

@declared
def forks_and_returns(x):
    if not os.fork():
        return 0 * x
    return softmax(x)

@declared
def forks_and_exits(x):
    if not os.fork():
        sys.exit()
    return softmax(x)

@declared
def forges(x):
    from attnspec.execution.messages import Answer, Made, send
    from attnspec.execution.calling import Reply
    from attnspec.execution.transport import Wire
    if x[0, 0] == 1:
        (wire,) = (o for o in gc.get_objects() if isinstance(o, Wire) and o.end.fileno() >= 0)
        send(wire, Answer(10**6, os.getpid(), Made(Reply({"p": 0 * x}), 0)))
    return softmax(x)

def forges_the_pid(x):
    from attnspec.execution.messages import Answer, Made, send
    from attnspec.execution.calling import Reply
    from attnspec.execution.transport import Wire
    (wire,) = (o for o in gc.get_objects() if isinstance(o, Wire) and o.end.fileno() >= 0)
    send(wire, Answer(2, os.getpid() + 1, Made(Reply({"p": 0 * x}), 0)))
    return softmax(x)
declared(forges_the_pid)

@declared
def pickles(x):
    import pickle
    from attnspec.execution.transport import Wire
    (wire,) = (o for o in gc.get_objects() if isinstance(o, Wire) and o.end.fileno() >= 0)
    data = pickle.dumps(Number(1))
    wire.end.sendall(len(data).to_bytes(8, "little") + data)
    return softmax(x)

@declared
def huge(x): return np.broadcast_to(np.float32(1), (2**20, 2**20))

@declared
def heavy(x): return np.zeros((2**12, 2**13 + 1), np.float32)

def defaults(x, *, axis=Number(-1), text=Text("t")): return softmax(x)
declared(defaults)
"""
GOOD = Call({"x": np.zeros((1, 2))}, {}, "float32")
FORGED = Call({"x": np.ones((1, 2))}, {}, "float32")
ANSWER = np.full((1, 2), 0.5)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels") / "attacks.py"
    path.write_text(KERNELS)
    return path


@pytest.fixture(scope="module")
def supervisor():
    made = Supervisor(60.0)
    yield made
    made.close()


@pytest.fixture
def subject(supervisor, kernels):
    def subject(name):
        (one,) = resolve(f"{kernels}:{name}", supervisor=supervisor)
        return one

    return subject


@pytest.fixture
def own():
    """A supervisor of this test alone."""
    made = Supervisor(30.0)
    yield made
    made.close()


def same(reply, expected=ANSWER):
    assert None is reply.fault
    np.testing.assert_array_equal(expected, reply.outputs["p"])
    return True


# No code of a subject


@pytest.mark.parametrize("name", ["keyed", "subclassed", "numbered", "wordy", "named", "defaults", "pickles"])
def test_no_code_of_a_subject_runs_in_the_judging_process(subject, name):
    one = subject(name)
    reply = one.call(GOOD)
    assert not hasattr(sys, "attnspec_mark")
    assert {str} >= {type(key) for key in reply.outputs}
    assert {np.ndarray} >= {type(x) for x in reply.outputs.values()}
    assert {str} >= {type(text) for text in (reply.fault and (reply.fault.says, reply.fault.trace)) or ()}


def test_defaults_of_a_signature_are_plain_values(subject):
    parameters = subject("defaults").adapter.function.__signature__.parameters
    assert [(int, -1), (str, "t")] == [(type(p.default), p.default) for p in list(parameters.values())[1:]]


def test_a_right_answer_under_a_key_of_its_own_kind_is_right(subject):
    assert same(subject("keyed").call(GOOD))


# What the report says


def isolation(target, *, isolate=True):
    options = Options(targets=(target,), isolate=isolate, time_limit=5.0)
    return header_of(options, groups(options), "check")["isolation"]


def test_a_run_says_whether_calls_were_isolated(kernels):
    assert "calls isolated in worker processes" == isolation(f"{kernels}:right")
    assert "no isolation: calls ran in this process" == isolation(f"{kernels}:right", isolate=False)
    assert "" == isolation("reference")


# Texts


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("surrogate", "raised", r"ValueError: \ud800 and \x1b[31m"),
        ("speechless", "raised", "Speechless: (its message cannot be read: RuntimeError)"),
        ("wordy", "raised", "Wordy: a word"),
        ("verbose", "raised", f"ValueError: {'a' * 300} ... (1700 more characters)"),
        ("named", "returned", r"returned an output '\\ud800\\x1b[31m'; softmax has p"),
        ("broken", "returned", "returned a Broken that cannot be read: RuntimeError: no keys"),
        ("endless", "returned", "returned an output 'key0'; softmax has p"),
    ],
)
@pytest.mark.parametrize("isolated", [True, False])
def test_every_text_of_a_subject_is_one_safe_line(subject, kernels, name, kind, says, isolated):
    (one,) = [subject(name)] if isolated else resolve(f"{kernels}:{name}")
    fault = one.call(GOOD).fault
    assert (kind, says) == (fault.kind, fault.says)
    assert all(line.isprintable() for line in fault.trace.splitlines())
    assert 50_000 > len(fault.trace)
    vars(sys).pop("attnspec_mark", None)


@pytest.mark.parametrize("isolated", [True, False])
def test_a_mapping_that_repeats_its_key_for_ever_is_read_once(subject, kernels, isolated):
    (one,) = [subject("repeated")] if isolated else resolve(f"{kernels}:repeated")
    assert same(one.call(GOOD), np.zeros((1, 2)))


# Answers


@pytest.mark.parametrize("name", ["forks_and_raises", "forks_and_returns", "forks_and_exits"])
def test_the_child_of_a_call_never_answers(subject, name):
    one, neighbour = subject(name), subject("right")
    for _ in range(5):
        assert same(one.call(GOOD))
        assert same(neighbour.call(GOOD))


def test_a_child_without_isolation_ends_where_it_comes_back(kernels):
    script = f"""
import numpy as np
from attnspec.execution.calling import Call
from attnspec.subjects.targets import resolve
for name in ("forks_and_raises", "forks_and_returns"):
    (one,) = resolve({str(kernels)!r} + ":" + name)
    print(one.call(Call({{"x": np.zeros((1, 2))}}, {{}}, "float32")).outputs["p"].tolist(), flush=True)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "[[0.5, 0.5]]\n" * 2 == done.stdout


def test_an_answer_with_another_number_replaces_the_worker(own, kernels):
    (one,) = resolve(f"{kernels}:forges", supervisor=own)
    assert same(one.call(GOOD))
    fault = one.call(FORGED).fault
    assert ("died", "3 times, answers came from another process than the worker, or to another call") == (
        fault.kind,
        fault.says,
    )
    assert same(one.call(GOOD))


def test_an_answer_of_another_process_is_none(own, kernels):
    (one,) = resolve(f"{kernels}:forges_the_pid", supervisor=own)
    assert "3 times, answers came from another process" in one.call(GOOD).fault.says


def test_a_pickle_on_the_wire_is_no_message(subject):
    fault = subject("pickles").call(GOOD).fault
    assert ("died", True) == (fault.kind, fault.says.startswith("the process sent unreadable data"))


# Sizes


@pytest.mark.parametrize("name", ["huge", "heavy"])
@pytest.mark.parametrize("isolated", [True, False])
def test_an_output_that_no_definition_can_want_is_not_looked_into(subject, kernels, name, isolated):
    (one,) = [subject(name)] if isolated else resolve(f"{kernels}:{name}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fault = one.call(GOOD).fault
    shape = {"huge": [2**20, 2**20], "heavy": [2**12, 2**13 + 1]}[name]
    assert ("misshapen", f"p has the shape {shape}, {np.prod(shape):,} entries for inputs of 2") == (
        fault.kind,
        fault.says,
    )
    assert LARGEST < np.prod(shape)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < (300 << 10)
