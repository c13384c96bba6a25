"""The normalisation operators of ONNX, by the evaluator that serves as its reference.

Documentation: https://onnx.ai/onnx/operators/onnx__LayerNormalization.html and
https://onnx.ai/onnx/operators/onnx__RMSNormalization.html
The attribute stash_type is at its default, by which the statistics are computed in single precision; epsilon is kept in
single precision, whatever the dtype is.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

DTYPES = ("float32", "float16", "bfloat16", "float64")
GRADE = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp32"}


@functools.cache
def evaluator(operator: str, inputs: int, dtype: str, eps: float) -> Any:
    """An evaluator of a model of one node of opset 23."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    kind = {
        "float32": onnx.TensorProto.FLOAT,
        "float16": onnx.TensorProto.FLOAT16,
        "bfloat16": onnx.TensorProto.BFLOAT16,
        "float64": onnx.TensorProto.DOUBLE,
    }[dtype]
    names = ["X", "Scale", "B"][:inputs]
    node = onnx.helper.make_node(operator, names, ["Y"], epsilon=eps)
    values = [onnx.helper.make_tensor_value_info(name, kind, None) for name in names]
    result = onnx.helper.make_tensor_value_info("Y", kind, None)
    graph = onnx.helper.make_graph([node], operator, values, [result])
    return ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)]))


@adapter(
    "layer_norm",
    framework="numpy",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "variance": "biased"},
    grade=GRADE,
    package="onnx",
    extra="onnx",
)
def onnx_layer_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """LayerNormalization of opset 23, by onnx.reference."""
    feeds = {"X": x, "Scale": weight, "B": bias}
    return evaluator("LayerNormalization", 3, str(x.dtype), eps).run(None, feeds)[0]


@adapter(
    "rms_norm",
    framework="numpy",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "plain"},
    grade=GRADE,
    package="onnx",
    extra="onnx",
)
def onnx_rms_norm(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """RMSNormalization of opset 23, by onnx.reference."""
    return evaluator("RMSNormalization", 2, str(x.dtype), eps).run(None, {"X": x, "Scale": weight})[0]
