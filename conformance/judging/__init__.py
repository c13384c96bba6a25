"""Does a subject keep a law? Trials, judgements, contracts and verdicts."""
