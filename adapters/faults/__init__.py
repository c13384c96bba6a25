"""Faulty functions: wrong in ways that no changed line of a definition expresses, which the audit wants refuted."""
