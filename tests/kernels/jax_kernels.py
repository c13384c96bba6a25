"""JAX kernels."""

import jax
import jax.numpy as jnp


def mha(query, key, value, bias=None, mask=None, *, scale=None):
    """[B, T, N, H] with groups, as in MaxText."""
    b, t, n, h = query.shape
    k = key.shape[2]
    q = query.reshape(b, t, k, n // k, h)
    logits = jnp.einsum("btkgh,bskh->bkgts", q, key, preferred_element_type=jnp.float32)
    logits = logits * (h**-0.5 if scale is None else scale)
    logits = logits.reshape(b, n, t, -1)
    if bias is not None:
        logits = logits + bias
    if mask is not None:
        logits = jnp.where(mask, logits, -jnp.inf)
    weights = jax.nn.softmax(logits, axis=-1).reshape(b, k, n // k, t, -1).astype(query.dtype)
    out = jnp.einsum("bkgts,bskh->btkgh", weights, value)
    return out.reshape(b, t, n, -1)
