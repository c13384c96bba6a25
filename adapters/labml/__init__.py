"""Adapters for labml-nn."""
