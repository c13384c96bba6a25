"""The examples are what they say: one is right, and of the others the law and the mistake are named."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.reporting import blocks

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def check(monkeypatch):
    for name in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")

    def check(example, mechanism, profile="quick"):
        chosen = ["--mechanism", mechanism, "--profile", profile]
        result = CliRunner().invoke(main, ["check", str(EXAMPLES / f"{example}.py"), *chosen])
        assert "" == result.stderr
        return result.exit_code, result.stdout.splitlines()

    return check


def test_a_kernel_in_blocks_is_conformant(check):
    code, lines = check("blockwise_softmax", "causal_mask", "smoke")
    assert 0 == code
    assert any(line.startswith("CONFORMANT      blockwise_softmax (float32 bfloat16) ") for line in lines)
    assert not any(line.startswith("==") for line in lines if "SUMMARY" not in line)


def test_a_class_with_weights_is_conformant(check):
    code, lines = check("small_gpt", "multi_head", "smoke")
    assert 0 == code
    assert any(line.startswith("CONFORMANT      small_gpt (float32 bfloat16) ") for line in lines)
    assert not any(" refused" in line for line in lines)


def test_the_class_of_the_page_is_the_example_and_its_declaration_that_of_the_readme():
    shown = (ROOT / "docs" / "modules.md").read_text("utf-8")
    example = (EXAMPLES / "small_gpt.py").read_text("utf-8").partition('"""\n\n')[2].strip()
    assert example == shown.split("```python\n")[1].partition("```")[0].strip()
    assert example[example.index("attention = ") :] in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("example", "mechanism", "mistake"),
    [
        ("causal_off_by_one", "causal_mask", "causal_mask.sees_next: A query sees one key too many."),
        (
            "wrong_scale",
            "attention",
            "attention.model_scale: The default scale uses the model's width, all heads together.",
        ),
    ],
)
def test_a_faulty_kernel_is_called_by_its_mistake(check, example, mechanism, mistake):
    code, lines = check(example, mechanism)
    assert 1 == code
    assert any(line.startswith(f"== {example}   {mechanism}.definition   float32 cpu =") for line in lines)
    assert f"Like      {mistake}" in lines
    assert any(line.startswith(f"NOT CONFORMANT  {example} (float32) ") for line in lines)


def test_every_example_is_tried_here():
    named = {"blockwise_softmax", "causal_off_by_one", "small_gpt", "wrong_scale"}
    assert named == {path.stem for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_says_how_it_is_run(path):
    assert f"attnspec check examples/{path.name}" in path.read_text().splitlines()


def test_the_block_of_the_readme_is_what_is_printed(monkeypatch, tmp_path):
    example = "examples/causal_off_by_one.py"
    shown = (ROOT / "README.md").read_text("utf-8").partition(f"`attnspec check {example}`")[2]
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.chdir(ROOT)  # a key depends on how a target is named
    monkeypatch.setattr(blocks, "FOLDER", str(tmp_path))  # commands do not name the folder that is meant anyway
    arguments = ["check", example, "--mechanism", "attention", "--report-dir", str(tmp_path)]
    said = CliRunner().invoke(main, arguments).stdout.replace(f"{ROOT}/", "")  # where it was read from elsewhere before
    assert shown.split("```\n")[1] == said[said.index("== causal") :].partition("\n\n")[0] + "\n"
