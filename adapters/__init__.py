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

import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
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
    batch_invariant: bool = False
    chunk_invariant: bool = False
    thread_safe: bool = False
    compiled: bool | None = None
    slow: bool = False
    interpreted: str = ""
    tiles: Collection[int] = ()
    splits: int = 0
    differentiable: bool | None = None
    devices: tuple[str, ...] = ()
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    accelerator: str = ""
    environment: tuple[str, ...] = ()
    package: str = ""
    extra: str = ""
    summary: str = ""
    seen: str = ""
    layout: str = ""
    like: str = ""
    in_place: str = ""
    place: str = ""
    """The file and line of the function, as far as they are known."""
    perhaps: tuple[str, ...] = ()
    """Of a plain function that does not show it: the frameworks that it may be of, in the order of a first call."""
    guessed: bool = False
    """Of a plain function: whether its interface is guessed, so that first calls may show another one."""
    compiles: bool = False
    """Of a plain function: whether its framework compiles it for every shape, as its type shows."""
    made: str = ""
    """Of a plain class whose forward pass is called: what stands behind its name where it is made."""
    bundle: str = ""
    """Of a plain function that takes all that it is passed in one parameter: whether that is a "tuple" or a "dict"."""
    factory: tuple[str, ...] | None = None
    """Of a module, what its factory takes of a case; nothing of a function."""
    same: Mapping[str, str] = field(default_factory=dict)
    """The inputs that a module takes once, each with the one that it is called with."""
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
    like: str = "",
    in_place: str = "",
    name: str | None = None,
    dtypes: Collection[str] = ("float32",),
    conventions: Mapping[str, str] | None = None,
    limits: Mapping[str, Collection[int]] | None = None,
    fixed: Mapping[str, Any] | None = None,
    requires: str | Collection[str] = (),
    grade: str | Mapping[str, str] | None = None,
    deterministic: bool = False,
    batch_invariant: bool = False,
    chunk_invariant: bool = False,
    thread_safe: bool = False,
    compiled: bool | None = None,
    slow: bool = False,
    interpreted: str = "",
    tiles: Collection[int] = (),
    splits: int = 0,
    differentiable: bool | None = None,
    devices: Collection[str] = (),
    on: Mapping[str, Mapping[str, Any]] | None = None,
    accelerator: str = "",
    environment: Collection[str] = (),
    package: str = "",
    extra: str = "",
    seen: str = "",
    **unknown: Never,
) -> Callable[[F], F]:
    """Declare the decorated function as an implementation of `operator`.

    * `framework`: whose arrays it takes, "torch", "numpy", "jax", "mlx", "cupy", "tinygrad" or "tensorflow".
    * `layout`: in which order the axes of its arrays come, as in "bshd" for [batch, length, heads, dim]; by default the
      operator's own. `attnspec explain attention` lists those of an operator.
    * `like`: a known interface that it has, as in "flash_attn_func": what its parameters are called, in which order and
      layout. `attnspec list signatures` lists them; the operator need not be given then.
    * `in_place`: the input that it may change, and that is its output afterwards.
    * `name`: by default the function's.
    * `dtypes`: of inputs and outputs; each is tested.
    * `conventions`: the word it follows where correct implementations differ; what is left out is identified.
    * `limits`: the values that a size may have, as in `{"head_dim": (64, 128), "k_len": range(16, 8193, 16)}`.
    * `fixed`: options that have one value only, as in `{"causal": True}`.
    * `requires`: what holds of every call that it takes, as expressions over sizes, options and inputs in the language
      of the specifications, as in `("value_dim == head_dim", "not causal or single(mask)")`.
    * `grade`: the precision it claims, for all dtypes or by dtype; by default the standard one of each.
    * `deterministic`: whether repeated calls are bit for bit the same.
    * `batch_invariant`: whether the bits of an item depend neither on the other items of its batch, nor on how many
      they are, nor on its place among them.
    * `chunk_invariant`: whether the bits of a query do not depend on which other queries are in the call.
    * `thread_safe`: whether threads may call it at once. The profile serving asks for these three where they are
      claimed, and says what it sees where they are not.
    * `compiled`: whether it compiles for every shape, so that few shapes are drawn. By default, what JAX and tinygrad
      run is taken to, and what `torch.compile`, `mx.compile` and `tf.function` return; the profile quick then tries no
      more scenarios than show every known mistake.
    * `slow`: whether a call takes long, so that `check --all` leaves it out and it has to be named.
    * `interpreted`: what runs a device's kernel on the CPU, as in "Triton's interpreter"; reports of a run there
      say that no device was seen.
    * `tiles`: how many queries and how many keys it takes at a time, as in `(128, 64)`.
    * `splits`: in how many parts it may take the keys. The profile serving tries lengths on both sides of these two.
    * `differentiable`: whether its gradients are checked as well, by the automatic differentiation of torch, JAX or
      MLX; false says that it is for inference. By default, a first call finds out.
    * `devices`: the kinds that it runs on, as in `("cuda",)`; by default all that its framework has.
    * `on`: what else holds on a kind of device, as in `{"cuda": {"limits": {"head_dim": (64, 128)}}}`: dtypes,
      conventions, limits, fixed, requires, grade and compiled. Dicts are added to those of the rest, and conditions
      are asked for beside them.
    * `accelerator`: the type of device that it needs on a cluster, as in "H100"; `attnspec check --on ray` asks for it.
    * `environment`: requirements that are installed for its tasks on a cluster alone, as in `("flash-attn==2.6.3",)`,
      where they would conflict with those of others.
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
                like=like,
                in_place=in_place,
                dtypes=_kept(dtypes),
                conventions={} if conventions is None else _kept(conventions),
                limits={} if limits is None else _kept(limits),
                fixed={} if fixed is None else _kept(fixed),
                requires=_kept(requires),
                grade=grade,
                deterministic=deterministic,
                batch_invariant=batch_invariant,
                chunk_invariant=chunk_invariant,
                thread_safe=thread_safe,
                compiled=compiled,
                slow=slow,
                interpreted=interpreted,
                tiles=_kept(tiles),
                splits=splits,
                differentiable=differentiable,
                devices=_kept(devices),
                on={} if on is None else _kept(on),
                accelerator=accelerator,
                environment=_kept(environment),
                package=package,
                extra=extra,
                summary=(getattr(function, "__doc__", None) or "").strip().partition("\n")[0],
                seen=seen,
                factory=getattr(function, "built_from", None),
                same=_kept(getattr(function, "same", {})),
                further=further,
            )
        )
        return function

    given: Any = operator
    if isinstance(given, str) or not callable(given):
        return declare
    return declare(cast(Any, given), "")  # the function itself, under `@adapter` without an operator


class Module:
    """A class with weights of its own, and how a case fills and calls it; `module` says what each part means.

    It stands where an adapter has its function. Only attnspec calls it, which knows the sizes of a case.
    """

    def __init__(self, factory: Callable[..., Any], operator: str, place: tuple[str, str, int], **parts: Any) -> None:
        """`place` is the module in which it is declared, with its file and line."""
        self.factory, self.operator, self.parts = factory, operator, parts
        self.__module__, self.place = place[0], place[1:]
        self.same = parts["same"]
        given = parts["name"] or getattr(factory, "__name__", "")
        self.__name__ = operator if given in ("", "<lambda>") else given
        self.__doc__ = getattr(factory, "__doc__", None)
        whole = _parameters(factory.__init__)[1:] if isinstance(factory, type) else _parameters(factory)
        taken = [p for p in whole if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.built_from = tuple(p.name for p in taken)
        names = [*_named(parts["inputs"]), *_named(parts["options"]), *_named(parts["weights"]), *_named(parts["same"])]
        by_call = _parameters(parts["call"])[1:] if parts["call"] is not None else []
        found = {p.name: p for p in by_call} | {name: None for name in names if name not in {p.name for p in by_call}}
        found |= {p.name: p for p in taken if p.name not in found}
        kind = inspect.Parameter
        self.__signature__ = inspect.Signature(
            [
                kind(name, kind.KEYWORD_ONLY, default=None if p is None else p.default)
                for name, p in found.items()
                if name.isidentifier()
            ]
        )

    def __call__(self, *_: Any, **__: Any) -> Never:
        raise TypeError(f"{self.__name__} is called by attnspec alone, which knows the sizes of a case")


def module(
    factory: Callable[..., Any],
    operator: str = "",
    *,
    weights: Mapping[str, str | Sequence[str]],
    inputs: Sequence[str] | Mapping[str, int | str] | None = None,
    options: Sequence[str] | Mapping[str, str] = (),
    same: Mapping[str, str] | None = None,
    keywords: Mapping[str, Any] | None = None,
    returns: int | str | None = None,
    leave: Sequence[str] | Mapping[str, float | None] = (),
    call: Callable[..., Any] | None = None,
    name: str | None = None,
    **declaration: Any,
) -> Module:
    """Declare a class with weights of its own as an implementation of `operator`: an `nn.Module`, of Flax or of Keras.

        attention = attnspec.module(
            lambda *, dim, heads: CausalSelfAttention(Config(n_embd=dim, n_head=heads)),
            "multi_head",
            weights={"wq": "c_attn.weight[0/3].T", ..., "wo": "c_proj.weight.T", "bo": "c_proj.bias"},
            same={"context": "x"},
            fixed={"causal": True},
        )

    * `factory`: makes the module; its parameters are names of sizes and options of the operator, `dtype` and `device`.
      It is called once for all cases that agree in them, and the module is filled anew for each case.
    * `weights`: for each input that is a weight, the parameter that holds it, or several of them: its path, and what
      makes the weight of it: `.T`; `[0/3]`, a section, or `[:dim]`, a slice in sizes of the case; a pattern of einops,
      `| i (heads d) -> i heads d`; `1 + path`, a parameter from which one was taken.
      `layers.*.path` holds a weight layer by layer.
      A parameter whose weight is not given in a case, as a bias may be, holds what the operator has in its place.
    * `inputs`: what the module is called with: names by position, or a dict of names and positions or keywords.
      By default it is called with `x` alone, or with `tokens` where an embedding is among its weights.
    * `options`: those that it is called with, or a dict of them and its own keywords.
    * `same`: inputs that the module takes once, as in `{"context": "x"}` for self-attention.
    * `keywords`: what else it is called with.
    * `returns`: of several results the place, key or attribute of the output, as in `0` or `"logits"`.
    * `leave`: parameters that no weight fills, as the factory has made them, or a dict with the number that each holds.
    * `call`: a function of the module, inputs and options that makes the call, in place of `inputs` and `options`.
    * `name`: by default the factory's, or the operator for a lambda.

    The other keywords are those of `adapter`. What is declared is read when the module is used.
    """
    frame = sys._getframe(1)
    made = Module(
        factory,
        operator,
        (frame.f_globals.get("__name__", ""), frame.f_code.co_filename, frame.f_lineno),
        weights=weights,
        inputs=() if call is not None else _first_input(weights) if inputs is None else inputs,
        options=options,
        same={} if same is None else same,
        keywords=keywords or {},
        returns=returns,
        leave=leave,
        call=call,
        name=name,
    )
    return adapter(operator, name=made.__name__, **declaration)(made)


def _first_input(weights: Any) -> tuple[str, ...]:
    return ("tokens",) if "embedding" in _named(weights) else ("x",)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function; none where they cannot be read."""
    try:
        return [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return []


def _named(x: Any) -> list[str]:
    """The names in a text, a list or a dict, as far as they are names."""
    given = [x] if isinstance(x, str) else x if isinstance(x, Collection) else []
    return [one for one in given if isinstance(one, str)]


def _kept(x: Any) -> Any:
    """A copy of a dict or list, and one text as several; anything else as it is."""
    if isinstance(x, dict):
        return dict(x)
    return (x,) if isinstance(x, str) else tuple(x) if isinstance(x, list) else x


def registered() -> tuple[Adapter, ...]:
    """Every adapter declared so far, in order."""
    return tuple(_registered)
