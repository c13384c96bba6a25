"""Adapters: how an implementation from elsewhere presents itself to the suite.

An adapter is a function with the signature of its operator, in canonical layout, under the decorator `adapter`:

    @adapter("attention", framework="torch", dtypes=("float32", "bfloat16"))
    def my_kernel(q, k, v, *, causal=False, scale=None):
        return my_package.flash(q, k, v, causal=causal, sm_scale=scale)

Positional parameters are the operator's inputs; keyword-only ones are what the implementation claims, and only what it
claims is tested. Each module here holds one family of implementations and imports its framework inside the calls, so
that reading a declaration needs nothing installed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Never, TypeVar, cast

if __name__ != "attnspec.adapters":
    raise ImportError(f"this folder is the package attnspec.adapters; do not import it as {__name__!r}")

F = TypeVar("F", bound=Callable[..., Any])


class Unsupported(Exception):  # noqa: N818 - it is an answer, not an error
    """Raised by an adapter for a combination outside its claim; such cases are counted and shown."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """One declaration; `adapter` says what each part means."""

    name: str
    operator: str
    function: Callable[..., Any]
    framework: str
    dtypes: tuple[str, ...] = ("float32",)
    conventions: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Collection[int]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    grade: str | Mapping[str, str] | None = None
    deterministic: bool = False
    compiled: bool = False
    slow: bool = False
    devices: tuple[str, ...] = ()
    package: str = ""
    extra: str = ""
    summary: str = ""
    seen: str = ""
    layout: str = ""
    place: str = ""
    """The file and line of the function, as far as they are known."""
    perhaps: tuple[str, ...] = ()
    """Of a plain function that does not show it: the frameworks that it may be of, in the order of a first call."""
    further: Mapping[str, Any] = field(default_factory=dict)
    """What was given and has no meaning."""

    @property
    def module(self) -> str:
        """Where the function was written."""
        return str(getattr(self.function, "__module__", None) or "")


_registered: list[Adapter] = []


def adapter(
    operator: str = "",
    *positional: Never,
    framework: str = "torch",
    layout: str = "",
    name: str | None = None,
    dtypes: Collection[str] = ("float32",),
    conventions: Mapping[str, str] | None = None,
    limits: Mapping[str, Collection[int]] | None = None,
    fixed: Mapping[str, Any] | None = None,
    requires: str | Collection[str] = (),
    grade: str | Mapping[str, str] | None = None,
    deterministic: bool = False,
    compiled: bool = False,
    slow: bool = False,
    devices: Collection[str] = (),
    package: str = "",
    extra: str = "",
    seen: str = "",
    **unknown: Never,
) -> Callable[[F], F]:
    """Declare the decorated function as an implementation of `operator`.

    * `framework`: whose arrays it takes, "torch", "numpy", "jax", "mlx", "cupy", "tinygrad" or "tensorflow".
    * `layout`: in which order the axes of its arrays come, as in "bshd" for [batch, length, heads, dim]; by default the
      operator's own. `attnspec explain attention` lists those of an operator.
    * `name`: by default the function's.
    * `dtypes`: of inputs and outputs; each is tested.
    * `conventions`: the word it follows where correct implementations differ; what is left out is identified.
    * `limits`: the values that a size may have, as in `{"head_dim": (64, 128), "k_len": range(16, 8193, 16)}`.
    * `fixed`: options that have one value only, as in `{"causal": True}`.
    * `requires`: what holds of every call that it takes, as expressions over sizes, options and inputs in the language
      of the specifications, as in `("value_dim == head_dim", "not causal or single(mask)")`.
    * `grade`: the precision it claims, for all dtypes or by dtype; by default the standard one of each.
    * `deterministic`: whether repeated calls are bit for bit the same.
    * `compiled`: whether it compiles for every shape, so that few shapes are drawn.
    * `slow`: whether a call takes long, so that `check --all` leaves it out and it has to be named.
    * `devices`: the kinds that it runs on, as in `("cuda",)`; by default all that its framework has.
    * `package`: the module that must be importable for it, and `extra` the extra of attnspec that installs it.
    * `seen`: of what is wrong on purpose, where its fault has happened.

    The function itself is returned unchanged. What is declared is kept as it was given, and read when the adapter is
    used: `attnspec.execution.declarations` says then what cannot be meant, with the line of the function.
    """
    further = {**{f"argument {number}": x for number, x in enumerate(positional, 2)}, **unknown}

    def declare(function: F, operator: str = operator) -> F:
        _registered.append(
            Adapter(
                name=getattr(function, "__name__", "") if name is None else name,
                operator=operator,
                function=function,
                framework=framework,
                layout=layout,
                dtypes=_kept(dtypes),
                conventions={} if conventions is None else _kept(conventions),
                limits={} if limits is None else _kept(limits),
                fixed={} if fixed is None else _kept(fixed),
                requires=_kept(requires),
                grade=grade,
                deterministic=deterministic,
                compiled=compiled,
                slow=slow,
                devices=_kept(devices),
                package=package,
                extra=extra,
                summary=(getattr(function, "__doc__", None) or "").strip().partition("\n")[0],
                seen=seen,
                further=further,
            )
        )
        return function

    given: Any = operator
    if isinstance(given, str) or not callable(given):
        return declare
    return declare(cast(Any, given), "")  # the function itself, under `@adapter` without an operator


def _kept(x: Any) -> Any:
    """A copy of a dict or list, and one text as several; anything else as it is."""
    if isinstance(x, dict):
        return dict(x)
    return (x,) if isinstance(x, str) else tuple(x) if isinstance(x, list) else x


def registered() -> tuple[Adapter, ...]:
    """Every adapter declared so far, in order."""
    return tuple(_registered)
