"""Adapters for Flax."""
