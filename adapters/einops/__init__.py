"""Adapters for einops."""
