"""Adapters for rotary-embedding-torch."""
