"""Training: corpora, schedules, the loop that uses them, and experiments that a command repeats."""
