"""Running a stored counterexample again: the same arrays, the same call, the same law."""

from __future__ import annotations

from typing import Any

from ..cases.samples import Sample
from ..data.texts import safe_data, safe_lines
from ..diagnosis.history import prepared
from ..diagnosis.stored import runnable
from ..diagnosis.witness import describe
from ..errors import Exit
from ..reporting.blocks import block
from ..reporting.typesetting import page_width, terminal
from .opening import Kept, Opened, Say, again, run_again

TOLD = ("from", "likeness", "nearest", "map", "when", "fixed", "follows", "after", "before", "broken", "key")
"""What was found out when the case was kept, and is told again."""


def replayed(kept: Kept, say: Say) -> Exit:
    """Run the witness and say how it went: violated, or conformant where it holds now.

    Where it holds by itself, it is run once more in a new process, after what was tried before it.
    """
    opened = Opened(kept)
    witness, mechanism, bench, law = opened.witness, opened.mechanism, opened.bench, opened.law
    if witness["digest"] != mechanism.digest:
        say(f"note: {mechanism.path} has changed since this case was stored")
    with bench.subject.session(), runnable(kept.name):
        sample = opened.sample()
        # where no new process can be had to make them in, the earlier calls are left out
        earlier = opened.earlier if witness.get("retraced") and prepared(bench, ()) else ()
        if earlier:
            say(f"note: makes {'an earlier call' if len(earlier) == 1 else f'{len(earlier)} earlier calls'} first")
        failure, verdict, says = again(bench, sample, law, earlier, witness.get("stress", 0))
    if failure is None and witness.get("before") and not earlier:
        bench = opened.benched(fresh=True)
        with runnable(kept.name):
            # last of them is the case on which it was found, before it was made small; it may fail there already
            tried = [Sample(mechanism, case, bench.dtype) for case in opened.earlier]
            failure, *found = run_again(bench, (*tried, sample), law)
        if failure is not None:
            verdict, says = found
            say(f"note: alone it passes now, but it fails after {_counted(witness)}: earlier calls matter")
    if failure is None:
        both = "" if earlier else "by itself and "
        also = f", {both}after {_counted(witness)}" if witness.get("before") else ""
        says = f": {says}" if says else ""
        say(f"{bench.subject.name} {mechanism.address(law)}: {verdict} on this case now{also}{says}")
        return Exit.CONFORMANT
    with bench.subject.session():
        if earlier:
            prepared(bench, earlier)
        data = describe(failure, bench, witness["target"], None, [])
    cell = {
        "subject": bench.subject.name,
        "operator": mechanism.operator,
        "mechanism": mechanism.name,
        "law": law,
        "dtype": bench.dtype,
        "device": bench.device,
        "verdict": verdict,
        "says": says,
    }
    told = {key: witness[key] for key in TOLD if key in witness}
    for line in block(safe_data({**data, **told}), safe_data(cell), page_width(terminal())):
        say(line)
    if data["trace"]:
        say(safe_lines(data["trace"]))
    return Exit.VIOLATED


def _counted(witness: dict[str, Any]) -> str:
    count = len(witness["before"])
    return f"the {count} cases that ran before it" if count > 1 else "the case that ran before it"
