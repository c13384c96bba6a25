"""The gated feed-forward layer of Llama in Hugging Face transformers.

Source: transformers/models/llama/modeling_llama.py (LlamaMLP).
Every product is stored in the dtype of the inputs. The library keeps its matrices transposed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from . import adapter


def loaded(layer: Any, matrix: Any) -> None:
    """Give a linear layer a matrix [in, out]."""
    import torch

    if layer.weight.shape != matrix.mT.shape:
        raise ValueError(f"the matrix is {tuple(matrix.shape)}, the layer takes {tuple(layer.weight.mT.shape)}")
    layer.weight = torch.nn.Parameter(matrix.mT.contiguous(), requires_grad=False)


@adapter("swiglu", dtypes=("float32", "bfloat16", "float16", "float64"), package="transformers", extra="transformers")
def llama_mlp(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    """LlamaMLP of transformers.models.llama."""
    from transformers.models.llama.modeling_llama import LlamaMLP

    dim, hidden = w_gate.shape
    module = LlamaMLP(SimpleNamespace(hidden_size=dim, intermediate_size=hidden, mlp_bias=False, hidden_act="silu"))
    loaded(module.gate_proj, w_gate)
    loaded(module.up_proj, w_up)
    loaded(module.down_proj, w_down)
    return module(x)
