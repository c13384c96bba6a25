"""A kept witness is run again: it fails as it did, or says that it holds now."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

import attnspec
from attnspec.cases.profiles import Profile
from attnspec.cli import main
from attnspec.diagnosis.stored import save
from attnspec.diagnosis.witness import describe
from attnspec.errors import Exit, TargetError, UsageError
from attnspec.judging.cells import Request
from attnspec.judging.course import BEFORE
from attnspec.judging.engine import run
from attnspec.judging.shrinking import made_small
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.workloads import Use
from attnspec.runs.opening import Kept
from attnspec.runs.replay import replayed
from attnspec.subjects.targets import resolve

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=8)
SOUND = """
import torch
from attnspec import adapter

@adapter("softmax", conventions={"empty_row": "nans"})
def mine(x):
    return torch.softmax(x, -1)
"""
FAULTS = {
    "definition": ("torch.softmax(x, -1)", "torch.softmax(x * 0.5, -1)"),
    "reordered": (
        "torch.softmax(x, -1)",
        "torch.softmax(x, -1) + (torch.arange(x.shape[-1]) == 0) * (x[..., :1] > x[..., -1:]) * 0.1",
    ),
    "contract.dtype": ("torch.softmax(x, -1)", "torch.softmax(x, -1).double()"),
    "contract.inputs_unchanged": (
        "torch.softmax(x, -1)",
        "torch.softmax(x, -1) + x.mul_(2 if x.is_contiguous() else 1) * 0",
    ),
    "contract.fresh_output": (
        "def mine(x):",
        "def mine(x, room={}):\n    return room.setdefault(x.shape, torch.empty(x.shape)).copy_(torch.softmax(x, -1))",
    ),
}
"""What is changed in a sound file so that the law is broken."""


def written(path, law=None):
    path.write_text(SOUND.replace(*FAULTS[law]) if law else SOUND)
    return str(path)


def kept_failure(target, law, tmp_path, mechanism="softmax"):
    (one,) = resolve(target)
    result = run(Request(one, library()[mechanism], "float32", SCENARIOS, laws={law}, first=True))
    failure = made_small(next(cell.failure for cell in result.cells if cell.law == law), result)
    witness = describe(failure, result.bench, target, None, [])
    save(tmp_path, witness)
    return witness


def replay(witness, folder):
    lines = []
    return replayed(Kept(witness["key"], folder), lines.append), lines


@pytest.mark.parametrize("law", FAULTS)
def test_a_failure_is_found_again(law, tmp_path):
    witness = kept_failure(written(tmp_path / f"broken_{law.replace('.', '_')}.py", law), law, tmp_path)
    code, lines = replay(witness, tmp_path)
    assert Exit.VIOLATED is code
    assert any(f"softmax.{law}" in line for line in lines)
    assert any(witness["key"] in line for line in lines)


STRICT = """
import torch

def attention(q, k, v, causal=False):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        n, m = scores.shape[-2:]
        scores = scores.masked_fill(torch.ones(n, m, dtype=torch.bool).triu(m - n), -torch.inf)
    return scores.softmax(-1) @ v
"""


def test_a_convention_is_asked_for_again_on_a_case_of_another_mechanism(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    law, kernel = "convention.causal_alignment", tmp_path / "kernel.py"
    kernel.write_text(STRICT)
    report = attnspec.check("kernel.py:attention", profile="smoke", explain_time=0, report_dir="report")
    assert str(report).index(f"attention.{law}") > str(report).index("causal_mask.first_row")
    (witness,) = (cell["witness"] for cell in report.cells if cell["law"] == law and "witness" in cell)
    assert witness["case"]["mechanism"] == "causal_mask"
    code, lines = replay(witness, tmp_path / "report")
    assert Exit.VIOLATED is code
    assert any(f"attention.{law}" in line for line in lines)
    kernel.write_text(STRICT.replace("triu(m - n)", "triu(1 + m - n)"))
    code, lines = replay(witness, tmp_path / "report")
    assert Exit.CONFORMANT is code
    assert "observed: bottom_right" in lines[-1]


@pytest.mark.parametrize("law", FAULTS)
def test_a_failure_that_was_mended_holds_now(law, tmp_path):
    witness = kept_failure(written(tmp_path / f"mended_{law.replace('.', '_')}.py", law), law, tmp_path)
    sound = written(tmp_path / "sound.py")
    save(tmp_path, {**witness, "target": sound})
    code, lines = replay(witness, tmp_path)
    verdict = "pass" if law.startswith("contract.") else "held"
    assert Exit.CONFORMANT is code
    (line,) = lines
    assert line.startswith(f"mine softmax.{law}: {verdict} on this case now")


KEPT = "return room.setdefault(x.shape, torch.softmax(x, -1)).clone()"
LATE = (
    SOUND.replace("return torch.softmax(x, -1)", KEPT)
    .replace("return torch.softmax(x, -1)", "return room.setdefault(x.shape, torch.softmax(x, -1)).clone()")
    .replace("def mine(x)", "def mine(x, *, room={})")
)
"""It keeps what it returned for a shape."""


def test_what_fails_after_earlier_calls_alone_is_found_again_after_these(tmp_path):
    path = tmp_path / "late.py"
    path.write_text(LATE)
    witness = kept_failure(str(path), "definition", tmp_path)
    assert 2 <= len(witness["before"]) <= BEFORE + 1
    code, lines = replay(witness, tmp_path)
    assert Exit.VIOLATED is code
    count = len(witness["before"])
    says = f"note: alone it passes now, but it fails after the {count} cases that ran before it: "
    assert f"{says}earlier calls matter" == lines[0]
    assert any(line.startswith("Result") for line in lines)


def test_a_check_says_that_a_failure_needs_earlier_calls_where_it_holds_without_them(tmp_path):
    path = tmp_path / "late_in_a_check.py"
    path.write_text(LATE)
    told = CliRunner().invoke(main, ["check", str(path), "--law", "definition", "--report-dir", str(tmp_path / "out")])
    assert "it passes in a new process: it needs the calls of" in told.output


def test_what_fails_by_itself_is_not_said_to_need_earlier_calls(tmp_path):
    assert not kept_failure(written(tmp_path / "broken_anew.py", "definition"), "definition", tmp_path)["dependent"]


def test_what_held_by_itself_and_after_earlier_calls_is_said_to(tmp_path):
    path = tmp_path / "late_and_mended.py"
    path.write_text(LATE)
    witness = kept_failure(str(path), "definition", tmp_path)
    save(tmp_path, {**witness, "target": written(tmp_path / "sound.py")})
    code, (line,) = replay(witness, tmp_path)
    after = f"by itself and after the {len(witness['before'])} cases that ran before it"
    assert (Exit.CONFORMANT, f"mine softmax.definition: held on this case now, {after}") == (code, line)


SLOW = SOUND.replace("    return", "    import time; time.sleep(20)\n    return")


def test_a_call_has_the_time_that_it_is_given(tmp_path):
    witness = kept_failure(written(tmp_path / "broken.py", "definition"), "definition", tmp_path)
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    save(tmp_path, {**witness, "target": str(path)})
    lines = []
    replayed(Kept(witness["key"], tmp_path, seconds=0.5), lines.append)
    assert any("did not reply within" in line for line in lines)


@pytest.mark.parametrize("target", ["mistake:softmax.base_two", "mistake:alibi_slopes.from_zero"])
def test_a_known_mistake_can_be_replayed(target, tmp_path):
    witness = kept_failure(target, "definition", tmp_path, target.removeprefix("mistake:").partition(".")[0])
    assert Exit.VIOLATED is replay(witness, tmp_path)[0]


def test_the_error_is_shown_in_units_of_the_claimed_bound(tmp_path):
    witness = kept_failure("mistake:softmax.base_two", "definition", tmp_path)
    (line,) = (line for line in replay(witness, tmp_path)[1] if line.startswith("Result"))
    assert f"the error is {witness['units']:.3g} x the bound {witness['outcome']['bound']:.6g} (fp32)" in line


def test_an_error_is_replayed_with_its_trace(tmp_path):
    path = tmp_path / "raising.py"
    path.write_text(SOUND.replace("return", "raise ValueError('no kernel')\n    return"))
    code, lines = replay(kept_failure(str(path), "definition", tmp_path), tmp_path)
    assert Exit.VIOLATED is code
    assert "ValueError: no kernel" == lines[-1].splitlines()[-1]


def test_a_specification_that_has_changed_is_noted(tmp_path):
    witness = kept_failure("mistake:softmax.base_two", "definition", tmp_path)
    save(tmp_path, {**witness, "digest": "another"})
    assert (
        f"note: {library()['softmax'].path} has changed since this case was stored" == replay(witness, tmp_path)[1][0]
    )


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"law": "gone"}, UsageError, "softmax has no law 'gone'"),
        ({"subject": "gone"}, UsageError, "mistake:softmax.base_two no longer has the subject 'gone'"),
        ({"mechanism": "sotfmax"}, UsageError, "unknown mechanism 'sotfmax'; did you mean 'softmax'?"),
        ({"target": "gone.py"}, TargetError, "no such file: gone.py"),
    ],
)
def test_what_is_no_more_is_named(changed, error, says, tmp_path):
    witness = kept_failure("mistake:softmax.base_two", "definition", tmp_path)
    save(tmp_path, {**witness, **changed})
    with pytest.raises(error) as caught:
        replay(witness, tmp_path)
    assert says in str(caught.value)


LARGE = """
import torch
from attnspec import adapter

@adapter("packed_attention", conventions={"grouping": "block"})
def items(q, k, v, q_lens, k_lens):
    out = torch.zeros(q.shape[0], q.shape[1], v.shape[2])
    starts = [0, *q_lens.cumsum(0).tolist()]
    for i, n in enumerate(q_lens.tolist()):
        rows = slice(starts[i], starts[i] + n)
        s = torch.einsum("qhd,khd->hqk", q[rows], k[rows]) * q.shape[2] ** -0.5
        out[rows] = torch.einsum("hqk,khd->qhd", s.softmax(-1), v[rows])
    out[250:] *= 1.5
    return out
"""


def test_a_case_of_the_sizes_of_production_is_kept_by_its_name_and_run_again(tmp_path):
    path, law = tmp_path / "large.py", "serving.many_items"
    path.write_text(LARGE)
    asked = ["check", str(path), "--profile", "serving", "--law", law, "--report-dir", str(tmp_path / "out")]
    told = CliRunner().invoke(main, asked).output
    (kept,) = (tmp_path / "out" / "cases").glob("*.json")
    assert f"attnspec replay {kept.stem}" in told
    assert kept.stat().st_size < 6000
    code, lines = replay({"key": kept.stem}, tmp_path / "out")
    assert Exit.VIOLATED is code
    assert lines[0].startswith(f"== items   packed_attention.{law}   float32 cpu ")
    path.write_text(LARGE.replace("1.5", "1.0"))
    again = ["replay", kept.stem, "--report-dir", str(tmp_path / "out"), "--trust"]
    assert f"items packed_attention.{law}: pass on this case now" in CliRunner().invoke(main, again).output


PRESSED = """
import threading
import torch
from attnspec import adapter

ALONE = {}

@adapter("softmax", conventions={"empty_row": "nans"})
def mine(x):
    alone = ALONE.setdefault("threads", threading.active_count())
    return torch.softmax(x, -1) + 0.5 * (threading.active_count() > alone)
"""


def test_what_was_found_beside_other_threads_is_made_beside_them_again(tmp_path):
    (tmp_path / "mine.py").write_text(PRESSED)
    target = str(tmp_path / "mine.py")
    (one,) = resolve(target)
    use = Use("softmax", "float32", {"rows": 600, "n": 8})
    law = f"workload.{use.key}"
    request = Request(one, library()["softmax"], "float32", SCENARIOS, laws=frozenset({law}), workload={law: use})
    assert "pass" == run(request).cells[0].verdict
    result = run(replace(request, stress=4))
    witness = describe(result.cells[0].failure, result.bench, target, None, [])
    assert 4 == witness["stress"]
    save(tmp_path, witness)
    said = []
    assert Exit.VIOLATED == replayed(Kept(witness["key"], tmp_path), said.append)
    save(tmp_path, {**witness, "stress": 0})
    assert Exit.CONFORMANT == replayed(Kept(witness["key"], tmp_path), said.append)
