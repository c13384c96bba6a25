"""What sizes the scenarios of an operator reach: a fault behind the first tile shows only beyond it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.mechanism import Mechanism, Setting

TILE = 64
SMALL = {
    # every size is small: whole models, shapes, and what draws again and again
    **dict.fromkeys(("decoder", "generate", "windowed_decoder", "broadcast_shapes"), "*"),
    # sizes that are parts of another one, or come with one, which is large
    "appended_attention": "group",
    "attention": "group",
    "block_sparse_attention": "group heads q_len k_len",
    "block_sparse_attention_gradient": "group batch kv_heads q_len k_len",
    "cached_attention": "kv_heads group",
    "gated_delta_rule": "key_heads group",
    "gated_delta_rule_gradient": "key_heads group",
    "gated_rms_norm": "batch length",
    "gated_rms_norm_gradient": "batch",
    "gathered_attention": "group q_len",
    "gathered_attention_gradient": "group",
    "kimi_delta_attention": "key_heads group",
    "kimi_delta_attention_gradient": "key_heads group",
    "log_linear_attention": "key_heads group levels",
    "moe_routing": "of_group experts",
    "mrope": "axes half",
    "multi_head": "shared readers",
    "packed_attention": "group",
    "packed_attention_gradient": "group",
    "packed_delta_rule": "key_heads group",
    "packed_state_space": "groups of_group",
    "paged_attention": "group",
    "rotary_cache": "kv_heads group",
    "qk_norm_mrope": "axes kv_heads group pairs rest",
    "qk_norm_rotary": "kv_heads group",
    "rotary_pair": "kv_heads group",
    "state_space": "groups of_group",
    "state_space_gradient": "groups of_group",
    "transformer_block": "half",
    # sizes that are small in every model
    "bucketed_bias": "quarter heads",
    "bucketed_bias_gradient": "quarter heads",
    "packed_convolution": "width",
    "packed_convolution_gradient": "width",
    "routed_experts": "k",
    "short_convolution": "width",
    "token_permutation": "k",
    "token_unpermutation": "k experts",
    "short_convolution_gradient": "width",
    # sizes that are large together with an option alone, which every implementation takes
    "einsum": "batch",
    "filter_rows": "rows n",
    "renormalised_filter": "rows n",
    "token_penalties": "rows n prompt_len length",
    "learned_position": "rows",
    "lora_matmul": "slices",
    "lightning_indexer": "batch",
    "window_bias": "heads",
    "window_bias_gradient": "heads",
    # sizes that others make dear
    "band_scores": "heads",
    "document_mask": "batch",
    "latent_pages": "batch",
    "linformer": "heads",
    "merge_states": "states",
    "native_sparse_attention": "batch kv_heads group q_len k_len count head_dim value_dim",
    "sparse_top_k": "heads",
}
"""By operator, the sizes that no plain scenario takes beyond a tile."""


def reached() -> Mapping[str, Mapping[str, int]]:
    """By operator and size, the largest number that a plain scenario assigns; what follows from others is left out.

    A plain scenario passes no option and no optional input, so that the plainest implementation takes it.
    """
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for m in NONE.library().values():
        for scenario in m.scenarios.values():
            for size in m.sizes:
                if size in scenario.assigned:
                    numbers = map(int, re.findall(r"\d+", scenario.assigned[size].text)) if plain(m, scenario) else []
                    found[m.operator][size] = max([found[m.operator][size], *numbers])
    return found


def plain(m: Mechanism, scenario: Setting) -> bool:
    passed = {name: scenario.assigned[name].text for name in m.defaults if name in scenario.assigned}
    return all(text in (str(m.defaults[name]), str(m.defaults[name]).lower()) for name, text in passed.items())


def test_every_size_is_taken_beyond_a_tile() -> None:
    small = {}
    for operator, sizes in reached().items():
        few = [size for size, n in sizes.items() if n < TILE]
        if few and SMALL.get(operator) != "*":
            small[operator] = set(few)
    assert {operator: set(sizes.split()) for operator, sizes in SMALL.items() if sizes != "*"} == small
