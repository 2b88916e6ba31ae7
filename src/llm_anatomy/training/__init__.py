"""Training: corpora, learning-rate schedules, the training loop, and experiments that one command repeats."""
