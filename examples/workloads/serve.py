"""A small model whose calls are recorded: `attnspec record -- python examples/workloads/serve.py`, or as it is.

It writes recorded.ndjson beside the current folder's files; `attnspec check torch_sdpa --workload recorded.ndjson` then
checks torch's attention on just these calls.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import attnspec


class Block(nn.Module):
    """Attention with eight heads over two of keys and values, behind a norm."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(dim)
        self.maps = nn.Linear(dim, dim + dim // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X [batch, length, dim]."""
        batch, length, dim = x.shape
        parts = self.maps(self.norm(x)).split([dim, dim // 4, dim // 4], dim=-1)
        q, k, v = (part.view(batch, length, -1, dim // 8).transpose(1, 2) for part in parts)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return x + out.transpose(1, 2).reshape(batch, length, dim)


def serve() -> None:
    """Prompts of a few lengths."""
    block = Block(256)
    with torch.no_grad():
        for length in (48, 130, 130, 257):
            block(torch.randn(2, length, 256))


if __name__ == "__main__":
    with attnspec.record(sys.argv[1] if len(sys.argv) > 1 else "recorded.ndjson"):
        serve()
