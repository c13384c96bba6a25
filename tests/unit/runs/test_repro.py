"""A kept failure becomes a program that fails as long as the fault is there, where attnspec cannot be imported."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import attnspec
from attnspec.cases.profiles import Profile
from attnspec.cli import main
from attnspec.diagnosis.stored import save
from attnspec.diagnosis.witness import describe
from attnspec.errors import UsageError
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.shrinking import made_small
from attnspec.mechanisms.loader import library
from attnspec.reporting.repro import issue, program
from attnspec.runs.opening import Kept
from attnspec.runs.repro import program_of
from attnspec.subjects.targets import resolve

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=8)
SOUND = """
import torch
from attnspec import adapter

@adapter("softmax", conventions={"empty_row": "nans"}, dtypes=("float32", "bfloat16"))
def mine(x):
    return torch.softmax(x, -1)
"""
NUMPY = """
import numpy as np

def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)
"""
CODES = """
import torch

def attention_of_codes(q, k, v, *, k_scale, v_scale):
    scores = q @ k.float().mT * q.shape[3] ** -0.5
    return torch.softmax(scores, -1) @ (v.float() * v_scale)
"""
FAULTS = {
    "definition": ("torch.softmax(x, -1)", "torch.softmax(x * 0.5, -1)"),
    "reordered": (
        "torch.softmax(x, -1)",
        "torch.softmax(x, -1) + (torch.arange(x.shape[-1]) == 0) * (x[..., :1] > x[..., -1:]) * 0.1",
    ),
    "contract.shape": ("torch.softmax(x, -1)", "torch.softmax(x, -1)[..., :1]"),
    "contract.dtype": ("torch.softmax(x, -1)", "torch.softmax(x, -1).double()"),
    "contract.inputs_unchanged": (
        "torch.softmax(x, -1)",
        "torch.softmax(x, -1) + x.mul_(2 if x.is_contiguous() else 1) * 0",
    ),
}
BARE = """
import os, runpy, sys

class Blocked:
    @staticmethod
    def find_spec(name, *more):
        if name.partition(".")[0] == "attnspec":
            raise ImportError(name)

sys.meta_path.insert(0, Blocked)
import torch

for line in sys.stdin:
    path = line.rstrip()
    if process := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
    else:
        said = os.open(path + ".said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        runpy.run_path(path, run_name="__main__")
        sys.exit()
"""
"""Runs each program in a process of its own, forked where torch is imported and attnspec cannot be."""


@pytest.fixture(scope="module")
def bare():
    """The exit code of a program where attnspec cannot be imported, and the last line of what it says."""
    command = [sys.executable, "-c", BARE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def run(path):
            print(path, file=server.stdin, flush=True)
            return int(server.stdout.readline()), Path(f"{path}.said").read_text().strip().splitlines()[-1]

        yield run


def kept(target, law, folder, mechanism="softmax", dtype="float32", operator=None):
    """The key of a failure that was found and kept."""
    (one,) = resolve(target, operator=operator)
    result = run(Request(one, library()[mechanism], dtype, SCENARIOS, laws={law}, first=True))
    failure = made_small(next(cell.failure for cell in result.cells if cell.law == law), result)
    witness = describe(failure, result.bench, target, None, [])
    save(folder, witness)
    return witness["key"]


def written(folder, key, operator=None):
    made = program_of(Kept(key, folder, operator), beside=folder)
    (folder / "repro.py").write_text(program(made))
    return folder / "repro.py"


@pytest.mark.parametrize(
    ("law", "dtype", "says"),
    [
        ("definition", "float32", "AssertionError: p["),
        ("definition", "bfloat16", "AssertionError: p["),
        ("reordered", "float32", "AssertionError: p["),
        ("contract.shape", "float32", "AssertionError: p has the shape"),
        ("contract.dtype", "float32", "AssertionError: p is float64, not float32"),
        ("contract.inputs_unchanged", "float32", "AssertionError: the call changed its input x"),
    ],
)
def test_a_program_fails_on_what_is_faulty_and_passes_when_it_is_mended(tmp_path, law, dtype, says, bare):
    path = tmp_path / "kernel.py"
    path.write_text(SOUND.replace(*FAULTS[law]))
    made = written(tmp_path, kept(str(path), law, tmp_path, dtype=dtype))
    code, last = bare(made)
    assert (1, says) == (code, last[: len(says)])
    path.write_text(SOUND)
    assert (0, f"softmax.{law} holds here") == bare(made)


def test_a_plain_function_of_another_framework_is_called_in_its_file(tmp_path, bare):
    path = tmp_path / "plain.py"
    path.write_text(NUMPY.replace("x - x.max", "x * 0.5 - x.max"))
    made = written(tmp_path, kept(f"{path}:softmax", "definition", tmp_path))
    assert (1, False) == (bare(made)[0], "torch" in made.read_text().partition("system")[2])
    path.write_text(NUMPY)
    assert 0 == bare(made)[0]


MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self, dim, factor):
        super().__init__()
        self.dim = dim
        self.factor = factor

    def forward(self, x):
        return torch.softmax(self.factor * x, self.dim)

def get_init_inputs():
    return {given}
"""


@pytest.mark.parametrize("given", ["[-1, {}]", "[[-1], {{'factor': {}}}]"])
def test_a_class_is_made_with_what_its_file_says(tmp_path, given, bare):
    path = tmp_path / "model.py"
    path.write_text(MODEL.format(given=given.format(2)))
    key = kept(f"{path}:Model", "definition", tmp_path, operator="softmax")
    made = written(tmp_path, key, "softmax")
    assert 1 == bare(made)[0]
    path.write_text(MODEL.format(given=given.format("1.0")))
    assert 0 == bare(made)[0]


ROUTER = """
import torch

def fused_topk(hidden_states, gating_output, topk, renormalize):
    weights, ids = gating_output.softmax(-1).topk(topk, -1)
    return weights, ids
"""


def test_a_program_assembles_an_output_from_what_is_returned(tmp_path, bare):
    path = tmp_path / "router.py"
    path.write_text(ROUTER.replace("topk(topk, -1)", "topk(topk, -1)\n    weights = weights * 0.5"))
    made = written(tmp_path, kept(f"{path}:fused_topk", "definition", tmp_path, "moe_routing"))
    code, last = bare(made)
    assert (1, "AssertionError: weights[") == (code, last[:24])
    path.write_text(ROUTER)
    assert (0, "moe_routing.definition holds here") == bare(made)


MASK = """
import torch

def document_mask(positions, *, blocks=None, window_left=None, chunk=None):
    length = positions.shape[1]
    item = (positions == 0).cumsum(1)
    seen = (item[:, :, None] == item[:, None]) & torch.ones(length, length, dtype=torch.bool).tril()
    return seen
"""


def test_a_program_asks_for_booleans_by_the_name_that_a_framework_has_for_them(tmp_path, bare):
    path = tmp_path / "mask.py"
    path.write_text(MASK.replace("return seen", "return seen.float()"))
    made = written(tmp_path, kept(f"{path}:document_mask", "contract.dtype", tmp_path, "document_mask"))
    assert (1, "AssertionError: mask is float32, not boolean") == bare(made)
    path.write_text(MASK)
    assert (0, "document_mask.contract.dtype holds here") == bare(made)


FURTHER = {
    "jax": """
import jax.numpy as jnp

def softmax(x):
    p = jnp.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)
""",
    "mlx": """
import mlx.core as mx

def softmax(x):
    return mx.softmax(x, axis=-1, precise=True)
""",
}


@pytest.mark.parametrize(("framework", "dtype"), [("jax", "float32"), ("mlx", "bfloat16")])
def test_functions_of_other_frameworks_are_called_with_their_arrays(tmp_path, framework, dtype, bare):
    pytest.importorskip({"mlx": "mlx.core"}.get(framework, framework))
    path = tmp_path / "own.py"
    path.write_text(FURTHER[framework].replace("(x - x", "(x * 0.5 - x").replace("(x, axis", "(x * 0.5, axis"))
    made = written(tmp_path, kept(f"{path}:softmax", "definition", tmp_path, dtype=dtype))
    code, last = bare(made)
    assert (1, "AssertionError: p[") == (code, last[:18])
    path.write_text(FURTHER[framework])
    assert (0, "softmax.definition holds here") == bare(made)


def test_codes_are_written_in_their_dtype_and_other_inputs_in_that_under_test(tmp_path, bare):
    path = tmp_path / "codes.py"
    path.write_text(CODES)
    target, law = f"{path}:attention_of_codes", "definition"
    key = kept(target, law, tmp_path, "quantized_attention", operator="attention")
    made = written(tmp_path, key, operator="attention")
    dtypes = {name: f"dtype=torch.{dtype}" for name, dtype in {"q": "float32", "k": "float8_e4m3fn"}.items()}
    lines = {line.partition(" = ")[0]: line for line in made.read_text().splitlines() if line.endswith(")")}
    assert dtypes == {name: lines[name].rpartition(", ")[2].rstrip(")") for name in dtypes}
    assert 1 == bare(made)[0]


def test_the_source_of_a_shipped_adapter_goes_into_the_program(tmp_path, bare):
    made = written(tmp_path, kept("torch_dynamic", "definition", tmp_path, "quantize"))
    code, last = bare(made)
    assert (1, True, False) == (code, last.startswith("AssertionError: "), "adapter(" in made.read_text())


OWN = {
    "a known interface": """
import torch

def attend(q, k, v, softmax_scale=None, causal=False):
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale * 0.5
    x = torch.einsum("bqhd,bkhd->bhqk", q, k) * scale
    if causal:
        q_len, k_len = x.shape[-2:]
        x = x.masked_fill(~torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len), float("-inf"))
    return torch.einsum("bhqk,bkhd->bqhd", torch.softmax(x, -1).nan_to_num(), v)
""",
    "arrays that are written to": """
import torch

def attention(q, k, v, out):
    torch.matmul(torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1), v * 1.5, out=out)
""",
}


def found(path, law, folder, **more):
    """The key of a failure that a check has kept."""
    how = {"profile": "smoke", "dtypes": ["float32"], "isolate": False, "explain_time": 0}
    report = attnspec.check(str(path), laws=[law], report_dir=folder / "report", **how, **more)
    return next(cell["witness"]["key"] for cell in report.cells if "witness" in cell)


@pytest.mark.parametrize("kind", OWN)
def test_a_call_is_written_as_the_function_takes_it(tmp_path, kind, bare):
    path, known = tmp_path / "own.py", "interface" in kind
    path.write_text(OWN[kind])
    law, more = "attention.definition", {"like": "flash_attn_func"} if known else {}
    key = found(f"{path}:{'attend' if known else 'attention'}", law, tmp_path, **more)
    made = written(tmp_path / "report", key)
    text = made.read_text()
    assert (known, not known) == ("attend(q, k, v, softmax_scale=" in text, 'result = {"out": out}' in text)
    assert 1 == bare(made)[0]
    path.write_text(OWN[kind].replace(" * 0.5", "").replace(" * 1.5", ""))
    assert (0, f"{law} holds here") == bare(made)


BY_LSE = """
import torch

def attention(q, k, v):
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q @ k.mT * q.shape[-1] ** -0.5
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1) - torch.logsumexp(s, -1) + torch.logsumexp(s, -1).detach()
"""


def test_gradients_are_written_by_all_outputs_that_have_one(tmp_path, bare):
    path, law = tmp_path / "own.py", "lse_gradient.definition"
    path.write_text(BY_LSE)
    made = written(tmp_path / "report", found(f"{path}:attention", law, tmp_path))
    assert 'torch.autograd.grad((part(outputs, "out", 0), part(outputs, "lse", 1)), (q, k, v), (d_out, d_lse)' in (
        made.read_text()
    )
    assert 1 == bare(made)[0]
    path.write_text(BY_LSE.replace(".detach()", ""))
    assert (0, f"{law} holds here") == bare(made)


@pytest.mark.parametrize("like", ["", "flash_attn_func"])
def test_gradients_are_taken_in_the_program(tmp_path, like, bare):
    path, right = tmp_path / "own.py", OWN["a known interface"].replace(" * 0.5", "")
    if not like:
        right = right.replace("bqhd", "bhqd").replace("bkhd", "bhkd").replace("softmax_scale", "scale")
    path.write_text(right.replace(", v)", ", v.detach() + 0.5 * (v - v.detach()))"))
    law = "attention_gradient.definition"
    made = written(tmp_path / "report", found(f"{path}:attend", law, tmp_path, like=like, operator="attention"))
    code, last = bare(made)
    assert (1, "AssertionError: d_v[") == (code, last[:20])
    path.write_text(right)
    assert (0, f"{law} holds here") == bare(made)


def test_an_issue_has_the_program_and_says_what_is_expected(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(SOUND.replace(*FAULTS["definition"]))
    found = program_of(Kept(kept(str(path), "definition", tmp_path), tmp_path), beside=tmp_path)
    text = issue(found)
    heads = ["## What happens", "## What is expected, and why", "## Versions", "## Reproduction"]
    assert heads == [line for line in text.splitlines() if line.startswith("## ")]
    assert ("# mine: ", program(found).rstrip() in text) == (text[:8], True)


def test_what_holds_now_has_nothing_to_reproduce(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(SOUND.replace(*FAULTS["definition"]))
    key = kept(str(path), "definition", tmp_path)
    path.write_text(SOUND)
    with pytest.raises(UsageError, match=r"softmax\.definition does not fail on this case now"):
        program_of(Kept(key, tmp_path), beside=tmp_path)


@pytest.mark.parametrize("target", ["mistake:softmax.base_two", "fault:boundary_key_twice"])
def test_what_is_no_implementation_is_refused(tmp_path, target, monkeypatch):
    monkeypatch.setattr("attnspec.runs.opening.find", lambda *given: {"law": "definition", "target": target})
    with pytest.raises(UsageError, match=f"{target} is not an implementation"):
        program_of(Kept("key", tmp_path), beside=tmp_path)


def test_a_file_that_is_not_of_the_command_is_left_alone(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(SOUND.replace(*FAULTS["definition"]))
    key = kept(str(path), "definition", tmp_path)
    command = ["repro", key, "--report-dir", str(tmp_path), "-o", str(path)]
    result = CliRunner().invoke(main, command)
    assert (4, True) == (result.exit_code, "exists and was not written by this command" in result.output)
    for _ in range(2):  # its own file may be written again
        result = CliRunner().invoke(main, [*command[:-1], str(tmp_path / "repro.py")])
        assert (0, True) == (result.exit_code, "repro.py: softmax.definition of mine" in result.output)


UPDATE = """
import torch

def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None):
    whole, length = torch.cat([conv_state, x], -1).float(), x.shape[-1]
    out = sum(whole[..., i : i + length] * weight[:, i, None].float() for i in range(weight.shape[1]))
    out = out if bias is None else out + bias[:, None].float()
    if True:
        conv_state.copy_(whole[..., whole.shape[-1] - conv_state.shape[-1] :])
    return (torch.nn.functional.silu(out) if activation else out).to(x.dtype)
"""


def test_what_a_call_writes_is_read_beside_what_it_returns_and_made_anew_for_the_next_one(tmp_path, bare):
    path = tmp_path / "own.py"
    path.write_text(UPDATE.replace("if True", "if length > 2"))
    key = found(f"{path}:causal_conv1d_update", "short_convolution.state_at_the_end", tmp_path)
    made = written(tmp_path / "report", key)
    assert 1 < made.read_text().count("conv_state = torch.tensor(")
    code, last = bare(made)
    assert (1, True) == (code, "final_state[" in last), last
    path.write_text(UPDATE)
    assert (0, "short_convolution.state_at_the_end holds here") == bare(made)
