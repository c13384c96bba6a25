"""Adapters for Keras."""
