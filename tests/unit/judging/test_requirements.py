"""What was required and not tested turns a run red, and is named."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import attnspec
from attnspec.cli import main
from attnspec.errors import UsageError
from attnspec.judging.requirements import check_requirements, unmet


def cell(law="definition", verdict="pass", mechanism="attention", operator="attention", dtype="float32", **more):
    own = {"mechanism": mechanism, "operator": operator, "dtype": dtype, "law": law, "verdict": verdict, "says": ""}
    return {**own, "run": {}, **more}


def run(**coverage):
    return {"grade": "fp32", "coverage": {"answered": 9, "scenarios": 10, "given": [], **coverage}}


@pytest.mark.parametrize(
    ("required", "cells", "hole"),
    [
        ("law:attention.key_shift", [cell("key_shift")], None),
        ("law:attention.key_shift", [cell("key_shift", "waived")], None),
        ("law:attention.key_shift", [cell()], "was not run"),
        (
            "law:attention.key_shift",
            [cell("key_shift", "not_tested", says="no case")],
            "not tested in float32 (no case)",
        ),
        (
            "law:attention.key_shift",
            [cell("key_shift"), cell("key_shift", "not_declared", dtype="float16")],
            "not declared in float16",
        ),
        ("law:attention.key_shift", [cell(mechanism="softmax", operator="softmax")], None),
        ("mechanism:alibi", [cell(mechanism="alibi")], None),
        ("mechanism:alibi", [cell("definition", "not_declared", "alibi"), cell("early", "pass", "alibi")], None),
        (
            "mechanism:alibi",
            [cell(mechanism="alibi", verdict="not_declared", says="no bias")],
            "not declared in float32 (no bias)",
        ),
        ("mechanism:alibi", [cell("contract.shape", "pass", "alibi")], "was not run"),
        ("mechanism:alibi", [cell()], "was not run"),
        ("option:causal", [cell(run=run(given=["causal"]))], None),
        ("option:causal", [cell(run=run(given=["mask"]))], "no answered case has it in float32"),
        ("option:causal", [cell()], "no answered case has it in float32"),
        ("option:causal", [cell(operator="softmax", mechanism="softmax")], None),
        ("grade:fp32", [cell(run=run())], None),
        ("grade:tf32", [cell(run={"grade": "tf32"})], None),
        ("grade:fp32", [cell(run={"grade": "fp16_naive"})], "is fp16_naive in float32"),
        ("grade:fp32", [cell(dtype="bfloat16", run={"grade": "bf16"})], "is bf16 in bfloat16"),
        ("grade:float32=fp32", [cell(dtype="bfloat16", run={"grade": "bf16"})], None),
        ("grade:bfloat16=bf16", [cell(dtype="bfloat16", run={"grade": "bf16_naive"})], "is bf16_naive in bfloat16"),
        ("share:0.9", [cell(run=run())], None),
        ("share:0.95", [cell(run=run())], "0.9 of the scenarios of a mechanism are answered"),
    ],
)
def test_what_is_required_and_not_there_is_named(required, cells, hole):
    assert ([f"required {required}: {hole}"] if hole else []) == [*unmet([required], cells)]


def test_a_part_of_a_run_need_not_have_what_the_others_have():
    assert [] == [*unmet(["law:attention.key_shift", "mechanism:alibi"], [cell()], "1/4")]


@pytest.mark.parametrize(
    ("required", "message"),
    [
        ("attention", "a requirement must be one of law:MECHANISM.LAW, mechanism:NAME, option:NAME, grade:NAME"),
        ("laws:attention.convex", "not 'laws:attention.convex'; did you mean 'law'?"),
        ("law:attention.convx", "required law:attention.convx: attention has no law 'convx'; did you mean 'convex'?"),
        ("mechanism:alib", "unknown mechanism 'alib'; did you mean 'alibi'?"),
        ("option:casual", "required option:casual: no operator has this option; did you mean 'causal'?"),
        ("grade:fp33", "unknown grade 'fp33'"),
        ("grade:floa32=fp32", "required grade:floa32=fp32: unknown dtype 'floa32'; did you mean 'float32'?"),
        ("share:most", "required share:most: a share must be a number from 0 to 1"),
        ("share:1.5", "required share:1.5: a share must be a number from 0 to 1"),
        ("share:nan", "required share:nan: a share must be a number from 0 to 1"),
        ("law:softmax.ratio", "required law:softmax.ratio: no tested subject has the operator softmax"),
    ],
)
def test_a_requirement_that_nothing_can_meet_is_refused_before_the_run(required, message):
    with pytest.raises(UsageError) as caught:
        check_requirements([required], ["attention"])
    assert message in str(caught.value)


def test_options_are_required_of_a_whole_run():
    with pytest.raises(UsageError, match="leave out --shard"):
        check_requirements(["option:causal"], ["attention"], "1/4")


# From the command line, from pytest, and from Python

KERNEL = """
import numpy as np
from attnspec import adapter
from attnspec.adapters import Unsupported

@adapter("softmax", framework="numpy", conventions={"empty_row": "zeros"})
def kernel(x):
    if x.shape[0] == 1:
        raise Unsupported("one row")
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)
"""
NARROW = ("--law", "softmax.definition", "--profile", "smoke")


def softmax(x):
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)


@pytest.mark.parametrize(
    ("required", "code", "line"),
    [
        ((), 0, ""),
        (("law:softmax.definition", "grade:fp32", "mechanism:softmax"), 0, ""),
        (("law:softmax.ratio",), 1, "required law:softmax.ratio: was not run"),
    ],
)
def test_a_hole_turns_the_command_line_red(required, code, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text(KERNEL.replace("x.shape[0] == 1", "False"))
    options = [word for text in required for word in ("--require", text)]
    result = CliRunner().invoke(main, ["check", "kernel.py", *NARROW, *options])
    assert (code, True) == (result.exit_code, line in result.output), result.output
    assert ("NOT CONFORMANT" in result.output) == bool(code)
    if code:
        assert "required[kernel]" in Path("attnspec-report/junit.xml").read_text()


def test_a_hole_turns_pytest_red(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(kernel=KERNEL.replace("x.shape[0] == 1", "False"))
    shown = ("--attnspec", "kernel.py", "--attnspec-law", "softmax.definition", "--attnspec-profile", "smoke")
    result = pytester.runpytest_subprocess("-p", "attnspec.plugin", *shown, "--attnspec-require", "law:softmax.ratio")
    assert 1 == result.ret
    result.stdout.fnmatch_lines(["*required law:softmax.ratio: was not run*"])


def test_a_hole_turns_a_check_from_python_red():
    def check(*required):
        return attnspec.check(
            softmax, conventions={"empty_row": "zeros"}, laws=["softmax.definition"], require=required, profile="smoke"
        )

    assert {"softmax": "conformant"} == check("share:1").verdicts
    report = check("law:softmax.ratio")
    assert ({"softmax": "violated"}, True) == (
        report.verdicts,
        "required law:softmax.ratio: was not run" in str(report),
    )
    with pytest.raises(UsageError, match="unknown mechanism 'softmx'"):
        check("mechanism:softmx")
