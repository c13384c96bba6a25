"""`attnspec report`: the results of runs as a matrix."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..reporting.typesetting import terminal
from .shell import mended, of_project, options, say

if TYPE_CHECKING:
    from ..reporting.results import Line


@click.command(short_help="Show a matrix of the results of runs.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--markdown/--text", default=False, help="Write Markdown, or text for a terminal.")
@click.option("--github", is_flag=True, help="Write GitHub annotations, each at the line of its adapter.")
@click.option("--sarif", default="", metavar="FILE", help="Write the failures as SARIF, for code scanning.")
@click.option("--gitlab", default="", metavar="FILE", help="Write the failures as a GitLab code quality report.")
@options("html", "report_dir")
def report(
    files: tuple[Path, ...], markdown: bool, github: bool, sarif: str, gitlab: str, html: str | None, report_dir: str
) -> None:
    """Show the results of runs, from results FILES, or from those in the report folder.

    The report has a matrix of adapters, mechanisms and dtypes, the conventions that adapters follow, their precision,
    and the failures.
    """
    with mended():
        from ..reporting import matrix
        from ..reporting.results import NAME, read

        paths = files or (Path(of_project("report_dir", report_dir)) / NAME,)
        found = [read(path) for path in paths]
        if sarif or github or gitlab:
            _told([*zip(found, paths, strict=True)], {"sarif": sarif, "gitlab": gitlab}, github=github)
            if not html:
                return
        if html:
            from ..reporting.rendering import Source, write

            folders = [str(path.parent) for path in paths]
            write(Path(html), [Source(lines, folder) for lines, folder in zip(found, folders, strict=True)])
            say(f"page     {html}")
            return
        render = matrix.markdown if markdown else matrix.text
        cells, heads = [*matrix.merged(found), *matrix.lacking(found)], [lines[0] for lines in found]
        more = {} if markdown else {"columns": terminal()}
        lines = render(heads, cells, matrix.unfinished(found), matrix.shortcomings(found), **more)
        say("\n".join(lines), plain=markdown)


def _told(found: Sequence[tuple[Sequence[Line], Path]], files: Mapping[str, str], *, github: bool) -> None:
    """What fails in the results of files, for those who read it elsewhere: in files, by what is to be in each."""
    from .. import __version__
    from ..data.files import replace_text
    from ..errors import UsageError
    from ..reporting.annotations import github as annotated
    from ..reporting.code_quality import document as quality
    from ..reporting.flaws import flaws
    from ..reporting.sarif import document

    own = [flaw for lines, path in found for flaw in flaws(lines, str(path.parent))]
    if github:
        for line in annotated(own):
            say(line, plain=True)
    made = {"sarif": lambda: document(own, __version__), "gitlab": lambda: quality(own)}
    for form, path in files.items():
        if not path:
            continue
        try:
            replace_text(Path(path), json.dumps(made[form](), indent=1) + "\n")
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None
        say(f"{form:<8} {path}")
