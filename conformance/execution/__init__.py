"""A call of somebody else's code: in which process, with which arrays, under which supervision."""
