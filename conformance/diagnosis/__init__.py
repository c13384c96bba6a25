"""What is wrong with a subject that broke a law: known mistakes, patterns, maps, the smallest witness."""
