"""The program that runs in a sandbox: it runs students' cells and functions and, in a separate worker, the reference.

Nothing here is secret, and nothing here is trusted: the grader compares what a worker sends with the reference outside
the sandbox.
"""
