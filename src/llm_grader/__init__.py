"""Grade student notebooks. The page *For instructors* of the book explains how to use it.

The trusted half owns the key and writes the marks; it imports neither PyTorch nor ``llm_anatomy``. Students' code, and
everything else that needs PyTorch, runs in :mod:`llm_grader.worker`, in a sandbox, and returns plain tensors.
"""
