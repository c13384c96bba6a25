"""From what people type to subjects."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.applicability import undeclared
from attnspec.errors import TargetError, UsageError
from attnspec.execution.sources import compiles, guess_frameworks
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import mistake, resolve, subject, undecorated

ADAPTERS = """
from attnspec import adapter
from attnspec.adapters.torch.softmax import torch_softmax

@adapter("softmax", framework="numpy", conventions={"empty_row": "zeros"})
def first(x):
    ...

@adapter("softmax", name="second-kernel")
def second(x):
    "One sentence.\\nAnother."

def fused_softmax(x):
    ...
"""


@pytest.fixture
def folder(monkeypatch):
    """A folder of modules that can be imported, the working directory."""
    monkeypatch.syspath_prepend(str(Path.cwd()))
    return Path.cwd()


def names(target, **more):
    return [one.name for one in resolve(target, **more)]


def refused(target, **more):
    with pytest.raises((TargetError, UsageError)) as caught:
        resolve(target, **more)
    return str(caught.value)


# Names


def test_a_shipped_adapter_is_a_target():
    (one,) = resolve("torch_softmax")
    assert ("torch_softmax", "softmax", True) == (one.name, one.operator, one.claims.declared)
    assert ("float32", "bfloat16", "float16", "float64") == one.claims.dtypes


def test_the_reference_is_a_subject_of_every_operator():
    operators = {m.operator for m in library().values()}
    assert operators == {one.operator for one in resolve("reference")}
    assert {"reference"} == set(names("reference"))


NO_SCALE, NEVER = "attention.no_scale", "attention_dropout.never"


def test_a_known_mistake_is_a_subject():
    (one,) = resolve("mistake:attention.no_scale")
    assert ("mistake:attention.no_scale", "attention") == (one.name, one.operator)


def test_a_known_mistake_is_not_called_without_inputs_that_its_mechanism_adds():
    claims = mistake("quantized_cache.key_scale_ignored").claims
    assert "is never called without k_scale" == undeclared(library()["cached_attention"], claims)
    assert None is undeclared(library()["quantized_cache"], claims)


def test_a_known_mistake_claims_no_option_that_its_definition_leaves_alone():
    ignored = {name: {"dropout_p", "seed", "causal"} - mistake(name).claims.names for name in (NO_SCALE, NEVER)}
    assert {NO_SCALE: {"dropout_p", "seed"}, NEVER: set()} == ignored


# Files


def test_a_file_stands_for_the_adapters_that_it_declares_itself(folder):
    (folder / "kernels.py").write_text(ADAPTERS)
    assert ["first", "second-kernel"] == names("kernels.py")


@pytest.mark.parametrize(
    ("function", "name", "declared"),
    [("first", "first", True), ("second", "second-kernel", True), ("fused_softmax", "fused_softmax", False)],
)
def test_a_function_of_a_file_is_a_target_decorated_or_not(folder, function, name, declared):
    (folder / "kernels.py").write_text(ADAPTERS)
    (one,) = resolve(f"kernels.py:{function}")
    assert (name, "softmax", declared) == (one.name, one.operator, one.claims.declared)


@pytest.mark.parametrize(("framework", "made"), [("numpy", "np.asarray"), ("torch", "torch.as_tensor")])
def test_the_framework_of_a_plain_function_is_what_its_file_uses(folder, framework, made):
    (folder / "plain.py").write_text(f"import numpy as np\nimport torch\n\ndef kernel(x):\n    return {made}(x)\n")
    (one,) = resolve("plain.py:kernel", operator="softmax")
    assert ("softmax", framework) == (one.operator, one.adapter.framework)


def test_a_file_may_import_what_lies_beside_it_and_leaves_no_trace_in_the_path():
    Path("beside_kernels.py").write_text("TWO = 2\n")
    Path("kernels.py").write_text("from beside_kernels import TWO\n" + ADAPTERS)
    before = list(sys.path)
    assert ["first", "second-kernel"] == names("kernels.py")
    assert before == sys.path


def test_a_file_is_loaded_once(capsys):
    Path("kernels.py").write_text(ADAPTERS + "\nprint('loaded')\n")
    assert names("kernels.py") == names(str(Path("kernels.py").resolve()))
    assert "loaded\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "x = 1\n",
            "f.py declares no adapter; decorate a function with @attnspec.adapter(...), or name one, as in f.py:f",
        ),
        ("\n\nx = 1 / 0\n", "f.py cannot be imported, line 3: ZeroDivisionError: division by zero"),
        ("import nothing_such\n", "f.py cannot be imported, line 1: ModuleNotFoundError: No module named 'nothing_s"),
        ("\ndef f(:\n", "f.py cannot be imported, line 2: SyntaxError: "),
        ("import sys\nsys.exit(0)\n", "f.py cannot be imported, line 2: SystemExit: 0"),
        (
            "from attnspec import adapter\n@adapter('sofmax')\ndef f(x): ...\n",
            "f.py:2: f: unknown operator 'sofmax'; did you m",
        ),
        (
            "from attnspec import adapter\n@adapter()\ndef f(x): ...\n",
            "f.py:2: operator is '' (a str); expected the name ",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(text, says):
    Path("f.py").write_text(text)
    assert refused("f.py").startswith(says)


def test_a_file_that_failed_is_read_again():
    Path("f.py").write_text("x = 1 / 0\n")
    refused("f.py")
    Path("f.py").write_text(ADAPTERS)
    assert ["first", "second-kernel"] == names("f.py")


@pytest.mark.parametrize(
    ("target", "more", "says"),
    [
        ("no/such.py", {}, "no such file: no/such.py"),
        ("no/such.py:kernel", {}, "no such file: no/such.py"),
        ("kernels.py:fist", {}, "kernels.py has no function 'fist'; did you mean 'first'?"),
        ("kernels.py:adapters", {}, "kernels.py has no function 'adapters'"),
        ("kernels.py:plain", {}, "the name 'plain' does not say which operator it is; add --operator NAME ("),
        (
            "kernels.py:plain",
            {"operator": "sofmax"},
            "kernels.py:16: plain: unknown operator 'sofmax'; did you mean 'softmax'?",
        ),
        ("kernels.py:fused_softmax", {"framework": "jaxx"}, "kernels.py:13: fused_softmax: unknown framework 'jaxx'"),
        ("torch_softmx", {}, "unknown target 'torch_softmx'; did you mean 'torch_softmax'?"),
        ("qq", {}, "unknown target 'qq'; a file is given as path/to/file.py, and 'attnspec list adapters' lists them"),
        ("mistake:softmax.base_to", {}, "softmax has no mistake 'base_to'; did you mean 'base_two'?"),
        ("mistake:sofmax.base_two", {}, "unknown mechanism 'sofmax'; did you mean 'softmax'?"),
    ],
)
def test_a_target_that_names_nothing_is_refused(target, more, says):
    Path("kernels.py").write_text(ADAPTERS + "\ndef plain(x):\n    ...\n")
    assert refused(target, **more).startswith(says)


# Guesses


def test_annotations_say_more_than_the_names_in_use():
    def kernel(x: np.ndarray):
        import torch

        return torch.nn

    assert ("numpy",) == guess_frameworks(kernel, None)


@pytest.mark.parametrize(
    ("imported", "perhaps"),
    [((), ("torch", "numpy")), (("json", "jax"), ("jax",)), (("jax", "numpy"), ("numpy", "jax"))],
)
def test_a_file_that_does_not_show_its_framework_leaves_several_to_try(imported, perhaps):
    module = ModuleType("file")
    vars(module).update({name: ModuleType(name) for name in imported})
    assert perhaps == guess_frameworks(len, module)


def test_what_a_framework_has_compiled_shows_by_its_type():
    kind = type("PjitFunction", (), {"__module__": "jaxlib._jax", "__call__": lambda self: None})
    compiled = lambda: None  # noqa: E731 - as torch.compile marks what it returns
    compiled._torchdynamo_orig_callable = len
    assert (True, True, False) == (compiles(kind()), compiles(compiled), compiles(lambda: None))


# Adapters of other packages


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ("package='nothing_such'", "kernel needs nothing_such, which is not installed: pip install nothing_such"),
        (
            "package='nothing_such.ops'",
            "kernel needs nothing_such.ops, which is not installed: pip install nothing_such",
        ),
        (
            "package='nothing', extra='onnx'",
            "kernel needs nothing, which is not installed: pip install 'attnspec[onnx]'",
        ),
    ],
)
def test_an_adapter_whose_package_is_missing_says_how_to_install_it(declared, says):
    Path("k.py").write_text(f"from attnspec import adapter\n@adapter('softmax', {declared})\ndef kernel(x): ...\n")
    assert says == refused("k.py")


# Declarations


@pytest.mark.parametrize(
    ("function", "more", "says"),
    [
        (lambda: 0, {}, "softmax passes 1 inputs by position (x)"),
        (lambda x, y: 0, {}, "the parameter 'y' is not an input or option of softmax"),
        (lambda x: 0, {"framework": "numpi"}, "unknown framework 'numpi'; did you mean 'numpy'?"),
        (lambda x: 0, {"dtypes": ("flot32",)}, "unknown dtype 'flot32'; did you mean 'float32'?"),
        (lambda x: 0, {"conventions": {"empty": "zeros"}}, "unknown convention 'empty'; did you mean 'empty_row'?"),
        (lambda x: 0, {"conventions": {"empty_row": "nan"}}, "empty_row is one of zeros, nans, mean_value, not 'nan'"),
        (lambda x: 0, {"limits": {"rowz": (1,)}}, "limits and fixed take sizes and options, not 'rowz'"),
    ],
)
def test_a_wrong_declaration_is_refused_by_name(function, more, says):
    adapter = Adapter(**{"name": "kernel", "operator": "softmax", "function": function, "framework": "numpy", **more})
    with pytest.raises((TargetError, UsageError)) as caught:
        subject(adapter)
    place = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
    assert str(caught.value).startswith(f"{place}: kernel: {says}")


def test_a_plain_function_is_summed_up_by_its_first_line():
    def fused_softmax(x):
        """One sentence.

        And more.
        """

    adapter = undecorated(fused_softmax, "fused_softmax", None, None)
    assert ("softmax", "One sentence.") == (adapter.operator, adapter.summary)
