"""What is told of a run: results on disk, summaries, the matrix."""
