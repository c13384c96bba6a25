"""Adapters for the reference evaluator of ONNX."""
