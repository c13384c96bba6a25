"""A class with weights, as its own process sees it: its constructor, its parameters with their shapes, and its call.

What its constructor wants is guessed from the names of its parameters, and of the attributes of a configuration.
Nothing here knows a specification: which sizes there are, and how they are written, is told.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from ..data.texts import told
from ..errors import TargetError, did_you_mean
from .modules import filling
from .sources import load

Role = tuple[str, str, Any]
"""What a parameter may mean, how it is written in sizes of a case, and the number with which the class is built."""

WORDS = {
    "hidden": "hidden_dim hidden_features intermediate_size intermediate_dim d_ff dff ffn_dim ff_dim dim_feedforward "
    "mlp_dim inner_dim d_hidden hidden n_inner ffn_hidden_size dim_ff f ff ffn n_ff d_mlp n_hidden",
    "width": "dim embed_dim embedding_dim emb_dim hidden_size d_model n_embd n_embed n_state model_dim dim_model "
    "embed_size width d_in d_out in_dim out_dim in_features out_features hidden_dim normalized_shape ndim "
    "num_features features d n hidden_dims embedding_size query_dim context_dim cross_attention_dim",
    "heads": "heads num_heads n_heads n_head num_attention_heads nheads nhead num_q_heads n_q_heads num_query_heads h",
    "kv_heads": "kv_heads num_kv_heads n_kv_heads n_kv_head num_key_value_heads num_kv n_head_kv nkv kv n_kv kv_head "
    "n_query_groups num_query_groups num_kv_groups n_kv_groups",
    "head_dim": "head_dim d_head dim_head head_size d_k d_v d_kv",
    "vocab": "vocab_size n_vocab vocab num_embeddings num_tokens n_tokens vocabulary_size vocab_len padded_vocab_size",
    "layers": "n_layer n_layers num_layers num_hidden_layers depth layers num_blocks n_blocks nlayers n_block",
    "activation": "activation hidden_act act act_fn hidden_activation activation_function activation_fn",
    "expansion": "mlp_ratio expansion mult expansion_factor ff_mult expand widening_factor",
    "bias": "bias qkv_bias use_bias attention_bias mlp_bias out_bias proj_bias attn_bias",
    "eps": "eps epsilon norm_eps variance_epsilon layer_norm_eps rms_norm_eps layer_norm_epsilon",
    "base": "base theta rope_theta rotary_base rope_base",
    "rotary_dim": "rotary_dim rotary_ndims rope_dim rot_dim",
    "rotary_share": "rotary_pct partial_rotary_factor rotary_percentage rope_pct rotary_emb_pct rope_percentage",
    "length": "length block_size max_len max_length max_seq_len max_seq_length seq_len context_length n_positions "
    "n_ctx max_position_embeddings max_positions context_size max_sequence_length",
}
FIXED: dict[str, Any] = {
    **dict.fromkeys(
        ["bias", "qkv_bias", "use_bias", "attention_bias", "out_bias", "proj_bias", "elementwise_affine"], True
    ),
    **dict.fromkeys(
        ["dropout", "attn_dropout", "attn_pdrop", "resid_pdrop", "attention_dropout", "resid_dropout", "drop", "p"], 0.0
    ),
    **dict.fromkeys(["dropout_p", "dropout_rate", "proj_drop", "attn_drop", "dropout_prob"], 0.0),
    **dict.fromkeys(["layer_idx", "layer_id", "layer_index", "layer"], 0),
}
"""What is passed where it is asked for and has no default."""
DROPPED = 0.1
"""The share that a module of torch drops in training, and nothing of in evaluation, in which it is called."""
ALWAYS = {"batch_first": True}
LEFT = ("head_dim", *WORDS["activation"].split(), *WORDS["expansion"].split())
"""What is left at its default where it has one."""
WORDED = ("bias", "activation")
"""What is one word for all cases, and no size of theirs."""
CONFIGS = ("config", "cfg", "args", "conf", "params", "hparams", "model_args")
Guess = Callable[[str], tuple[str, Any] | None]


@dataclass(frozen=True, slots=True)
class Weight:
    """A parameter of a module: its path, its shape, and the class of what holds it."""

    path: str
    shape: tuple[int, ...]
    holder: str


@dataclass(frozen=True, slots=True)
class Survey:
    """A class that was built."""

    built: str
    """The expression that builds it, in sizes of a case."""
    uses: tuple[str, ...]
    """What of the roles its parameters mean."""
    weights: tuple[Weight, ...]
    takes: tuple[tuple[str, bool], ...]
    """The parameters of its call, and whether each has to be given."""
    framework: str
    """The framework of the arrays that it is called with."""
    inner: tuple[str, ...] = ()
    """The classes of the same file that it is made of, as far as its framework tells them."""
    left: tuple[str, ...] = ()
    """Numbers that its constructor has by default and of which nothing is known, as `name=number`."""


class _UnknownError(Exception):
    """Parameters of which nothing is known."""


def surveyed(path: Path, name: str, roles: Sequence[Role]) -> Survey:
    """A class of a file, built at the sizes of the roles; a `TargetError` where it cannot be."""
    module = load(path)
    kind = getattr(module, name, None)
    if not isinstance(kind, type):
        known = [other for other, x in vars(module).items() if isinstance(x, type)]
        raise TargetError(f"{path} has no class {name!r}{did_you_mean(name, known)}")
    framework, calling = _calling(kind)
    if calling is None:
        raise TargetError(f"{name} is not a module of torch, Flax or Keras")
    uses: dict[str, None] = {}
    guess = _guesses(roles, uses, dropping=framework == "torch")
    made, built = _made(module, path.stem, kind, guess)
    called = [p for p in [*inspect.signature(calling).parameters.values()][1:] if p.kind not in _VARIADIC]
    takes = tuple((p.name, p.default is p.empty) for p in called)
    if framework == "torch":
        holders = {at: type(one).__name__ for at, one in made.named_modules()}
        shapes = {at: (tuple(map(int, x.shape)), holders[at.rpartition(".")[0]]) for at, x in made.named_parameters()}
    else:
        shapes = {at: (shape, "") for at, shape in _shapes(made, roles, takes).items()}
    weights = tuple(Weight(at, shape, holder) for at, (shape, holder) in shapes.items())
    parts = [type(one) for one in made.modules()] if framework == "torch" else []
    inner = dict.fromkeys(one.__name__ for one in parts if one.__module__ == kind.__module__ and one is not kind)
    own = inspect.signature(kind.__init__).parameters.values()
    left = tuple(f"{p.name}={p.default}" for p in own if type(p.default) is int and guess(p.name) is None)
    return Survey(built, tuple(uses), weights, takes, framework, tuple(inner), left)


def _calling(kind: type) -> tuple[str, Callable[..., Any] | None]:
    """The framework of what a module is called with, and the function that a call is; None if it is no module."""
    bases = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in kind.__mro__}
    if "keras.Layer" in bases:  # which with torch as its backend is a module of torch as well
        return "numpy", kind.call  # type: ignore[attr-defined]
    if "torch.Module" in bases:
        return "torch", kind.forward  # type: ignore[attr-defined]
    return "numpy", kind.__call__ if "flax.Module" in bases else None


def _shapes(made: Any, roles: Sequence[Role], takes: Sequence[tuple[str, bool]]) -> dict[str, tuple[int, ...]]:
    """The parameters of a module that may be built by its first call only, which is made."""
    width = next((int(x) for role, _, x in roles if role == "width"), 1)
    count = sum(needed for name, needed in takes if "mask" not in name)
    tokens = any(role == "vocab" for role, _, _ in roles)
    one = np.zeros((1, LENGTH), np.int32) if tokens else np.zeros((1, LENGTH, width), np.float32)
    arrays = [one] * max(count, 1)
    try:
        return filling(made, arrays, lambda module: module(*arrays)).shapes
    except Exception as error:
        says = f"{type(error).__name__}: {told(error)}"
        raise TargetError(
            f"{type(made).__name__} cannot be called with {count} arrays {list(arrays[0].shape)}: {says}"
        ) from None


LENGTH = 4
"""Positions of the arrays with which a module is called first."""
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _guesses(roles: Sequence[Role], uses: dict[str, None], dropping: bool = False) -> Guess:
    """What is passed for a name; which roles were wanted is kept in `uses`. It may be `dropping`, as training does."""
    known = {role: (text, x) for role, text, x in roles}

    def guess(name: str) -> tuple[str, Any] | None:
        for role, words in WORDS.items():
            if role in known and name.lower() in words.split():
                if role not in WORDED:
                    uses[role] = None
                return known[role]
        if name == "rngs" and (nnx := sys.modules.get("flax.nnx")) is not None:
            return "nnx.Rngs(0)", nnx.Rngs(0)
        fixed = {**FIXED, **ALWAYS}
        if dropping and name in FIXED and "drop" in name:
            return repr(DROPPED), DROPPED
        return (repr(fixed[name]), fixed[name]) if name in fixed else None

    return guess


def _made(module: ModuleType, stem: str, kind: type, guess: Guess) -> tuple[Any, str]:
    """An instance of a class, and the expression that builds it."""
    wanted = [p for p in [*inspect.signature(kind.__init__).parameters.values()][1:] if p.kind not in _VARIADIC]
    passed: dict[str, tuple[str, Any]] = {}
    configured, unknown = "", []
    for p in wanted:
        required = p.default is p.empty
        if p.name in CONFIGS and required:
            configured = p.name
        elif not required and _as_it_is(p.name, guess):
            continue
        elif (found := guess(p.name)) is not None:
            passed[p.name] = found
        elif required:
            unknown.append(p.name)
    try:
        if unknown:
            raise _UnknownError(", ".join(map(repr, unknown)))
        if not configured:
            return _called(f"{stem}.{kind.__name__}", kind, passed)
        annotation = next(p.annotation for p in wanted if p.name == configured)
        config = _config_class(module, annotation)
        if config is not None:
            fields = dict(_fields(config, guess))
            x, text = _called(f"{stem}.{config.__name__}", config, fields)
            passed[configured] = (text, x)
            return _called(f"{stem}.{kind.__name__}", kind, passed)
        return _with_namespace(module, kind, passed, configured, guess)
    except _UnknownError as error:
        raise TargetError(
            f"{kind.__name__} cannot be built: nothing is known of {error}; write a factory that gives what it wants, "
            f"attnspec.module(lambda *, SIZES: {stem}.{kind.__name__}(...), OPERATOR, weights={{...}}), "
            "as docs/modules.md shows"
        ) from None


def _as_it_is(name: str, guess: Guess) -> bool:
    """Whether a default is kept: those of sizes of heads, and of what does not say that the operator wants another."""
    return name in LEFT or (name in FIXED and guess(name) == (repr(FIXED[name]), FIXED[name]))


def _called(label: str, kind: Callable[..., Any], passed: Mapping[str, tuple[str, Any]]) -> tuple[Any, str]:
    try:
        made = kind(**{name: x for name, (_, x) in passed.items()})
    except AttributeError:
        raise
    except Exception as error:
        values = ", ".join(f"{name}={told(x, 80)}" for name, (_, x) in passed.items())
        raise TargetError(f"{label}({values}) cannot be built: {type(error).__name__}: {told(error)}") from None
    return made, f"{label}({', '.join(f'{name}={text}' for name, (text, _) in passed.items())})"


def _config_class(module: ModuleType, annotation: Any) -> type | None:
    """The dataclass that a configuration is of: by its annotation, or the only one of the file."""
    named = getattr(module, annotation, None) if isinstance(annotation, str) else annotation
    if isinstance(named, type) and dataclasses.is_dataclass(named):
        return named
    found = [
        x
        for name, x in vars(module).items()
        if isinstance(x, type) and dataclasses.is_dataclass(x) and name.lower().endswith(("config", "args"))
    ]
    return found[0] if len(found) == 1 else None


def _fields(config: Any, guess: Guess) -> Iterator[tuple[str, tuple[str, Any]]]:
    unknown = []
    for one in dataclasses.fields(config):
        required = one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        if not one.init or (not required and _as_it_is(one.name, guess)):
            continue
        if (found := guess(one.name)) is not None:
            yield one.name, found
        elif required:
            unknown.append(f"{config.__name__}.{one.name}")
    if unknown:
        raise _UnknownError(", ".join(map(repr, unknown)))


def _with_namespace(
    module: ModuleType, kind: type, passed: dict[str, tuple[str, Any]], name: str, guess: Guess
) -> tuple[Any, str]:
    """An instance that is given the attributes of a configuration as it, or the file, asks for them."""
    label = f"{Path(str(module.__file__)).stem}.{kind.__name__}"
    asked = re.findall(rf"\b{name}\.([a-zA-Z]\w*)", inspect.getsource(module))  # by calls, too
    fields = {one: found for one in dict.fromkeys(asked) if (found := guess(one)) is not None and one not in FIXED}
    while True:
        config = SimpleNamespace(**{field: x for field, (_, x) in fields.items()})
        text = f"SimpleNamespace({', '.join(f'{field}={text}' for field, (text, _) in fields.items())})"
        try:
            return _called(label, kind, {**passed, name: (text, config)})
        except AttributeError as error:
            if error.obj is not config:
                raise TargetError(f"{label} cannot be built: AttributeError: {told(error)}") from None
            attribute = str(error.name)
            found = guess(attribute)
            if found is None:
                raise _UnknownError(repr(f"{name}.{attribute}")) from None
            fields[attribute] = found
