"""What a user reads of a run: results on disk, summaries, the matrix."""
