"""Attention of JAX in Pallas, for GPUs, which Pallas' interpret mode runs on the CPU.

Source: https://github.com/jax-ml/jax (jax/experimental/pallas/ops/gpu)
Lengths beyond 128 are multiples of it in the attention without pages, which under the causal flag reads as many blocks
of keys as there are of queries, so that there are no more of these. Keys of single queries are split in four, two or
no parts, of at least 16 each, and what is returned in float32 is rounded. The attention over pages takes queries
scaled, and here a page at a time.
The interpret mode runs the source of a kernel as operations of XLA: semantics are tested, and no compiler for GPUs.
On a device, each length of what a program of the kernel holds is a power of two.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

SMALL = (1, 2, 4, 8, 16, 32, 64, 128)
"""Lengths that can be compiled, of up to a block of 128."""
LENGTHS = (*SMALL, *range(256, 1025, 128))
SPLIT = (16, 32, 64, 128, 256, 512)
"""Numbers of keys whose parts can be compiled."""
declared = functools.partial(
    adapter,
    framework="jax",
    dtypes=("float32", "bfloat16", "float16"),
    compiled=True,
    slow=True,
    interpreted="Pallas' interpret mode",
    package="jax",
    extra="jax",
)


def on_cpu() -> bool:
    """Whether kernels are interpreted."""
    import jax

    return jax.default_backend() == "cpu"


@declared(
    "attention",
    requires=(
        "heads == kv_heads",
        "value_dim == head_dim",
        "q_len > 0 and (q_len <= 128 or q_len % 128 == 0)",
        "k_len > 0 and (k_len <= 128 or k_len % 128 == 0)",
        "not causal or q_len <= k_len",
    ),
    conventions={"causal_alignment": "top_left"},
    on={"cuda": {"limits": {"q_len": LENGTHS, "k_len": LENGTHS}}},
)
def pallas_mha(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """The function mha of pallas.ops.gpu.attention."""
    from jax.experimental.pallas.ops.gpu.attention import mha

    factor = q.shape[3] ** -0.5 if scale is None else scale
    states = (x.swapaxes(1, 2) for x in (q, k, v))
    out: Any = mha(*states, segment_ids=None, sm_scale=factor, causal=causal, interpret=on_cpu())
    return out.swapaxes(1, 2)


@declared(
    "attention",
    requires=("value_dim == head_dim", "q_len == 1", "k_len >= 16"),
    conventions={"grouping": "block"},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    on={"cuda": {"limits": {"k_len": SPLIT, "head_dim": SMALL[4:]}}},
)
def pallas_gqa_decode(q: Any, k: Any, v: Any, *, scale: float | None = None) -> Any:
    """The function gqa of pallas.ops.gpu.decode_attention."""
    from jax.experimental.pallas.ops.gpu.decode_attention import gqa

    length = k.shape[2]
    splits = next(n for n in (4, 2, 1) if length % n == 0 and (n == 1 or length >= 16 * n))
    keys, values = (x.swapaxes(1, 2) for x in (k, v))
    out = gqa(q[:, :, 0], keys, values, sm_scale=scale, block_k=length // splits, k_splits=splits, interpret=on_cpu())
    return out[:, :, None].astype(q.dtype)


@declared(
    "paged_attention",
    limits={"q_len": (1,)},
    requires=("value_dim == head_dim", "all(k_lens > 0)"),
    conventions={"grouping": "block"},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    on={"cuda": {"limits": {"page_size": SMALL, "head_dim": SMALL}}},
)
def pallas_paged_attention(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """The function paged_attention of pallas.ops.gpu.paged_attention."""
    from jax.experimental.pallas.ops.gpu.paged_attention import paged_attention

    factor = q.shape[3] ** -0.5 if scale is None else scale
    out = paged_attention(
        (q[:, 0] * factor).astype(q.dtype),
        *(pages.transpose(2, 0, 1, 3) for pages in (key_pages, value_pages)),
        table.astype("int32"),
        k_lens.astype("int32"),
        pages_per_compute_block=1,
        k_splits=1,
        interpret=on_cpu(),
        attn_logits_soft_cap=softcap,
    )
    return out[:, None]
