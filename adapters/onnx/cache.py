"""The caches of the Attention operator of ONNX, by the evaluator that serves as its reference.

Documentation: https://onnx.ai/onnx/operators/onnx__Attention.html and https://onnx.ai/onnx/operators/onnx__TensorScatter.html
A cache is either inside the operator, which takes the past and returns the present, or outside, where TensorScatter
writes into arrays of a fixed capacity and `nonpad_kv_seqlen` says how much of them is filled.
Where a mask is narrower than the keys, it is padded with what hides, and an axis of length one is no exception.
The evaluator reckons in the type of its inputs and stores every step in it.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "float16", "bfloat16", "float64")
CONVENTIONS = {"grouping": "block"}
GRADES = {"float32": "fp32", "float16": "fp16_naive", "bfloat16": "bf16_naive", "float64": "fp64"}


def kinds(dtype: str) -> Any:
    import onnx

    return {
        "float32": onnx.TensorProto.FLOAT,
        "float16": onnx.TensorProto.FLOAT16,
        "bfloat16": onnx.TensorProto.BFLOAT16,
        "float64": onnx.TensorProto.DOUBLE,
    }[dtype]


def evaluator(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], kind: Any) -> Any:
    """An evaluator of a model of these nodes; `inputs` has the type of each."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    described = [onnx.helper.make_tensor_value_info(name, of, None) for name, of in inputs.items()]
    results = [onnx.helper.make_tensor_value_info(name, kind, None) for name in outputs]
    graph = onnx.helper.make_graph(nodes, "cached_attention", described, results)
    return ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)]))


@functools.cache
def with_past(dtype: str, masked: bool, scale: float | None) -> Any:
    """Attention that takes the past and returns the present."""
    import onnx

    kind, attributes = kinds(dtype), {"is_causal": 1, **({} if scale is None else {"scale": scale})}
    inputs = {"Q": kind, "K": kind, "V": kind, "mask": onnx.TensorProto.BOOL, "past_key": kind, "past_value": kind}
    names = [name if masked or name != "mask" else "" for name in inputs]
    node = onnx.helper.make_node("Attention", names, ["Y", "present_key", "present_value"], **attributes)
    taken = {name: of for name, of in inputs.items() if name in names}
    return evaluator([node], taken, ["Y", "present_key", "present_value"], kind)


@functools.cache
def with_slots(dtype: str, masked: bool, scale: float | None) -> Any:
    """TensorScatter into the slots of a cache, and Attention over what is filled of it."""
    import onnx

    kind, attributes = kinds(dtype), {"is_causal": 1, **({} if scale is None else {"scale": scale})}
    whole = onnx.TensorProto.INT64
    inputs = {"Q": kind, "K": kind, "V": kind, "keys": kind, "values": kind, "written": whole, "filled": whole}
    inputs |= {"mask": onnx.TensorProto.BOOL} if masked else {}
    nodes = [
        onnx.helper.make_node("TensorScatter", ["keys", "K", "written"], ["new_keys"], axis=2),
        onnx.helper.make_node("TensorScatter", ["values", "V", "written"], ["new_values"], axis=2),
        onnx.helper.make_node(
            "Attention",
            ["Q", "new_keys", "new_values", "mask" if masked else "", "", "", "filled"],
            ["Y"],
            **attributes,
        ),
    ]
    return evaluator(nodes, inputs, ["Y", "new_keys", "new_values"], kind)


def attribute(scale: float | None, dtype: str) -> float | None:
    """The scale as an attribute of a node; the evaluator takes its root in single precision."""
    if dtype == "float64" and scale is not None:
        raise Unsupported("the scale is a number in single precision")
    return scale


def rows(mask: Any, length: int, part: slice, width: int) -> Any:
    """The rows of a mask for a chunk, as wide as the keys: [..., chunk, width]."""
    import numpy as np

    whole = np.broadcast_to(mask, (*mask.shape[:-2], length, length))[..., part, : min(width, length)]
    return np.pad(whole, [(0, 0)] * (whole.ndim - 1) + [(0, max(width - length, 0))])


@adapter(
    "cached_attention",
    framework="numpy",
    dtypes=DTYPES,
    conventions=CONVENTIONS,
    grade=GRADES,
    package="onnx",
    extra="onnx",
)
def onnx_past(
    q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], mask: Any = None, beams: Any = None, scale: float | None = None
) -> Any:
    """Attention with past_key and past_value, by onnx.reference."""
    import numpy as np

    run = with_past(str(q.dtype), mask is not None, attribute(scale, str(q.dtype)))
    keys, values, outs, start = k[:, :, :0], v[:, :, :0], [], 0
    for n in chunks:
        part = slice(start, start + n)
        feeds = {"Q": q[:, :, part], "K": k[:, :, part], "V": v[:, :, part], "past_key": keys, "past_value": values}
        if mask is not None:
            feeds["mask"] = rows(mask, q.shape[2], part, part.stop)
        out, keys, values = run.run(None, feeds)
        outs.append(out)
        if start == 0 and beams is not None:
            keys, values = keys[list(beams)], values[list(beams)]
        start += n
    return np.concatenate(outs, 2)


@adapter(
    "cached_attention",
    framework="numpy",
    dtypes=DTYPES,
    conventions=CONVENTIONS,
    grade=GRADES,
    package="onnx",
    extra="onnx",
)
def onnx_slots(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    mask: Any = None,
    kept: Any = None,
    capacity: int | None = None,
    beams: Any = None,
    scale: float | None = None,
) -> Any:
    """TensorScatter, and Attention with nonpad_kv_seqlen, by onnx.reference."""
    import numpy as np

    run = with_slots(str(q.dtype), mask is not None, attribute(scale, str(q.dtype)))
    batch, _, length, _ = q.shape
    room = length if capacity is None else capacity
    keys, values = (np.zeros((*x.shape[:2], room, x.shape[3]), x.dtype) for x in (k, v))
    outs, start, filled = [], 0, np.zeros(batch, np.int64)
    for c, n in enumerate(chunks):
        part = slice(start, start + n)
        feeds = {"Q": q[:, :, part], "K": k[:, :, part], "V": v[:, :, part], "keys": keys, "values": values}
        feeds |= {"written": filled, "filled": filled + n}
        if mask is not None:
            feeds["mask"] = rows(mask, length, part, room)
        out, keys, values = run.run(None, feeds)
        outs.append(out)
        if start == 0 and beams is not None:
            keys, values = keys[list(beams)], values[list(beams)]
        filled, start = filled + (n if kept is None else kept[:, c]), start + n
    return np.concatenate(outs, 2)
