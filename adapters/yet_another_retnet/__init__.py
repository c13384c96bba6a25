"""Adapters for yet-another-retnet."""
