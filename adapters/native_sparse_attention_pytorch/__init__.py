"""Adapters for native-sparse-attention-pytorch."""
