"""A plan lists the work of a check, and what runs it together finds what the check finds."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.reporting.results import read

PAGE = (Path(__file__).resolve().parents[2] / "docs/ci.md").read_text("utf-8")
KERNELS = """
import numpy as np
from attnspec import adapter


def shifted(x):
    with np.errstate(invalid="ignore"):
        p = np.exp(x - x.max(-1, keepdims=True, initial=-1e30))
    return (p / p.sum(-1, keepdims=True)).astype(x.dtype)


@adapter("softmax", framework="numpy", dtypes=("float32", "float64"))
def first(x):
    return shifted(x)


@adapter("softmax", framework="numpy", devices=("cpu",))
def second(x):
    return shifted(x)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_kernels.py").write_text(KERNELS)
    return tmp_path


def ran(*words):
    found = CliRunner().invoke(main, words)
    assert "" == found.stderr
    return found


def planned(*words):
    return json.loads(ran("plan", "my_kernels.py", *words).stdout)["include"]


def cells(*folders):
    lines = [line for folder in folders for line in read(Path(folder) / "results.ndjson")]
    return sorted((c["subject"], c["law"], c["dtype"], c["verdict"]) for c in lines if c["kind"] == "cell")


def test_a_task_is_a_subject_a_dtype_and_a_device(here):
    found = planned("--device", "cpu", "--device", "cuda")
    assert [
        ("first-float32-cpu", "my_kernels.py:first", "float32", "cpu"),
        ("first-float32-cuda", "my_kernels.py:first", "float32", "cuda"),
        ("first-float64-cpu", "my_kernels.py:first", "float64", "cpu"),
        ("first-float64-cuda", "my_kernels.py:first", "float64", "cuda"),
        ("second-float32-cpu", "my_kernels.py:second", "float32", "cpu"),
    ] == sorted((one["id"], one["target"], one["dtype"], one["device"]) for one in found)


def test_options_go_into_every_command_and_dtypes_choose(here):
    (command,) = {one["command"] for one in planned("--dtype", "float64", "--profile", "smoke", "--no-isolate", "-x")}
    words = "attnspec check my_kernels.py:first --dtype float64 --device cpu --profile smoke --no-isolate --exitfirst"
    assert f"{words} --report-dir attnspec-report/first-float64-cpu" == command


def test_the_commands_of_an_array_find_what_one_check_finds(here):
    lines = ran("plan", "my_kernels.py", "--law", "softmax.definition", "--tasks", "lines").stdout.splitlines()
    script = re.search(r"^sh -c .*tasks\.txt\)\"$", PAGE, re.MULTILINE)[0].replace('sh -c "$', 'echo "$')
    Path("tasks.txt").write_text("\n".join(lines))
    done = ["sh", "-c", script]
    told = [
        subprocess.run(
            done,
            env={"SLURM_ARRAY_TASK_ID": str(at), "PATH": "/bin:/usr/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        for at in range(1, len(lines) + 1)
    ]
    assert lines == [one.stdout.strip() for one in told]
    for line in lines:
        ran(*line.split()[1:])
    ran("check", "my_kernels.py", "--law", "softmax.definition", "--report-dir", "whole")
    parts = [line.split()[-1] for line in lines]
    assert (3, cells("whole")) == (len(parts), cells(*parts))


def test_tasks_and_parts_go_by_what_was_taken_before(here):
    ran("check", "my_kernels.py", "--law", "softmax.definition", "--report-dir", "whole")
    known = ["--balance", "whole/results.ndjson"]
    seconds = [one["seconds"] for one in planned("--law", "softmax.definition", *known)]
    timed = [line for line in read(Path("whole/results.ndjson")) if "run" in line]
    taken = [line["run"]["seconds"] for line in timed]
    assert sorted((round(x, 3) for x in taken), reverse=True) == seconds
    for part in ("1", "2"):
        ran(
            "check",
            "my_kernels.py",
            "--law",
            "softmax.definition",
            "--shard",
            f"{part}/2",
            *known,
            "--report-dir",
            part,
        )
    assert cells("whole") == cells("1", "2")
    longest = max(
        (line["run"]["seconds"], line["subject"], line["dtype"])
        for line in read(Path("whole/results.ndjson"))
        if "run" in line
    )
    assert [longest[1:]] == sorted({(subject, dtype) for subject, _, dtype, _ in cells("1")})


def test_a_pipeline_has_a_step_for_each_task(here):
    steps = json.loads(ran("plan", "my_kernels.py", "--tasks", "buildkite").stdout)["steps"]
    assert [one["command"] for one in planned()] == [step["command"] for step in steps]
    assert {"label", "command", "agents", "artifact_paths"} == {key for step in steps for key in step}


def test_a_device_that_nothing_runs_on_is_told(here):
    found = CliRunner().invoke(main, ["plan", "my_kernels.py:second", "--device", "cuda"])
    assert (5, True) == (found.exit_code, "no target claims these mechanisms, dtypes and devices" in found.stderr)


def test_the_workflow_of_the_page_has_what_a_task_has(here):
    text = PAGE.partition("## Many machines")[2].partition("```yaml\n")[2].partition("```")[0]
    jobs = yaml.safe_load(text)["jobs"]
    used = set(re.findall(r"matrix\.(\w+)", text))
    assert (True, ["plan", "check"]) == (used <= set(planned()[0]), list(jobs))


@pytest.mark.skipif(not shutil.which("sh"), reason="no shell")
def test_the_commands_of_the_page_are_commands(here):
    shown = re.findall(r"attnspec (plan [^|>)\n]+)", PAGE.partition("## Many machines")[2])
    commands = [one.strip() for one in shown if "my_kernels.py" in one]
    assert ([0] * 3, 3) == ([ran(*one.split()).exit_code for one in commands], len(commands))
