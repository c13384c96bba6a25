"""Adapters for diffusers."""
