"""The layers of a Transformer, one module for each subject, in the order of the book."""
