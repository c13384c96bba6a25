"""Adapters for performer-pytorch."""
