"""Kernels of released packages, as interpreters of Triton and Pallas run them; `make interpreters` installs them."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import attnspec
from attnspec.subjects.excerpts import interpreted_excerpt
from attnspec.subjects.registered import find, installed, shipped

INTERPRETED = [one for one in shipped() if one.interpreted]
LAWS = {
    "vllm_unified_attention_both_ways": "bidirectional_pages.definition",
    "vllm_unified_attention_of_trees": "biased_pages.definition",
    "vllm_unified_attention_coded_output": "quantized_output_pages.definition",
    "vllm_unified_attention_coded_chunks": "quantized_output_cache.definition",
    "vllm_unified_attention_of_codes": "quantized_pages.definition",
    "sglang_extend_attention_masked": "masked_pages.definition",
    "fla_naive_nsa_topk": "block_selection.determined",
}
"""What those are asked for that take only what a further mechanism has, or whose outputs are not fixed by one law."""


TOGETHER = 5
"""Kernels that one run checks: its processes import a package once for all of them."""


def law_of(one):
    return LAWS.get(one.name, f"{one.operator}.definition")


def runs():
    """The kernels of each package and dtype, a few at a time; those of another law are by themselves."""
    found = defaultdict(list)
    for one in INTERPRETED:
        found[one.package, one.dtypes[0], one.name if one.name in LAWS else ""].append(one)
    return [some[at : at + TOGETHER] for some in found.values() for at in range(0, len(some), TOGETHER)]


@pytest.mark.parametrize("kernels", runs(), ids=lambda kernels: " ".join(one.name for one in kernels))
def test_kernels_give_what_their_definitions_say_but_for_what_is_known(kernels, tmp_path):
    laws = {one.name: law_of(one) for one in kernels if installed(one)}
    if not laws:
        pytest.skip(f"{kernels[0].package} or its interpreter is not installed")
    asked = [*laws, *(f"--law={law}" for law in dict.fromkeys(laws.values())), f"--dtype={kernels[0].dtypes[0]}"]
    command = [sys.executable, "-c", "from attnspec.cli import main; main()", "check", *asked]
    command += ["--profile", "smoke", "--fail-on", "new", "--report-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in (tmp_path / "results.ndjson").read_text().splitlines()]
    cells = [line for line in lines if line["kind"] == "cell"]
    told = {line["subject"]: f"{line['mechanism']}.{line['law']}" for line in cells}
    assert (0, laws, len(laws)) == (done.returncode, told, len(cells)), done.stdout
    assert {line["verdict"] for line in cells} <= {"pass", "fail"}, done.stdout
    assert len(laws) == done.stdout.count("interpreted by "), done.stdout


def test_those_that_are_interpreted_take_long_and_say_by_what():
    assert [] == [one.name for one in INTERPRETED if not one.slow]
    assert {"Triton's interpreter", "Pallas' interpret mode"} == {one.interpreted for one in INTERPRETED}


def test_arrays_pass_for_those_of_a_device_for_the_length_of_a_call_alone():
    pytest.importorskip("triton")
    script = """
import torch
from attnspec.adapters.triton.interpreter import interpreting

known = torch.cuda.get_device_capability
with interpreting():
    print(torch.ones(1).is_cuda, torch.cuda.get_device_capability())
print(torch.ones(1).is_cuda, torch.cuda.get_device_capability is known)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ["True (9, 0)", "False True"] == done.stdout.splitlines()


KERNEL = """
import torch
from attnspec.adapters.triton.interpreter import interpreting

with interpreting():
    import triton
    import triton.language as tl
    from triton.language.extra.libdevice import tanh

    @triton.jit
    def kernel(x, y, products, sums, others, stored, both, count, n: tl.constexpr):
        at = tl.arange(0, n)[:, None] * n + tl.arange(0, n)[None, :]
        a, b = tl.load(x + at), tl.load(y + at, mask=(0 < count) & (at < n * n), other=0)
        tl.store(products + at, tl.dot(a, b))
        tl.store(sums + tl.arange(0, n), tl.sum(a, 1))
        tl.store(others + at, a * b + a)
        some, more = a.to(tl.float32) > 0, b.to(tl.float32) > 0
        tl.store(both + at, (some and more).to(tl.float32) + (n > 16 or some or more).to(tl.float32))
        total = tl.zeros((n, n), dtype=tl.float32)
        for i in range(3):
            total += tanh(a.to(tl.float32)) * i.to(tl.float32)
        tl.store(stored + at, total)

    torch.manual_seed(0)
    x, y = torch.randn(2, 16, 16).bfloat16()
    products, stored, both = torch.empty(3, 16, 16)
    sums, others = torch.empty(16), torch.empty(16, 16, dtype=torch.bfloat16)
    kernel[(1,)](x, y, products, sums, others, stored, both, 1, 16)
print((products - x.float() @ y.float()).abs().max() < 1e-5)
print((sums - x.float().sum(1)).abs().max() < 0.05)
print(torch.equal(others, x * y + x))
print((stored - 3 * x.float().tanh()).abs().max() < 1e-5)
print(torch.equal(both, (x > 0).float() + (y > 0)))
"""


def test_what_the_interpreter_lacks_is_mended(tmp_path):
    pytest.importorskip("triton")
    file = tmp_path / "kernel.py"  # the interpreter reads the source of kernels
    file.write_text(KERNEL)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
    assert ["tensor(True)", "tensor(True)", "True", "tensor(True)", "True"] == done.stdout.splitlines()


CONVERSIONS = """
import torch
from attnspec.adapters.triton.interpreter import interpreting

with interpreting():
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(x, codes, n: tl.constexpr, kind: tl.constexpr):
        at = tl.arange(0, n)
        tl.store(codes + at, tl.load(x + at).to(kind))

    x = torch.cat([torch.linspace(-460, 460, 300), torch.tensor([127.0, 0.99, 17.0, 19.0, 1e4]), torch.randn(207) / 64])
    for dtype, kind in ((torch.float8_e4m3fn, tl.float8e4nv), (torch.float8_e5m2, tl.float8e5)):
        for given in (x, x.bfloat16(), x.half()):
            codes = torch.empty(512, dtype=dtype)
            kernel[(1,)](given, codes, 512, kind)
            within = given.float().clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
            print(torch.equal(codes.float(), within.to(dtype).float()))
"""


def test_the_interpreter_rounds_to_float8_as_devices_do(tmp_path):
    pytest.importorskip("triton")
    file = tmp_path / "conversions.py"
    file.write_text(CONVERSIONS)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
    assert ["True"] * 6 == done.stdout.splitlines()


def test_a_function_by_itself_is_interpreted_where_attnspec_cannot_be_imported(tmp_path):
    one = find("sglang_prefill_attention")
    if not installed(one):
        pytest.skip("SGLang or Triton is not installed")
    found = interpreted_excerpt(one.module, one.function)
    call = "sglang_prefill_attention(x, x, x, torch.tensor([3]), torch.tensor([3]), causal=True)"
    head = ["from __future__ import annotations", "import sys", "sys.modules['attnspec'] = None", "import torch"]
    end = ["x = torch.ones(3, 2, 4)", f"print(torch.equal({call}, x), 'is_cuda' in vars(torch.Tensor))"]
    file = tmp_path / "alone.py"
    file.write_text("\n".join([*head, *found.imports, found.text, *end]))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
    assert ["True False"] == done.stdout.splitlines()


CALLED = """
import torch
from attnspec.adapters.triton.interpreter import interpreting

with interpreting():
    import triton
    import triton.language as tl
    from triton.runtime import interpreter

    @triton.jit
    def twice(x):
        return x + x

    @triton.jit
    def kernel(x, n: tl.constexpr):
        at = tl.arange(0, n)
        for _ in range(20):
            tl.store(x + at, twice(tl.load(x + at)))

    counts, patch = [], interpreter._patch_builtin
    interpreter._patch_builtin = lambda *given: (counts[-1].append(None), patch(*given))
    kept = tl.load
    for _ in range(2):
        counts.append([])
        x = torch.ones(4)
        kernel[(3,)](x, 4)
        print(x.tolist() == [2.0**60] * 4, tl.load is kept)
    print(0 < len(counts[0]) == len(counts[1]) < 20)
"""


def test_functions_are_put_in_place_once_for_each_launch_and_put_back(tmp_path):
    pytest.importorskip("triton")
    file = tmp_path / "kernel.py"
    file.write_text(CALLED)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
    assert ["True True", "True True", "True"] == done.stdout.splitlines()


EXAMPLE = Path(__file__).parents[2] / "examples" / "triton" / "attention.py"


@pytest.mark.parametrize(
    ("right", "wrong", "mechanism"),
    [
        ("", "", ""),
        ('scores = tl.where(seen, scores, -float("inf"))', "scores = tl.where(seen, scores, 0.0)", "attention"),
        ("(row[:, None] >= key)", "(row[:, None] > key)", "causal_mask"),
        ("weighted = weighted * kept[:, None]", "weighted = weighted", "attention"),
        ("(wanted * out).sum(-1, keepdim=True)", "wanted.sum(-1, keepdim=True)", "attention_gradient"),
    ],
    ids=["right", "keys behind the last", "diagonal hidden", "not rescaled", "gradient"],
)
def test_a_file_of_kernels_without_a_line_of_attnspec_is_checked(right, wrong, mechanism, tmp_path):
    pytest.importorskip("triton")
    text = EXAMPLE.read_text()
    assert not right or 1 == text.count(right)
    (tmp_path / "attention.py").write_text(text.replace(right, wrong) if right else text)
    laws = ["attention.definition", "causal_mask.definition", "causal_mask.last_row", "attention_gradient.definition"]
    report = attnspec.check(f"{tmp_path / 'attention.py'}:attention", dtypes="float32", laws=laws, explain_time=0)
    failing = {cell["mechanism"] for cell in report.cells if cell["verdict"] == "fail"}
    assert bool(mechanism) == (mechanism in failing), report
    assert (not mechanism) == (not failing), failing
