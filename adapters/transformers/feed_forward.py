"""The feed-forward layers of models in Hugging Face transformers, and the gradients of one.

Source: transformers/models/llama/modeling_llama.py (LlamaMLP), transformers/models/phi3/modeling_phi3.py (Phi3MLP),
transformers/models/clip/modeling_clip.py (CLIPMLP), transformers/models/t5/modeling_t5.py (T5DenseGatedActDense).
Phi-3's has one matrix for gate and input, side by side. That of CLIP has biases, and any of the library's activations.
Every product is stored in the dtype of the inputs. The library keeps its matrices transposed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from ..torch.layers import new_layer

DTYPES = ("float32", "bfloat16", "float16", "float64")


def loaded(layer: Any, matrix: Any, bias: Any = None) -> None:
    """Give a linear layer a matrix [in, out], and a bias."""
    import torch

    if layer.weight.shape != matrix.mT.shape:
        raise ValueError(f"the matrix is {tuple(matrix.shape)}, the layer takes {tuple(layer.weight.mT.shape)}")
    layer.weight = torch.nn.Parameter(matrix.mT.contiguous(), requires_grad=False)
    if bias is not None:
        layer.bias = torch.nn.Parameter(bias, requires_grad=False)


ACTIVATIONS = {"gelu_tanh": "gelu_new", "relu_squared": "relu2"}
"""What the library calls an activation otherwise."""


@adapter("swiglu", dtypes=DTYPES, package="transformers", extra="transformers")
def llama_mlp(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    """LlamaMLP of transformers.models.llama."""
    from transformers.models.llama.modeling_llama import LlamaMLP

    dim, hidden = w_gate.shape
    config = SimpleNamespace(hidden_size=dim, intermediate_size=hidden, mlp_bias=False, hidden_act="silu")
    module = new_layer(LlamaMLP, config)
    loaded(module.gate_proj, w_gate)
    loaded(module.up_proj, w_up)
    loaded(module.down_proj, w_down)
    return module(x)


@adapter("swiglu_gradient", dtypes=DTYPES, package="transformers", extra="transformers")
def llama_mlp_gradient(x: Any, w_gate: Any, w_up: Any, w_down: Any, d_out: Any) -> dict[str, Any]:
    """The backward pass of LlamaMLP, by torch.autograd.grad."""
    import torch
    from transformers.models.llama.modeling_llama import LlamaMLP

    dim, hidden = w_gate.shape
    config = SimpleNamespace(hidden_size=dim, intermediate_size=hidden, mlp_bias=False, hidden_act="silu")
    module = new_layer(LlamaMLP, config)

    def mlp(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
        matrices = {"gate_proj": w_gate, "up_proj": w_up, "down_proj": w_down}
        weights = {f"{name}.weight": matrix.mT for name, matrix in matrices.items()}
        return torch.func.functional_call(module, weights, (x,))

    return differentiated(mlp, d_out, x=x, w_gate=w_gate, w_up=w_up, w_down=w_down)


@adapter("swiglu", dtypes=DTYPES, package="transformers", extra="transformers")
def phi3_mlp(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    """Phi3MLP of transformers.models.phi3."""
    import torch
    from transformers.models.phi3.modeling_phi3 import Phi3MLP

    dim, hidden = w_gate.shape
    module = new_layer(Phi3MLP, SimpleNamespace(hidden_size=dim, intermediate_size=hidden, hidden_act="silu"))
    loaded(module.gate_up_proj, torch.cat((w_gate, w_up), -1))
    loaded(module.down_proj, w_down)
    return module(x)


@adapter(
    "feed_forward",
    dtypes=DTYPES,
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    package="transformers",
    extra="transformers",
)
def clip_mlp(x: Any, w_up: Any, w_down: Any, b_up: Any = None, b_down: Any = None, *, activation: str = "gelu") -> Any:
    """CLIPMLP of transformers.models.clip."""
    from transformers.models.clip.modeling_clip import CLIPMLP

    dim, hidden = w_up.shape
    config = SimpleNamespace(
        hidden_size=dim, intermediate_size=hidden, hidden_act=ACTIVATIONS.get(activation, activation)
    )
    module = new_layer(CLIPMLP, config).to(x.dtype)
    for layer, w, b in ((module.fc1, w_up, b_up), (module.fc2, w_down, b_down)):
        loaded(layer, w, x.new_zeros(w.shape[-1]) if b is None else b)
    return module(x)


@adapter(
    "feed_forward",
    dtypes=DTYPES,
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    fixed={"activation": "gelu_tanh"},
    requires=("not single(w_gate)",),
    package="transformers",
    extra="transformers",
)
def t5_gated_mlp(x: Any, w_up: Any, w_down: Any, w_gate: Any) -> Any:
    """T5DenseGatedActDense of transformers.models.t5."""
    from transformers.models.t5.modeling_t5 import T5DenseGatedActDense

    dim, hidden = w_up.shape
    config = SimpleNamespace(d_model=dim, d_ff=hidden, dropout_rate=0.0, dense_act_fn="gelu_new")
    module = new_layer(T5DenseGatedActDense, config).eval()
    for layer, w in ((module.wi_0, w_gate), (module.wi_1, w_up), (module.wo, w_down)):
        loaded(layer, w)
    return module(x)
