"""Adapters for tinygrad."""
