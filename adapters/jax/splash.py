"""Splash attention of JAX in Pallas, for TPUs, which Pallas' interpret mode runs on the CPU.

Source: https://github.com/jax-ml/jax (jax/experimental/pallas/ops/tpu/splash_attention)
Blocks of 128 keys are taken at a time, which divide the keys. Queries come scaled, and one item after the other. What
is hidden is said of positions before the call, and blocks that are hidden wholly are not visited. Kernels are made for
a mask, so that a call takes some seconds, and few shapes are drawn.
"""

from __future__ import annotations

from typing import Any

from .pallas import declared, on_cpu

BLOCK = 128


@declared(
    "attention",
    limits={"k_len": (BLOCK, 2 * BLOCK), "q_len": (1, 8, BLOCK), "batch": (1, 2)},
    requires=("head_dim > 0 and value_dim > 0", "q_len <= k_len"),
    conventions={"causal_alignment": "top_left", "grouping": "block", "lse_base": "natural"},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
)
def pallas_splash(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """make_splash_mha, whose residual is the logsumexp."""
    import jax.numpy as jnp
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    (_, heads, q_len, head_dim), k_len = q.shape, k.shape[2]
    shape, mask = (q_len, k_len), splash.FullMask((q_len, k_len))
    if window_left is not None or window_right is not None:
        mask = splash.LocalMask(shape, (window_left, window_right), 0)
    if causal:
        mask = mask & splash.CausalMask(shape)
    kernel: Any = splash.make_splash_mha(
        mask=splash.MultiHeadMask([mask] * heads),
        block_sizes=splash.BlockSizes(block_q=min(q_len, BLOCK), block_kv=BLOCK, block_kv_compute=BLOCK),
        head_shards=1,
        q_seq_shards=1,
        save_residuals=True,
        attn_logits_soft_cap=softcap,
        interpret=on_cpu(),
    )
    factor = head_dim**-0.5 if scale is None else scale
    parts = [kernel((item * factor).astype(q.dtype), k[at], v[at]) for at, item in enumerate(q)]
    return jnp.stack([out for out, _ in parts]), jnp.stack([lse for _, (lse,) in parts])
