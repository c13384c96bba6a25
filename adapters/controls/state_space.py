"""Right, but different: state spaces token by token, and with all products of c and b at once."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def prepared(
    x: Any, dt: Any, a: Any, b: Any, c: Any, d: Any, dt_bias: Any, state: Any, softplus: bool
) -> tuple[Any, ...]:
    """x, steps, what fades, b and c for each head, what is added besides, and the state, all in single precision."""
    import torch

    if dt.shape[2] != x.shape[2] or (state is not None and state.shape[3] != b.shape[3]):
        raise ValueError("every token has a step, and a state a column for each channel of b")
    step = dt.float() if dt_bias is None else dt.float() + dt_bias[:, None]
    step = torch.nn.functional.softplus(step) if softplus else step
    b, c = (y.float().repeat_interleave(x.shape[1] // b.shape[1], 1) for y in (b, c))
    x = x.float()
    besides = 0 if d is None else d[:, None, None] * x
    state = torch.zeros(*x.shape[:2], x.shape[3], b.shape[3]) if state is None else state
    return x, step, a[:, None] * step, b, c, besides, state


@adapter("state_space", dtypes=DTYPES)
def control_state_space_by_tokens(
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
    """Token by token, as it stands in the paper."""
    import torch

    dtype = x.dtype
    x, step, fading, b, c, besides, state = prepared(x, dt, a, b, c, d, dt_bias, state, softplus)
    rows = []
    for t in range(x.shape[2]):
        added = step[:, :, t, None, None] * x[:, :, t, :, None] * b[:, :, t, None, :]
        state = fading[:, :, t, None, None].exp() * state + added
        rows.append((state * c[:, :, t, None, :]).sum(-1))
    out = torch.stack(rows, 2) + besides if rows else x
    return {"out": out.to(dtype), "final_state": state}


@adapter("state_space", dtypes=DTYPES)
def control_state_space_at_once(
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
    """The matrix of all tokens by all tokens, as the dual form has it."""
    dtype = x.dtype
    x, step, fading, b, c, besides, state = prepared(x, dt, a, b, c, d, dt_bias, state, softplus)
    total = fading.cumsum(-1)
    fades = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
    scaled = step[..., None] * x
    out = (c @ b.mT * fades) @ scaled + total[..., None].exp() * (c @ state.mT) + besides
    left = total[..., -1:, None].exp() * state + scaled.mT @ (b * (total[..., -1:] - total)[..., None].exp())
    return {"out": out.to(dtype), "final_state": left}
