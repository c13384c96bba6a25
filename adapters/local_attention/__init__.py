"""Adapters for local-attention."""
