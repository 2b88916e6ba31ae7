"""The training lab: runs that a config describes, on one process or on many, and that survive what interrupts them."""
