"""The Einsum operator of ONNX, by the evaluator that serves as its reference.

Documentation: https://onnx.ai/onnx/operators/onnx__Einsum.html (version 12).
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter


@functools.cache
def evaluator(equation: str, dtype: str) -> Any:
    """An evaluator of a model of one Einsum node."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    element = {"float32": onnx.TensorProto.FLOAT, "float64": onnx.TensorProto.DOUBLE}[dtype]
    a, b, c = (onnx.helper.make_tensor_value_info(name, element, None) for name in "abc")
    node = onnx.helper.make_node("Einsum", ["a", "b"], ["c"], equation=equation)
    graph = onnx.helper.make_graph([node], "einsum", [a, b], [c])
    return ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 12)]))


@adapter("einsum", framework="numpy", dtypes=("float32", "float64"), package="onnx", extra="onnx")
def onnx_einsum(a: Any, b: Any, *, equation: str = "ij,jk->ik") -> Any:
    """Einsum of opset 12, by onnx.reference."""
    return evaluator(equation, str(a.dtype)).run(None, {"a": a, "b": b})[0]
