"""The selective scan of Mamba as Hugging Face transformers computes it where no kernel is installed.

Source: transformers/models/mamba/modeling_mamba.py, mamba_selective_scan (a whole sequence) and
mamba_selective_state_update (one token, whose state is changed in place).
Steps are added to their bias, and go through the softplus, in the dtype of the inputs; results are stored in it before
the term of d and the gate. With d, a whole sequence comes in float32, of which the layer makes the dtype of its inputs.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DECLARED: dict[str, Any] = {
    "dtypes": ("float32", "bfloat16", "float16"),
    "grade": {"bfloat16": "bf16_naive", "float16": "fp16_naive"},
    "package": "transformers",
    "extra": "transformers",
}


@adapter("selective_scan", **DECLARED)
def mamba_sequence(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any = None,
    z: Any = None,
    dt_bias: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """mamba_selective_scan of transformers.models.mamba, token by token."""
    from transformers.models.mamba.modeling_mamba import mamba_selective_scan

    out, left = mamba_selective_scan(
        x, dt, a, b, c, D=d, z=z, delta_bias=dt_bias, delta_softplus=softplus, return_last_state=True
    )
    return {"out": out.to(x.dtype), "final_state": left}


@adapter("selective_scan", layout="bsd", **DECLARED)
def mamba_by_tokens(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any = None,
    z: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """mamba_selective_state_update of transformers.models.mamba, token by token."""
    import torch
    from transformers.models.mamba.modeling_mamba import mamba_selective_state_update

    size = (len(x), x.shape[2], a.shape[1])
    held = torch.zeros(size) if state is None else state.clone(memory_format=torch.contiguous_format)
    rows = [
        mamba_selective_state_update(
            held,
            x[:, t],
            dt[:, t],
            a,
            b[:, t],
            c[:, t],
            D=d,
            dt_bias=dt_bias,
            dt_softplus=softplus,
            z=None if z is None else z[:, t],
        )
        for t in range(x.shape[1])
    ]
    return {"out": torch.stack(rows, 1), "final_state": held}
