"""Adapters for ggml."""
