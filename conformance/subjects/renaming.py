"""Parameters matched to inputs and options of the operator by their aliases.

Only names whose meaning is one are taken for another: `sm_scale` is the scale, and `attn_mask` may be a mask or a bias.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..mechanisms.forward import spared
from ..mechanisms.layouts import stacks_of
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.parameters import words
from ..mechanisms.signatures import Signature
from ..mechanisms.stated import Line, expressions_in
from .sizes import SIZES, size_named

ALIKE = (
    {"scale", "softmax_scale", "sm_scale", "scaling", "attn_scale", "qk_scale"},
    {"causal", "is_causal", "use_causal"},
    {"softcap", "logits_soft_cap", "logit_soft_cap", "soft_cap", "attn_logits_soft_cap"},
    {"window_left", "left_window", "left_window_size"},
    {"eps", "epsilon", "norm_eps", "variance_epsilon", "layer_norm_eps"},
    {"base", "theta", "rope_theta", "rotary_base"},
    {"interleaved", "rope_interleaved", "rotary_interleaved"},
    {"rotary_dim", "rotary_ndims", "rotary_dims", "rope_dim", "rot_dim", "n_rot"},
    {"positions", "position_ids", "pos_ids"},
    {"weight", "gamma", "w"},
    {"targets", "target", "labels", "label"},
    {"q", "query", "queries"},
    {"k", "key", "keys"},
    {"v", "value", "values"},
    {"key_pages", "key_cache", "k_cache", "k_pages", "kcache"},
    {"value_pages", "value_cache", "v_cache", "v_pages", "vcache"},
    {"table", "block_table", "block_tables", "page_table", "page_tables"},
    {"k_lens", "seq_lens", "context_lens", "cache_seqlens", "kv_lens", "seqlens_k"},
    {"q_lens", "query_lens", "seqlens_q"},
    {"sink", "sinks", "s_aux", "attn_sink", "attn_sinks", "attention_sinks", "learnable_sink", "softmax_offset"},
    {"slopes", "alibi_slopes"},
    {
        "initial_state",
        "initial_states",
        "init_state",
        "h0",
        "s0",
        "state0",
        "prev_state",
        "past_state",
        "recurrent_state",
    },
    {
        "output_final_state",
        "return_final_state",
        "return_final_states",
        "return_last_state",
        "return_state",
        "output_state",
    },
    {
        "d_out",
        "do",
        "dout",
        "d_o",
        "grad_out",
        "grad_output",
        "grad_o",
        "output_grad",
        "out_grad",
        "dy",
        "d_y",
        "grad_y",
        "grad",
        "dloss",
    },
    {"d_q", "dq", "grad_q", "grad_query", "q_grad"},
    {"d_k", "dk", "grad_k", "grad_key", "k_grad"},
    {"d_v", "dv", "grad_v", "grad_value", "v_grad"},
    {"d_x", "dx", "grad_x", "grad_input", "input_grad", "x_grad"},
    {"d_weight", "dw", "d_w", "dweight", "grad_weight", "dgamma", "grad_gamma", "weight_grad", "gamma_grad"},
    {"d_bias", "db", "d_b", "dbias", "grad_bias", "dbeta", "grad_beta", "bias_grad", "beta_grad"},
)
"""Names that mean the same wherever they stand."""
TILE = re.compile(r"(block|group|tile|chunk)_?(size|shape)s?")
"""What a parameter is called that says how large the parts of an array are."""
TABLES = frozenset({
    "freqs", "freqs_cis", "freqs_ci", "freqs_cos", "freqs_sin", "cos", "sin", "cos_sin_cache", "image_rotary_emb",
    "indptr", "page_indptr", "kv_indptr", "paged_kv_indptr", "page_indices", "kv_page_indices", "paged_kv_indices",
    "last_page_len", "kv_last_page_len", "paged_kv_last_page_len", "qo_indptr", "q_indptr", "query_start_loc",
    "in_proj_weight", "in_proj_bias", "w_qkv", "b_qkv", "wqkv", "bqkv", "qkv_weight", "qkv_bias",
    "c_attn_weight", "c_attn_bias",
})  # fmt: skip
"""Names of what no operator takes, however early it stands."""
NEEDED = {
    "scale": ("head_dim", "head_dim ** -0.5 if scale == none else scale"),
    "softcap": ("", "0.0 if softcap == none else softcap"),
    "rotary_dim": ("dim", "dim if rotary_dim == none else rotary_dim"),
    "mask": ("k_len", "mask and full(true, 1, 1, q_len, k_len)"),
    "bias": ("k_len", "bias + full(0.0, 1, 1, q_len, k_len)"),
}
"""What is passed for none to a parameter without a default of its own, and the size that it takes for that."""


def like(name: str, known: Collection[str]) -> str:
    """The one of some names that means the same; nothing where there is none, or several are."""
    found = [other for alike in ALIKE if name.lower() in alike for other in known if other in alike]
    return found[0] if len(found) == 1 else ""


def stated_for(function: Callable[..., Any], mechanism: Mechanism, given: Line | None = None) -> str:
    """The interface of a function as a line; nothing where it is called as its operator is.

    `given` says what some of its parameters are passed.
    """
    names, wanting = [p.name for p in parameters_of(function)], _wanting(function) | numbered(function).keys()
    own, requires = matched(function, mechanism, given)
    for name, (size, text) in NEEDED.items():
        parameter = next((each for each, option in own.items() if option == name and each in wanting), "")
        lacked = name in mechanism.optional or mechanism.defaults.get(name, "") is None
        if parameter and lacked and (not size or size in mechanism.sizes):
            own[parameter] = text
    for parameter, name in own.items():
        if name in mechanism.optional and parameter in wanting:
            own[parameter] = f"none if single({name}) else {name}"
    ordered = {name: own[name] for name in names if name in own}
    left = _left(own, requires, mechanism)
    if left or (given is None and _usual(ordered, names, mechanism)):
        return ""
    line = given or Line(mechanism.operator, {})
    return str(replace(line, parameters=ordered, requires=requires))


def numbered(function: Callable[..., Any]) -> dict[str, float]:
    """The parameters for the scale of scores whose default is a number, which a call of the operator leaves to a width.

    They are passed a scale in every call.
    """
    plain = (p for p in parameters_of(function) if type(p.default) in (int, float) and p.default)
    return {p.name: p.default for p in plain if like(p.name, ["scale"])}


def given_by(function: Callable[..., Any], mechanism: Mechanism, read: Mapping[str, str]) -> set[str]:
    """The inputs and options that parameters give, of which some are read otherwise."""
    own = matched(function, mechanism, Line(mechanism.operator, read))[0]
    return {word for text in own.values() for word in re.findall(r"[a-z_]\w*", text)}


def spells(function: Callable[..., Any], mechanism: Mechanism, given: Line) -> bool:
    """Whether parameters have the names of all inputs of an operator, and a function asks for nothing else."""
    own, requires = matched(function, mechanism, given, by_place=False)
    return _wanting(function) <= own.keys() and not _left(own, requires, mechanism)


def lacks(function: Callable[..., Any], mechanism: Mechanism, name: str, read: Collection[str]) -> bool:
    """Whether no parameter of a function gives an input that every call has; by its place, none that is `read` does.

    What is none by default at the place of an array of numbers may be that array.
    """
    own, requires = matched(function, mechanism, None, unplaced=read)
    some = zip(mechanism.required, parameters_of(function), strict=False)
    placed = next((p for each, p in some if each == name and name not in mechanism.dtypes), None)
    perhaps = placed is not None and placed.default is None and placed.kind is not placed.KEYWORD_ONLY
    known = placed is not None and (placed.name in {*own, *read} or is_no_array(placed.name))
    return name in _left(own, requires, mechanism) and not (perhaps and not known)


def is_no_array(name: str) -> bool:
    """Whether a parameter is a table of angles, a flag or a size, as its name says, and no array of its place."""
    return name in TABLES or FLAG.match(name) is not None or TILE.fullmatch(name) is not None


def matched(
    function: Callable[..., Any],
    mechanism: Mechanism,
    given: Line | None,
    *,
    by_place: bool = True,
    unplaced: Collection[str] = (),
) -> tuple[dict[str, str], tuple[str, ...]]:
    """What parameters are passed, by their names and the first ones by their places, and what has to hold for that.

    No place says what is passed to those that are `unplaced`.
    """
    plain = parameters_of(function)
    names = [p.name for p in plain]
    own = dict(given.parameters if given else {})
    requires = dict.fromkeys(given.requires if given else ())
    known = (*mechanism.required, *mechanism.takes)
    for p in plain:
        free = [other for other in known if other not in names and other not in own.values()]
        whole = stack_called(p.name, mechanism, names)
        found = p.name if p.name in known else whole or _called(p, mechanism) or like(p.name, free)
        if found:
            own.setdefault(p.name, found)
        elif (output := _output(p, mechanism)) and not (p is plain[0] and _is_first(plain, mechanism)):
            own.setdefault(p.name, f"{{out: {output}}}")
        elif _is_dtype(p, mechanism):
            own.setdefault(p.name, f"{{dtype: {mechanism.outputs[0]}}}")
        elif p.name == DEVICE and p.default is p.empty:
            own.setdefault(p.name, f"{{device: {mechanism.outputs[0]}}}")
    requires |= _told_sizes(plain, own, mechanism, letters=False)
    left = _unpassed(own, requires, mechanism)
    for p in plain[: len(mechanism.required) if by_place else 0]:  # the first ones, whatever else they are called
        placed = p.default is p.empty and p.kind is not p.KEYWORD_ONLY
        free = placed and p.name not in own and not is_no_array(p.name) and p.name not in unplaced
        if left and free:
            own[p.name] = left.pop(0)
    requires |= _told_sizes(plain, own, mechanism, letters=True)
    return own, (*requires,)


def _is_first(plain: Sequence[inspect.Parameter], mechanism: Mechanism) -> bool:
    """Whether the first parameter is the first input, which no other is called, though an output is called so."""
    first = mechanism.required[:1]
    others = (p.name in first or like(p.name, first) or _called(p, mechanism) in first for p in plain[1:])
    return plain[0].default is inspect.Parameter.empty and not any(others)


def _called(parameter: inspect.Parameter, mechanism: Mechanism) -> str:
    """The input or option that functions of an operator call so; nothing where they call none so.

    What is none by default is no share that is zero where nothing is to be done: it may be a function, as a dropout.
    """
    found = _named(parameter.name, mechanism)
    own = mechanism.defaults.get(found)
    return "" if parameter.default is None and type(own) is float and own == 0 else found


def _named(name: str, mechanism: Mechanism) -> str:
    names = words(mechanism.operator).names
    known = {*mechanism.required, *mechanism.takes}
    return next((own for own, others in names.items() if own in known and {name, name.lower()} & others), "")


def stack_called(name: str, mechanism: Mechanism, names: Collection[str]) -> str:
    """The array of several inputs that functions call so, where no other of their parameters is one of these inputs."""
    known, stacks = words(mechanism.operator).names, stacks_of(mechanism.layouts)
    found = next((own for own in stacks if name.lower() == own or name.lower() in known.get(own, ())), "")
    parts = stacks.get(found, ())
    return (
        ""
        if any(other in parts or like(other, parts) or _named(other, mechanism) in parts for other in names)
        else found
    )


def _left(own: Mapping[str, str], requires: Collection[str], mechanism: Mechanism) -> list[str]:
    """The inputs of every call that no parameter is passed, and that are not determined either."""
    passed = [part for text in own.values() for part in expressions_in(text)]
    telling = (text for text in requires if "==" in text or "identical(" in text)
    words = {word for text in (*passed, *telling) for word in re.findall(r"[a-z_]\w*", text)}
    words |= {part for stack, parts in stacks_of(mechanism.layouts).items() if stack in words for part in parts}
    words |= spared(mechanism, words)
    return [name for name in mechanism.required if name not in words]


def _unpassed(own: Mapping[str, str], requires: Collection[str], mechanism: Mechanism) -> list[str]:
    """The same, and of gradients those as well from which results of the forward pass alone are computed."""
    if not mechanism.gradient_of:
        return _left(own, requires, mechanism)
    return [name for name in mechanism.required if name not in own.values()]


def _wanting(function: Callable[..., Any]) -> set[str]:
    return {p.name for p in parameters_of(function) if p.default is p.empty}


def _told_sizes(
    plain: Sequence[inspect.Parameter], own: dict[str, str], mechanism: Mechanism, *, letters: bool
) -> dict[str, None]:
    """What has to hold so that parameters are told the sizes that are added to what they are passed."""
    names, requires = [p.name for p in plain], dict[str, None]()
    for p in (p for p in plain if p.name not in own):
        others = [name for name in names if name != p.name]
        size, condition = size_named(p.name, sizes_in(mechanism), others, letters=letters and p.default is p.empty)
        if size:
            own[p.name] = COUNTED.get(size, size).format(mechanism.required[0] if mechanism.required else "")
            requires |= {condition: None} if condition else {}
    return requires


COUNTED = {"rows": "size(reshape({0}, -1)) // max(size({0}), 1)", "entries": "size(reshape({0}, -1))"}
"""Sizes that are counted in the first array, however many axes that has."""


DTYPES = frozenset({"out_dtype", "output_dtype", "o_dtype", "dst_dtype", "out_type"})
"""What a parameter is called that says which dtype the first output has."""
ASKED_DTYPES = DTYPES | {"dtype", "data_type", "torch_dtype"}
"""The same where a function asks for it, or it is narrow by default, and its output is no code: else it may be that of
sums."""
DEVICE = "device"
"""What a parameter is called that says where the outputs are."""
FLAG = re.compile(r"(is|has|use|return|enable|should|with)_\w+")
"""What a parameter is called that is true or false."""
OUTPUT = frozenset({"out", "output", "o", "result"})
"""What an array is called that the first output is written to."""


def is_told(name: str, mechanism: Mechanism, others: Collection[str]) -> bool:
    """Whether a parameter that a function asks for is told a size, or is room for an output."""
    others = [other for other in others if other != name]
    return name.lower() in OUTPUT | ASKED_DTYPES | {DEVICE} or bool(
        size_named(name, sizes_in(mechanism), others, letters=True)[0]
    )


def _is_dtype(parameter: inspect.Parameter, mechanism: Mechanism) -> bool:
    """Whether a parameter is the dtype of the first output, which a call has to say where its default is not none."""
    own = mechanism.dtypes.get(mechanism.outputs[0])
    numbers = own is None or (own == "number" and mechanism.outputs[0] != "codes")
    asked = parameter.default is parameter.empty or _is_narrow(parameter.default)
    named = ASKED_DTYPES if asked and numbers else DTYPES
    return parameter.name in named and parameter.default is not None and own not in mechanism.typing


def _is_narrow(default: object) -> bool:
    """Whether a default is a dtype of two bytes, in which nothing is summed."""
    return re.search(r"(^|\.)b?float16('>)?$", str(getattr(default, "__name__", default))) is not None


def sizes_in(mechanism: Mechanism) -> frozenset[str]:
    """The sizes that the arrays of every call show, and those that are options."""
    shown = (size for name in mechanism.required for size in mechanism.shapes.get(name, ()) if size)
    return frozenset([*shown, *(name for name in mechanism.options if name in SIZES)])


def _output(parameter: inspect.Parameter, mechanism: Mechanism) -> str:
    """The output that a parameter is room for; nothing where it is none."""
    if parameter.name in mechanism.outputs:  # a later one may be what is otherwise found, as a scale
        return parameter.name if parameter.default is not None or parameter.name == mechanism.outputs[0] else ""
    if mechanism.gradient_of:  # whose `out` is that of the forward pass
        return like(parameter.name, mechanism.outputs)
    return mechanism.outputs[0] if parameter.default is parameter.empty and parameter.name.lower() in OUTPUT else ""


def _usual(own: Mapping[str, str], names: Sequence[str], mechanism: Mechanism) -> bool:
    """Whether arrays come in their order, and all else by its own name."""
    first = [own.get(name) for name in names[: len(mechanism.required)]]
    others = (own[name] in (name, f"{{out: {name}}}") for name in names[len(mechanism.required) :] if name in own)
    return first == [*mechanism.required] and all(others)


def own_names(parameters: Sequence[inspect.Parameter], signature: Signature, arrays: Collection[str]) -> dict[str, str]:
    """What a known interface calls the parameters of a function: the first arrays by their places, others by names."""
    found: dict[str, str] = {}
    written = {name for name, passed in signature.parameters.items() if passed.how == "out"}
    read, names = [p for p in parameters if p.name not in written], {p.name for p in parameters}
    for p, own in zip(read, (name for name in signature.parameters if name not in written), strict=False):
        if own not in arrays or (p.name != own and (p.name in signature.parameters or own in names)):
            break
        found[p.name] = own
    for p in parameters:
        if p.name not in found and p.name not in signature.parameters:
            here = {*found.values(), *(each.name for each in parameters)}
            free = [name for name in signature.parameters if name not in here]
            if other := like(p.name, free):
                found[p.name] = other
    return {p.name: found.get(p.name, p.name) for p in parameters}


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function that have names of their own."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p for p in inspect.signature(function).parameters.values() if p.kind not in kinds]
