"""What is tried: a case and its arrays, and the plan of cases for each law."""
