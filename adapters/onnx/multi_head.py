"""Multi-head attention around the Attention operator of ONNX, by the evaluator that serves as its reference.

Documentation: https://onnx.ai/onnx/operators/onnx__Attention.html (version 24).
The projections are matrix products of the same graph; the operator splits and joins the heads of inputs of three axes.
The causal flag without a cache is aligned top-left.
The evaluator reckons in the type of its inputs and stores every step in it.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

BIASES = ("bq", "bk", "bv", "bo")


@functools.cache
def evaluator(dtype: str, given: tuple[str, ...], heads: int, kv_heads: int, causal: bool) -> Any:
    """An evaluator of the graph; `given` names the optional inputs that it has."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    kind = {
        "float32": onnx.TensorProto.FLOAT,
        "float16": onnx.TensorProto.FLOAT16,
        "bfloat16": onnx.TensorProto.BFLOAT16,
        "float64": onnx.TensorProto.DOUBLE,
    }[dtype]
    nodes = []

    def projected(source: str, letter: str, result: str) -> None:
        biased = "b" + letter in given
        nodes.append(onnx.helper.make_node("MatMul", [source, "w" + letter], [result + "_" if biased else result]))
        if biased:
            nodes.append(onnx.helper.make_node("Add", [result + "_", "b" + letter], [result]))

    for source, letter in (("x", "q"), ("context", "k"), ("context", "v")):
        projected(source, letter, letter)
    attended = ["q", "k", "v", *(["mask"] if "mask" in given else [])]
    options: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": kv_heads, "is_causal": int(causal)}
    nodes.append(onnx.helper.make_node("Attention", attended, ["mixed"], **options))
    projected("mixed", "o", "out")

    names = ["x", "context", "wq", "wk", "wv", "wo", *(b for b in BIASES if b in given)]
    inputs = [onnx.helper.make_tensor_value_info(name, kind, None) for name in names]
    if "mask" in given:
        inputs.append(onnx.helper.make_tensor_value_info("mask", onnx.TensorProto.BOOL, None))
    output = onnx.helper.make_tensor_value_info("out", kind, None)
    graph = onnx.helper.make_graph(nodes, "multi_head", inputs, [output])
    return ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)]))


@adapter(
    "multi_head",
    framework="numpy",
    dtypes=("float32", "float16", "bfloat16", "float64"),
    conventions={"causal_alignment": "top_left", "empty_row": "zeros", "grouping": "block"},
    grade={"float32": "fp32", "float16": "fp16_naive", "bfloat16": "bf16_naive", "float64": "fp64"},
    package="onnx",
    extra="onnx",
)
def onnx_multi_head(
    x: Any,
    context: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    kv_heads: int | None = None,
    causal: bool = False,
    mask: Any = None,
    bq: Any = None,
    bk: Any = None,
    bv: Any = None,
    bo: Any = None,
) -> Any:
    """Products and Attention of opset 24 in one graph, by onnx.reference."""
    import numpy as np

    feeds = {"x": x, "context": context, "wq": wq, "wk": wk, "wv": wv, "wo": wo}
    feeds |= {name: b for name, b in zip(BIASES, (bq, bk, bv, bo), strict=True) if b is not None}
    if mask is not None:
        feeds["mask"] = np.broadcast_to(mask, (*mask.shape[:-1], context.shape[1]))
    groups = heads if kv_heads is None else kv_heads
    return evaluator(str(x.dtype), tuple(feeds), heads, groups, causal).run(None, feeds)[0]
