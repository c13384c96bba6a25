"""`attnspec vectors`: cases with expected values, for kernels in any language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..reporting.progress import progress
from .shell import further, mended, options, say

if TYPE_CHECKING:
    from ..vectors.sets import Part


@click.command(short_help="Write test vectors with expected values and bounds, for any language.")
@click.argument("names", nargs=-1, metavar="OPERATOR|MECHANISM...")
@click.option("--all", "every", is_flag=True, help="Every mechanism.")
@click.option("-o", "--output", required=True, metavar="DIR", help="The folder to write.")
@click.option(
    "--dtype", "dtypes", multiple=True, metavar="DTYPE", help="The dtype; may be repeated.  [default: float32]"
)
@click.option(
    "--convention", "words", multiple=True, metavar="NAME=WORD", help="A convention to follow; may be repeated."
)
@click.option("--grade", metavar="NAME", help="The precision of the bounds ('attnspec explain bf16').")
@click.option("--takes", metavar="NAME,...", help="Pass only these options and optional inputs.  [default: all]")
@click.option(
    "--small/--full", default=True, show_default=True, help="As few as refute every known mistake, or all of them."
)
@options("seed", "specs", "references")
def vectors(
    names: tuple[str, ...],
    every: bool,
    output: str,
    dtypes: tuple[str, ...],
    words: tuple[str, ...],
    grade: str | None,
    takes: str | None,
    small: bool,
    seed: int,
    specs: tuple[str, ...],
    references: tuple[str, ...],
) -> None:
    """Write test vectors for OPERATORS with all their mechanisms, or for single MECHANISMS.

    A vector is a call with expected values and an error bound for each entry, or several calls whose results a law
    relates. The arrays are safetensors files with an index; docs/vectors.md describes both.

    \b
    attnspec vectors softmax -o vectors
    attnspec vectors attention --dtype bfloat16 --takes causal,scale -o vectors
    attnspec vectors softmax --convention empty_row=nans --full -o vectors
    attnspec vectors --all -o vectors
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended():
        from ..vectors.sets import Asked, files

        if bool(names) == every:
            raise click.UsageError("name operators or mechanisms, or use --all ('attnspec list mechanisms' lists them)")
        asked = Asked(
            names,
            tuple(dict.fromkeys(dtypes)) or ("float32",),
            _words(words),
            grade,
            None if takes is None else tuple(filter(None, takes.split(","))),
            small,
            seed,
        )
        folder, parts, room = Path(output), list[Any](), 0
        _emptied(folder)
        with progress("reading specifications") as shown:
            for name, data, part in files(asked, further(specs, references).library(), shown.says):
                (folder / name).write_bytes(data)
                room += len(data)
                parts += [part] if part else []
        for line in _told(parts):
            say(line)
        count = sum(len(part.vectors) + len(part.relations) for part in parts)
        say(f"{folder}: {count} vectors of {len(parts)} {'part' if len(parts) == 1 else 'parts'}, {room / 1e6:.2f} MB")


def _words(texts: Sequence[str]) -> dict[str, str]:
    from ..errors import UsageError

    found = {}
    for text in texts:
        name, equals, word = text.partition("=")
        if not equals:
            raise UsageError(f"--convention takes NAME=WORD, not {text!r}")
        found[name] = word
    return found


def _emptied(folder: Path) -> None:
    """Make the folder, or take out of it what this command has written; a `UsageError` where anything else is there."""
    from ..errors import UsageError
    from ..vectors.sets import INDEX, SCHEMA, TEXT

    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = list(folder.iterdir())
        own = [path for path in found if path.name in (INDEX, SCHEMA, TEXT) or path.suffix == ".safetensors"]
        if len(own) < len(found) or (found and folder / INDEX not in found):
            raise UsageError(f"{folder} exists and was not written by this command; name another folder with -o")
        for path in own:
            path.unlink()
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from None


def _told(parts: Sequence[Part]) -> list[str]:
    """A line for each part, and what is followed without having been declared."""
    lines, undeclared = [], dict[str, str]()
    for part in parts:
        stated = part.stated
        known = {name: x for name, x in stated["mistakes"].items() if name in part.own}
        missed = [name for name, x in known.items() if not x["refuted"]]
        line = f"{stated['mechanism']} {stated['dtype']}: {len(part.vectors)} of {part.drawn} vectors refute "
        line += f"{len(known) - len(missed)} of {len(known)} known mistakes"
        line += f" (not {', '.join(missed)})" if missed else ""
        if part.relations:
            broken = {name for told in part.relations for name in told.shows} & part.own
            line += f", {len(part.relations)} of several calls {len(broken)} of them"
        lines.append(line)
        undeclared |= {name: stated["conventions"][name] for name in stated["undeclared"]}
    if undeclared:
        lines.append("not declared, so the first word is used (--convention NAME=WORD selects another):")
        lines += [f"  {name} = {word}" for name, word in undeclared.items()]
    return lines
