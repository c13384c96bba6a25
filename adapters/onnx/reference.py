"""The Attention operator of ONNX, by the evaluator that serves as its reference.

Documentation: https://onnx.ai/onnx/operators/onnx__Attention.html (versions 23 and 24).
The mask input is boolean or additive, never both, so a mask and a bias together are put into one bias.
One that is narrower than the keys is not broadcast but padded, so that an axis of length one is widened here.
The causal flag without a cache is aligned top-left; a softcap of zero is none.
The evaluator reckons in the type of its inputs and stores every step in it.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

DTYPES = ("float32", "float16", "bfloat16", "float64")
CONVENTIONS = {"causal_alignment": "top_left", "empty_row": "zeros", "grouping": "block"}
GRADES = {"float32": "fp32", "float16": "fp16_naive", "bfloat16": "bf16_naive", "float64": "fp64"}


@functools.cache
def evaluator(opset: int, dtype: str, mask: str, causal: bool, scale: float | None, softcap: float | None) -> Any:
    """An evaluator of a model of one Attention node; `mask` is the dtype of its mask, or empty without one."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    types = {
        "float32": onnx.TensorProto.FLOAT,
        "float16": onnx.TensorProto.FLOAT16,
        "bfloat16": onnx.TensorProto.BFLOAT16,
        "float64": onnx.TensorProto.DOUBLE,
        "bool": onnx.TensorProto.BOOL,
    }
    attributes: dict[str, Any] = {"is_causal": int(causal)}
    if scale is not None:
        attributes["scale"] = scale
    if softcap is not None:
        attributes["softcap"] = softcap
    names = ["Q", "K", "V", *(["attn_mask"] if mask else [])]
    inputs = [onnx.helper.make_tensor_value_info(n, types[dtype], None) for n in names[:3]]
    if mask:
        inputs.append(onnx.helper.make_tensor_value_info("attn_mask", types[mask], None))
    node = onnx.helper.make_node("Attention", names, ["Y"], **attributes)
    output = onnx.helper.make_tensor_value_info("Y", types[dtype], None)
    graph = onnx.helper.make_graph([node], "attention", inputs, [output])
    return ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)]))


def attention(opset: int, q: Any, k: Any, v: Any, causal: bool, mask: Any, bias: Any, scale: Any, softcap: Any) -> Any:
    """One call of the evaluator."""
    import numpy as np

    added = mask if bias is None else bias
    if mask is not None and bias is not None:
        added = np.where(mask, bias, np.array(-np.inf, bias.dtype))
    if added is not None and added.shape[-1] == 1:
        added = np.broadcast_to(added, (*added.shape[:-1], k.shape[2]))
    session = evaluator(opset, str(q.dtype), "" if added is None else str(added.dtype), causal, scale, softcap)
    feeds = {"Q": q, "K": k, "V": v, **({} if added is None else {"attn_mask": added})}
    return session.run(None, feeds)[0]


@adapter(
    "attention", framework="numpy", dtypes=DTYPES, conventions=CONVENTIONS, grade=GRADES, package="onnx", extra="onnx"
)
def onnx_reference(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Attention of opset 24, by onnx.reference."""
    return attention(24, q, k, v, causal, mask, bias, scale, softcap)


@adapter(
    "attention", framework="numpy", dtypes=DTYPES, conventions=CONVENTIONS, grade=GRADES, package="onnx", extra="onnx"
)
def onnx_reference_23(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Any:
    """Attention of opset 23, by onnx.reference."""
    return attention(23, q, k, v, causal, mask, bias, scale, softcap)
