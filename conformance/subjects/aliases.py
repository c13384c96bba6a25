"""The names that libraries give to inputs and options of operators, so that such a parameter is recognised."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping

from ..errors import did_you_mean
from ..mechanisms.signatures import signatures

FURTHER = {
    "causal": "use_causal causal_mask use_causal_mask is_causal_mask",
    "mask": "attn_mask attention_mask key_padding_mask padding_mask key_mask attn_masks",
    "bias": "attn_bias attention_bias position_bias pos_bias alibi_slopes alibi attn_mask",
    "scale": "scaling scale_factor qk_scale attn_scale",
    "sink": "attention_sinks attn_sink",
    "softcap": "logit_soft_cap soft_cap softcapping logit_cap attn_logits_soft_cap",
    "window_left": "window sliding_window local_window_size left_window left_window_size",
    "window_right": "right_window right_window_size",
    "window": "window_size sliding_window attention_window",
    "dropout_p": "dropout dropout_rate dropout_prob attn_dropout attention_dropout",
    "p": "dropout dropout_p dropout_rate dropout_prob top_p",
    "k": "top_k keys",
    "q": "queries",
    "v": "values",
    "heads": "num_heads n_heads num_attention_heads num_q_heads n_head nheads",
    "kv_heads": "num_kv_heads n_kv_heads num_key_value_heads num_key_heads",
    "eps": "epsilon norm_eps variance_epsilon layer_norm_eps",
    "base": "theta rope_theta rotary_base",
    "positions": "position_ids pos_ids",
    "rotary_dim": "rotary_dims rope_dim",
    "interleaved": "rope_interleaved",
    "q_lens": "cu_seqlens_q seqlens_q q_seqlens",
    "k_lens": "cu_seqlens_k seqlens_k k_seqlens context_lens",
    "table": "page_table block_indices",
    "training": "is_training train",
    "seed": "rng rng_key generator rng_state",
    "new_tokens": "max_new_tokens max_tokens",
    "temperature": "temp",
    "width": "num_beams beam_size beam_width",
}
"""For a name in the specifications, what else it is called, beside what known interfaces have."""
_PASSED = re.compile(r"(?:.* else )?([a-z]\w+|[a-z])")
"""A name that a parameter is passed as it is, or in place of what stands for none."""
SHORT = 1
"""Letters of a name that says nothing by itself."""


@functools.cache
def aliases() -> Mapping[str, frozenset[str]]:
    """For a name in the specifications, what else it is called: by known interfaces, and elsewhere."""
    found = {own: {*others.split()} for own, others in FURTHER.items()}
    for signature in signatures().values():
        for parameter, passed in signature.parameters.items():
            own = _PASSED.fullmatch(passed.texts[0]) if passed.how in ("array", "tuple") else None
            if own and len(parameter) > SHORT and parameter != own[1]:
                found.setdefault(own[1], set()).add(parameter.lower())
    return {own: frozenset(others) for own, others in found.items()}


def known_as(name: str, known: Collection[str]) -> list[str]:
    """What a name of a library's is called by those names that are known, if they have it under another one."""
    return [own for own, others in aliases().items() if own in known and name.lower() in others]


def meant(name: str, known: Collection[str]) -> str:
    """`; did you mean 'x'?` for what a name may represent, and nothing where nothing is near."""
    found = known_as(name, known)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else did_you_mean(name, known)


def untested(parameter: str, known: Collection[str]) -> str:
    """What to say of a parameter of a function that an operator does not know."""
    if parameter.startswith("*"):
        return f"`{parameter}` accepts any arguments; they are not tested"
    if parameter in known:
        return f"`{parameter}` is not passed by that known interface: not tested"
    hint = meant(parameter, known).replace("'", "`").removeprefix("; ")
    return f"`{parameter}` is not an option: {hint}{' ' if hint else ''}not tested"
