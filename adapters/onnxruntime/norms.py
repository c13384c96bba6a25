"""The normalisation operators of ONNX by ONNX Runtime, on its CPU provider.

Documentation: https://onnx.ai/onnx/operators/onnx__LayerNormalization.html and
https://onnx.ai/onnx/operators/onnx__RMSNormalization.html
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

DTYPES = ("float32", "float16")


@functools.cache
def session(operator: str, inputs: int, dtype: str, eps: float) -> Any:
    """A session of a model of one node of opset 23."""
    import onnx
    import onnxruntime

    kind = {"float32": onnx.TensorProto.FLOAT, "float16": onnx.TensorProto.FLOAT16}[dtype]
    names = ["X", "Scale", "B"][:inputs]
    node = onnx.helper.make_node(operator, names, ["Y"], epsilon=eps)
    values = [onnx.helper.make_tensor_value_info(name, kind, None) for name in names]
    result = onnx.helper.make_tensor_value_info("Y", kind, None)
    graph = onnx.helper.make_graph([node], operator, values, [result])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@adapter(
    "layer_norm",
    framework="numpy",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "variance": "biased"},
    package="onnxruntime",
    extra="onnxruntime",
)
def onnxruntime_layer_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """LayerNormalization of opset 23, by ONNX Runtime."""
    feeds = {"X": x, "Scale": weight, "B": bias}
    return session("LayerNormalization", 3, str(x.dtype), eps).run(None, feeds)[0]


@adapter(
    "rms_norm",
    framework="numpy",
    dtypes=DTYPES,
    conventions={"eps_place": "inside", "weight_form": "plain"},
    package="onnxruntime",
    extra="onnxruntime",
)
def onnxruntime_rms_norm(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    """RMSNormalization of opset 23, by ONNX Runtime."""
    return session("RMSNormalization", 2, str(x.dtype), eps).run(None, {"X": x, "Scale": weight})[0]
