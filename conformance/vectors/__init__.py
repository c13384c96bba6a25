"""Test vectors for programs without attnspec: inputs, expected values, and bounds."""
