"""Gated activations of vLLM: its forms in torch, its kernels for the CPU, and one in Triton.

Source: https://github.com/vllm-project/vllm (vllm/model_executor/layers/activation.py, csrc/cpu/activation.cpp)
The forms in torch store every step in the dtype of the inputs. The kernels for the CPU take whole vectors of eight
entries, and tokens one behind the other; without AVX-512 for bfloat16 they cut bits off where they are to round.
"""

from __future__ import annotations

import ast
import functools
import importlib
import logging
from types import ModuleType, SimpleNamespace
from typing import Any

from .. import Unsupported, adapter
from ..triton.interpreter import declared as kernel
from ..triton.parts import folder_of
from .modules import compiled

DTYPES = ("float32", "bfloat16", "float16")
NAIVE = {"bfloat16": "bf16_naive", "float16": "fp16_naive"}
UNLIMITED: dict[str, Any] = {"alpha": 1.0, "beta": 0.0, "limit": None, "limit_opened": False}
declared = functools.partial(adapter, "gated_activation", dtypes=DTYPES, package="vllm")


class Layer:
    """What layers of vLLM derive from, of which their forms in torch use nothing."""

    @classmethod
    def register(cls, name: str) -> Any:
        return lambda layer: layer


@functools.cache
def layers(interpreted: bool = False) -> Any:
    """vllm.model_executor.layers.activation without what it imports of vLLM, and with Triton where it is asked for."""
    path = folder_of("vllm") / "model_executor/layers/activation.py"
    tree = ast.parse(path.read_text())
    tree.body = [part for part in tree.body if not (isinstance(part, ast.ImportFrom) and "vllm" in str(part.module))]
    triton: Any = SimpleNamespace(jit=lambda function: function)
    language: Any = SimpleNamespace(constexpr=object)
    if interpreted:
        triton = importlib.import_module("triton")
        language = triton.language
    module = ModuleType("vllm_activation")
    stands_in = {
        "CustomOp": Layer,
        "LazyDict": dict,
        "init_logger": logging.getLogger,
        "triton": triton,
        "tl": language,
    }
    elsewhere = SimpleNamespace(is_rocm=lambda: False)
    vars(module).update(stands_in, current_platform=elsewhere, CpuArchEnum=None, ir=None)
    exec(compile(tree, str(path), "exec"), vars(module))
    return module


def even(x: Any) -> Any:
    """The array, if every gate has a partner, which no form looks at."""
    if x.shape[-1] % 2 or not x.shape[-1]:
        raise ValueError("every gate has a partner")
    return x


@declared(fixed={"order": "gate_first", "activation": "silu", **UNLIMITED})
def vllm_silu_and_mul(x: Any) -> Any:
    """SiluAndMul.forward_native."""
    return layers().SiluAndMul.forward_native(even(x))


@declared(fixed={"order": "up_first", "activation": "silu", **UNLIMITED})
def vllm_mul_and_silu(x: Any) -> Any:
    """MulAndSilu.forward_native."""
    return layers().MulAndSilu.forward_native(None, even(x))


@declared(fixed={"order": "gate_first", "activation": "gelu", **UNLIMITED})
def vllm_gelu_and_mul(x: Any) -> Any:
    """GeluAndMul.forward_native."""
    return layers().GeluAndMul.forward_native(SimpleNamespace(approximate="none"), even(x))


@declared(fixed={"order": "gate_first", "activation": "gelu_tanh", **UNLIMITED})
def vllm_gelu_tanh_and_mul(x: Any) -> Any:
    """GeluAndMul.forward_native with the approximation."""
    return layers().GeluAndMul.forward_native(SimpleNamespace(approximate="tanh"), even(x))


@declared(
    fixed={"order": "gate_first", "activation": "silu", "limit_opened": False}, requires="limit != none", grade=NAIVE
)
def vllm_silu_and_mul_with_clamp(x: Any, *, alpha: float = 1.0, beta: float = 0.0, limit: float | None = None) -> Any:
    """SiluAndMulWithClamp.forward_native."""
    own = SimpleNamespace(swiglu_limit=limit, alpha=alpha, beta=beta)
    return layers().SiluAndMulWithClamp.forward_native(own, even(x))


@declared(
    fixed={"order": "interleaved", "activation": "silu", "beta": 1.0, "limit_opened": False},
    requires="limit != none",
    grade=NAIVE,
)
def vllm_swigluoai_and_mul(x: Any, *, alpha: float = 1.702, limit: float | None = 7.0) -> Any:
    """SwigluOAIAndMul.forward_native."""
    return layers().SwigluOAIAndMul.forward_native(SimpleNamespace(alpha=alpha, limit=limit), even(x))


@declared(
    fixed={"order": "gate_first", "activation": "silu", "alpha": 1.0, "beta": 0.0, "limit_opened": True},
    requires="limit != none",
)
def vllm_swiglustep_and_mul(x: Any, *, limit: float | None = 7.0) -> Any:
    """SwigluStepAndMul.forward_native."""
    return layers().SwigluStepAndMul.forward_native(SimpleNamespace(limit=limit), even(x))


@kernel(
    "gated_activation",
    dtypes=DTYPES,
    package="vllm",
    fixed={"order": "gate_first", "activation": "silu", "alpha": 1.0, "beta": 0.0, "limit_opened": True},
    requires="limit != none",
)
def vllm_swiglustep_and_mul_triton(x: Any, *, limit: float | None = 7.0) -> Any:
    """swiglustep_and_mul_triton, of tokens one below the other."""
    x = even(x)
    tokens = x.reshape(-1, x.shape[-1]).contiguous()
    out = tokens.new_empty(len(tokens), x.shape[-1] // 2)
    if len(tokens):
        layers(interpreted=True).swiglustep_and_mul_triton(out, tokens, limit)
    return out.reshape(*x.shape[:-1], -1)


@declared(requires="width % 8 == 0", grade=NAIVE, fixed={"order": "gate_first", **UNLIMITED})
def vllm_cpu_act_and_mul(x: Any, *, activation: str = "silu") -> Any:
    """The kernels silu_and_mul, gelu_and_mul and gelu_tanh_and_mul for the CPU, which write their output."""
    if even(x).shape[-1] % 16:
        raise Unsupported("whole vectors of eight entries")
    out = x.new_empty(*x.shape[:-1], x.shape[-1] // 2)
    getattr(compiled(), f"{activation}_and_mul")(out, x.contiguous())
    return out
