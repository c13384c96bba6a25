"""The attention of a small GPT as people write it, and the lines that make the class a subject.

attnspec check examples/small_gpt.py
"""

import torch
from torch import nn
from torch.nn import functional

import attnspec


class CausalSelfAttention(nn.Module):
    """Causal self-attention, its three maps in one matrix."""

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.c_attn(x).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.n_head, width // self.n_head).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / (width // self.n_head) ** 0.5
        hidden = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = functional.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
        return self.c_proj((weights @ v).transpose(1, 2).reshape(batch, length, width))


attention = attnspec.module(
    lambda *, dim, heads: CausalSelfAttention(dim, heads),
    "multi_head",
    name="small_gpt",
    weights={
        "wq": "c_attn.weight[0/3].T",
        "wk": "c_attn.weight[1/3].T",
        "wv": "c_attn.weight[2/3].T",
        "bq": "c_attn.bias[0/3]",
        "bk": "c_attn.bias[1/3]",
        "bv": "c_attn.bias[2/3]",
        "wo": "c_proj.weight.T",
        "bo": "c_proj.bias",
    },
    same={"context": "x"},
    fixed={"causal": True},
    dtypes=("float32", "bfloat16"),
    grade={"bfloat16": "bf16_naive"},
)
