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
# A query without a key has the mean of what a kernel visits, which may be what fills it up.
SEEING = (
    "all(any(gather(gather(blocks, range(q_len) // q_block_size, 2), range(k_len) // k_block_size, 3)"
    " and (not causal or range(k_len) <= range(q_len)[:, none] + k_len - q_len)"
    " and (window_left == none or range(q_len)[:, none] + k_len - q_len - range(k_len) <= window_left)"
    " and (window_right == none or range(k_len) - range(q_len)[:, none] - k_len + q_len <= window_right), -1))"
)


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


@declared(
    "block_sparse_attention",
    requires=("q_len > 0 and k_len > 0 and head_dim > 0 and value_dim > 0", SEEING),
    conventions={"causal_alignment": "bottom_right", "grouping": "block", "lse_base": "natural"},
    grade={"bfloat16": "bf16_naive", "float16": "fp16_naive"},
)
def pallas_splash_blocks(
    q: Any,
    k: Any,
    v: Any,
    blocks: Any,
    *,
    q_block_size: int,
    k_block_size: int,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    scale: float | None = None,
) -> Any:
    """make_splash_mha with the mask of a layout, and with queries and keys that fill its blocks up and are hidden."""
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    (q_len, head_dim), k_len = q.shape[2:], k.shape[2]
    behind, far = np.arange(q_len)[:, None] + k_len - q_len - np.arange(k_len), q_len + k_len
    left, right = (far if window is None else window for window in (window_left, window_right))
    seen = (behind <= left) & (behind >= (0 if causal else -right))
    layout = np.asarray(blocks, bool).repeat(q_block_size, 2)[:, :, :q_len].repeat(k_block_size, 3)[..., :k_len]
    unit = 8 if q_len <= BLOCK else BLOCK
    more_q, more_k = -q_len % unit, -k_len % BLOCK
    masks = np.pad(layout & seen, ((0, 0), (0, 0), (0, more_q), (0, more_k)))
    factor = head_dim**-0.5 if scale is None else scale
    q = jnp.pad((q * factor).astype(q.dtype), ((0, 0), (0, 0), (0, more_q), (0, 0)))
    k, v = (jnp.pad(x, ((0, 0), (0, 0), (0, more_k), (0, 0))) for x in (k, v))
    outs, lses = [], []
    for item, mask in enumerate(masks):
        kernel: Any = splash.make_splash_mha(
            mask=splash.MultiHeadMask([splash.NumpyMask(of_head) for of_head in mask]),
            block_sizes=splash.BlockSizes(block_q=min(q_len + more_q, BLOCK), block_kv=BLOCK, block_kv_compute=BLOCK),
            head_shards=1,
            q_seq_shards=1,
            save_residuals=True,
            interpret=on_cpu(),
        )
        out, (lse,) = kernel(q[item], k[item], v[item])
        outs.append(out[:, :q_len])
        lses.append(lse[:, :q_len])
    return {"out": jnp.stack(outs), "lse": jnp.stack(lses)}
