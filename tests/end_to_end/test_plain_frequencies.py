"""Frequencies of rotary positions as people write them: each function has one kind of scaling, which its name says."""

import math

import torch

from .test_plain_functions import conforming, refuted


def get_inv_freq(head_dim, theta=10000.0):
    return 1.0 / theta ** (torch.arange(0, head_dim, 2).float() / head_dim)


def mscale_of(factor):
    return 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0


def yarn(base, dim, factor, trained, beta_fast, beta_slow, most):
    """Frequencies whose ramp ends at `most` at the latest."""
    low, high = (
        dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (beta_fast, beta_slow)
    )
    low, high = max(math.floor(low), 0), min(math.ceil(high), most)
    ramp = ((torch.arange(dim // 2).float() - low) / (max(high - low, 0.001))).clamp(0, 1)
    plain = get_inv_freq(dim, base)
    return plain / factor * ramp + plain * (1 - ramp)


def compute_yarn_parameters(
    base, dim, factor, original_max_position_embeddings, beta_fast=32.0, beta_slow=1.0, attention_factor=None
):
    frequencies = yarn(base, dim, factor, original_max_position_embeddings, beta_fast, beta_slow, dim - 1)
    return frequencies, mscale_of(factor) if attention_factor is None else attention_factor


def compute_yarn_parameters_of_pairs(
    base, dim, factor, original_max_position_embeddings, beta_fast=32.0, beta_slow=1.0, attention_factor=None
):
    frequencies = yarn(base, dim, factor, original_max_position_embeddings, beta_fast, beta_slow, dim // 2 - 1)
    return frequencies, mscale_of(factor) if attention_factor is None else attention_factor


def yarn_inv_freq_of_wide_bands(base, dim, factor, original_max_position_embeddings, beta_fast=32.0, beta_slow=1.0):
    return yarn(base, dim, factor, original_max_position_embeddings, 2 * beta_fast, beta_slow, dim - 1)


def llama3_inv_freq(dim, base, factor, low_freq_factor, high_freq_factor, old_context_len, turned_round=False):
    plain = get_inv_freq(dim, base)
    turns = old_context_len * plain / (2 * math.pi)
    smooth = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0, 1)
    smooth = 1 - smooth if turned_round else smooth
    return plain / factor * (1 - smooth) + plain * smooth


def llama3_inv_freq_turned_round(dim, base, factor, low_freq_factor, high_freq_factor, old_context_len):
    return llama3_inv_freq(dim, base, factor, low_freq_factor, high_freq_factor, old_context_len, turned_round=True)


def dynamic_inv_freq(dim, base, seq_len, max_position_embeddings, scaling_factor):
    growth = scaling_factor * max(seq_len, max_position_embeddings) / max_position_embeddings - (scaling_factor - 1)
    return get_inv_freq(dim, base * growth ** (dim / (dim - 2)))


def dynamic_inv_freq_within_the_length(dim, base, seq_len, max_position_embeddings, scaling_factor):
    growth = scaling_factor * seq_len / max_position_embeddings - (scaling_factor - 1)
    return get_inv_freq(dim, base * max(growth, 0.1) ** (dim / (dim - 2)))


def compute_default_rope_parameters(head_dim, rope_theta=10000.0, partial_rotary_factor=1.0):
    return get_inv_freq(int(head_dim * partial_rotary_factor), rope_theta), 1.0


def compute_default_rope_parameters_of_the_head(head_dim, rope_theta=10000.0, partial_rotary_factor=1.0):
    turned = int(head_dim * partial_rotary_factor) // 2
    return get_inv_freq(head_dim, rope_theta)[:turned], 1.0


SAID = {
    compute_default_rope_parameters: "the share of the channels that are turned",
    get_inv_freq: "`theta` for `base`",
    compute_yarn_parameters: "scaled by YaRN",
    llama3_inv_freq: "scaled as those of Llama 3",
    dynamic_inv_freq: "the base grows with the length",
}
WRONG = (
    compute_yarn_parameters_of_pairs, yarn_inv_freq_of_wide_bands, llama3_inv_freq_turned_round,
    dynamic_inv_freq_within_the_length, compute_default_rope_parameters_of_the_head,
)  # fmt: skip


def as_it_is_said(function, report):
    assert SAID[function] in str(report)


test_a_right_function_conforms = conforming(SAID, as_it_is_said)
test_a_wrong_function_does_not = refuted(WRONG, "quick")
