"""Functions that are told the sizes of their arrays, as launchers of kernels are: right and wrong ones."""

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted


def softmax(x, n_rows, n_cols):
    return torch.softmax(x.reshape(n_rows, n_cols), -1).reshape(x.shape)


def rms_norm(x, w, n_rows, hidden_size, eps):
    rows = x.reshape(n_rows, hidden_size).float()
    return (rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + eps) * w).to(x.dtype).reshape(x.shape)


def layer_norm(x, gamma, beta, M, N, eps):
    return F.layer_norm(x.reshape(M, N), (N,), gamma, beta, eps).reshape(x.shape)


def softmax_of_rows(x, N, D):
    return softmax(x, N, D)


def attention(q, k, v, B, H, S, D):
    q, k, v = (x.reshape(B, H, S, D) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v)


def swiglu(gate, up, n_rows, n_cols):
    return (F.silu(gate.reshape(n_rows, n_cols)) * up.reshape(n_rows, n_cols)).reshape(gate.shape)


def silu_and_mul(x, num_tokens, d):
    x = x.reshape(*x.shape[:-1], 2 * d)
    return F.silu(x[..., :d]) * x[..., d:]


def silu_mul(a, b, n_elements):
    return (F.silu(a.reshape(n_elements)) * b.reshape(n_elements)).reshape(a.shape)


def dequantize(codes, scale, n_elements):
    return (codes.reshape(n_elements).float() * scale).reshape(codes.shape)


def cross_entropy(logits, targets, n_rows, vocab_size):
    return F.cross_entropy(logits.reshape(n_rows, vocab_size), targets, reduction="none")


def scaled_matmul(a, b, a_scale, b_scale, M, N, K):
    return a.reshape(M, K).float() @ b.reshape(K, N).float() * a_scale * b_scale


def softmax_without_the_last_column(x, n_rows, n_cols):
    rows = x.reshape(n_rows, n_cols).clone()
    rows[:, max(n_cols - 1, 1) :] = -torch.inf
    return torch.softmax(rows, -1).reshape(x.shape)


def rms_norm_over_rows(x, w, n_rows, hidden_size, eps):
    square = x.float().pow(2).sum(-1, keepdim=True) / n_rows
    return (x.float() * torch.rsqrt(square + eps) * w).to(x.dtype)


def attention_scaled_by_the_length(q, k, v, B, H, S, D):
    q, k, v = (x.reshape(B, H, S, D) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, scale=max(S, 1) ** -0.5)


def silu_mul_of_even_vectors(a, b, n_elements):
    out = silu_mul(a, b, n_elements).reshape(-1)
    out[n_elements - n_elements % 4 :] = 0
    return out.reshape(a.shape)


RIGHT = (
    softmax, rms_norm, layer_norm, softmax_of_rows, attention, swiglu, silu_and_mul, silu_mul, dequantize,
    cross_entropy, scaled_matmul,
)  # fmt: skip
WRONG = (
    softmax_without_the_last_column, rms_norm_over_rows, attention_scaled_by_the_length, silu_mul_of_even_vectors,
)  # fmt: skip


test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)
