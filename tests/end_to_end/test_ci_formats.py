"""What CI servers read of a real run, of which every verdict occurs, is what their schemas ask for."""

import datetime
import json
from pathlib import Path

import pytest
import xmlschema
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.reporting.results import read

SCHEMA = Path(__file__).with_name("junit.xsd")
KERNELS = """
import numpy as np
import torch
from attnspec import adapter


def softmax(x):
    with np.errstate(all="ignore"):
        p = np.exp(x - x.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True)


@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def half(x):
    return softmax(x) / 2


@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def raises(x):
    raise ValueError("no rows \\x1b[31m")


@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def excused(x):
    return softmax(x) * (0.5 if x.shape[-1] > 2 else 1)


@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def right(x):
    return softmax(x)


@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def refuses(x):
    from attnspec import Unsupported

    raise Unsupported("not today")
"""
ASKED = "--mechanism softmax --mechanism causal_mask --dtype float32 --no-isolate --profile smoke --fail-on new"


def attnspec(*args):
    return CliRunner().invoke(main, list(args))


def ruined(attend):
    """Torch's attention on a CPU with a causal flag and a scale that is not positive, wherever this runs."""

    def attention(q, k, v, *, is_causal=False, scale=None, **more):
        out = attend(q, k, v, is_causal=is_causal, scale=scale, **more)
        return out * float("nan") if is_causal and scale is not None and scale <= 0 else out

    return attention


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder of a run with right, wrong, raising, refusing, waived and known subjects."""
    import torch

    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("ci")
        patch.chdir(folder)
        function = torch.nn.functional.scaled_dot_product_attention
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", ruined(function))
        Path("kernels.py").write_text(KERNELS)
        attnspec("check", "kernels.py:excused", *ASKED.split())
        (key,) = (path.stem for path in Path("attnspec-report/cases").glob("*.json"))
        last = (datetime.date.today() + datetime.timedelta(30)).isoformat()
        answers = ("--issue", "https://example.org/1", "--owner", "@me", "--reason", "mended soon", "--expires", last)
        assert attnspec("waive", key, *answers, "--waivers", "waivers.yaml").exit_code == 0
        attnspec("check", "kernels.py", "torch_sdpa", *ASKED.split(), "--waivers", "waivers.yaml")
        attnspec("report", "--sarif", "found.sarif", "--gitlab", "found.json")
        yield folder


def told(folder):
    """What each element of the JUnit file begins with, by its name."""
    (suite,) = xmlschema.XMLResource(folder / "attnspec-report/junit.xml").root
    return {
        (e.tag, (e.get("message") or "").partition(":")[0].split(" ")[0])
        for case in suite.iter("testcase")
        for e in case
    }


def test_every_verdict_occurs(ran):
    lines = read(ran / "attnspec-report/results.ndjson")
    verdicts = {line["verdict"] for line in lines if line["kind"] == "cell"}
    assert {"pass", "fail", "error", "waived", "not_declared", "not_tested"} == verdicts
    assert any(line.get("finding") for line in lines)


def test_the_junit_file_is_what_jenkins_reads(ran):
    xmlschema.XMLSchema(SCHEMA).validate(ran / "attnspec-report/junit.xml")
    kinds = told(ran)
    assert {"skipped", "failure", "error"} == {tag for tag, _ in kinds}
    assert {"waived", "known", "not_declared", "not_tested"} <= {says for tag, says in kinds if tag == "skipped"}


def test_the_junit_file_says_what_was_asked_and_of_which_versions(ran):
    (suite,) = xmlschema.XMLResource(ran / "attnspec-report/junit.xml").root
    found = {one.get("name"): one.get("value") for one in suite.find("properties")}
    assert ("smoke", "0", "new") == tuple(found[name] for name in ("profile", "seed", "fail_on"))
    assert ("violated", "conformant") == (found["verdict.half"], found["verdict.right"])
    assert "version.torch" in found


def test_a_waiver_says_how_many_days_are_left(ran):
    assert "30 days left" in (ran / "attnspec-report/junit.xml").read_text()
    assert "30 days left" in (ran / "found.json").read_text()
    assert "30 days left" in (ran / "found.sarif").read_text()


def test_what_is_known_names_its_finding_everywhere(ran):
    names = [(ran / name).read_text() for name in ("attnspec-report/junit.xml", "found.json", "found.sarif")]
    assert [True] * 3 == ["torch-causal-scale" in text for text in names]


def test_code_scanning_reads_the_same_run(ran):
    sarif = pytest.importorskip("sarif_pydantic")
    found = sarif.Sarif.model_validate(json.loads((ran / "found.sarif").read_text()))
    assert {"error", "note"} <= {result.level for result in found.runs[0].results}
