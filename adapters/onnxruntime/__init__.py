"""Adapters for ONNX Runtime."""
