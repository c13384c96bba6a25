"""`attnspec check --watch`: a check, and another one whenever a file of a target, or one that it imports, is saved.

What does not depend on the files stays in memory from check to check, and so does a process that has their framework.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Error, Exit, UsageError
from ..execution.beside import Stamp, imported, stamp
from ..runs.interruptions import interruptible
from ..runs.options import Options
from .shell import say

if TYPE_CHECKING:
    from ..runs.run import Run

PAUSE = 0.05
"""Seconds between two looks at the files."""
Stamps = list[Stamp | None]
Outdated = Callable[[], bool]
Checked = Callable[[Options, Outdated], "Run"]
"""Makes a check, which need not come to its end once it is outdated."""


def watched(options: Options, checked: Checked) -> Exit:
    """Check again and again, until an interruption; how the last check ended.

    A check that is `outdated`, as a file was saved meanwhile, need not come to its end.
    """
    from ..subjects.targets import files_of

    files = [path for target in options.targets for path in files_of(target)]
    if not files:
        raise UsageError("--watch needs a target that is a file, as in kernels.py")
    code = Exit.INTERRUPTED
    try:
        with interruptible():
            while True:
                watching = [*files, *imported(files)]
                outdated = partial(_saved, watching, stamps(watching))
                code = _round(options, checked, outdated)
                if code is Exit.INTERRUPTED:
                    return code
                if outdated():
                    say("a file was saved meanwhile: checking again", err=True)
                    continue
                say(f"watching {', '.join(map(str, watching))}: save to check again; Ctrl-C ends", err=True)
                while not outdated():
                    time.sleep(PAUSE)
    except KeyboardInterrupt:
        return code


def _round(options: Options, checked: Checked, outdated: Outdated) -> Exit:
    """One check; a file that cannot be loaded for the moment ends nothing."""
    try:
        return checked(options, outdated).exit
    except Error as error:
        say(f"attnspec: {error}", err=True)
        return error.exit


def _saved(files: Sequence[Path], seen: Stamps) -> bool:
    """Whether a file is another one than it was, and all of them are there."""
    return (now := stamps(files)) != seen and None not in now


def stamps(files: Sequence[Path]) -> Stamps:
    """What tells whether a file was saved; None for one that is not there."""
    return [stamp(path) for path in files]
