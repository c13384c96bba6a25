"""What an adapter declares, and the adapters that are shipped."""

import ast
import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import attnspec
from attnspec import adapters
from attnspec.adapters import Adapter, Unsupported, adapter, registered
from attnspec.cases.profiles import PROFILES
from attnspec.errors import TargetError, UsageError
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.runs.groups import groups
from attnspec.runs.options import Options
from attnspec.subjects import registered as registering
from attnspec.subjects.registered import find, installed, shipped
from attnspec.subjects.targets import resolve, subject

FOLDER = Path(__file__).resolve().parents[2] / "adapters"
ADAPTERS = shipped()
SHIPPED = [one.name for one in ADAPTERS]


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(adapters, "_registered", list(registered()))


# The decorator


def test_a_declaration_is_registered_and_the_function_unchanged():
    def kernel(x):
        """One sentence.

        And more.
        """
        return x

    assert kernel is adapter("softmax")(kernel)
    (*_, last) = registered()
    assert Adapter("kernel", "softmax", kernel, "torch", summary="One sentence.") == last
    assert __name__ == last.module


def test_a_declaration_keeps_what_was_said():
    said = {
        "framework": "numpy",
        "name": "fast",
        "dtypes": ["float32", "bfloat16"],
        "conventions": {"empty_row": "zeros"},
        "limits": {"n": range(1, 9)},
        "fixed": {"causal": True},
        "grade": {"bfloat16": "bf16_naive"},
        "deterministic": True,
        "compiled": True,
        "slow": True,
        "interpreted": "an interpreter",
        "devices": ["cuda"],
        "package": "kernels.ops",
        "extra": "fast",
    }
    adapter("attention", **said)(len)
    last = registered()[-1]
    assert {**said, "dtypes": ("float32", "bfloat16"), "devices": ("cuda",)} == {
        name: getattr(last, name) for name in said
    }
    said["conventions"]["empty_row"] = "nans"
    assert {"empty_row": "zeros"} == last.conventions


def test_one_dtype_may_be_given_as_a_text():
    adapter("softmax", dtypes="float16")(len)
    assert ("float16",) == registered()[-1].dtypes


def test_public_names_are_those_of_the_package():
    assert (adapter, Adapter, Unsupported) == (attnspec.adapter, attnspec.Adapter, attnspec.Unsupported)


def test_an_import_from_the_repository_makes_no_second_registry():
    spec = importlib.util.spec_from_file_location("adapters", FOLDER / "__init__.py")
    with pytest.raises(ImportError, match=r"this folder is the package attnspec\.adapters; do not import it as 'adap"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_two_adapters_of_one_name_are_refused():
    declaration = "@adapter('softmax', framework='numpy')\ndef kernel(x):\n    return x\n"
    for name in ("one.py", "two.py"):
        Path(name).write_text(f"from attnspec import adapter\n\n{declaration}")
    with pytest.raises(UsageError, match="two subjects are named 'kernel'; rename one"):
        groups(Options(targets=("one.py", "two.py")))


# Signatures


@pytest.mark.parametrize(
    ("function", "operator", "says"),
    [
        (lambda q, k: q, "attention", "attention passes 3 inputs by position (q, k, v)"),
        (lambda q, k, v, window: q, "attention", "the parameter 'window' is not an input or option of attention"),
        (
            lambda q, k, v, *, casual: q,
            "attention",
            "the parameter 'casual' is not an input or option of attention; did",
        ),
        (lambda heads, length: 0, "alibi_slopes", "the parameter 'length' is not an input or option of alibi_slopes"),
    ],
)
def test_a_signature_that_cannot_serve_the_operator_is_refused(function, operator, says):
    with pytest.raises(TargetError) as caught:
        subject(Adapter("kernel", operator, function, "numpy"))
    assert f"kernel: {says}" in str(caught.value)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda q, k, v: q, set()),
        (lambda q, k, v, *, causal=False, scale=None: q, {"causal", "scale"}),
        (lambda q, k, v, mask=None: q, {"mask"}),
        (lambda *inputs, causal=False: inputs, {"causal"}),
        (lambda q, k, v, *, block=16: q, set()),
    ],
)
def test_a_signature_claims_the_options_that_it_names(function, names):
    assert names == subject(Adapter("kernel", "attention", function, "numpy")).claims.names


# Calls


def softmax(x, *, fault=None):
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)


def unsupported_beyond_16(x):
    if x.shape[-1] > 16:
        raise Unsupported("16 entries at most")
    return softmax(x)


def never(x):
    raise Unsupported


@pytest.mark.parametrize(
    ("function", "verdict", "says"), [(unsupported_beyond_16, "pass", ""), (never, "not_declared", "unsupported")]
)
def test_what_is_unsupported_is_neither_right_nor_wrong(function, verdict, says):
    one = subject(Adapter("kernel", "softmax", function, "numpy", conventions={"empty_row": "zeros"}))
    request = Request(one, library()["softmax"], "float32", PROFILES["quick"], laws=frozenset({"definition", "share"}))
    assert {(verdict, says)} == {(cell.verdict, cell.says) for cell in run(request).cells}


# Devices, and what takes long


def for_cuda():
    declaration = "@adapter('softmax', framework='numpy', devices='cuda')\ndef kernel(x):\n    return x\n"
    Path("kernels.py").write_text(f"from attnspec import adapter\n\n{declaration}")
    return "kernels.py"


@pytest.mark.parametrize("target", ["kernels.py", "kernels.py:kernel"])
def test_an_adapter_for_another_device_is_not_run(target):
    for_cuda()
    with pytest.raises(TargetError) as caught:
        groups(Options(targets=(target,)))
    assert "kernel does not run on cpu; add --device cuda" == str(caught.value)


def test_an_adapter_is_resolved_for_a_device_of_its_kind():
    for_cuda()
    assert ["kernel"] == [one.name for one in resolve("kernels.py", device="cuda:1")]


# What is shipped


def test_no_two_of_those_that_come_along_have_one_name():
    shipped()
    modules = {*registering.families("controls"), *registering.families("faults"), *registering.families()}
    names = [one.name for one in registered() if one.module in modules]
    assert len(names) > len(SHIPPED)
    assert [] == [name for name, count in Counter(names).items() if count > 1]


@pytest.mark.parametrize("one", ADAPTERS, ids=SHIPPED)
def test_a_shipped_adapter_serves_its_operator_where_it_is_installed(one):
    if installed(one):
        assert (one.name, one.operator) == (subject(one).name, subject(one).operator)
        assert set(one.devices) <= {"cuda"}
    else:
        with pytest.raises(TargetError, match=r"which is not installed: (pip install |build it from source)"):
            subject(one)


@pytest.mark.parametrize("one", ADAPTERS, ids=SHIPPED)
def test_a_shipped_adapter_says_what_it_presents(one):
    assert one.summary.endswith(".")
    assert one.package


def test_shipped_adapters_have_names_of_their_own():
    assert len(SHIPPED) == len(set(SHIPPED))
    assert {"torch_sdpa", "torch_softmax", "transformers_eager", "onnx_reference"} <= set(SHIPPED)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_frameworks_are_imported_inside_the_calls(path):
    tree = ast.parse(path.read_text())
    names = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in tree.body if isinstance(node, ast.ImportFrom) and not node.level]
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_a_declaration_can_be_read_with_nothing_installed():
    script = "import sys; sys.modules.update(dict.fromkeys(['torch', 'onnx', 'transformers'])); "
    script += "from attnspec.subjects.registered import shipped; print(*(adapter.name for adapter in shipped()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (SHIPPED, "") == (done.stdout.split(), done.stderr)


def test_torch_shares_keys_among_the_queries_of_a_group():
    one = subject(find("torch_sdpa"))
    cells = run(Request(one, library()["grouped_query"], "float32", PROFILES["quick"])).cells
    assert [] == [cell.law for cell in cells if cell.bad]
    assert "pass" == next(cell.verdict for cell in cells if cell.law == "repeated")


@pytest.mark.parametrize(
    "call",
    [
        lambda torch: find("llama_mlp").function(torch.ones(1, 2), *[torch.ones(2, 2)] * 3),
        lambda torch: find("phi3_mlp").function(torch.ones(1, 2), *[torch.ones(2, 2)] * 3),
        lambda torch: find("opt_positions").function(torch.ones(1, 3, 4), torch.ones(3, 4)),
        lambda torch: find("marian_table").function(length=3, dim=4),
    ],
    ids=["llama_mlp", "phi3_mlp", "opt_positions", "marian_table"],
)
def test_a_layer_that_is_made_in_a_call_leaves_the_random_state_alone(call):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    torch.manual_seed(1)
    before = torch.get_rng_state()
    call(torch)
    assert torch.equal(before, torch.get_rng_state())


def test_an_open_side_of_a_window_of_jax_reaches_every_key():
    jax = pytest.importorskip("jax")
    from attnspec.adapters.jax.attention import jax_attention

    q, k = jax.numpy.zeros((1, 1, 5, 8)), jax.numpy.ones((1, 1, 1, 8))
    assert [0.0] * 5 == jax_attention(q, k, k, window_right=2)["lse"][0, 0].tolist()


MADE = frozenset({"arange", "as_tensor", "empty", "eye", "full", "ones", "rand", "randn", "tensor", "zeros"})
DEVICED = ("fla", "flash_attention", "flashinfer", "liger", "sageattention", "sglang", "vllm", "xformers")


def homeless(tree):
    """The lines on which torch makes an array without being told where, but for functions of compiled code for CPUs."""
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef) and "_cpu" not in node.name):
        for node in ast.walk(function):
            made = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MADE
            if made and ast.unparse(node.func.value) == "torch" and "device" not in {k.arg for k in node.keywords}:
                yield node.lineno


@pytest.mark.parametrize("path", [p for name in DEVICED for p in (FOLDER / name).glob("*.py")], ids=lambda p: p.stem)
def test_what_adapters_of_kernels_make_is_on_the_device_of_their_arrays(path):
    assert [] == [*homeless(ast.parse(path.read_text("utf-8")))]
