"""Groups on a cluster of several nodes give what they give in one process, whatever becomes of the nodes."""

import zipfile
from pathlib import Path

import pytest

pytest.importorskip("ray")

import ray
from ray.cluster_utils import Cluster

from attnspec.errors import Exit, TargetError
from attnspec.reporting.results import read
from attnspec.runs import cluster as runs_on_a_cluster
from attnspec.runs.cluster import asked_of, tasks_of
from attnspec.runs.options import Options
from attnspec.runs.run import Run

SHIFTED = """
import numpy as np


def shifted(x):
    with np.errstate(invalid="ignore"):
        p = np.exp(x - x.max(-1, keepdims=True, initial=-1e30))
    return (p / p.sum(-1, keepdims=True)).astype(x.dtype)
"""
KERNELS = f"""
import time
from pathlib import Path

from attnspec import adapter
{SHIFTED}

def waiting(x):
    while Path(__file__).with_name("closed").exists():
        time.sleep(0.05)
    return x


@adapter("softmax", framework="numpy", dtypes=("float32", "float64"))
def first(x):
    return shifted(waiting(x))


@adapter("softmax", framework="numpy")
def second(x):
    return shifted(waiting(x)) * 1.001
"""
PACKAGED = """
from attnspec import adapter

@adapter("softmax", framework="numpy", package="tiny_softmax", environment=({wheel!r},))
def packaged(x):
    import tiny_softmax
    return tiny_softmax.shifted(x)
"""
ASKING = """
from attnspec import adapter

@adapter("softmax", framework="numpy", accelerator="H100", environment="my_softmax==1")
def my_softmax(x):
    raise NotImplementedError
"""
FAST = {"profile": "smoke", "mechanisms": ("softmax",)}


@pytest.fixture(scope="module")
def nodes():
    """A head that runs nothing, and two nodes of one processor each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(2):
            found.add_node(num_cpus=1)
        patch.setenv("RAY_ADDRESS", found.address)
        ray.init(log_to_driver=False, logging_level="ERROR")
        yield found
        ray.shutdown()
        found.shutdown()


@pytest.fixture
def kernels(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return str(path)


def cells(run):
    """All that is said of the cells, but for the time that it took, and what is found in the time for explaining it."""
    found = {}
    for line in run.lines:
        if line["kind"] == "cell":
            more = {"run": {**line["run"], "seconds": 0.0, "times": None}} if "run" in line else {}
            more |= {"witness": line["witness"]["law"]} if "witness" in line else {}
            found[line["subject"], line["mechanism"], line["dtype"], line["law"]] = {**line, **more, "resumed": False}
    return found


class Watching:
    """Progress that does something as soon as a task has begun."""

    def __init__(self, does):
        self.does = does

    def cells(self, count, total, at):
        if at and self.does is not None:
            does, self.does = self.does, None
            does()


def ran(options, once_begun=None):
    run = Run(options)
    run.execute(Watching(once_begun))
    return run


def test_the_cells_are_those_of_one_process(nodes, kernels):
    here, there = (ran(Options((kernels,), on=on, **FAST)) for on in (None, "ray"))
    assert cells(here) == cells(there)
    assert (Exit.VIOLATED, "") == (there.exit, there.ended)


def test_nodes_that_are_killed_in_the_middle_cost_nothing_and_one_that_comes_is_used(nodes, kernels, monkeypatch):
    lost = []
    given = runs_on_a_cluster.Cluster._lost
    monkeypatch.setattr(runs_on_a_cluster.Cluster, "_lost", lambda *args: (lost.append(args[1]), given(*args))[1])
    found = ran(Options((kernels,), on="ray", **FAST), renewed(nodes, kernels))
    assert cells(ran(Options((kernels,), **FAST))) == cells(found)
    assert (True, {1}) == (bool(lost), {task.tries - 1 for task in lost})


def test_what_is_lost_in_every_try_says_why_and_is_resumed(nodes, kernels, tmp_path, monkeypatch):
    monkeypatch.setattr(runs_on_a_cluster, "TRIES", 1)
    report = {"on": "ray", "report_dir": str(tmp_path / "report"), "dtypes": ("float32",), **FAST}
    options = Options((f"{kernels}:first",), **report)
    found = ran(options, renewed(nodes, kernels))
    (said,) = {(cell["verdict"], cell["says"].partition(":")[0]) for cell in cells(found).values()}
    assert ("not_tested", "its task was lost in each of 1 tries") == said
    again = ran(Options((f"{kernels}:first",), resume=True, **report))
    assert (Exit.NOTHING_TESTED, Exit.CONFORMANT) == (found.exit, again.exit)


def test_what_no_node_has_is_given_up(nodes, kernels, monkeypatch):
    monkeypatch.setattr(runs_on_a_cluster, "UNPLACED", 1.0)
    found = ran(Options((f"{kernels}:first",), on="ray", device="tpu", **FAST))
    (says,) = {cell["says"] for cell in cells(found).values()}
    assert 'no node has started its task within 1 s, which asks for {"num_cpus": 1, "resources": {"TPU": 1}}' == says


def test_the_packages_of_an_environment_are_there_for_its_tasks_alone(nodes, tmp_path):
    wheel = tmp_path / "tiny_softmax-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_softmax.py", SHIFTED)
        archive.writestr(
            "tiny_softmax-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny_softmax\nVersion: 1.0\n"
        )
        archive.writestr(
            "tiny_softmax-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_softmax-1.0.dist-info/RECORD", "")
    path = tmp_path / "packaged.py"
    path.write_text(PACKAGED.format(wheel=str(wheel)))
    with pytest.raises(TargetError):
        Run(Options((str(path),), **FAST))
    found = ran(Options((str(path),), on="ray", **FAST))
    assert (Exit.CONFORMANT, "") == (found.exit, found.ended), cells(found)


def test_the_longest_come_first(kernels, tmp_path):
    report = str(tmp_path / "report")
    ran(Options((kernels,), report_dir=report, profile="smoke", laws=("softmax.sums_to_one",)))
    run = Run(Options((kernels,), laws=("softmax.sums_to_one",), balance=(f"{report}/results.ndjson",)))
    taken = {
        (line["subject"], line["dtype"]): line["run"]["seconds"]
        for line in read(Path(report, "results.ndjson"))
        if "run" in line
    }
    found = [(task.groups[0].name, task.groups[0].dtype) for task in tasks_of(run.groups, run.runner)]
    assert sorted(taken, key=taken.get, reverse=True) == found


def test_a_task_asks_for_what_its_adapter_says(tmp_path):
    path = tmp_path / "asking.py"
    path.write_text(ASKING)
    (group, *_) = Run(Options((str(path),), on="ray", device="cuda", **FAST)).groups
    needs = {"runtime_env": {"pip": ["my_softmax==1"]}}
    assert {"num_cpus": 1, "num_gpus": 1, "accelerator_type": "H100", **needs} == asked_of(group, "cuda")
    assert {"num_cpus": 1, **needs} == asked_of(group, "cpu")


def renewed(nodes, kernels):
    """What kills all nodes that run something and adds others. No call of the kernels ends before it is through."""
    closed = Path(kernels).with_name("closed")
    closed.touch()

    def others():
        for node in [*nodes.worker_nodes]:
            nodes.remove_node(node, allow_graceful=False)
        for _ in range(2):
            nodes.add_node(num_cpus=1)
        closed.unlink()

    return others
