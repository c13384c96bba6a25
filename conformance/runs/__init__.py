"""A run from its options to its results, and what can be done with them later."""
