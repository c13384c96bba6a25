"""Packed sequences in Hugging Face transformers, told by positions that begin again or by running sums.

Documentation: https://huggingface.co/docs/transformers/internal/modeling_utils (transformers.masking_utils) and
https://huggingface.co/docs/transformers/continuous_batching
The items are one sequence of a batch of one, causal, with as many keys as queries; where the positions do not go on by
one, another item begins. A causal window counts the token itself.
Continuous batching makes its mask of running sums, and items have further keys in a cache; here they are given.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

from .. import Unsupported, adapter
from .cache import configuration

DTYPES = ("float32", "bfloat16", "float16", "float64")
declared = functools.partial(
    adapter, dtypes=DTYPES, fixed={"causal": True}, package="transformers", extra="transformers"
)


def mask(backend: str, q: Any, q_lens: Any, k_lens: Any, window_left: int | None) -> Any:
    """The mask that a decoder makes of the positions of its tokens."""
    import torch
    from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask

    if not torch.equal(q_lens, k_lens):
        raise Unsupported("there are as many keys as queries")
    positions = torch.cat([torch.arange(int(n), device=q.device) for n in q_lens])[None]
    create = create_causal_mask if window_left is None else create_sliding_window_causal_mask
    config = configuration(None if window_left is None else window_left + 1)
    config._attn_implementation = backend
    return create(config, q[None, :, 0], None, None, position_ids=positions)


def layer(q: Any, k: Any) -> Any:
    """What the attention functions read of a layer."""
    return SimpleNamespace(
        num_key_value_groups=q.shape[1] // max(k.shape[1], 1), is_causal=True, training=False, layer_idx=0
    )


@declared("packed_attention", requires="all(q_lens == k_lens)", conventions={"grouping": "block"})
def transformers_packed_sdpa(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    causal: bool = True,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """The mask of packed positions, and sdpa_attention_forward."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    added = mask("sdpa", q, q_lens, k_lens, window_left)
    keys, values = (x.transpose(0, 1)[None] for x in (k, v))
    return sdpa_attention_forward(layer(q, k), q.transpose(0, 1)[None], keys, values, added, scaling=scale)[0][0]


@declared(
    "packed_attention",
    requires="all(q_lens == k_lens)",
    conventions={"grouping": "block"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp32"},
)
def transformers_packed_eager(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    causal: bool = True,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """The mask of packed positions, and eager_attention_forward of Llama."""
    from transformers.models.llama.modeling_llama import eager_attention_forward

    added = mask("eager", q, q_lens, k_lens, window_left)
    keys, values = (x.transpose(0, 1)[None] for x in (k, v))
    scaling = q.shape[2] ** -0.5 if scale is None else scale
    return eager_attention_forward(layer(q, k), q.transpose(0, 1)[None], keys, values, added, scaling=scaling)[0][0]


@declared(
    "packed_attention",
    requires="all(q_lens <= k_lens)",
    conventions={"causal_alignment": "bottom_right", "grouping": "block"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp32"},
)
def transformers_continuous_eager(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    causal: bool = True,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """The mask of continuous batching, and eager_paged_attention_forward."""
    import torch
    from transformers.generation.continuous_batching.utils import build_attention_mask
    from transformers.integrations.eager_paged import eager_paged_attention_forward

    if bool((k_lens < q_lens).any()):
        raise Unsupported("an item has the keys of its queries, at least")
    added = torch.full((1, 1, len(q), len(k)), torch.finfo(q.dtype).min, dtype=q.dtype, device=q.device)
    q_sums, k_sums = ([0, *lens.cumsum(0).tolist()] for lens in (q_lens, k_lens))
    build_attention_mask(added, q_sums, k_sums, 1 if window_left is None else window_left + 1)
    cache: Any = SimpleNamespace(update=lambda key_states, value_states, **_: (key_states, value_states))
    keys, values = (x.transpose(0, 1)[None] for x in (k, v))
    scaling = q.shape[2] ** -0.5 if scale is None else scale
    attend: Any = eager_paged_attention_forward
    return attend(layer(q, k), q.transpose(0, 1)[None], keys, values, added, scaling, cache=cache)[0][0]
