"""Adapters for flash-attn."""
