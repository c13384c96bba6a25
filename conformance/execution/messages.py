"""The messages between a run and its workers, as plain data.

A message is a frozen dataclass, and the types of its fields say what may stand there.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NoReturn, TypeVar

from numpy.typing import NDArray

from attnspec.adapters import Adapter

from ..data import coding
from ..data.exact import exact, exact_text
from ..data.texts import LINE, LINES, safe_lines, told
from ..errors import Error, TargetError, UsageError
from .calling import Call, Interface, Reply
from .large import Held, LargeCall
from .programs import Served
from .survey import Role
from .transport import GarbledError, Wire

Variables = tuple[tuple[str, str], ...]
M = TypeVar("M")

# What a fork server is told, and answers


@dataclass(frozen=True, slots=True)
class Start:
    """What a fork server loads: a framework, or a file as it was at some moment; and whether it may fork."""

    framework: str = ""
    path: str = ""
    folder: str = ""
    """Where the path begins."""
    stamp: tuple[int, int] = (0, 0)
    """When the file, or one that it imports from beside it, was changed last, and their length."""
    environment: Variables = field(default=(), hash=False)
    """The variables that workers are to have, too many to be hashed for every call."""
    forks: bool = True
    python: str = ""
    """The interpreter that loads it, if not the one that asks."""

    @property
    def label(self) -> str:
        """What is loaded, and by which interpreter, in words."""
        return (self.path or self.framework) + (f" in {self.python}" if self.python else "")


@dataclass(frozen=True, slots=True)
class Load:
    """Asks a fork server to load something, with the folders in which modules are looked for, if not its own."""

    start: Start
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """Whether the fork server forks."""

    forks: bool


@dataclass(frozen=True, slots=True)
class Declared:
    """Asks a fork server for the adapters of its file, or for one function of it."""

    function: str


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Asks a fork server to build a class of its file, and for what it has built; it forks no more after that."""

    name: str
    roles: tuple[Role, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function; a default that is not a plain value, nor holds such values alone, is foreign."""

    name: str
    kind: Literal["POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "VAR_POSITIONAL", "KEYWORD_ONLY", "VAR_KEYWORD"]
    required: bool
    default: Any
    annotation: str
    """The word that says what it is to be; empty where there is none, or more is said."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """An adapter of another process: what was declared, and its function's name, module and signature."""

    declared: Any
    function: str
    module: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Declarations:
    """The adapters of a file."""

    adapters: tuple[Declaration, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """Asks a fork server for a worker, or for another fork server.

    The other end of its socket comes along, and the file that takes what it prints.
    """

    environment: Variables
    fork_server: bool = False


@dataclass(frozen=True, slots=True)
class Forked:
    """The process that a fork server has forked."""

    pid: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Asks a fork server how a process that it has forked has ended; it is ended, with all that it has started."""

    pid: int


@dataclass(frozen=True, slots=True)
class Status:
    """How a process has ended, as `waitpid` says it, in one number; in none where nobody knows."""

    pid: int
    status: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """An `Error` in place of an answer."""

    kind: Literal["Error", "UsageError", "TargetError"]
    says: str


# What a worker is told, and answers


@dataclass(frozen=True, slots=True)
class Open:
    """Asks a worker to make an adapter of a module or file ready; later calls name it by `key`."""

    key: int
    module: str
    path: str
    name: str
    framework: str
    interface: Interface
    served: Served | None = None
    """The program that makes the calls, if one does."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Asks a worker to begin a program, and for what that says of itself."""

    served: Served


@dataclass(frozen=True, slots=True)
class Make:
    """Asks a worker to make a call."""

    key: int
    call: Call


@dataclass(frozen=True, slots=True)
class Hold:
    """Asks a worker to make a large call, and to keep what it gives."""

    key: int
    call: LargeCall


@dataclass(frozen=True, slots=True)
class Part:
    """Asks a worker for a part of an output that it keeps: from where to where along each axis."""

    key: int
    name: str
    box: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Extremes:
    """Asks a worker where the least and the greatest entry of an output that it keeps are, counted over all axes."""

    key: int
    name: str


@dataclass(frozen=True, slots=True)
class Rest:
    """Asks a worker to let go of what an adapter and its framework keep between calls, such as compiled functions."""

    key: int


@dataclass(frozen=True, slots=True)
class Ask:
    """What a worker is asked, with a number that the answer repeats."""

    number: int
    what: Open | Offer | Make | Hold | Part | Extremes | Rest


@dataclass(frozen=True, slots=True)
class Opened:
    """An adapter is ready."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a program says of itself, as JSON."""

    text: str


@dataclass(frozen=True, slots=True)
class Made:
    """What came back of a call, and the most memory that the process has used, in bytes."""

    reply: Reply
    memory: int


@dataclass(frozen=True, slots=True)
class Entries:
    """A part of an output."""

    array: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker answers, with the number of what it was asked, and of its own process."""

    number: int
    pid: int
    what: Opened | Capabilities | Made | Held | Entries | Refused


# Adapters and errors


class Elsewhere:
    """A function of another process: its name, its signature, and no more."""

    def __init__(self, name: str, module: str, signature: inspect.Signature) -> None:
        self.__name__, self.__module__, self.__signature__ = name, module, signature

    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        raise TypeError(f"{self.__name__} is a function of another process")


def declaration(adapter: Adapter) -> Declaration:
    """An adapter as another process is told of it; a signature that cannot be read is a `TargetError`."""
    function = adapter.function
    try:
        found = inspect.signature(function).parameters.values()
        parameters = tuple(
            Parameter(exact_text(p.name), p.kind.name, p.default is p.empty, exact(p.default), annotation_of(p))  # type: ignore[arg-type] - a name of a kind
            for p in found
        )
    except Exception as error:
        raise TargetError(f"the signature of {told(function)} cannot be read: {told(error)}") from None
    declared = {f.name: exact(getattr(adapter, f.name)) for f in fields(adapter) if f.name != "function"}
    name = getattr(function, "__name__", type(function).__name__)
    return Declaration(declared, told(name), told(function.__module__), parameters)


def annotation_of(parameter: inspect.Parameter) -> str:
    """The last word of what a parameter is annotated as, without its module; nothing where that is no single word."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return ""
    word = exact_text(getattr(annotation, "__name__", annotation)).rpartition(".")[2]
    return word if word.isidentifier() and len(word) < WORD else ""


WORD = 64
"""Characters of an annotation that is told."""


def adapter_of(said: Declaration) -> Adapter:
    """The adapter that a declaration speaks of, with a function that only has its signature."""
    try:
        parameters = [
            inspect.Parameter(
                p.name,
                getattr(inspect.Parameter, p.kind),
                default=inspect.Parameter.empty if p.required else p.default,
                annotation=p.annotation or inspect.Parameter.empty,
            )
            for p in said.parameters
        ]
        function = Elsewhere(said.function, said.module, inspect.Signature(parameters))
        return Adapter(function=function, **said.declared)
    except (TypeError, ValueError) as error:
        raise GarbledError(f"sent no adapter: {told(error)}") from None


ERRORS: dict[str, type[Error]] = {kind.__name__: kind for kind in (Error, UsageError, TargetError)}


def refused(error: Error) -> Refused:
    """An error as another process is told of it."""
    kind = type(error).__name__ if ERRORS.get(type(error).__name__) is type(error) else "Error"
    return Refused(kind, safe_lines(exact_text(error), LINES, 4 * LINE))  # type: ignore[arg-type] - a key of ERRORS


def error_of(answer: Refused) -> Error:
    return ERRORS[answer.kind](safe_lines(answer.says, LINES, 4 * LINE))


# On a wire


def send(wire: Wire, message: Any, seconds: float | None = None, files: Sequence[int] = ()) -> None:
    """Send a message; see `Wire.send`."""
    wire.send(coding.written(message), files, seconds)


def receive(wire: Wire, *kinds: type[M], seconds: float | None = None) -> M:
    """The next message, of one of those kinds; any other is a `GarbledError`. See `Wire.receive`."""
    return understood(wire.receive(seconds), *kinds)


def understood(data: Any, *kinds: type[M]) -> M:
    """The message of one of those kinds that was written as `data`; `GarbledError` if none was."""
    try:
        return coding.read(data, kinds)
    except coding.MisfitError as error:
        raise GarbledError(f"sent an invalid reply: {told(error)}") from None
