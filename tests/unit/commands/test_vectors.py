"""`attnspec vectors` writes a folder, and says what it refutes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main


def run(*words):
    result = CliRunner().invoke(main, ["vectors", *words])
    return result.exit_code, result.output


def test_a_set_is_written_and_told():
    code, told = run("softmax", "-o", "vectors")
    assert 0 == code
    assert "softmax float32: 4 of 41 vectors refute 16 of 16 known mistakes, 3 of several calls 12 of them" in told
    assert "  empty_row = zeros" in told
    assert {"index.json", "index.schema.json", "index.txt", "softmax.float32.safetensors"} == {
        path.name for path in Path("vectors").iterdir()
    }


def test_a_folder_of_before_is_written_anew():
    run("decay_groups", "--seed", "1", "-o", "vectors")
    code, _ = run("dequantize", "--dtype", "float16", "-o", "vectors")
    assert 0 == code
    assert ["dequantize.float16.safetensors"] == [path.name for path in Path("vectors").glob("*.safetensors")]
    index = json.loads(Path("vectors/index.json").read_text())
    assert "attnspec vectors dequantize --dtype float16 --small --seed 0" == index["provenance"]["command"]


def test_what_is_not_of_this_command_is_left_alone():
    Path("mine").mkdir()
    Path("mine/index.json").write_text("{}")
    Path("mine/notes.md").write_text("keep")
    assert (4, "attnspec: mine exists and was not written by this command; name another folder with -o\n") == run(
        "softmax", "-o", "mine"
    )
    assert "keep" == Path("mine/notes.md").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-o", "vectors"), "name operators or mechanisms, or use --all"),
        (("softmax", "--all", "-o", "vectors"), "name operators or mechanisms, or use --all"),
        (("softmax",), "Missing option '-o'"),
        (("softmax", "--convention", "empty_row", "-o", "vectors"), "--convention takes NAME=WORD, not 'empty_row'"),
        (("softmx", "-o", "vectors"), "did you mean 'softmax'?"),
    ],
)
def test_bad_usage_is_told_and_writes_nothing(words, told):
    code, output = run(*words)
    assert 4 == code
    assert told in output
    assert not [*Path().glob("vectors/*")]
