"""The arrays of each framework: made in a given dtype, memory layout and device, and read back as float64."""
