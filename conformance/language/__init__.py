"""The expressions of the specifications: parsed, compiled, and run on values or on numbers with bounds."""
