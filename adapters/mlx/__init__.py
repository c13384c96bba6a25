"""Adapters for MLX."""
