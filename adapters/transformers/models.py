"""Attention functions that single models of Hugging Face transformers have for themselves.

Source: transformers/models/gemma2/modeling_gemma2.py and transformers/models/gpt_oss/modeling_gpt_oss.py, both under
eager_attention_forward, transformers/integrations/flex_attention.py (flex_attention_forward), and
transformers/masking_utils.py, whose masks are those of Mistral.
Gemma 2 caps the scores; GPT-OSS gives every head a sink and takes its softmax in the dtype of the inputs.
A window counts the token itself, and a mask of a model stands at the last keys.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

from .. import Unsupported, adapter
from .attention import additive, module

DTYPES = ("float32", "bfloat16", "float16", "float64")
MODEL = {"causal_alignment": "bottom_right", "grouping": "block", "masked_nonfinite": "propagates"}
NAIVE = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp32"}

REQUIRES = (
    "causal or window_left == none",
    "q_len <= k_len if causal else q_len == k_len",
    "size(mask == full(true, 1, 1, 1, 1), 1) * size(mask == full(true, 1, 1, 1, 1), 2) == 1",
)
"""Windows and past keys are those of a decoder, and a mask hides keys for all heads and queries alike."""
declared = functools.partial(adapter, package="transformers", extra="transformers")


@declared(
    "attention",
    dtypes=DTYPES,
    conventions={"empty_row": "mean_value", "empty_bias_row": "nan_row", "grouping": "block"},
    grade=NAIVE,
)
def gemma2_eager(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """eager_attention_forward of transformers.models.gemma2."""
    from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward

    layer: Any = module(q, k)
    layer.head_dim = q.shape[-1]
    out, _ = eager_attention_forward(layer, q, k, v, additive(mask, bias, q), scaling=scale, softcap=softcap)
    return out.transpose(1, 2)


@declared(
    "attention",
    dtypes=DTYPES,
    conventions={"empty_row": "mean_value", "empty_bias_row": "nan_row", "grouping": "block"},
    grade=NAIVE | {"float64": "fp64"},
)
def gpt_oss_eager(
    q: Any, k: Any, v: Any, *, mask: Any = None, bias: Any = None, sink: Any = None, scale: float | None = None
) -> Any:
    """eager_attention_forward of transformers.models.gpt_oss, with sinks of minus infinity where there are none."""
    from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

    layer: Any = module(q, k)
    layer.sinks = q.new_full((q.shape[1],), float("-inf")) if sink is None else sink
    scaling = q.shape[-1] ** -0.5 if scale is None else scale
    out, _ = eager_attention_forward(layer, q, k, v, additive(mask, bias, q), scaling)
    return out.transpose(1, 2)


def mask_of_a_model(q: Any, k: Any, causal: bool, window: int | None, mask: Any, implementation: str) -> Any:
    """The mask that a model with Mistral's configuration makes for its last tokens, as its attention takes it."""
    import torch
    import transformers
    from transformers.cache_utils import DynamicCache
    from transformers.masking_utils import (
        create_bidirectional_mask,
        create_causal_mask,
        create_sliding_window_causal_mask,
    )

    made: Any = transformers.MistralConfig
    config = made(num_hidden_layers=1, sliding_window=window, attn_implementation=implementation)
    q_len, k_len = q.shape[2], k.shape[2]
    if mask is not None:
        if mask.ndim != 4 or mask.shape[1:3] != (1, 1):
            raise Unsupported("a mask hides keys, for all heads and queries alike")
        mask = mask[:, 0, 0].expand(q.shape[0], k_len).long()
    if not causal:
        if q_len != k_len:
            raise Unsupported("as many tokens as keys")
        return create_bidirectional_mask(config=config, inputs_embeds=q[:, 0], attention_mask=mask)
    if q_len > k_len:
        raise Unsupported("no more tokens than keys")
    cache = DynamicCache()
    if q_len < k_len:
        past = k[:, :, : k_len - q_len]
        cache.update(past, past, 0)
    create = create_causal_mask if window is None else create_sliding_window_causal_mask
    return create(
        config,
        q[:, 0],
        mask,
        cache,
        position_ids=torch.arange(k_len - q_len, k_len, device=q.device)[None].expand(q.shape[0], -1),
    )


def mistral(
    q: Any, k: Any, v: Any, causal: bool, mask: Any, window: int | None, scale: Any, implementation: str
) -> Any:
    """The mask of a model and the attention function that goes with it."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from transformers.models.mistral.modeling_mistral import eager_attention_forward

    if window is not None and not causal:
        raise Unsupported("a window is causal")
    wide = None if window is None else window + 1
    made = mask_of_a_model(q, k, causal, wide, mask, implementation)
    attend: Any = eager_attention_forward if implementation == "eager" else ALL_ATTENTION_FUNCTIONS[implementation]
    layer: Any = SimpleNamespace(
        num_key_value_groups=q.shape[1] // max(k.shape[1], 1), training=False, is_causal=causal
    )
    scaling = q.shape[-1] ** -0.5 if scale is None else scale
    out, _ = attend(layer, q, k, v, made, scaling=scaling, sliding_window=wide)
    return out.transpose(1, 2)


@declared("attention", requires=REQUIRES, dtypes=DTYPES, conventions=MODEL | {"empty_row": "mean_value"}, grade=NAIVE)
def mistral_eager(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """Masks and eager_attention_forward as MistralModel puts them together."""
    return mistral(q, k, v, causal, mask, window_left, scale, "eager")


@declared("attention", requires=REQUIRES, dtypes=DTYPES, conventions=MODEL)
def mistral_sdpa(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """Masks and sdpa_attention_forward as MistralModel puts them together."""
    return mistral(q, k, v, causal, mask, window_left, scale, "sdpa")


@declared("attention", dtypes=("float32", "bfloat16", "float16"), conventions=MODEL, compiled=True, slow=True)
def mistral_flex(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """Masks and flex_attention_forward as MistralModel puts them together."""
    return mistral(q, k, v, causal, mask, window_left, scale, "flex_attention")
