"""Adapters for x-transformers."""
