"""What marks: student notebooks in, marks out. For instructors; the page *For instructors* of the book says how.

The trusted half, which owns the key and writes the marks, knows neither PyTorch nor the package. Code of students, and
everything that needs PyTorch, runs in the folder ``worker``, in a sandbox, and answers with plain tensors.
"""
