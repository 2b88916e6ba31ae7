"""What runs in the sandbox: students' cells and functions, and, in a worker of its own, the reference.

Nothing here is secret and nothing here is trusted: whatever it sends is compared outside with what is right.
"""
