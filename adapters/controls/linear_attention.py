"""Right, but different: linear attention token by token, and with all products at once; of packed items as well."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def features(x: Any, name: str) -> Any:
    """What a feature map makes of `x`, in single precision."""
    import torch

    x = x.float()
    return {"identity": x, "elu": torch.nn.functional.elu(x) + 1, "relu": x.relu()}[name]


def prepared(
    q: Any, k: Any, v: Any, gate: Any, state: Any, key_sum: Any, scale: Any, feature_map: str
) -> tuple[Any, ...]:
    """Everything in single precision, scaled and mapped, a gate for each channel; what is absent."""
    import torch

    if v.shape[2] != k.shape[2] or (state is not None and state.shape[2] != k.shape[3]):
        raise ValueError("every key has a value, and a state a row for each channel of the keys")
    q = features(q, feature_map) * (k.shape[3] ** -0.5 if scale is None else scale)
    gate = torch.zeros(k.shape) if gate is None else gate.float().expand(k.shape)
    state = torch.zeros(*k.shape[:2], k.shape[3], v.shape[3]) if state is None else state
    key_sum = torch.zeros(*k.shape[:2], k.shape[3]) if key_sum is None else key_sum
    return q, features(k, feature_map), v.float(), gate, state, key_sum


@adapter("linear_attention", dtypes=DTYPES, conventions={"eps_place": "to_normaliser"})
def control_linear_attention_by_tokens(
    q: Any,
    k: Any,
    v: Any,
    gate: Any = None,
    state: Any = None,
    key_sum: Any = None,
    *,
    scale: float | None = None,
    feature_map: str = "identity",
    normalise: bool = False,
    eps: float = 1e-6,
    causal: bool = True,
) -> Any:
    """Token by token; without a mask, all queries at last."""
    import torch

    dtype = v.dtype
    q, k, v, gate, state, key_sum = prepared(q, k, v, gate, state, key_sum, scale, feature_map)
    states, sums = [state], [key_sum]
    for t in range(k.shape[2]):
        fade = gate[:, :, t].exp()
        states.append(fade[..., None] * states[-1] + k[:, :, t, :, None] * v[:, :, t, None, :])
        sums.append(fade * sums[-1] + k[:, :, t])
    length = k.shape[2]
    places = range(1, length + 1) if causal else [length] * length
    out = (q[..., None, :] @ torch.stack([states[i] for i in places], 2))[..., 0, :]
    if normalise:
        out = out / ((q * torch.stack([sums[i] for i in places], 2)).sum(-1, keepdim=True) + eps)
    return {"out": out.to(dtype), "final_state": states[-1], "final_sum": sums[-1]}


@adapter("linear_attention", dtypes=DTYPES, conventions={"eps_place": "to_keys"})
def control_linear_attention_at_once(
    q: Any,
    k: Any,
    v: Any,
    gate: Any = None,
    state: Any = None,
    key_sum: Any = None,
    *,
    scale: float | None = None,
    feature_map: str = "identity",
    normalise: bool = False,
    eps: float = 1e-6,
    causal: bool = True,
) -> Any:
    """The products of all queries with all keys, faded by the gates between them."""
    dtype = v.dtype
    q, k, v, gate, state, key_sum = prepared(q, k, v, gate, state, key_sum, scale, feature_map)
    total = gate.cumsum(2)
    fades = (total[:, :, :, None] - total[:, :, None]).clamp(max=0).exp()  # [batch, heads, length, length, key_dim]
    weights = (q[:, :, :, None] * fades * k[:, :, None]).sum(-1)
    weights = weights.tril() if causal else weights
    reading = q * total.exp()
    out = weights @ v + reading @ state
    if normalise:
        out = out / (weights.sum(-1, keepdim=True) + reading @ key_sum[..., None] + eps * q.sum(-1, keepdim=True))
    late = k * (total[:, :, -1:] - total).exp()
    left = total[:, :, -1].exp()
    return {
        "out": out.to(dtype),
        "final_state": left[..., None] * state + late.mT @ v,
        "final_sum": left * key_sum + late.sum(2),
    }


def together(v: Any, k: Any, lens: Any, state: Any) -> None:
    """Refuse items that do not belong together."""
    if len(v) != len(k) or int(lens.sum()) != len(k) or (state is not None and len(state) != len(lens)):
        raise ValueError("every key has a value, and every item a state")


@adapter("packed_linear_attention", dtypes=DTYPES)
def control_linear_attention_item_by_item(
    q: Any, k: Any, v: Any, lens: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """Each item by itself, token by token."""
    import torch

    together(v, k, lens, state)
    left = torch.zeros(len(lens), *k.shape[1:], v.shape[2]) if state is None else state.clone()
    out = torch.empty_like(v)
    for item, own in enumerate(torch.arange(len(k)).split(lens.tolist())):
        if len(own):
            arrays = [x[own].transpose(0, 1)[None] for x in (q, k, v)]
            gates = None if gate is None else gate[own].transpose(0, 1)[None]
            found = control_linear_attention_by_tokens(*arrays, gate=gates, state=left[item : item + 1], scale=scale)
            out[own], left[item] = found["out"][0].transpose(0, 1), found["final_state"][0]
    return {"out": out, "final_state": left}


@adapter("packed_linear_attention", dtypes=DTYPES)
def control_linear_attention_across_the_pack(
    q: Any, k: Any, v: Any, lens: Any, gate: Any = None, state: Any = None, *, scale: float | None = None
) -> Any:
    """The products of all queries of the pack with all keys, of which those between items are left out."""
    import torch

    together(v, k, lens, state)
    factor = k.shape[2] ** -0.5 if scale is None else scale
    queries, keys, values = (x.float().transpose(0, 1) for x in (factor * q.float(), k, v))
    gates = torch.zeros(keys.shape) if gate is None else gate.float().transpose(0, 1).expand(keys.shape)
    state = torch.zeros(len(lens), *k.shape[1:], v.shape[2]) if state is None else state
    item = torch.arange(len(lens)).repeat_interleave(lens)
    own = item[:, None] == item
    total = own.tril().float() @ gates  # [heads, tokens, key_dim], from where an item begins
    fades = (total[:, :, None] - total[:, None]).clamp(max=0).exp()  # [heads, tokens, tokens, key_dim]
    weights = ((queries[:, :, None] * fades * keys[:, None]).sum(-1) * own).tril()
    read = torch.einsum("htd,thde->hte", queries * total.exp(), state[item])
    of_item = torch.nn.functional.one_hot(item, len(lens)).float()  # [tokens, items]
    sums = torch.einsum("htd,tn->nhd", gates, of_item)
    late = keys * (sums[item].transpose(0, 1) - total).exp()
    left = sums.exp()[..., None] * state + torch.einsum("htd,hte,tn->nhde", late, values, of_item)
    return {"out": (weights @ values + read).transpose(0, 1).to(v.dtype), "final_state": left}
