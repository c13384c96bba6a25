"""Adapters for Attention Gym."""
