"""What the commands print beside the verdicts of `check`."""
