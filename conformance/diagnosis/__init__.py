"""What is wrong with a subject that fails a law: known mistakes, patterns, maps, the smallest counterexample."""
