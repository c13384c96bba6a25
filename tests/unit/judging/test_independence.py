"""Answers that lean on attnspec: what a subject cannot import, and what it gives where nothing of attnspec is seen."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from attnspec.adapters import Adapter
from attnspec.cases.profiles import Profile
from attnspec.cli import main
from attnspec.execution.apart import ApartError
from attnspec.execution.calling import Call
from attnspec.execution.supervisor import Supervisor, available
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.reporting.results import read
from attnspec.subjects.subject import AdapterSubject
from attnspec.subjects.targets import resolve

pytestmark = pytest.mark.skipif(not available(), reason="processes are not isolated on this system")
SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)
LAW = "contract.independence"
KERNELS = """
import os, random, sys
import numpy as np
import attnspec
from attnspec import Unsupported, adapter, check
from attnspec.adapters import Adapter, adapter as same

def softmax(x):
    with np.errstate(all="ignore"):
        p = np.exp(x - x.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True)

def declared(function):
    return adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})(function)

def seen():
    return "attnspec.execution.worker" in sys.modules

@declared
def right(x):
    return softmax(x)

@declared
def right_where_it_is_seen(x):
    return softmax(x) if seen() else x

@declared
def raises_where_it_is_not_seen(x):
    import attnspec.execution.worker
    return softmax(x)

@declared
def within_rounding(x):
    return softmax(x) if seen() else softmax(x.astype(np.float64)).astype(x.dtype)

@declared
def never_twice_the_same(x):
    order = np.random.default_rng().permutation(x.shape[-1])
    return softmax(x[..., order])[..., np.argsort(order)]

@declared
def ends_where_it_is_not_seen(x):
    return softmax(x) if seen() else os._exit(0)

@declared
def floods_where_it_is_not_seen(x):
    return softmax(x) if seen() else np.zeros(2**24)

PROGRAMS = {}

@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"}, dtypes=("float32", "float16"))
def compiled_by_shape(x):
    program = PROGRAMS.setdefault(x.shape, lambda y, dtype=x.dtype: softmax(y.astype(dtype)))
    return program(x).astype(x.dtype)

@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"}, dtypes=("float32", "float16"))
def compiled_by_shape_and_dtype(x):
    program = PROGRAMS.setdefault((x.shape, x.dtype), lambda y, dtype=x.dtype: softmax(y.astype(dtype)))
    return program(x).astype(x.dtype)

@declared
def borrowed(x):
    from attnspec import reference
    return reference.softmax(x).astype(x.dtype)

@declared
def specified(x):
    from attnspec.mechanisms.loader import library
    return softmax(x)

@declared
def controlled(x):
    from attnspec.adapters.controls.norms import control_settings_set_back
    return softmax(x)

@declared
def checked(x):
    return check(softmax)

def told(x):
    texts = [*sys.modules, *sys.argv, *sys.orig_argv, __name__, *map(repr, sys.meta_path[1:])]
    return np.full_like(x, sum("attnspec" in text for text in texts))

def order(x):
    return np.full_like(x, os.getpid())
"""
CASE = Call({"x": np.zeros((1, 2))}, {}, "float32")


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """What a run has found, by subject."""
    folder = tmp_path_factory.mktemp("independence")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("kernels.py").write_text(KERNELS)
        result = CliRunner().invoke(main, ["check", "kernels.py", "--profile", "smoke"])
    assert 1 == result.exit_code, result.output
    found = {}
    for line in read(folder / "attnspec-report" / "results.ndjson"):
        if line["kind"] == "cell":
            found.setdefault(line["subject"], {}).setdefault(line["law"], line)  # of the first dtype
    return found


def bad(cells):
    return {law for law, cell in cells.items() if cell["verdict"] in ("fail", "error") and cell["level"] == "must"}


@pytest.mark.parametrize("name", ["right", "within_rounding", "never_twice_the_same"])
def test_an_answer_within_its_bound_there_breaks_nothing(cells, name):
    assert (set(), "pass", True) == (bad(cells[name]), cells[name][LAW]["verdict"], cells[name][LAW]["cases"] > 1)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("right_where_it_is_seen", "gave a different 'p', which is not what the definition says"),
        (
            "raises_where_it_is_not_seen",
            "raised ImportError: no module named 'attnspec.execution' in this process",
        ),
    ],
)
def test_what_is_right_only_where_attnspec_is_seen_breaks_independence_alone(cells, name, says):
    assert {LAW} == bad(cells[name])
    place = "in a process without attnspec, the same call"
    assert f"{place} {says}" == cells[name][LAW]["says"]


def test_what_is_kept_by_shape_alone_is_wrong_after_a_call_in_another_dtype(cells):
    assert ({LAW}, set()) == (bad(cells["compiled_by_shape"]), bad(cells["compiled_by_shape_and_dtype"]))
    says = "right after itself in float16, the same call gave a different 'p', which is not what the definition says"
    assert says == cells["compiled_by_shape"][LAW]["says"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ends_where_it_is_not_seen", "the process without attnspec ended"),
        ("floods_where_it_is_not_seen", "the process without attnspec sent too much"),
    ],
)
def test_what_gives_no_answer_there_is_not_tested(cells, name, says):
    assert (set(), "not_tested", says) == (bad(cells[name]), cells[name][LAW]["verdict"], cells[name][LAW]["says"])


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("borrowed", "attnspec.reference"),
        ("specified", "attnspec.mechanisms"),
        ("controlled", "attnspec.adapters.controls"),
        ("checked", "attnspec.api"),
    ],
)
def test_what_attnspec_says_cannot_be_returned(cells, name, module):
    cell = cells[name]["definition"]
    why = "cannot be used where a subject is called: an answer that comes from attnspec itself says nothing"
    assert ("error", True) == (cell["verdict"], cell["says"].startswith(f"ImportError: {module} {why}"))


# The process


@pytest.fixture
def supervisor():
    made = Supervisor(30.0)
    yield made
    made.close()


def apart(supervisor, target, *calls):
    (one,) = resolve(str(target), operator="softmax", framework="numpy", supervisor=supervisor)
    return one.caller.apart(calls, 60.0)


def test_nothing_of_attnspec_is_to_be_seen_there(supervisor, tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    (reply,) = apart(supervisor, f"{tmp_path}/kernels.py:told", CASE)
    assert [[0.0, 0.0]] == reply.outputs["p"].tolist()


def test_calls_are_made_in_one_process_for_a_subject(supervisor, tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    first, second = apart(supervisor, f"{tmp_path}/kernels.py:order", CASE, CASE)
    assert first.outputs["p"][0, 0] == second.outputs["p"][0, 0]


def test_a_file_that_needs_more_of_attnspec_is_not_tested(supervisor, tmp_path):
    (tmp_path / "kernels.py").write_text("from attnspec.errors import Error\ndef kernel(x): return x\n")
    with pytest.raises(ApartError, match=r"cannot be loaded without attnspec: ImportError: .*attnspec\.errors"):
        apart(supervisor, f"{tmp_path}/kernels.py:kernel", CASE)


TORCH = """
import torch
from attnspec import adapter

@adapter("attention", name="named", dtypes=("float32", "bfloat16", "float16"))
def kernel(q, k, v, *, causal=False, mask=None):
    s = q @ k.mT * q.shape[-1] ** -0.5
    s = s if mask is None else s.masked_fill(~mask, -torch.inf)
    return {"out": torch.softmax(s, -1) @ v, "lse": s.float().logsumexp(-1)}
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_bits_are_those_of_the_worker(supervisor, tmp_path, dtype):
    (tmp_path / "kernels.py").write_text(TORCH)
    (one,) = resolve(f"{tmp_path}/kernels.py", supervisor=supervisor)
    arrays = {name: np.random.default_rng(0).integers(-3, 4, (1, 2, 3, 4)) / 2 for name in "qkv"}
    call = Call({**arrays, "mask": np.tri(3, dtype=bool)[None, None]}, {}, dtype)
    here, (there,) = one.call(call), one.caller.apart([call], 60.0)
    assert None is here.fault is there.fault
    for name, x in here.outputs.items():
        np.testing.assert_array_equal(x, there.outputs[name])


@pytest.mark.parametrize(
    ("target", "says"), [("torch_softmax", "it comes with attnspec"), ("", "made in this process")]
)
def test_why_it_is_not_asked_is_told(supervisor, target, says):
    softmax = library()["softmax"]
    if target:
        (one,) = resolve(target, supervisor=supervisor)
    else:
        one = AdapterSubject(Adapter("function", "softmax", lambda x: x.softmax(-1), "torch"), softmax)
    cells = run(Request(one, softmax, "float32", SCENARIOS)).cells
    (cell,) = (cell for cell in cells if cell.law == LAW)
    assert ("not_tested", True) == (cell.verdict, says in cell.says)


PLAIN = """
import torch

DTYPES = {}

def kept_by_shape(x):
    dtype = DTYPES.setdefault(x.shape, x.dtype)
    return torch.softmax(x.to(dtype), -1).to(x.dtype)

def kept_by_shape_and_dtype(x):
    dtype = DTYPES.setdefault((x.shape, x.dtype), x.dtype)
    return torch.softmax(x.to(dtype), -1).to(x.dtype)
"""


@pytest.mark.parametrize(
    ("name", "dtypes", "verdicts"),
    [
        ("kept_by_shape", ("float32", "bfloat16"), {"float32": "fail", "bfloat16": "pass"}),
        ("kept_by_shape", ("float32",), {"float32": "pass"}),
        ("kept_by_shape_and_dtype", ("float32", "bfloat16"), {"float32": "pass", "bfloat16": "pass"}),
    ],
)
def test_a_plain_function_is_called_in_the_dtypes_that_are_asked_for(tmp_path, monkeypatch, name, dtypes, verdicts):
    monkeypatch.chdir(tmp_path)
    Path("plain.py").write_text(PLAIN)
    asked = [word for dtype in dtypes for word in ("--dtype", dtype)]
    target = [f"plain.py:{name}", "--operator", "softmax", "--mechanism", "softmax", "--law", LAW]
    CliRunner().invoke(main, ["check", *target, *asked])
    lines = read(Path("attnspec-report/results.ndjson"))
    assert verdicts == {cell["dtype"]: cell["verdict"] for cell in lines if cell["kind"] == "cell"}
