"""Adapters for linformer."""
