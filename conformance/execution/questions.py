"""Calls that a worker sends to a program; the worker ends when the program does."""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from ..frameworks.numpy import NumpyFramework
from .calling import Call, DirectCaller, Interface
from .exchange import Exchange, MisfitError
from .faults import Fault
from .inputs import Inputs
from .programs import AnswerError, EndedError, Program, Served, refusal


class Anywhere(NumpyFramework):
    """Arrays in files, which a program computes with on whatever device it was asked for."""

    def is_on(self, x: Any, device: str) -> bool:
        return True


class ProgramCaller(DirectCaller):
    """Makes the calls of one function of a program."""

    def __init__(self, served: Served, name: str, interface: Interface) -> None:
        """Begin the program; a `TargetError` where it cannot be run."""
        self.served, self.name = served, name
        self._program: Program | None = Program(served.command, served.folder)
        faulthandler.disable()  # what is to be seen is where the program is
        signal.signal(signal.SIGABRT, self._abort)
        super().__init__(_elsewhere, "numpy", interface, alone=True)
        self.framework = Anywhere()
        self.inputs = Inputs(self.framework)
        self.exchange = Exchange(served.arrays, strides=served.strides)

    def result(self, call: Call, passed: list[Any], named: Mapping[str, Any]) -> Any:
        """The outputs by their names, or a `Fault`; this process ends with the program."""
        by_position = (name for name in self.interface.required if name not in self.interface.by_name)
        arrays = {**dict(zip(by_position, passed, strict=True)), **named}
        program = self._program = self._program or Program(self.served.command, self.served.folder)
        try:
            inputs, started = self.exchange.write(arrays), time.perf_counter()
            answer = program.ask(
                "call",
                function=self.name,
                dtype=call.dtype,
                device=call.device,
                inputs=inputs,
                options=_sayable(dict(call.options)),
                arrays=str(self.exchange.given),
                results=str(self.exchange.results),
            )
            self.seconds = time.perf_counter() - started
            self.exchange.take_back()
            return refusal(answer) or self.exchange.read(answer.get("outputs"))
        except MisfitError as error:
            return Fault("returned", str(error))
        except AnswerError as error:
            program.end()
            self._program = None
            return error.fault
        except EndedError as end:
            self.exchange.close()
            _end_like(end.status)

    @property
    def memory(self) -> int:
        """The most memory that the program has used, in bytes."""
        return 0 if self._program is None else self._program.memory

    def _abort(self, *_: Any) -> None:
        """End this process, which has taken too long, and first the program, which may print where it is."""
        if self._program is not None:
            self._program.end(signal.SIGABRT)
        _end_like(-signal.SIGABRT)


def _sayable(x: Any) -> Any:
    """An option in JSON, in which numbers that are not finite are texts."""
    if isinstance(x, dict):
        return {name: _sayable(y) for name, y in x.items()}
    if isinstance(x, tuple | list):
        return [_sayable(y) for y in x]
    if isinstance(x, float) and not math.isfinite(x):
        return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"
    return x


def _elsewhere(*_: Any, **__: Any) -> NoReturn:
    raise TypeError("the function of a program cannot be called here")


def _end_like(status: int) -> NoReturn:
    """End this process with an exit status, negative for a signal."""
    sys.stderr.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
        time.sleep(1)
    os._exit(abs(status))
