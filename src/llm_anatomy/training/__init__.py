"""Training: corpora, and in time optimizers, schedules and the loop that uses them."""
