"""The float64 reference: every operator written from its paper, in the most obvious way.

It is the second witness beside the definitions in `spec/`, shares no code with the language they are written in, and
imports NumPy alone. Symbols are those of the papers; what the specifications call an option or a convention is a
keyword here.
"""

from .aft import aft_full, aft_local, aft_simple
from .alibi import alibi_bias, alibi_slopes
from .appended_attention import appended_attention
from .attention import attention
from .attention_gradient import attention_gradient
from .attention_masks import attention_mask
from .band_scores import band_scores
from .beam_search import beam_search
from .bias import bucketed_bias, bucketed_bias_gradient, window_bias, window_bias_gradient
from .block_selection import block_selection
from .block_sparse import block_sparse_attention, block_sparse_attention_gradient
from .cache_writes import cache_write, latent_cache_write, scaled_cache_write
from .cached_attention import cached_attention
from .chunk_sums import chunk_cumsum, segment_sums
from .compressed import compressed_attention
from .decoder import decoder, transformer_block
from .deformable import deformable_attention, deformable_attention_gradient
from .differential import differential_attention
from .distillation import (
    distillation_loss,
    distillation_loss_gradient,
    linear_distillation_loss,
    linear_distillation_loss_gradient,
    total_variation,
    total_variation_gradient,
)
from .document_masks import document_mask
from .dropout import dropout
from .feed_forward import feed_forward, gated_activation, gated_activation_gradient, swiglu, swiglu_gradient
from .forgetting import (
    forgetting_attention,
    forgetting_attention_gradient,
    packed_forgetting_attention,
    packed_forgetting_attention_gradient,
)
from .gathered import gathered_attention, gathered_attention_gradient
from .generate import generate
from .gradients import (
    gated_rms_norm_gradient,
    group_norm_gradient,
    layer_norm_gradient,
    log_softmax_gradient,
    masked_softmax_gradient,
    residual_layer_norm_gradient,
    residual_rms_norm_gradient,
    rms_norm_gradient,
    softmax_gradient,
)
from .grouped_matmul import grouped_matmul, grouped_matmul_gradient
from .hstu import hstu_attention, hstu_attention_gradient
from .latent import latent_attention, latent_pages
from .lightning_indexer import lightning_indexer
from .linear_attention import (
    gated_delta_rule,
    kimi_delta_attention,
    linear_attention,
    short_convolution,
)
from .linear_recurrence import linear_recurrence, linear_recurrence_gradient
from .linformer import linformer
from .log_linear import log_linear_attention
from .lora import lora_matmul
from .losses import (
    cross_entropy,
    cross_entropy_gradient,
    linear_cross_entropy,
    linear_cross_entropy_gradient,
)
from .merging import merge_states
from .moe_layer import moe_layer
from .moe_routing import moe_routing
from .multi_head import multi_head
from .native_sparse import native_sparse_attention
from .neighborhood import neighborhood_attention, neighborhood_attention_gradient
from .norms import (
    gated_rms_norm,
    group_norm,
    layer_norm,
    modulated_norm,
    residual_layer_norm,
    residual_rms_norm,
    rms_norm,
)
from .packed_attention import packed_attention, packed_attention_gradient
from .packed_recurrences import (
    packed_convolution,
    packed_delta_rule,
    packed_linear_attention,
    packed_linear_recurrence,
    packed_state_space,
)
from .paged_attention import paged_attention, rotary_cache
from .penalties import token_penalties
from .policy import policy_loss, policy_loss_gradient
from .positions import (
    learned_position,
    mrope,
    qk_norm_mrope,
    qk_norm_rotary,
    rotary,
    rotary_frequencies,
    rotary_gradient,
    rotary_pair,
    rotary_tables,
    sinusoidal,
    timestep_embedding,
)
from .quantization import (
    activated_blocks,
    dequantize,
    dequantize_blocks,
    dequantize_gguf,
    normed_blocks,
    quantize,
    quantize_blocks,
    quantized_matmul,
    scaled_matmul,
)
from .recurrence_gradients import (
    gated_delta_rule_gradient,
    kimi_delta_attention_gradient,
    linear_attention_gradient,
    packed_convolution_gradient,
    selective_scan_gradient,
    short_convolution_gradient,
    state_space_gradient,
)
from .relative import relative_attention
from .renormalised_filter import renormalised_filter
from .retention import retention
from .rotary_self_attention import rotary_self_attention
from .routed_experts import routed_experts
from .sampling import filter_rows, min_p_filter, sample, sample_rows, top_k_filter, top_p_filter
from .softmax import log_softmax, masked_softmax, softmax
from .sparse_top_k import sparse_top_k
from .speculation import draft_verification, speculative_sampling
from .state_space import selective_scan, state_space
from .tensors import broadcast_shapes, einsum
from .time_mixing import wkv4, wkv6, wkv7
from .token_permutation import token_permutation, token_unpermutation
from .training import decay_groups, model_flops
from .trees import tree_mask
from .windowed_decoder import windowed_decoder

__all__ = [
    "activated_blocks",
    "aft_full",
    "aft_local",
    "aft_simple",
    "alibi_bias",
    "alibi_slopes",
    "appended_attention",
    "attention",
    "attention_gradient",
    "attention_mask",
    "band_scores",
    "beam_search",
    "block_selection",
    "block_sparse_attention",
    "block_sparse_attention_gradient",
    "broadcast_shapes",
    "bucketed_bias",
    "bucketed_bias_gradient",
    "cache_write",
    "cached_attention",
    "chunk_cumsum",
    "compressed_attention",
    "cross_entropy",
    "cross_entropy_gradient",
    "decay_groups",
    "decoder",
    "deformable_attention",
    "deformable_attention_gradient",
    "dequantize",
    "dequantize_blocks",
    "dequantize_gguf",
    "differential_attention",
    "distillation_loss",
    "distillation_loss_gradient",
    "document_mask",
    "draft_verification",
    "dropout",
    "einsum",
    "feed_forward",
    "filter_rows",
    "forgetting_attention",
    "forgetting_attention_gradient",
    "gated_activation",
    "gated_activation_gradient",
    "gated_delta_rule",
    "gated_delta_rule_gradient",
    "gated_rms_norm",
    "gated_rms_norm_gradient",
    "gathered_attention",
    "gathered_attention_gradient",
    "generate",
    "group_norm",
    "group_norm_gradient",
    "grouped_matmul",
    "grouped_matmul_gradient",
    "hstu_attention",
    "hstu_attention_gradient",
    "kimi_delta_attention",
    "kimi_delta_attention_gradient",
    "latent_attention",
    "latent_cache_write",
    "latent_pages",
    "layer_norm",
    "layer_norm_gradient",
    "learned_position",
    "lightning_indexer",
    "linear_attention",
    "linear_attention_gradient",
    "linear_cross_entropy",
    "linear_cross_entropy_gradient",
    "linear_distillation_loss",
    "linear_distillation_loss_gradient",
    "linear_recurrence",
    "linear_recurrence_gradient",
    "linformer",
    "log_linear_attention",
    "log_softmax",
    "log_softmax_gradient",
    "lora_matmul",
    "masked_softmax",
    "masked_softmax_gradient",
    "merge_states",
    "min_p_filter",
    "model_flops",
    "modulated_norm",
    "moe_layer",
    "moe_routing",
    "mrope",
    "multi_head",
    "native_sparse_attention",
    "neighborhood_attention",
    "neighborhood_attention_gradient",
    "normed_blocks",
    "packed_attention",
    "packed_attention_gradient",
    "packed_convolution",
    "packed_convolution_gradient",
    "packed_delta_rule",
    "packed_forgetting_attention",
    "packed_forgetting_attention_gradient",
    "packed_linear_attention",
    "packed_linear_recurrence",
    "packed_state_space",
    "paged_attention",
    "policy_loss",
    "policy_loss_gradient",
    "qk_norm_mrope",
    "qk_norm_rotary",
    "quantize",
    "quantize_blocks",
    "quantized_matmul",
    "relative_attention",
    "renormalised_filter",
    "residual_layer_norm",
    "residual_layer_norm_gradient",
    "residual_rms_norm",
    "residual_rms_norm_gradient",
    "retention",
    "rms_norm",
    "rms_norm_gradient",
    "rotary",
    "rotary_cache",
    "rotary_frequencies",
    "rotary_gradient",
    "rotary_pair",
    "rotary_self_attention",
    "rotary_tables",
    "routed_experts",
    "sample",
    "sample_rows",
    "scaled_cache_write",
    "scaled_matmul",
    "segment_sums",
    "selective_scan",
    "selective_scan_gradient",
    "short_convolution",
    "short_convolution_gradient",
    "sinusoidal",
    "softmax",
    "softmax_gradient",
    "sparse_top_k",
    "speculative_sampling",
    "state_space",
    "state_space_gradient",
    "swiglu",
    "swiglu_gradient",
    "timestep_embedding",
    "token_penalties",
    "token_permutation",
    "token_unpermutation",
    "top_k_filter",
    "top_p_filter",
    "total_variation",
    "total_variation_gradient",
    "transformer_block",
    "tree_mask",
    "window_bias",
    "window_bias_gradient",
    "windowed_decoder",
    "wkv4",
    "wkv6",
    "wkv7",
]
