"""Adapters by name: whose they are, and what they need."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from attnspec import adapters
from attnspec.adapters import Adapter
from attnspec.errors import TargetError, UsageError
from attnspec.execution.declarations import checked
from attnspec.subjects import registered
from attnspec.subjects.registered import INTERPRETERS, declared_on, families, find, installed, shipped
from attnspec.subjects.targets import subject

from .test_targets import ADAPTERS, names, refused


@pytest.fixture
def folder(monkeypatch):
    """A folder of modules that can be imported, the working directory."""
    monkeypatch.syspath_prepend(str(Path.cwd()))
    return Path.cwd()


def test_every_module_of_adapters_is_a_family_or_serves_the_audit():
    paths = Path(__file__).parents[3].glob("adapters/*/[!_]*.py")
    found = {f"attnspec.adapters.{path.parent.name}.{path.stem}" for path in paths}
    assert found == {*families(), *families("controls"), *families("faults")}
    assert "attnspec.adapters.controls.attention" in families("controls")
    assert "attnspec.adapters.faults.tiles" in families("faults")
    assert {adapter.module for adapter in shipped()} <= set(families())  # some are there for others alone


@pytest.fixture
def package(folder):
    """A distribution that registers a module of adapters."""

    def make(module, text):
        info = folder / "kernel_package-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kernel-package\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[attnspec.adapters]\nkernels = {module}\n")
        (folder / f"{module.partition(':')[0]}.py").write_text(text)

    return make


@pytest.mark.parametrize("end", ["", ":first"])
def test_a_package_registers_adapters_by_an_entry_point(package, request, end):
    module = f"kernels_of_{request.node.callspec.indices['end']}"
    package(module + end, ADAPTERS)
    assert "first" == find("first").name
    assert ["second-kernel"] == names("second-kernel")
    assert module in {adapter.module for adapter in shipped()}


def test_an_entry_point_that_cannot_be_loaded_is_said(package):
    package("kernels_broken", "import nothing_such\n")
    says = "the entry point 'kernels' (kernels_broken) cannot be loaded: No module named 'nothing_such'"
    assert says == refused("anything")


def test_what_is_interpreted_is_installed_along_with_its_interpreter(monkeypatch):
    interpreted = Adapter("interpreted", "softmax", print, "torch", package="torch", interpreted="Triton's interpreter")
    monkeypatch.setitem(INTERPRETERS, "Triton's interpreter", "no_such_interpreter")
    assert not installed(interpreted)
    monkeypatch.setitem(INTERPRETERS, "Triton's interpreter", "numpy")
    assert installed(interpreted)


def test_all_adapters_are_those_that_are_installed_run_on_the_device_and_are_not_slow(monkeypatch):
    def declared(name, **more):
        return Adapter(name, "softmax", len, "numpy", **more)

    offered = [
        declared("plain"),
        declared("elsewhere", devices=("cuda",)),
        declared("patient", slow=True),
        declared("missing", package="no_such_package"),
    ]
    monkeypatch.setattr(registered, "shipped", lambda: offered)
    assert ["plain"] == registered.every_one("cpu")
    assert ["plain", "elsewhere"] == registered.every_one("cuda:0")


@pytest.mark.parametrize(("kind", "found"), [("controls", registered.variants), ("faults", registered.faults)])
def test_two_functions_of_one_name_are_refused_with_both_places(folder, monkeypatch, kind, found):
    modules = [f"one_of_{kind}", f"other_of_{kind}"]
    for module in modules:
        Path(f"{module}.py").write_text(ADAPTERS)
    monkeypatch.setattr(adapters, "_registered", [])
    monkeypatch.setattr(registered, "families", lambda audited: modules if audited == kind else [])
    first = importlib.import_module(modules[0])
    importlib.reload(first)  # which declares again what stays one function
    assert "first" in found()
    importlib.import_module(modules[1])
    says = rf"{modules[0]}.py:\d+ and {modules[1]}.py:\d+ both declare the adapter 'first'; rename one of them"
    with pytest.raises(TargetError, match=says):
        found()


def test_a_package_does_not_replace_a_shipped_adapter(package, monkeypatch):
    monkeypatch.setattr(adapters, "_registered", list(adapters.registered()))
    package("kernels_again", ADAPTERS.replace("def first", "def torch_sdpa"))
    assert refused("torch_sdpa").endswith(" both declare the adapter 'torch_sdpa'; rename one of them")


ON_CUDA = {"limits": {"k_len": (64,)}, "requires": "q_len > 1", "dtypes": "bfloat16", "grade": "bf16_naive"}
KERNEL = Adapter(
    "kernel",
    "attention",
    lambda q, k, v: q,
    "torch",
    dtypes=("float32",),
    limits={"head_dim": (8, 16), "k_len": (1, 2)},
    requires=("q_len == k_len",),
    on={"cuda": ON_CUDA},
)


def test_what_is_declared_for_a_device_comes_on_top_of_the_rest():
    found = declared_on(checked(KERNEL), "cuda:1")
    assert ({"head_dim": (8, 16), "k_len": (64,)}, ("q_len == k_len", "q_len > 1")) == (found.limits, found.requires)
    assert (("bfloat16",), "bf16_naive", KERNEL.name) == (found.dtypes, found.grade, found.name)


@pytest.mark.parametrize("device", ["cpu", None, "mps:0"])
def test_elsewhere_it_is_left_out(device):
    assert checked(KERNEL) == declared_on(checked(KERNEL), device)


@pytest.mark.parametrize(
    ("on", "says"),
    [
        ({"cuda": {"limit": {}}}, "on is .* with 'limit', where there may be dtypes, conventions, limits, fixed, "),
        ({"cuda": 5}, "on is .*; expected a dict of kinds of devices and what is declared for each"),
        ({"cuda": {"limits": {"k_len": ()}}}, "limits is .* with no value for 'k_len'"),
    ],
)
def test_what_is_declared_wrongly_for_any_device_is_an_error(on, says):
    with pytest.raises(UsageError, match=says):
        declared_on(checked(replace(KERNEL, on=on)), "cpu")


def test_a_subject_is_that_of_its_device():
    one = subject(KERNEL, device="cuda")
    assert (("bfloat16",), (64,)) == (one.adapter.dtypes, one.claims.limits["k_len"])
