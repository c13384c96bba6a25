"""Right, but different: state spaces token by token, and with all products at once; of packed items as well."""

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


def together(x: Any, dt: Any, lens: Any, state: Any) -> None:
    """Refuse items that do not belong together."""
    if len(dt) != len(x) or int(lens.sum()) != len(x) or (state is not None and len(state) != len(lens)):
        raise ValueError("every token has a step, and every item a state")


@adapter("packed_state_space", dtypes=DTYPES)
def control_state_space_item_by_item(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    lens: Any,
    d: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """Each item by itself, token by token."""
    import torch

    together(x, dt, lens, state)
    left = torch.zeros(len(lens), *x.shape[1:], b.shape[2]) if state is None else state.clone()
    out = torch.empty_like(x)
    for item, own in enumerate(torch.arange(len(x)).split(lens.tolist())):
        if len(own):
            x_i, dt_i, b_i, c_i = (y[own].transpose(0, 1)[None] for y in (x, dt, b, c))
            held = left[item : item + 1]
            found = control_state_space_by_tokens(x_i, dt_i, a, b_i, c_i, d, dt_bias, held, softplus=softplus)
            out[own], left[item] = found["out"][0].transpose(0, 1), found["final_state"][0]
    return {"out": out, "final_state": left}


@adapter("packed_state_space", dtypes=DTYPES)
def control_state_space_across_the_pack(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    lens: Any,
    d: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> Any:
    """The products of all tokens of the pack with all others, of which those between items are left out."""
    import torch

    together(x, dt, lens, state)
    turned, steps, writing, reading = (y.transpose(0, 1)[None] for y in (x, dt, b, c))
    found = prepared(turned, steps, a, writing, reading, d, dt_bias, None, softplus)
    values, step, fading, keys, queries, besides, _ = found
    state = torch.zeros(len(lens), *x.shape[1:], b.shape[2]) if state is None else state
    item = torch.arange(len(lens)).repeat_interleave(lens)
    own = item[:, None] == item
    total = fading[0] @ own.triu().float()  # [heads, tokens], from where an item begins
    fades = ((total[:, :, None] - total[:, None]).clamp(max=0).exp() * own).tril()
    scaled = step[0, ..., None] * values[0]
    read = torch.einsum("htn,thpn->htp", queries[0], state[item]) * total[..., None].exp()
    out = (queries[0] @ keys[0].mT * fades) @ scaled + read
    out = out if d is None else out + besides[0]
    of_item = torch.nn.functional.one_hot(item, len(lens)).float()  # [tokens, items]
    sums = total[:, (lens.cumsum(0) - 1).clamp(min=0)] * (lens > 0)  # [heads, items]
    late = keys[0] * (sums[:, item] - total)[..., None].exp()
    left = sums.exp().T[..., None, None] * state + torch.einsum("htp,htn,ti->ihpn", scaled, late, of_item)
    return {"out": out.transpose(0, 1).to(x.dtype), "final_state": left}
