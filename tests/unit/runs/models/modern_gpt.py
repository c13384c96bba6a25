"""nanoGPT brought up to date: fused c_attn, rotary, RMSNorm, a gate."""

import torch
from torch import nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    def __init__(self, n_embd):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_embd))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, 1e-6)


def rope(x):
    d = x.shape[-1]
    f = 10000.0 ** (-torch.arange(0, d, 2) / d)
    a = torch.outer(torch.arange(x.shape[-2]), f)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    c, s = torch.outer(torch.arange(x.shape[-2]), f).cos(), torch.outer(torch.arange(x.shape[-2]), f).sin()
    return torch.cat([a * c - b * s, a * s + b * c], -1)


class Block(nn.Module):
    def __init__(self, n_embd, n_head, d_ff):
        super().__init__()
        self.n_head = n_head
        self.ln_1 = RMSNorm(n_embd)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=False)
        self.ln_2 = RMSNorm(n_embd)
        self.w12 = nn.Linear(n_embd, 2 * d_ff, bias=False)
        self.w3 = nn.Linear(d_ff, n_embd, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(self.ln_1(x)).split(C, 2))
        y = F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(B, T, C))
        g, u = self.w12(self.ln_2(x)).chunk(2, -1)
        return x + self.w3(F.silu(g) * u)


class TinyGPT(nn.Module):
    def __init__(self, vocab_size, n_embd, n_head, n_layer, d_ff):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.h = nn.Sequential(*[Block(n_embd, n_head, d_ff) for _ in range(n_layer)])
        self.ln_f = RMSNorm(n_embd)
        self.head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx, targets=None):
        logits = self.head(self.ln_f(self.h(self.wte(idx))))
        return logits, None
