"""A page as one HTML file, which loads nothing and contains no markup of a subject."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from .page import Source, page

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).with_name("templates")


def write(path: Path, sources: Sequence[Source]) -> None:
    """Write the report of runs to a file; one that cannot be written is a `UsageError`."""
    text = rendered(sources)
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}") from None


def rendered(sources: Sequence[Source]) -> str:
    """The report of runs as HTML.

    Every text is escaped but for the style sheet and the script, which are our own, and for formulas, which `formulas`
    makes anew.
    """
    templates = templates_of(TEMPLATES)
    style, script = ((TEMPLATES / name).read_text("utf-8") for name in ("report.css", "copy.js"))
    template = templates.get_template("report.html")
    return template.render(page=page(sources), style=style, script=script, policy=policy(style, script))


def templates_of(folder: Path) -> Environment:
    """The templates of a folder, which escape every text, and refuse a name that they are not given."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def policy(style: str, script: str) -> str:
    """The content security policy of a page: its own style sheet and script, by their digests, and nothing else."""
    allowed = f"style-src {_digest(style)}; script-src {_digest(script)}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
