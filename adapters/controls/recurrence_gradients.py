"""Right, but different: gradients of what goes from token to token, through forms that are right themselves.

What goes back through all tokens at once has sums from the end in it, as kernels in chunks do.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from . import convolution, delta_rule, linear_attention, selective_scan, state_space

DTYPES = ("float32", "bfloat16", "float16")


@adapter("gated_delta_rule_gradient", dtypes=DTYPES)
def control_delta_rule_back_by_tokens(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    d_out: Any,
    gate: Any = None,
    state: Any = None,
    d_final_state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> dict[str, Any]:
    """Back through every token, one by one."""
    out = partial(delta_rule.control_delta_rule_by_tokens, scale=scale, normalise=normalise)
    asked = {"final_state": d_final_state}
    return differentiated(out, d_out, further=asked, q=q, k=k, v=v, beta=beta, gate=gate, state=state)


@adapter("gated_delta_rule_gradient", dtypes=DTYPES)
def control_delta_rule_back_at_once(
    q: Any,
    k: Any,
    v: Any,
    beta: Any,
    d_out: Any,
    gate: Any = None,
    state: Any = None,
    d_final_state: Any = None,
    *,
    scale: float | None = None,
    normalise: bool = False,
) -> dict[str, Any]:
    """Back through a triangular system of all tokens."""
    out = partial(delta_rule.control_delta_rule_at_once, scale=scale, normalise=normalise)
    asked = {"final_state": d_final_state}
    return differentiated(out, d_out, further=asked, q=q, k=k, v=v, beta=beta, gate=gate, state=state)


@adapter("linear_attention_gradient", dtypes=DTYPES, conventions={"eps_place": "to_normaliser"})
def control_linear_attention_back_by_tokens(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    gate: Any = None,
    state: Any = None,
    key_sum: Any = None,
    d_final_state: Any = None,
    *,
    scale: float | None = None,
    feature_map: str = "identity",
    normalise: bool = False,
    eps: float = 1e-6,
    causal: bool = True,
) -> dict[str, Any]:
    """Back through every token, one by one."""
    options = {"scale": scale, "feature_map": feature_map, "normalise": normalise, "eps": eps, "causal": causal}
    out = partial(linear_attention.control_linear_attention_by_tokens, key_sum=key_sum, **options)
    asked = {"final_state": d_final_state}
    return through(out, d_out, key_sum, normalise, further=asked, q=q, k=k, v=v, gate=gate, state=state)


@adapter("linear_attention_gradient", dtypes=DTYPES, conventions={"eps_place": "to_keys"})
def control_linear_attention_back_at_once(
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    gate: Any = None,
    state: Any = None,
    key_sum: Any = None,
    d_final_state: Any = None,
    *,
    scale: float | None = None,
    feature_map: str = "identity",
    normalise: bool = False,
    eps: float = 1e-6,
    causal: bool = True,
) -> dict[str, Any]:
    """Back through the products of all queries with all keys."""
    options = {"scale": scale, "feature_map": feature_map, "normalise": normalise, "eps": eps, "causal": causal}
    out = partial(linear_attention.control_linear_attention_at_once, key_sum=key_sum, **options)
    asked = {"final_state": d_final_state}
    return through(out, d_out, key_sum, normalise, further=asked, q=q, k=k, v=v, gate=gate, state=state)


def through(out: Any, d_out: Any, key_sum: Any, normalise: bool, **inputs: Any) -> dict[str, Any]:
    """The gradients of a function of linear attention; a sum of keys that no output depends on has zeros."""
    import torch

    if normalise or key_sum is None:
        return differentiated(out, d_out, **inputs, key_sum=key_sum)
    return differentiated(out, d_out, **inputs) | {"d_key_sum": torch.zeros_like(key_sum)}


@adapter("state_space_gradient", dtypes=DTYPES)
def control_state_space_back_by_tokens(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d_out: Any,
    d: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> dict[str, Any]:
    """Back through every token, one by one."""
    out = partial(state_space.control_state_space_by_tokens, softplus=softplus)
    return differentiated(out, d_out, x=x, dt=dt, a=a, b=b, c=c, d=d, dt_bias=dt_bias, state=state)


@adapter("state_space_gradient", dtypes=DTYPES)
def control_state_space_back_at_once(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d_out: Any,
    d: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> dict[str, Any]:
    """Back through the matrix of all tokens by all tokens."""
    out = partial(state_space.control_state_space_at_once, softplus=softplus)
    return differentiated(out, d_out, x=x, dt=dt, a=a, b=b, c=c, d=d, dt_bias=dt_bias, state=state)


@adapter("selective_scan_gradient", dtypes=DTYPES)
def control_scan_back_by_tokens(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d_out: Any,
    d: Any = None,
    z: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> dict[str, Any]:
    """Back through every token, one by one."""
    out = partial(selective_scan.control_scan_by_tokens, softplus=softplus)
    return differentiated(out, d_out, x=x, dt=dt, a=a, b=b, c=c, d=d, z=z, dt_bias=dt_bias, state=state)


@adapter("selective_scan_gradient", dtypes=DTYPES)
def control_scan_back_by_pairs(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d_out: Any,
    d: Any = None,
    z: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> dict[str, Any]:
    """Back through pairs that are put together over twice the distance in each round."""
    out = partial(selective_scan.control_scan_by_pairs, softplus=softplus)
    return differentiated(out, d_out, x=x, dt=dt, a=a, b=b, c=c, d=d, z=z, dt_bias=dt_bias, state=state)


@adapter("selective_scan_gradient", dtypes=DTYPES)
def control_scan_back_by_hand(
    x: Any,
    dt: Any,
    a: Any,
    b: Any,
    c: Any,
    d_out: Any,
    d: Any = None,
    z: Any = None,
    dt_bias: Any = None,
    state: Any = None,
    *,
    softplus: bool = False,
) -> dict[str, Any]:
    """What goes back from the last token over states that were kept, each gradient written out."""
    import torch

    fading, added, first = selective_scan.prepared(x, dt, a, b, dt_bias, state, softplus)
    after, fades = selective_scan.states_of(fading, added, first), fading.exp()
    before = torch.cat((first[:, :, None], after[:, :, :-1]), 2)
    xs, outs, d_z = x.float(), d_out.float(), None
    whole = selective_scan.skipped((after * c.float().mT[:, None]).sum(-1), x, d)
    if z is not None:
        s = z.float().sigmoid()
        d_z, outs = outs * whole * s * (1 + z.float() * (1 - s)), outs * z.float() * s
    worth, last = [], torch.zeros_like(first)
    for t in reversed(range(x.shape[2])):
        last = last + outs[:, :, t, None] * c[:, None, :, t].float()
        worth.append(last)
        last = last * fades[:, :, t]
    back = torch.stack(worth[::-1], 2)
    step = selective_scan.stepped(dt, dt_bias, softplus)
    of_decay, written = back * fades * before, (back * b.float().mT[:, None]).sum(-1)
    d_step = (a[:, None] * of_decay).sum(-1) + xs * written
    d_step = d_step * selective_scan.shifted(dt, dt_bias).sigmoid() if softplus else d_step
    found = {
        "d_x": selective_scan.skipped(step * written, outs, d).to(x.dtype),
        "d_dt": d_step.to(dt.dtype),
        "d_a": (step[..., None] * of_decay).sum((0, 2)),
        "d_b": (back * (step * xs)[..., None]).sum(1).mT.to(b.dtype),
        "d_c": (after * outs[..., None]).sum(1).mT.to(c.dtype),
    }
    found |= {} if d is None else {"d_d": (xs * outs).sum((0, 2))}
    found |= {} if d_z is None else {"d_z": d_z.to(x.dtype)}
    found |= {} if dt_bias is None else {"d_dt_bias": d_step.sum((0, 2))}
    return found | ({} if state is None else {"d_state": last})


@adapter("short_convolution_gradient", dtypes=DTYPES)
def control_convolution_back_by_matrix(
    x: Any,
    weight: Any,
    d_out: Any,
    bias: Any = None,
    state: Any = None,
    *,
    d_final_state: Any = None,
    silu: bool = False,
) -> dict[str, Any]:
    """Back through a product with a banded matrix for each channel, in single precision."""
    out = partial(convolution.control_convolution_by_matrix, silu=silu)
    given = {"x": x, "weight": weight, "bias": bias, "state": state, "final_state": d_final_state}
    single = {name: None if y is None else y.float() for name, y in given.items()}
    found = differentiated(out, d_out.float(), further={"final_state": single.pop("final_state")}, **single)
    return {name: d.to(x.dtype) for name, d in found.items()}


@adapter("short_convolution_gradient", dtypes=DTYPES)
def control_convolution_back_by_transposing(
    x: Any,
    weight: Any,
    d_out: Any,
    bias: Any = None,
    state: Any = None,
    *,
    d_final_state: Any = None,
    silu: bool = False,
) -> dict[str, Any]:
    """By the transposed convolution, and weights by a product for each of them."""
    import torch

    whole, width = convolution.extended(x, weight, state), weight.shape[1]
    seen, w = whole.unfold(2, width, 1), weight.float()
    y = (seen * w[:, None]).sum(3) + (0 if bias is None else bias.float()[:, None])
    d = d_out.float() * (y.sigmoid() * (1 + y * (1 - y.sigmoid())) if silu else 1)
    d_whole = torch.nn.functional.conv_transpose1d(d, w[:, None], groups=len(w))
    if d_final_state is not None:
        d_whole[..., d.shape[2] :] += d_final_state.float()
    found = {"d_x": d_whole[..., width - 1 :], "d_weight": torch.einsum("bct,bctw->cw", d, seen)}
    found |= {} if bias is None else {"d_bias": d.sum((0, 2))}
    found |= {} if state is None else {"d_state": d_whole[..., : width - 1]}
    return {name: g.to(x.dtype) for name, g in found.items()}


@adapter("packed_convolution_gradient", dtypes=DTYPES)
def control_packed_convolution_back_item_by_item(
    x: Any,
    weight: Any,
    lens: Any,
    d_out: Any,
    bias: Any = None,
    state: Any = None,
    d_final_state: Any = None,
    *,
    silu: bool = False,
) -> dict[str, Any]:
    """Back through each item by itself, with sums over items in single precision."""
    out = partial(convolution.control_convolution_item_by_item, lens=lens, silu=silu)
    given = (None if y is None else y.float() for y in (d_out, d_final_state, x, weight, bias, state))
    return {name: d.to(x.dtype) for name, d in back_through_pack(out, *given).items()}


@adapter("packed_convolution_gradient", dtypes=DTYPES)
def control_packed_convolution_back_between_states(
    x: Any,
    weight: Any,
    lens: Any,
    d_out: Any,
    bias: Any = None,
    state: Any = None,
    d_final_state: Any = None,
    *,
    silu: bool = False,
) -> dict[str, Any]:
    """Back through a pack in which each item lies behind its state."""
    out = partial(convolution.control_convolution_between_states, lens=lens, silu=silu)
    return back_through_pack(out, d_out, d_final_state, x, weight, bias, state)


def back_through_pack(out: Any, d_out: Any, asked: Any, x: Any, weight: Any, bias: Any, state: Any) -> dict[str, Any]:
    """The gradients of a function of packed convolution, which are of arrays that fit."""
    if d_out.shape != x.shape or (asked is not None and asked.shape[1:] != (len(weight), weight.shape[1] - 1)):
        raise ValueError("every token has an output")
    return differentiated(out, d_out, further={"final_state": asked}, x=x, weight=weight, bias=bias, state=state)
