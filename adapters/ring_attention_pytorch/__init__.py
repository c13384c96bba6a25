"""Adapters for ring-attention-pytorch."""
