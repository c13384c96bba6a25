"""What a check would not notice in a kernel is told, and what cannot be noticed is told apart."""

import pytest
from click.testing import CliRunner

from attnspec.cli import main

KERNEL = """
import numpy as np


def softmax(x):
    high = x.max(-1, keepdims=True, initial=-1e30)
    powers = np.exp(x - high)
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total > 0, total, 1.0)
"""


SMALL = """
import numpy as np

def softmax(x):
    high = np.maximum(x, -1e30).max(-1)[..., None]
    powers = np.exp(x - high + 0 * 1)
    return powers / powers.sum(-1)[..., None]
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text(KERNEL)
    return tmp_path


def mutated(*words):
    return CliRunner().invoke(
        main, ["mutate", "kernel.py:softmax", "-n", "1", "--dtype", "float32", "--drawn", "40", *words]
    )


def test_a_kernel_is_changed_and_what_survives_is_told_and_not_run_again(here):
    (here / "kernel.py").write_text(SMALL)
    first = mutated("--profile", "smoke")
    lines = first.stdout.splitlines()
    at = lines.index("    +    powers = np.exp(x - high + 0 * 2)")
    assert "    -    powers = np.exp(x - high + 0 * 1)" == lines[at - 1]
    assert lines[at - 2].startswith("equivalent  kernel.py:6  constant: gives the same bits on ")
    assert " mutants are killed; " in lines[-1]
    kept = (here / "attnspec-mutants/outcomes.ndjson").read_text().splitlines()
    again = mutated("--profile", "smoke")
    assert (first.stdout, kept) == (again.stdout, (here / "attnspec-mutants/outcomes.ndjson").read_text().splitlines())


def test_what_there_was_no_time_for_is_counted(here):
    found = mutated("--max-time", "0")
    assert (5, True) == (found.exit_code, found.stdout.splitlines()[-1].endswith("were not tried"))


def test_a_correct_variant_that_imports_others_is_changed_by_its_name(here):
    wanted = ["--mechanism", "block_sparse_attention", "--profile", "smoke", "--max-time", "0"]
    found = CliRunner().invoke(main, ["mutate", "control_blocks_by_rows", *wanted])
    assert (5, True) == (found.exit_code, found.stdout.splitlines()[-1].endswith("were not tried"))


def test_a_kernel_that_fails_as_it_is_is_not_changed(here):
    (here / "kernel.py").write_text(KERNEL.replace("np.exp(", "np.exp2("))
    found = mutated("--profile", "smoke")
    assert (4, True) == (found.exit_code, "in float32 as it is: an error of " in found.stderr)


@pytest.mark.parametrize(
    ("target", "code", "says"),
    [
        ("kernel", 6, "there is no adapter 'kernel'"),
        ("no.py", 6, "no such file: no.py"),
        ("empty.py", 5, "has nothing to mutate"),
        ("wrong.py", 6, "is not Python source code"),
    ],
)
def test_what_cannot_be_changed_is_told(here, target, code, says):
    (here / "empty.py").write_text("")
    (here / "wrong.py").write_text("def f(:")
    found = CliRunner().invoke(main, ["mutate", target])
    assert (code, True) == (found.exit_code, says in found.stderr)
