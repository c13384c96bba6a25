"""The masks that models of Hugging Face transformers make without a cache, and attention under them.

Documentation: https://huggingface.co/docs/transformers/internal/modeling_utils (transformers.masking_utils).
A causal window counts the token itself, as in Mistral; one of both sides has one reach and does not, as in ModernBERT.
Masks are those of keys, [batch, length], as tokenizers return them, and a model has as many keys as queries.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .. import Unsupported, adapter
from .cache import configuration, of_keys

DTYPES = ("float32", "bfloat16", "float16", "float64")


def causal_mask(backend: str, q: Any, mask: Any, left: int | None) -> Any:
    """The mask of a decoder, with a window or without; None where the backend is to hide the future itself."""
    from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask

    create = create_causal_mask if left is None else create_sliding_window_causal_mask
    config = configuration(None if left is None else left + 1)
    config._attn_implementation = backend
    return create(config, q[:, 0], of_keys(mask, q.shape[0]), None)


def bidirectional_mask(backend: str, q: Any, mask: Any, reach: int | None) -> Any:
    """The mask of an encoder, with a window or without; None where nothing is hidden."""
    from transformers.masking_utils import create_bidirectional_mask, create_bidirectional_sliding_window_mask

    create = create_bidirectional_mask if reach is None else create_bidirectional_sliding_window_mask
    config = configuration(reach)
    config._attn_implementation = backend
    return create(config=config, inputs_embeds=q[:, 0], attention_mask=of_keys(mask, q.shape[0]))


def made(backend: str, q: Any, k: Any, mask: Any, causal: bool, left: int | None, right: int | None) -> Any:
    """The mask that a model would hand to its attention."""
    if q.shape[2] != k.shape[2]:
        raise Unsupported("there are as many keys as queries")
    if causal and right not in (None, 0):
        raise Unsupported("a causal window has no right side")
    if not causal and left != right:
        raise Unsupported("a window of both sides has one reach")
    return causal_mask(backend, q, mask, left) if causal else bidirectional_mask(backend, q, mask, left)


@adapter(
    "attention",
    requires=(
        "q_len == k_len",
        "not causal or window_right == none or window_right == 0",
        "causal or window_left == window_right",
    ),
    dtypes=DTYPES,
    conventions={"empty_row": "zeros", "grouping": "block"},
    package="transformers",
    extra="transformers",
)
def transformers_masks_sdpa(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    window_left: int | None = None,
    window_right: int | None = None,
    scale: float | None = None,
) -> Any:
    """The makers of masks of transformers, and sdpa_attention_forward."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    layer: Any = SimpleNamespace(num_key_value_groups=q.shape[1] // max(k.shape[1], 1), is_causal=causal)
    added = made("sdpa", q, k, mask, causal, window_left, window_right)
    out, _ = sdpa_attention_forward(layer, q, k, v, added, scaling=scale)
    return out.transpose(1, 2)


@adapter(
    "attention",
    requires=(
        "q_len == k_len",
        "not causal or window_right == none or window_right == 0",
        "causal or window_left == window_right",
    ),
    dtypes=DTYPES,
    conventions={"empty_row": "mean_value", "grouping": "block"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp32"},
    package="transformers",
    extra="transformers",
)
def transformers_masks_eager(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    window_left: int | None = None,
    window_right: int | None = None,
    scale: float | None = None,
) -> Any:
    """The makers of masks of transformers, and eager_attention_forward of transformers.models.mistral."""
    from transformers.models.mistral.modeling_mistral import eager_attention_forward

    layer: Any = SimpleNamespace(num_key_value_groups=q.shape[1] // max(k.shape[1], 1), training=False)
    added = made("eager", q, k, mask, causal, window_left, window_right)
    out, _ = eager_attention_forward(layer, q, k, v, added, q.shape[-1] ** -0.5 if scale is None else scale)
    return out.transpose(1, 2)
