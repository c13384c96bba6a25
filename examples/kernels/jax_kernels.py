"""Kernels on JAX as people write them, each with an interface that is known: no adapter is needed.

attnspec check examples/kernels/jax_kernels.py:apply_rotary_pos_emb
"""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames="unsqueeze_dim")
def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    """[batch, heads, length, dim], and tables [1, length, dim]; queries and keys are turned together."""
    cos, sin = jnp.expand_dims(cos, unsqueeze_dim), jnp.expand_dims(sin, unsqueeze_dim)

    def turned(x):
        first, second = jnp.split(x, 2, axis=-1)
        return (x * cos + jnp.concatenate([-second, first], axis=-1) * sin).astype(x.dtype)

    return turned(q), turned(k)
