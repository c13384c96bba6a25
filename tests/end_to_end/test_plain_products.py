"""Products with matrices as people write them: projections in one matrix, codes with a code of zero, packed codes."""

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted


def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias
):
    q, k, v = (
        F.linear(x, w, b).unflatten(-1, (num_heads, embed_dim_to_check // num_heads)).transpose(1, 2)
        for x, w, b in zip((query, key, value), in_proj_weight.chunk(3), in_proj_bias.chunk(3), strict=True)
    )
    mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    return F.linear(mixed, out_proj_weight, out_proj_bias)


def mha(x, w_qkv, b_qkv, w_o, b_o, num_heads):
    return multi_head_attention_forward(x, x, x, x.shape[-1], num_heads, w_qkv, b_qkv, w_o, b_o)


def mha_of_matrices_side_by_side(x, w_qkv, w_o, n_heads):
    return mha(x, w_qkv.T, w_qkv.new_zeros(w_qkv.shape[1]), w_o.T, w_o.new_zeros(w_o.shape[1]), n_heads)


def quant_matmul(x, qweight, scales, zeros, group_size=32):
    scale, zero = (each.float().repeat_interleave(group_size, 1) for each in (scales, zeros))
    return (x.float() @ ((qweight.float() - zero) * scale).T).to(x.dtype)


def w8a16_gemm(x, w_q, scale, zero_point):
    matrix = (w_q.float() - zero_point.float()[:, None]) * scale.float()[:, None]
    return (x.float() @ matrix.T).to(x.dtype)


def mha_without_its_biases(x, w_qkv, b_qkv, w_o, b_o, num_heads):
    return mha(x, w_qkv, 0 * b_qkv, w_o, b_o, num_heads)


def mha_of_keys_as_queries(x, w_qkv, b_qkv, w_o, b_o, num_heads):
    wq, wk, wv = w_qkv.chunk(3)
    return mha(x, torch.cat((wk, wq, wv)), b_qkv, w_o, b_o, num_heads)


def quant_matmul_of_the_next_code(x, qweight, scales, zeros, group_size=32):
    return quant_matmul(x, qweight, scales, zeros + 1, group_size)


def quant_matmul_with_zeros_unscaled(x, qweight, scales, zeros, group_size=32):
    scale, zero = (each.float().repeat_interleave(group_size, 1) for each in (scales, zeros))
    return (x.float() @ (qweight.float() * scale - zero).T).to(x.dtype)


def codes_of(packed, bits, order=None):
    """The codes in integers of 32 bits along a new last axis, the lowest bits first, or in another order."""
    assert packed.dtype == torch.int32
    codes = packed[..., None] >> torch.arange(0, 32, bits, dtype=torch.int32) & (1 << bits) - 1
    return codes if order is None else codes[..., order]


def awq_gemm(x, qweight, scales, qzeros, split_k_iters, order=(0, 4, 1, 5, 2, 6, 3, 7)):
    codes, zeros = (codes_of(each, 4, list(order)).flatten(1) for each in (qweight, qzeros))
    zeros, scales = (each.repeat_interleave(len(codes) // len(scales), 0) for each in (zeros, scales.float()))
    return (x.float() @ ((codes - zeros) * scales)).to(x.dtype)


def gptq_gemm(x, qweight, qzeros, scales, g_idx, bits, least=1):
    codes = codes_of(qweight, bits).transpose(1, 2).flatten(0, 1)
    zeros, group = codes_of(qzeros, bits).flatten(1) + least, g_idx.long()
    return (x.float() @ ((codes - zeros[group]) * scales[group].float())).to(x.dtype)


def awq_gemm_in_order(x, qweight, scales, qzeros, split_k_iters):
    return awq_gemm(x, qweight, scales, qzeros, split_k_iters, range(8))


def gptq_gemm_of_zeros_as_they_are(x, qweight, qzeros, scales, g_idx, bits):
    return gptq_gemm(x, qweight, qzeros, scales, g_idx, bits, 0)


RIGHT = (awq_gemm, gptq_gemm, multi_head_attention_forward, mha, mha_of_matrices_side_by_side, quant_matmul, w8a16_gemm)
WRONG = (
    awq_gemm_in_order, gptq_gemm_of_zeros_as_they_are,
    mha_without_its_biases, mha_of_keys_as_queries, quant_matmul_of_the_next_code, quant_matmul_with_zeros_unscaled,
)  # fmt: skip


test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)
