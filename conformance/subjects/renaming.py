"""Parameters matched to inputs and options of the operator by their aliases.

Only names whose meaning is one are taken for another: `sm_scale` is the scale, and `attn_mask` may be a mask or a bias.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..mechanisms.mechanism import Mechanism
from ..mechanisms.signatures import Signature
from ..mechanisms.stated import written

ALIKE = (
    {"scale", "softmax_scale", "sm_scale", "scaling", "attn_scale", "qk_scale"},
    {"causal", "is_causal", "use_causal"},
    {"softcap", "logits_soft_cap", "logit_soft_cap", "soft_cap", "attn_logits_soft_cap"},
    {"window_left", "left_window", "left_window_size"},
    {"eps", "epsilon", "norm_eps", "variance_epsilon", "layer_norm_eps"},
    {"base", "theta", "rope_theta", "rotary_base"},
    {"interleaved", "rope_interleaved", "rotary_interleaved"},
    {"positions", "position_ids", "pos_ids"},
    {"weight", "gamma"},
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
)
"""Names that mean the same wherever they stand."""
TABLES = frozenset({"freqs", "freqs_cis", "freqs_cos", "freqs_sin", "cos", "sin", "cos_sin_cache", "image_rotary_emb"})
"""Names of what no operator takes, however early it stands."""
NEEDED = {
    "scale": ("head_dim", "head_dim ** -0.5 if scale == none else scale"),
    "softcap": ("", "0.0 if softcap == none else softcap"),
}
"""What is passed for none to a parameter without a default of its own, and the size that it takes for that."""


def like(name: str, known: Collection[str]) -> str:
    """The one of some names that means the same; nothing where there is none, or several are."""
    found = [other for alike in ALIKE if name.lower() in alike for other in known if other in alike]
    return found[0] if len(found) == 1 else ""


def stated_for(function: Callable[..., Any], mechanism: Mechanism, given: Mapping[str, str] | None = None) -> str:
    """The interface of a function as a line; nothing where it is called as its operator is.

    `given` says what some of its parameters are passed.
    """
    plain = _parameters(function)
    names = [p.name for p in plain]
    own = dict(given or {})
    known = (*mechanism.required, *mechanism.takes)
    for p in plain:
        free = [other for other in known if other not in names and other not in own.values()]
        found = p.name if p.name in known else like(p.name, free)
        if found:
            own.setdefault(p.name, found)
        elif p.name in mechanism.outputs:
            own.setdefault(p.name, f"{{out: {p.name}}}")
    left = [name for name in mechanism.required if name not in own.values()]
    for p in plain[: len(mechanism.required)]:  # the first ones, whatever else they are called
        free = p.name not in own and p.name not in TABLES and p.default is p.empty and p.kind is not p.KEYWORD_ONLY
        if left and free:
            own[p.name] = left.pop(0)
    wanting = {p.name for p in plain if p.default is p.empty}
    for name, (size, text) in NEEDED.items():
        parameter = next((each for each, option in own.items() if option == name and each in wanting), "")
        if parameter and mechanism.defaults.get(name, "") is None and (not size or size in mechanism.sizes):
            own[parameter] = text
    ordered = {p.name: own[p.name] for p in plain if p.name in own}
    if left or (given is None and _usual(ordered, names, mechanism)):
        return ""
    return written(mechanism.operator, ordered)


def _usual(own: Mapping[str, str], names: Sequence[str], mechanism: Mechanism) -> bool:
    """Whether arrays come in their order, and all else by its own name."""
    first = [own.get(name) for name in names[: len(mechanism.required)]]
    others = (own[name] in (name, f"{{out: {name}}}") for name in names[len(mechanism.required) :] if name in own)
    return first == [*mechanism.required] and all(others)


def own_names(parameters: Sequence[inspect.Parameter], signature: Signature, arrays: Collection[str]) -> dict[str, str]:
    """What a known interface calls the parameters of a function: the first arrays by their places, others by names."""
    found: dict[str, str] = {}
    written = {name for name, passed in signature.parameters.items() if passed.how == "out"}
    read = [p for p in parameters if p.name not in written]
    for p, own in zip(read, (name for name in signature.parameters if name not in written), strict=False):
        if own not in arrays or (p.name != own and p.name in signature.parameters):
            break
        found[p.name] = own
    for p in parameters:
        if p.name not in found and p.name not in signature.parameters:
            here = {*found.values(), *(each.name for each in parameters)}
            free = [name for name in signature.parameters if name not in here]
            if other := like(p.name, free):
                found[p.name] = other
    return {p.name: found.get(p.name, p.name) for p in parameters}


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p for p in inspect.signature(function).parameters.values() if p.kind not in kinds]
