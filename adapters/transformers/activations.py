"""Gated activations of one array, as experts and feed-forward layers of transformers make them.

Source: transformers/models/gpt_oss/modeling_gpt_oss.py, minimax_m3_vl/modeling_minimax_m3_vl.py and
step3p7/modeling_step3p7.py (`_apply_gate` of experts), and phi3/modeling_phi3.py (Phi3MLP).
Experts are methods that need nothing but the numbers that their layers keep; the products of Phi3MLP are left out.
Every step is stored in the dtype of the inputs. That of MiniMax adds one whatever the model is.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from ..torch.layers import new_layer

DTYPES = ("float32", "bfloat16", "float16", "float64")
NAIVE = {"bfloat16": "bf16_naive", "float16": "fp16_naive"}
UNLIMITED: dict[str, Any] = {"alpha": 1.0, "beta": 0.0, "limit": None, "limit_opened": False}
LIMITED: dict[str, Any] = {"activation": "silu", "beta": 1.0, "limit_opened": False}
shared = functools.partial(adapter, dtypes=DTYPES, package="transformers", extra="transformers")
declared = functools.partial(shared, "gated_activation")
of_gradients = functools.partial(shared, "gated_activation_gradient")


def even(x: Any) -> Any:
    """The array, if every gate has a partner, which no layer looks at."""
    if x.shape[-1] % 2 or not x.shape[-1]:
        raise ValueError("every gate has a partner")
    return x


@declared(fixed={"order": "interleaved", **LIMITED}, requires="limit != none", grade=NAIVE)
def gpt_oss_gate(x: Any, *, alpha: float = 1.702, limit: float | None = 7.0) -> Any:
    """GptOssExperts._apply_gate."""
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts

    own: Any = SimpleNamespace(alpha=alpha, limit=limit)
    experts: Any = GptOssExperts
    return experts._apply_gate(own, even(x))


@declared(fixed={"order": "gate_first", **LIMITED}, requires="limit != none", grade=NAIVE)
def minimax_m3_gate(x: Any, *, alpha: float = 1.702, limit: float | None = 7.0) -> Any:
    """MiniMaxM3VLExperts._apply_gate."""
    from transformers.models.minimax_m3_vl.modeling_minimax_m3_vl import MiniMaxM3VLExperts

    own: Any = SimpleNamespace(swiglu_alpha=alpha, swiglu_limit=limit)
    experts: Any = MiniMaxM3VLExperts
    return experts._apply_gate(own, even(x))


@declared(fixed={"order": "gate_first", "alpha": 1.0, "beta": 0.0, "limit_opened": True}, requires="limit != none")
def step3p7_gate(x: Any, *, activation: str = "silu", limit: float | None = 7.0) -> Any:
    """Step3p7Experts._apply_gate, with the function of a name in ACT2FN."""
    from transformers.activations import ACT2FN
    from transformers.models.step3p7.modeling_step3p7 import Step3p7Experts

    own: Any = SimpleNamespace(act_fn=ACT2FN[NAMES[activation]], limit=limit)
    return Step3p7Experts._apply_gate(own, even(x))


NAMES = {"silu": "silu", "gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh"}
"""What transformers calls the functions of gates."""


@declared(fixed={"order": "gate_first", **UNLIMITED})
def phi3_gate(x: Any, *, activation: str = "silu") -> Any:
    """Phi3MLP between its two products."""
    import torch
    from transformers.models.phi3.modeling_phi3 import Phi3MLP

    width = even(x).shape[-1] // 2
    config = SimpleNamespace(hidden_size=1, intermediate_size=width, hidden_act=NAMES[activation])
    module = new_layer(Phi3MLP, config)
    module.gate_up_proj = module.down_proj = torch.nn.Identity()
    return module(x)


@of_gradients(fixed={"order": "interleaved", **LIMITED}, requires="limit != none", grade=NAIVE)
def gpt_oss_gate_gradient(x: Any, d_out: Any, *, alpha: float = 1.702, limit: float | None = 7.0) -> Any:
    """The backward pass of GptOssExperts._apply_gate, by torch.autograd.grad."""
    return differentiated(functools.partial(gpt_oss_gate, alpha=alpha, limit=limit), d_out, x=x)["d_x"]


@of_gradients(fixed={"order": "gate_first", **UNLIMITED})
def phi3_gate_gradient(x: Any, d_out: Any, *, activation: str = "silu") -> Any:
    """The backward pass of Phi3MLP between its two products, by torch.autograd.grad."""
    return differentiated(functools.partial(phi3_gate, activation=activation), d_out, x=x)["d_x"]
