"""Right, but different: attention whose output is codes, in ways none of which any law may accuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import adapter
from ..torch.packed import cumulative
from .attention import CONVENTIONS, DTYPES, online
from .packed import batched
from .quantized_paged import PAGED

FORMATS = {"kv_dtype": ("kv_as_given", "e4m3fn"), "q_dtype": ("q_as_given", "q_e4m3fn")}
LARGEST = 448.0


def _declared(operator: str, **further: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return adapter(operator, **{"dtypes": DTYPES, "conventions": CONVENTIONS, "limits": FORMATS, **further})


def meant(x: Any, scale: Any) -> Any:
    """Numbers as they are, and codes times their scale."""
    return x if scale is None else x.float() * scale


def coded(out: Any, scale: Any) -> Any:
    """The codes of numbers, and the largest one of what lies beyond the range."""
    import torch

    return (out.float() / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)


@_declared("attention")
def control_output_coded_where_it_is_found(
    q: Any,
    k: Any,
    v: Any,
    *,
    out_scale: Any,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    mask: Any = None,
    bias: Any = None,
    sink: Any = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Codes are made of what is added up in single precision."""
    out, lse = online(
        meant(q, q_scale).float(),
        meant(k, k_scale),
        meant(v, v_scale),
        mask=mask,
        bias=bias,
        sink=sink,
        causal=causal,
        window_left=window_left,
        window_right=window_right,
        scale=scale,
        softcap=softcap,
    )
    return coded(out, out_scale) if sink is not None else {"out": coded(out, out_scale), "lse": lse}


@_declared("attention", dtypes=("bfloat16", "float16"), limits={"kv_dtype": ("kv_as_given", "e4m3fn")})
def control_output_coded_in_a_second_step(
    q: Any,
    k: Any,
    v: Any,
    *,
    out_scale: Any,
    k_scale: Any = None,
    v_scale: Any = None,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """The output is stored in the dtype of the queries, and multiplied by the reciprocal of the scale later."""
    import torch

    keys, values = (meant(x, s).to(q.dtype) for x, s in ((k, k_scale), (v, v_scale)))
    stored = online(q, keys, values, mask=mask, causal=causal, scale=scale)[0].to(q.dtype)
    return (stored.float() * (1.0 / out_scale)).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)


@_declared("attention", framework="numpy", dtypes=("float64", "float32"))
def control_output_looked_up(
    q: Any,
    k: Any,
    v: Any,
    *,
    out_scale: Any,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """One softmax in double precision, and the code between whose neighbours a number lies."""
    import ml_dtypes
    import numpy as np

    group, ahead = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    queries, keys, values = (
        x.astype(np.float64) * (1.0 if s is None else s) for x, s in ((q, q_scale), (k, k_scale), (v, v_scale))
    )
    s = queries @ np.repeat(keys, group, 1).swapaxes(-1, -2) * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:]), ahead) > 0, s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = np.maximum(p.sum(-1, keepdims=True), 1e-300)
    ratio = p @ np.repeat(values, group, 1) / (total * out_scale)
    codes = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    numbers = codes.astype(np.float64)
    ladder = np.unique(numbers[np.isfinite(numbers)])
    between = (ladder[1:] + ladder[:-1]) / 2
    return ladder[np.searchsorted(between, ratio)].astype(ml_dtypes.float8_e4m3fn)


@_declared("paged_attention", conventions=PAGED)
def control_coded_output_of_pages(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    out_scale: Any,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
) -> Any:
    """Item by item, each coded as soon as it is there."""
    import torch

    outs = []
    for item, count in enumerate(k_lens.tolist()):
        own = table[item, : -(-count // key_pages.shape[1])]
        k, v = (
            meant(x[own], s).flatten(0, 1)[None, :count].transpose(1, 2)
            for x, s in ((key_pages, k_scale), (value_pages, v_scale))
        )
        one = meant(q, q_scale)[item : item + 1].float().transpose(1, 2)
        out, _ = online(one, k, v, causal=True, window_left=window_left, scale=scale, softcap=softcap)
        outs.append(coded(out.transpose(1, 2), out_scale))
    return torch.cat(outs)


@_declared(
    "paged_attention",
    conventions=PAGED,
    limits={"kv_dtype": ("e4m3fn",)},
    requires=("not single(k_scale)", "not single(v_scale)", "size(v_scale, 2) == 1"),
)
def control_one_factor_for_values_and_output(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    table: Any,
    k_lens: Any,
    *,
    out_scale: Any,
    k_scale: Any,
    v_scale: Any,
    scale: float | None = None,
) -> Any:
    """The scale of the values over that of the output, by which the weighted sum of codes is multiplied at its end."""
    import torch

    factor, outs = v_scale / out_scale, []
    for item, count in enumerate(k_lens.tolist()):
        own = table[item, : -(-count // key_pages.shape[1])]
        k, v = (x[own].float().flatten(0, 1)[None, :count].transpose(1, 2) for x in (key_pages, value_pages))
        out, _ = online(
            q[item : item + 1].transpose(1, 2), k * k_scale.transpose(1, 2), v, causal=True, scale=scale, base_two=True
        )
        outs.append((out.transpose(1, 2) * factor).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn))
    return torch.cat(outs)


@_declared("packed_attention")
def control_coded_output_of_items(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    out_scale: Any,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    scale: float | None = None,
    causal: bool = False,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """Item by item, written to codes that are zero at first."""
    import torch

    out = q.new_zeros((q.shape[0], q.shape[1], v.shape[2]), dtype=torch.float8_e4m3fn)
    q_at, k_at = cumulative(q_lens).tolist(), cumulative(k_lens).tolist()
    for item in range(len(q_lens)):
        own, past = slice(*q_at[item : item + 2]), slice(*k_at[item : item + 2])
        found, _ = online(
            *(batched(meant(x, s).float()) for x, s in ((q[own], q_scale), (k[past], k_scale), (v[past], v_scale))),
            causal=causal,
            window_left=window_left,
            window_right=window_right,
            scale=scale,
            softcap=softcap,
        )
        out[own] = coded(found[0].transpose(0, 1), out_scale)
    return out


@_declared("packed_attention", limits={"kv_dtype": FORMATS["kv_dtype"]})
def control_coded_output_of_a_whole_pack(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    out_scale: Any,
    k_scale: Any = None,
    v_scale: Any = None,
    scale: float | None = None,
) -> Any:
    """One softmax over the whole pack, of which other items are hidden, and its codes in one step at the end."""
    import torch

    q_item, k_item = (torch.repeat_interleave(torch.arange(len(lens)), lens) for lens in (q_lens, k_lens))
    group = q.shape[1] // k.shape[1]
    keys, values = (meant(x, s).float().repeat_interleave(group, 1) for x, s in ((k, k_scale), (v, v_scale)))
    s = torch.einsum("qhd,khd->hqk", q.float(), keys) * (q.shape[2] ** -0.5 if scale is None else scale)
    p = torch.softmax(s.masked_fill(q_item[:, None] != k_item, -torch.inf), -1).nan_to_num(0.0)
    return coded(torch.einsum("hqk,khd->qhd", p, values), out_scale)


@_declared("cached_attention", conventions={"grouping": "block"})
def control_coded_output_of_chunks(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    out_scale: Any,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    window_left: int | None = None,
    beams: Any = None,
    scale: float | None = None,
) -> Any:
    """Codes of a chunk before the next one is fed."""
    import torch

    queries, keys, values, outs, start = meant(q, q_scale).float(), meant(k, k_scale), meant(v, v_scale), [], 0
    past = [keys[:, :, :0], values[:, :, :0]]
    for n in chunks:
        part = slice(start, start + n)
        past = [torch.cat(pair, 2) for pair in zip(past, (keys[:, :, part], values[:, :, part]), strict=True)]
        out, _ = online(queries[:, :, part], *past, causal=True, window_left=window_left, scale=scale, block=3)
        outs.append(coded(out, out_scale))
        if start == 0 and beams is not None:
            past = [x[list(beams)] for x in past]
        start += n
    return torch.cat([codes.view(torch.uint8) for codes in outs], 2).view(torch.float8_e4m3fn)


@_declared("cached_attention", dtypes=("bfloat16", "float16"), limits={}, conventions={"grouping": "block"})
def control_coded_output_of_everything(
    q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], out_scale: Any, scale: float | None = None
) -> Any:
    """The whole sequence at once, stored in the dtype of the inputs, and codes by way of the reciprocal."""
    import torch

    if sum(chunks) != q.shape[2]:
        raise ValueError("the chunks are the whole sequence")
    out, _ = online(q, k, v, causal=True, scale=scale, backwards=True)
    return (out.to(q.dtype).float() * (1.0 / out_scale)).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
