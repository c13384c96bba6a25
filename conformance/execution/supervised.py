"""Calls that are made in a worker: what is repeated, what is lost, and who is to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from attnspec.adapters import Adapter

from ..errors import Error, TargetError
from .apart import ApartError
from .calling import Call, Interface, Reply
from .devices import in_trouble, is_leased, seen_as
from .faults import Fault
from .large import Held, LargeCall
from .messages import Open
from .process import LostError, OrphanedError, StrayError, ended
from .processes import Worker
from .supervisor import TIMES, TRIES, Home, Supervisor, foreign

PATIENCE = 4
"""How many times as long the first call may take, which imports and compiles, or any if it compiles by shape."""
PATIENT = 2
"""First calls of processes, one after the other, that may take so long without an answer: the next may not."""
LEAN = ("numpy", "torch")
"""Frameworks that keep nothing between calls worth letting go of."""


def supervised(
    supervisor: Supervisor,
    adapter: Adapter,
    interface: Interface,
    path: Path | None,
    *,
    patient: bool,
    python: str = "",
) -> SupervisedCaller:
    """A caller for an adapter of a file, or of a module if there is no file."""
    home, asked = supervisor.opening(adapter, interface, path, python)
    return SupervisedCaller(supervisor, home, asked, patient=patient, foreign=foreign(adapter, path))


class SupervisedCaller:
    """Makes the calls of one adapter in a worker."""

    def __init__(self, supervisor: Supervisor, home: Home, asked: Open, *, patient: bool, foreign: bool) -> None:
        """`foreign` says that the adapter is not attnspec's own."""
        self.supervisor, self.home, self.asked = supervisor, home, asked
        self.patient, self.foreign = patient, foreign
        self._unanswered = 0
        """First calls of processes that have hung since the last answer."""

    def session(self) -> AbstractContextManager[None]:
        return nullcontext() if self.asked.framework in LEAN else self._session()

    @contextmanager
    def _session(self) -> Iterator[None]:
        """A stretch of calls after which the worker lets go of what its framework keeps."""
        try:
            yield
        finally:
            self.supervisor.rest(self.home, self.asked.key)

    def call(self, call: Call) -> Reply:
        """The reply to a call; one that was lost with its fork server is asked for again, and so is a stray one."""
        says = ""
        for _ in range(TRIES):
            try:
                return self._made(call)
            except OrphanedError:
                says = f"the process {ended(None)}"
            except StrayError as error:
                says = str(error)
            except Error as error:  # a module that can no longer be imported, or no process at all
                return Reply(fault=Fault("died", f"cannot be called: {error}"))
        return Reply(fault=Fault("died", f"{TIMES}, {says}"))

    def hold(self, call: LargeCall) -> Held:
        """Have a large call made in a new process, which keeps what it gives until the next call."""
        self.renew()
        found = Held(fault=Fault("died", "cannot be called"))
        for _ in range(TRIES):
            try:
                worker = self.supervisor.worker(self.home)
                worker.open(self.asked)
                return worker.hold(self.asked.key, replace(call, device=_device(call.device)), self._seconds)
            except LostError as lost:
                self.renew()
                return Held(fault=lost.fault)
            except (OrphanedError, StrayError) as error:
                self.renew()
                found = Held(fault=Fault("died", f"the process was lost: {error}"))
            except Error as error:
                return Held(fault=Fault("died", f"cannot be called: {error}"))
        return found

    @property
    def _seconds(self) -> float:
        """How long a large call may take."""
        return self.supervisor.seconds * PATIENCE

    def part(self, name: str, box: tuple[tuple[int, int], ...]) -> NDArray[Any]:
        """A part of an output that is kept; `LostError` where its process is no more."""
        return self._kept(lambda worker: worker.part(self.asked.key, name, box))

    def extremes(self, name: str) -> NDArray[Any]:
        """Where the least and the greatest entry of an output that is kept are; errors as of `part`."""
        return self._kept(lambda worker: worker.extremes(self.asked.key, name))

    def _kept(self, asked: Callable[[Worker], NDArray[Any]]) -> NDArray[Any]:
        """What the process says that keeps outputs."""
        try:
            return asked(self.supervisor.worker(self.home))
        except (OrphanedError, StrayError, Error) as error:
            self.renew()
            raise LostError(Fault("died", f"the process was lost: {error}")) from None

    def renew(self) -> None:
        """Have the next call made in a new process."""
        self.supervisor.drop(self.home)

    def stay_with(self, other: SupervisedCaller) -> None:
        """Make calls in the process of another caller of the same file, or of another one if there is none."""
        if self.home[0] == other.home[0]:
            self.home = other.home

    def beside(self) -> SupervisedCaller:
        """One that makes the same calls in another process, which `renew` ends."""
        start, own = self.home
        home = start, f"{own} beside"
        return SupervisedCaller(self.supervisor, home, self.asked, patient=self.patient, foreign=self.foreign)

    def apart(self, calls: Sequence[Call], seconds: float, *, anew: bool = False) -> list[Reply]:
        """What calls give where nothing of attnspec is to be seen, as far as time suffices; `ApartError` for none."""
        if not self.foreign:
            raise ApartError("it comes with attnspec")
        try:
            process, place = self.supervisor.apart(self.home[0], self.asked)
        except TargetError as error:
            raise ApartError(str(error)) from None
        return process.replies(place, calls, seconds, anew=anew)

    def _made(self, call: Call) -> Reply:
        """The reply to a call; `OrphanedError` or `StrayError` where it was lost through no fault of the call."""
        key = self.asked.key
        worker = self.supervisor.worker(self.home)
        first = key not in worker.answered
        patient = self.patient or (first and self._unanswered < PATIENT)
        try:
            if key not in worker.opened:
                worker.open(self.asked)
            made = worker.make(key, _seen(call), self.supervisor.seconds * (PATIENCE if patient else 1))
        except OrphanedError:
            self.supervisor.end(worker.fork_server)
            raise
        except StrayError:
            self.supervisor.drop(self.home)
            raise
        except LostError as lost:
            self.supervisor.drop(self.home)
            self._unanswered += first and lost.fault.kind == "hung"
            return Reply(fault=lost.fault if first else self._alone(lost.fault, call))
        self._unanswered = 0
        if _sticky(call, made.reply) or self.supervisor.outgrown(made.memory, worker.asked):
            self.supervisor.drop(self.home)
        return made.reply

    def _alone(self, fault: Fault, call: Call) -> Fault:
        """The fault of a call that was not the first of its process, and whether it comes without the earlier ones."""
        if fault.kind != "died" or self.call(call).fault is not None:
            return fault
        return replace(fault, says=f"{fault.says}; after earlier calls only: in a new process it is answered")


def _seen(call: Call) -> Call:
    """A call as its process sees it: of the devices, there is only the one that is leased."""
    return replace(call, device=_device(call.device)) if is_leased(call.device) else call


def _device(device: str) -> str:
    return seen_as(device) if is_leased(device) else device


def _sticky(call: Call, reply: Reply) -> bool:
    """Whether a device may have been left in a state in which all further calls fail."""
    fault = reply.fault
    return (
        call.device != "cpu"
        and fault is not None
        and fault.kind == "raised"
        and in_trouble(call.device, f"{fault.says}\n{fault.trace}")
    )
