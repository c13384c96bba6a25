"""Whoever has no attnspec judges kernels in C, Rust and Python by vectors, and comes to the same verdicts."""

import ctypes
import functools
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from attnspec.execution.calling import Reply
from attnspec.judging.judge import Kind, definition_law, evaluated
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.vectors import sets
from attnspec.vectors.sets import Asked, files
from attnspec.vectors.tensors import encoded

HERE = Path(__file__).resolve().parents[2] / "examples/vectors"
ASKED = Asked(("softmax", "causal_mask"), takes=("causal", "scale"), small=False)
FAULTS = {
    "c": (("expf(", "exp2f("), ("i + k_len - q_len", "i + k_len - q_len + 1")),
    "rs": ((".exp()", ".exp2()"), ("> i + k_len", "> i + k_len + 1")),
    "py": (("np.exp(", "np.exp2("), ("<= last", "<= last + 1")),
}
"""Another base, and a query that sees one key too many, in each language."""
PARTLY = {
    "c": ("expf(", "(n > 20 ? exp2f : expf)("),
    "rs": ("(entry - high).exp()", "(if n > 20 { f32::exp2 } else { f32::exp })(entry - high)"),
    "py": ("np.exp(", "(np.exp2 if x.shape[-1] > 20 else np.exp)("),
}
"""Another base for long rows, which is none of the known mistakes."""
LANGUAGES = [
    pytest.param("c", marks=pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")),
    pytest.param("rs", marks=pytest.mark.skipif(not shutil.which("rustc"), reason="no Rust compiler")),
    "py",
]
ADDED = """
mod kernels;
use std::slice::{from_raw_parts as at, from_raw_parts_mut as at_mut};

#[no_mangle]
pub unsafe extern "C" fn softmax(x: *const f32, p: *mut f32, rows: usize, n: usize) {
    kernels::softmax(at(x, rows * n), at_mut(p, rows * n), n)
}

#[no_mangle]
pub unsafe extern "C" fn attention(
    q: *const f32, k: *const f32, v: *const f32, out: *mut f32, _: *mut f32, batch: usize, heads: usize,
    kv_heads: usize, q_len: usize, k_len: usize, head_dim: usize, value_dim: usize, scale: f32, causal: i32,
) {
    let sizes = kernels::Sizes { batch, heads, kv_heads, q_len, k_len, head_dim, value_dim };
    let (queries, keys) = (batch * heads * q_len, batch * kv_heads * k_len);
    let (q, k, v) = (at(q, queries * head_dim), at(k, keys * head_dim), at(v, keys * value_dim));
    at_mut(out, queries * value_dim).copy_from_slice(&kernels::attention(q, k, v, sizes, scale, causal != 0));
}
"""
"""What makes a library of the kernels in Rust."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A set of two operators, and its parts."""
    folder, parts = tmp_path_factory.mktemp("vectors"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sets, "PROFILE", sets.PROFILES["smoke"])
        for name, data, part in files(ASKED, library()):
            (folder / name).write_bytes(data)
            if part:
                parts[part.stated["mechanism"]] = part
    return folder, parts


@functools.cache
def sources(language, folder, *faults):
    """A folder of the example in a language, with some of its faults."""
    folder.mkdir()
    for path in HERE.iterdir():
        if path.suffix in (f".{language}", {"c": ".h"}.get(language)):
            text = path.read_text("utf-8")
            for before, after in faults if path.stem in ("kernels", "check") else ():
                text = text.replace(before, after)
            (folder / path.name).write_text(text, "utf-8")
    return folder


def built(folder, name, *, shared=False):
    """A program or a library of a source."""
    path, source = folder / (f"{name}.so" if shared else name), f"{name}"
    if (folder / f"{source}.c").exists():
        command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"{source}.c", "-lm", "-o", path]
        command += ["-shared", "-fPIC"] if shared else []
    else:
        command = ["rustc", "--edition", "2021", "-D", "warnings", f"{source}.rs", "-o", path]
        command += ["--crate-type", "cdylib"] if shared else []
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    return path


def ran(folder, vectors, name="check"):
    """What a check prints, and its exit code."""
    program = [sys.executable, folder / f"{name}.py"] if (folder / f"{name}.py").exists() else [built(folder, name)]
    done = subprocess.run([*program, "-v", vectors], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def verdicts(lines):
    """For each vector, whether it fails, and its error over its bound."""
    found = {}
    for line in lines:
        if line.startswith(("FAIL", "ok  ")):
            words = line.split()
            over = [float(words[i - 1]) for i, word in enumerate(words) if word == "x"]
            found[words[1]] = words[0] == "FAIL", over[0] if over else None
    return found


# In C, Rust and Python alike


@pytest.mark.parametrize("language", LANGUAGES)
def test_right_kernels_pass(language, made, tmp_path):
    code, lines, errors = ran(sources(language, tmp_path / "right"), made[0])
    assert (0, "") == (code, errors)
    count = {name: len(part.vectors) + len(part.relations) for name, part in made[1].items()}
    told = [f"{name} float32: 0 of {count[name]} vectors fail" for name in ("softmax", "causal_mask")]
    assert told == [line for line in lines if not line.startswith("ok")]


@pytest.mark.parametrize("language", LANGUAGES)
def test_wrong_kernels_fail_and_are_called_by_their_mistakes(language, made, tmp_path):
    for fault, expected in zip(
        FAULTS[language],
        (
            "  like softmax.base_two: Powers of two take the place of exponentials.",
            "  like causal_mask.sees_next: A query sees one key too many.",
        ),
        strict=True,
    ):
        code, lines, _ = ran(sources(language, tmp_path / expected.split()[1], fault), made[0])
        assert 1 == code
        assert expected in lines
        assert any(line.startswith("FAIL ") and " x the bound " in line for line in lines)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_mistake_that_would_fail_what_passes_is_not_the_one(language, made, tmp_path):
    _, lines, _ = ran(sources(language, tmp_path / "partly", PARTLY[language]), made[0])
    assert not any(line.startswith("  like softmax.") for line in lines)
    assert any(line.startswith("  like no known mistake; nearest is ") for line in lines)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("faulty", [False, True])
def test_verdicts_are_those_of_attnspec_case_by_case(language, faulty, made, tmp_path):
    folder = sources(language, tmp_path / "kernels", *(FAULTS[language] if faulty else ()))
    code, lines, _ = ran(folder, made[0])
    assert int(faulty) == code
    found = verdicts(lines)
    functions = kernels(language, folder)
    expected = {told.vector.name: judged(told.vector, functions) for part in made[1].values() for told in part.vectors}
    assert {name: bad for name, (bad, _) in expected.items()} == {name: found[name][0] for name in expected}
    shown = [
        name for name, (bad, _) in expected.items() if not bad
    ]  # further off, attnspec reckons with the output's unit
    np.testing.assert_allclose([expected[n][1] for n in shown], [found[n][1] for n in shown], rtol=2e-3, atol=1e-9)
    laws = {}
    for relation in (told.vector for part in made[1].values() for told in part.relations):
        laws.setdefault((relation.mechanism.name, relation.sample.key, relation.law.name), []).append(relation)
    refuted = {law: broken(relations, functions) for law, relations in laws.items()}
    assert refuted == {law: any(found[one.name][0] for one in relations) for law, relations in laws.items()}
    assert found.keys() == {*expected, *(one.name for relations in laws.values() for one in relations)}
    assert faulty == any(bad for bad, _ in expected.values()) == any(refuted.values())


def broken(relations, functions):
    """Whether a law is refuted on the results of a kernel, by attnspec."""
    first = relations[0]
    trial = Trial(first.trial.bench, first.sample, fair=False)
    for relation in relations:
        for key, call in relation.calls.items():
            inputs = [np.ascontiguousarray(x, np.float32) for x in call.inputs.values()]
            y = functions[first.mechanism.operator](*inputs, **call.options).astype(np.float64)
            trial.replies[key] = Reply({first.mechanism.outputs[0]: y})
    with np.errstate(all="ignore"):
        return evaluated(trial, first.law, first.grade).kind is Kind.REFUTED


def judged(vector, functions):
    """What attnspec says of a kernel on the case of a vector: whether it fails, and its error over its bound."""
    m, call = vector.mechanism, vector.call
    inputs = [np.ascontiguousarray(x, np.float32) for x in call.inputs.values()]
    y = functions[m.operator](*inputs, **call.options)
    trial = Trial(vector.trial.bench, vector.sample, fair=False)
    trial.replies[trial.base.key] = Reply({m.outputs[0]: y.astype(np.float64)})
    with np.errstate(all="ignore"):
        outcome = evaluated(trial, definition_law(m), vector.grade)
    return outcome.kind is Kind.REFUTED, outcome.excess


def kernels(language, folder):
    """The kernels of a folder, as functions of NumPy's arrays."""
    if language == "py":
        return {name: getattr(module(folder / "check.py"), name) for name in ("softmax", "attention")}
    if language == "rs":
        (folder / "both.rs").write_text(ADDED)
    shared = ctypes.CDLL(str(built(folder, "both" if language == "rs" else "kernels", shared=True)))

    def at(x):
        return x.ctypes.data_as(ctypes.c_void_p)

    def softmax(x):
        p = np.empty_like(x)
        shared.softmax(at(x), at(p), ctypes.c_long(x.size // x.shape[-1]), ctypes.c_long(x.shape[-1]))
        return p

    def attention(q, k, v, *, causal=False, scale=None):
        sizes = [*q.shape[:2], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3]]
        out, weights = np.empty((*q.shape[:3], v.shape[3]), np.float32), np.empty(k.shape[2], np.float32)
        scale = ctypes.c_float(q.shape[3] ** -0.5 if scale is None else scale)
        shared.attention(*map(at, (q, k, v, out, weights)), *map(ctypes.c_long, sizes), scale, int(causal))
        return out

    return {"softmax": softmax, "attention": attention}


def module(path):
    """A file of Python beside the checker."""
    sys.modules["attnspec_vectors"] = checker()
    found = importlib.util.module_from_spec(spec := importlib.util.spec_from_file_location("check_of_vectors", path))
    spec.loader.exec_module(found)
    del sys.modules["attnspec_vectors"]
    return found


@functools.cache
def checker():
    path = HERE / "attnspec_vectors.py"
    found = importlib.util.module_from_spec(spec := importlib.util.spec_from_file_location("attnspec_vectors", path))
    sys.modules["attnspec_vectors"] = found  # dataclasses look for the module of their class
    spec.loader.exec_module(found)
    return found


# Every dtype, and what is refused

BITS = np.arange(256, dtype=np.uint8)
STORED = {
    "F64": np.array([0.1, -1e300, np.inf]),
    "F32": np.array([0.1, -1e-45, np.nan], np.float32),
    "F16": np.arange(2**16, dtype=np.uint16).view(np.float16),
    "BF16": np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16),
    "F8_E4M3": BITS.view(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": BITS.view(ml_dtypes.float8_e5m2),
    "I64": np.array([-3, 2**40]),
    "I8": BITS.view(np.int8),
    "U8": BITS,
    "BOOL": np.array([[True, False]]),
}
IDENTITY = {
    "c": """#include "attnspec_vectors.h"
static int identity(av_vector *v) {
    const av_tensor *x = av_input(v, "x");
    if (av_flag(v, "other") || !av_only(v, "x word") || strcmp(av_text(v, "word", ""), "a b")) return AV_NOT_TAKEN;
    for (long i = 0; i < av_count(v, "y"); i++) av_output(v, "y")[i] = av_entry(x, i);
    return AV_DONE;
}
int main(int argc, char **argv) { return av_main(argc, argv, (av_kernel[]){{"identity", identity}, {0}}); }
""",
    "rs": """#![allow(dead_code)]
mod attnspec_vectors;
use attnspec_vectors::{Taken, Vector};
fn identity(v: &Vector) -> Taken {
    if v.flag("other") || !v.only(&["x", "word"]) || v.text("word") != Some("a b") { return None; }
    Some(vec![("y", v.input("x")?.entries())])
}
fn main() { attnspec_vectors::main(&[("identity", &identity)]) }
""",
    "py": """import attnspec_vectors
def identity(x, *, word=""):
    assert word == "a b"
    return x
if __name__ == "__main__":
    raise SystemExit(attnspec_vectors.main({"identity": identity}))
""",
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A set by hand, in which a kernel returns what it is given; and one vector that it does not take."""
    folder, tensors, vectors = tmp_path_factory.mktemp("stored"), {}, []
    lines = ["attnspec-vectors 2", "mechanism identity any fp64 identity all.safetensors"]
    for name, x in {**STORED, "other": BITS}.items():
        options = {"other": True} if name == "other" else {"word": "a b"}
        with np.errstate(invalid="ignore"):
            entries = x.astype(np.float64)
        tensors |= {f"{name}/x": x, f"{name}/y.expected": entries, f"{name}/y.bound": np.zeros_like(entries)}
        lines += [f"vector {name} definition all of {name}", "input x", "output y"]
        lines += [f"option {option} {json.dumps(value)}" for option, value in options.items()]
        vectors.append(
            {"name": name, "mechanism": "identity", "dtype": "any", "law": "definition", "case": "all", "refutes": {}}
            | {"options": options, "inputs": {"x": {"tensor": f"{name}/x", "required": True}}}
            | {"outputs": {"y": {"expected": f"{name}/y.expected", "bound": f"{name}/y.bound"}}}
        )
    stated = {
        "mechanism": "identity",
        "operator": "identity",
        "dtype": "any",
        "file": "all.safetensors",
        "mistakes": {},
    }
    (folder / "all.safetensors").write_bytes(encoded(tensors))
    (folder / "index.txt").write_text("\n".join(lines) + "\n")
    (folder / "index.json").write_text(
        json.dumps({"format": 2, "mechanisms": [stated], "vectors": vectors, "relations": []})
    )
    return folder


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_dtype_is_read_bit_for_bit_and_what_is_not_taken_is_counted(language, stored, tmp_path):
    folder = sources(language, tmp_path / "identity")
    (folder / f"identity.{language}").write_text(IDENTITY[language])
    code, lines, errors = ran(folder, stored, "identity")
    assert (0, "") == (code, errors)
    assert f"identity any: 0 of {len(STORED)} vectors fail, 1 not taken" == lines[-1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_not_a_set_is_told_and_nothing_taken_is_no_pass(language, stored, made, tmp_path):
    folder = sources(language, tmp_path / "identity")
    (folder / f"identity.{language}").write_text(IDENTITY[language])
    assert 5 == ran(folder, made[0], "identity")[0]
    for name, text in (("index.txt", "attnspec-vectors 1\n"), ("index.json", '{"format": 1}')):
        (tmp_path / name).write_text(text)
    code, _, errors = ran(folder, tmp_path, "identity")
    assert code
    assert "format" in errors


# Several calls


# The checker of Python


def test_a_kernel_of_another_convention_is_told_so(made, capsys):
    softmax = kernels("py", HERE)["softmax"]

    def with_nans(x):
        return np.where(np.isneginf(x).all(-1, keepdims=True), np.nan, softmax(x))

    found = checker().check(made[0], {"softmax": with_nans})
    assert any(excess > 1 for excess in found.values())
    assert "  like empty_row = nans: A row of minus infinities gives NaN." in capsys.readouterr().out.splitlines()


def test_a_mistake_that_nobody_knows_is_not_called_by_a_name(made, capsys):
    checker().check(made[0], {"softmax": np.zeros_like})
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.startswith("  like no known mistake; nearest is ")


def test_another_shape_is_wrong(made):
    found = checker().check(made[0], {"softmax": lambda x: x[..., :1]}, say=lambda line: None)
    assert np.inf in found.values()


def test_an_output_that_is_not_the_main_one_need_not_be_returned(made):
    attention = kernels("py", HERE)["attention"]
    found = checker().check(made[0], {"attention": lambda q, k, v, **more: {"out": attention(q, k, v, **more)}})
    assert found
    assert not any(excess > 1 for excess in found.values())


def test_a_kernel_that_returns_nothing_is_told(made):
    with pytest.raises(ValueError, match="the kernel returns no p"):
        checker().check(made[0], {"softmax": lambda x: {}})
