"""The composite action of GitHub and the hooks of pre-commit, run as a runner would run them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
KERNEL = """
import numpy as np
from attnspec import adapter

@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"}, dtypes="float32")
def half(x):
    with np.errstate(all="ignore"):
        terms = np.exp(x - x.max(-1, keepdims=True))
        return terms / terms.sum(-1, keepdims=True) / 2
"""


@pytest.fixture(scope="module")
def action():
    return yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.fixture
def ran(action, tmp_path):
    """The steps of the action with these inputs: exit codes, and what is printed."""

    def run(**given):
        inputs = {name.replace("_", "-"): x for name, x in given.items()}
        values = {name: inputs.get(name, one["default"]) for name, one in action["inputs"].items()}
        codes, printed = [], ""
        for step in action["runs"]["steps"]:
            own = {n: values[x.removeprefix("${{ inputs.").removesuffix(" }}")] for n, x in step["env"].items()}
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            more = {"PATH": path, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
            script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(
                script, cwd=tmp_path, env=os.environ | own | more, capture_output=True, text=True, check=False
            )
            codes.append(done.returncode)
            printed += done.stdout
        return codes, printed

    return run


def test_a_faulty_kernel_fails_the_step_and_is_shown_at_its_line(ran, tmp_path):
    (tmp_path / "own.py").write_text(KERNEL)
    codes, printed = ran(targets="own.py", profile="smoke", sarif="found.sarif", html="page.html")
    assert [1, 0] == codes
    assert "::error file=own.py,line=5,title=attnspec softmax." in printed
    assert "FAIL" in (tmp_path / "summary.md").read_text()
    (first, *_) = json.loads((tmp_path / "found.sarif").read_text())["runs"][0]["results"]
    assert {"uri": "own.py"} == first["locations"][0]["physicalLocation"]["artifactLocation"]
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_a_right_kernel_passes_and_has_no_annotation(ran, tmp_path):
    (tmp_path / "own.py").write_text(KERNEL.replace(" / 2", ""))
    codes, printed = ran(targets="own.py", profile="smoke")
    assert ([0, 0], False) == (codes, "::error" in printed)


def test_what_could_not_begin_fails_by_itself(ran):
    codes, printed = ran(targets="none.py")
    assert ([6, 0], "") == (codes, printed)


def test_the_action_fits_the_published_schema(action):
    vendored = pytest.importorskip("check_jsonschema.builtin_schemas.vendor")
    (folder,) = vendored.__path__
    jsonschema.validate(action, json.loads((Path(folder) / "github-actions.json").read_text()))


@pytest.mark.parametrize(
    ("schema", "begins"),
    [("github-workflows.json", "name: conformance"), ("github-workflows.json", "jobs:"), ("gitlab-ci.json", "conform")],
)
def test_the_files_that_the_page_shows_fit_the_published_schemas(schema, begins):
    vendored = pytest.importorskip("check_jsonschema.builtin_schemas.vendor")
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/ci.md").read_text(), re.DOTALL)
    found = [yaml.load(block, yaml.BaseLoader) for block in blocks if block.startswith(begins)]
    assert found
    for document in found:
        whole = document if "on" in document or schema.startswith("gitlab") else {"on": ["push"], **document}
        jsonschema.validate(whole, json.loads((Path(vendored.__path__[0]) / schema).read_text()))


def test_the_hooks_name_commands_that_there_are():
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()):
        program, *rest = hook["entry"].split()
        asked = [str(Path(sys.executable).with_name(program)), *rest, "--help"]
        assert 0 == subprocess.run(asked, capture_output=True, check=False).returncode
        assert {"id", "name", "entry", "language"} <= hook.keys()
