"""A kernel on JAX as people write them, with an interface that is known: no adapter is needed.

attnspec check examples/kernels/jax_kernels.py:dot_product_attention
"""

import jax.numpy as jnp


def dot_product_attention(query, key, value, bias=None, mask=None, *, scale=None, is_causal=False):
    """[batch, length, heads, dim]."""
    key, value = (jnp.repeat(x, query.shape[2] // key.shape[2], 2) for x in (key, value))
    scores = jnp.einsum("bshd,bthd->bhst", query, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if is_causal:
        scores = jnp.where(jnp.tri(query.shape[1], key.shape[1], dtype=bool), scores, -jnp.inf)
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf)
    shifted = scores - jnp.maximum(scores.max(-1, keepdims=True), jnp.finfo(scores.dtype).min)
    terms = jnp.exp(shifted)
    weights = terms / jnp.maximum(terms.sum(-1, keepdims=True), jnp.finfo(scores.dtype).tiny)
    return jnp.einsum("bhst,bthd->bshd", weights, value)
