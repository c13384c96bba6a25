"""Adapters for aft-pytorch."""
