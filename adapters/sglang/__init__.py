"""Adapters for SGLang."""
