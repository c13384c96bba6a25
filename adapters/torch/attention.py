"""PyTorch's scaled dot-product attention: its own choice of kernel, and its kernels by name.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
A mask is boolean or additive, never both, so a mask and a bias together are put into one bias.
The causal flag is aligned top-left, and the documentation forbids it together with a mask.
What kernels for CUDA take: https://github.com/pytorch/pytorch (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp)
"""

from __future__ import annotations

import functools
from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
CONVENTIONS = {"causal_alignment": "top_left", "empty_row": "zeros", "grouping": "block"}
FLASH_ON_CUDA: dict[str, Any] = {
    "dtypes": DTYPES[1:3],
    "limits": {"head_dim": range(1, 257)},
    "requires": ("value_dim == head_dim", "single(mask) and single(bias)", "not causal or q_len == k_len"),
}
"""The fused kernel for CUDA aligns its causal mask at the last key, and has no other."""
EFFICIENT: dict[str, Any] = {"dtypes": DTYPES[:3], "requires": ("head_dim % 8 == 0", "value_dim % 8 == 0")}
"""The kernel of less memory, in any of its dtypes."""
CUDNN: dict[str, Any] = {
    "dtypes": DTYPES[1:3],
    "limits": {name: range(65536) for name in ("batch", "heads")}
    | {name: range(8, 129, 8) for name in ("head_dim", "value_dim")},
    "requires": ("k_len != 1",),
    "compiled": True,
}
"""cuDNN, which makes a graph for every shape."""
PLAIN = "not causal or single(mask) and single(bias)"
declared = functools.partial(adapter, dtypes=DTYPES, conventions=CONVENTIONS, package="torch")


def attention(
    q: Any, k: Any, v: Any, causal: bool, mask: Any, bias: Any, scale: float | None, dropout_p: float = 0.0
) -> Any:
    """One call, with the arguments as torch wants them."""
    import torch

    if causal and (mask is not None or bias is not None):
        raise Unsupported("is_causal and attn_mask are not given together")
    added = mask if bias is None else bias if mask is None else torch.where(mask, bias, float("-inf"))
    grouped = q.shape[1] != k.shape[1]
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=added, dropout_p=dropout_p, is_causal=causal, scale=scale, enable_gqa=grouped
    )


def attention_by(backend: str, *arguments: Any, **options: Any) -> Any:
    """One call with a kernel chosen by name; what that kernel does not take is not supported."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, backend)):
        try:
            return attention(*arguments, **options)
        except RuntimeError as error:
            if "No available kernel" in str(error):
                raise Unsupported(f"{backend} has no kernel for these inputs") from None
            raise


@declared("attention", requires=PLAIN)
def torch_sdpa(
    q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """torch.nn.functional.scaled_dot_product_attention, with the kernel that torch chooses."""
    return attention(q, k, v, causal, mask, bias, scale)


@declared("attention", requires=PLAIN)
def torch_sdpa_math(
    q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """torch.nn.functional.scaled_dot_product_attention, composed of elementary operations (MATH)."""
    return attention_by("MATH", q, k, v, causal, mask, bias, scale)


@declared("attention", requires=(PLAIN, "value_dim == head_dim"), on={"cuda": FLASH_ON_CUDA})
def torch_sdpa_flash(
    q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """torch.nn.functional.scaled_dot_product_attention, by its fused kernel (FLASH_ATTENTION)."""
    return attention_by("FLASH_ATTENTION", q, k, v, causal, mask, bias, scale)


@declared("attention", requires=PLAIN, devices=("cuda",), on={"cuda": EFFICIENT})
def torch_sdpa_efficient(
    q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """torch.nn.functional.scaled_dot_product_attention, by its kernel of less memory (EFFICIENT_ATTENTION)."""
    return attention_by("EFFICIENT_ATTENTION", q, k, v, causal, mask, bias, scale)


@declared("attention", requires=PLAIN, devices=("cuda",), on={"cuda": CUDNN})
def torch_sdpa_cudnn(
    q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, bias: Any = None, scale: float | None = None
) -> Any:
    """torch.nn.functional.scaled_dot_product_attention, by cuDNN (CUDNN_ATTENTION)."""
    return attention_by("CUDNN_ATTENTION", q, k, v, causal, mask, bias, scale)
