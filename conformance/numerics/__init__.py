"""Numbers that carry a bound of their rounding error, and what they are bounded by: formats, grades, budgets."""
