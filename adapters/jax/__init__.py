"""Adapters for JAX."""
