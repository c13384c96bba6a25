"""Recording kernel calls: of another program, or of a part of this one.

Journals lie beside the file until it is written, one for each process, so that nothing but counts of the last second
is lost with a process; a folder of journals is read like a file.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..data import records
from ..data.files import read_text
from ..data.records import anything, by_name, keys, text, truth, whole
from ..data.texts import safe
from ..errors import UsageError
from ..execution import recorder
from ..mechanisms.library import Library
from ..mechanisms.loader import Specs
from ..mechanisms.signatures import signatures
from ..mechanisms.traces import is_trace, traced
from ..mechanisms.understanding import understood
from ..mechanisms.workloads import MOST, Workload, gathered, read, write

JOURNALS = "journals"
PARTS = ".parts"
"""What the name of a folder of journals ends with."""
DEFAULT = "workload.ndjson"
"""The file that is written, unless it is named."""

_CALL = keys(
    {"kind": text, "id": whole, "interface": text, "arguments": by_name(anything)},
    {"device": text, "gradient": truth, "fault": text},
)
_COUNT = keys({"kind": text, "id": whole, "count": whole})


def plan() -> dict[str, Any]:
    """What a recorder exchanges: functions of known interfaces, where they are found."""
    return {
        one.name: {"found": list(one.found), "parameters": list(one.parameters)}
        for one in signatures().values()
        if one.found
    }


def recorded(command: Sequence[str], path: Path, say: Callable[[str], Any]) -> int:
    """Run a program, write what it has asked for, and return what it ended with, as a shell would have it.

    `UsageError` where it cannot be run. However the program ends, what it has asked for until then is written.
    """
    parts = _begun(path)
    (parts / "sitecustomize.py").write_text(recorder.HOOK, "utf-8")
    shutil.copyfile(recorder.__file__, parts / "recorder.py")
    searched = os.pathsep.join(filter(None, [str(parts.resolve()), os.environ.get("PYTHONPATH", "")]))
    try:
        program = subprocess.Popen([*command], env={**os.environ, "PYTHONPATH": searched})
    except (OSError, ValueError) as error:
        shutil.rmtree(parts)
        raise UsageError(f"cannot run {safe(command[0])}: {getattr(error, 'strerror', None) or error}") from None
    code = _ended(program)
    ended = f"signal {-code}" if code < 0 else f"exit {code}"
    _finish(parts, path, safe(" ".join(command), 1000), ended, say)
    return 128 - code if code < 0 else code


@contextmanager
def record(path: str | os.PathLike[str] = DEFAULT) -> Iterator[None]:
    """Write what the body asks of its kernels to a file: operators, sizes, strides, dtypes, options, counts, no data.

    Raises `UsageError` where the file cannot be written, or another recording writes there.
    """
    parts = _begun(Path(path))
    watching = recorder.begun(str(parts / JOURNALS), str(parts / "plan.json"))
    ended = "exit 0"
    try:
        yield
    except BaseException as error:
        ended = type(error).__name__
        raise
    finally:
        watching.end()
        _finish(parts, Path(path), "", ended, lambda says: None)


def workload_of(path: str, library: Library) -> Workload:
    """A workload from a file, from a folder of journals that a recording has left, or from FlashInfer's traces."""
    place = Path(path)
    if is_trace(place):
        return traced(place, library)
    return _of_journals(place, library) if place.is_dir() else read(place, library)


def _begun(path: Path) -> Path:
    """The folder of journals beside a file; `UsageError` where there is one, or none can be made."""
    parts = path.with_name(path.name + PARTS)
    try:
        parts.mkdir()
        (parts / JOURNALS).mkdir()
        (parts / "plan.json").write_text(json.dumps(plan()), "utf-8")
    except FileExistsError:
        says = "another recording is writing there, or was killed; read it with --workload, or remove it"
        raise UsageError(f"{parts} is there: {says}") from None
    except OSError as error:
        raise UsageError(f"cannot write {parts}: {error.strerror}") from None
    return parts


def _ended(program: subprocess.Popen[bytes]) -> int:
    """What a program ends with; whoever interrupts this one interrupts that, and a request to end is passed on."""
    before = {sign: signal.getsignal(sign) for sign in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: program.terminate())
    try:
        return program.wait()
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def _finish(parts: Path, path: Path, command: str, ended: str, say: Callable[[str], Any]) -> None:
    found = _of_journals(parts, Specs((), ()).library(), command, ended)
    write(path, found)
    shutil.rmtree(parts)
    for line in told(found, str(path)):
        say(line)


def told(found: Workload, path: str) -> Iterator[str]:
    """What was recorded, in lines."""
    if not found.calls:
        yield f"workload {path}: no call of a known interface was seen ('attnspec list signatures' shows them)"
        return
    several = f"{len(found.uses)} different calls" if len(found.uses) != 1 else "one call"
    yield f"workload {path}: {found.calls} calls, {several} of operators"
    for one in found.left:
        yield f"  left     {one.count} x {one.interface}: {one.says}"


def _of_journals(parts: Path, library: Library, command: str = "", ended: str = "") -> Workload:
    """What the journals of a folder hold; a line that was not written to its end is left out."""
    folder = parts / JOURNALS
    if not folder.is_dir():
        raise UsageError(f"{parts} is not a workload, a folder of journals, or a FlashInfer trace")
    calls = [call for path in sorted(folder.glob("*.ndjson")) for call in _journal(path)]
    return gathered((understood(call, library) for call in calls), command, ended)


def _journal(path: Path) -> list[Mapping[str, Any]]:
    calls, counts = dict[int, dict[str, Any]](), dict[int, int]()
    whole_lines = read_text(path, MOST).split("\n")[:-1]
    for at, line in enumerate(whole_lines, 1):
        shape = _COUNT if '"kind": "count"' in line[:20] else _CALL
        data = records.record(line, shape, path, at)
        if data["kind"] == "count":
            counts[data["id"]] = data["count"]
        else:
            calls[data["id"]] = data
    return [{**call, "count": max(counts.get(at, 1), 1)} for at, call in calls.items()]
