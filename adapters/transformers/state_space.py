"""The state space of Mamba-2 as Hugging Face transformers computes it where no kernel is installed.

Source: transformers/models/mamba2/modeling_mamba2.py, mamba2_chunk_scan (a whole sequence, in chunks) and
mamba2_selective_state_update (one token, whose state is changed in place).
Steps are added to their bias, and go through the softplus, in the dtype of the inputs. Chunks are computed in float32,
which is what is returned; of one token, what is added to the state is made in the dtype of the inputs.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DECLARED: dict[str, Any] = {
    "layout": "bshd",
    "dtypes": ("float32", "bfloat16", "float16"),
    "grade": {"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    "package": "transformers",
    "extra": "transformers",
}


@adapter("state_space", **DECLARED)
def mamba2_chunked(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """mamba2_chunk_scan of transformers.models.mamba2, in chunks of 64 tokens; what it returns is rounded."""
    from transformers.models.mamba2.modeling_mamba2 import mamba2_chunk_scan

    out, left = mamba2_chunk_scan(
        x,
        dt,
        a,
        b,
        c,
        chunk_size=64,
        D=d,
        dt_bias=dt_bias,
        initial_states=state,
        dt_softplus=softplus,
        return_final_states=True,
    )
    return {"out": out.to(x.dtype), "final_state": left}


@adapter("state_space", **DECLARED)
def mamba2_by_tokens(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """mamba2_selective_state_update of transformers.models.mamba2, token by token."""
    import torch
    from transformers.models.mamba2.modeling_mamba2 import mamba2_selective_state_update

    batch, length, heads, head_dim = x.shape
    size = (heads, head_dim, b.shape[3])
    held = torch.zeros((batch, *size)) if state is None else state.clone(memory_format=torch.contiguous_format)

    def wide(y: Any) -> Any:
        return None if y is None else y[..., None].expand(*y.shape, head_dim)

    rows = [
        mamba2_selective_state_update(
            held,
            x[:, t],
            wide(dt[:, t]),
            a[:, None, None].expand(size),
            b[:, t],
            c[:, t],
            D=wide(d),
            dt_bias=wide(dt_bias),
            dt_softplus=softplus,
        )
        for t in range(length)
    ]
    return {"out": torch.stack(rows, 1), "final_state": held}
