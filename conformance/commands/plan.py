"""`attnspec plan`: the work of a check as a list of commands, for any scheduler."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..runs.options import LINE, Options, given_at
from .shell import NothingError, every, given, mended, named, options

if TYPE_CHECKING:
    from ..runs.tasks import Task

OWN = ("targets", "device", "report_dir", "shard", "resume", "html", "balance", "on")
"""Options of a check that a plan has in its own way, or that its commands have no use for."""


@click.command(short_help="Split a check into commands for many machines.")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@every
@click.option(
    "--device",
    "devices",
    multiple=True,
    default=("cpu",),
    metavar="DEVICE",
    help="The devices, each as a task of its own.",
)
@click.option("--balance", multiple=True, metavar="FILE", help="Earlier results, for the durations of tasks.")
@click.option(
    "--tasks",
    "form",
    type=click.Choice(["json", "buildkite", "lines"]),
    default="json",
    show_default=True,
    help="A GitHub matrix, a Buildkite pipeline, or one command per line.",
)
@options(*(option.name for option in given_at(LINE) if option.name not in OWN))
def plan(
    targets: tuple[str, ...], every: bool, devices: tuple[str, ...], balance: tuple[str, ...], form: str, **_: Any
) -> None:
    """Split the check of TARGETs into one command for each subject, dtype and device, the longest first.

    Each command writes results to its own folder; 'attnspec report attnspec-report/*/results.ndjson' reads them
    together. The other options are those of 'attnspec check', and are passed to every command.

    \b
    attnspec plan my_kernels.py --device cpu --device cuda
    attnspec plan --all --balance last/results.ndjson --tasks lines
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended():
        from ..runs.durations import durations
        from ..runs.tasks import tasks

        typed = {
            name: x for name, x in given().items() if name not in ("targets", "every", "devices", "balance", "form")
        }
        found = [target for device in devices for target in named(targets, every, device)]
        asked = Options(targets=tuple(dict.fromkeys(found)), **typed)
        kept = {name: x for name, x in typed.items() if name != "dtypes"}
        listed = tasks(asked, devices, durations(balance), kept)
        if not listed:
            raise NothingError("nothing to test: no target claims these mechanisms, dtypes and devices")
        click.echo("\n".join(_FORMS[form](listed)))  # as long as a line may be


def _matrix(listed: Sequence[Task]) -> list[str]:
    return [json.dumps({"include": listed})]


def _pipeline(listed: Sequence[Task]) -> list[str]:
    steps = [
        {
            "label": one["id"],
            "command": one["command"],
            "agents": {"device": one["device"]},
            "artifact_paths": [f"attnspec-report/{one['id']}/**/*"],
        }
        for one in listed
    ]
    return json.dumps({"steps": steps}, indent=1).split("\n")


_FORMS = {"json": _matrix, "buildkite": _pipeline, "lines": lambda listed: [one["command"] for one in listed]}
