"""Products with matrices as people write them: projections in one matrix, and codes with a code of zero."""

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


RIGHT = (multi_head_attention_forward, mha, mha_of_matrices_side_by_side, quant_matmul, w8a16_gemm)
WRONG = (
    mha_without_its_biases, mha_of_keys_as_queries, quant_matmul_of_the_next_code, quant_matmul_with_zeros_unscaled,
)  # fmt: skip


test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)
