"""Anatomy of a Large Language Model: components to read, run and import.

In docstrings, *Source* names papers, and items of the four lectures by number: IITD for IIT Delhi, CMU for Carnegie
Mellon, GT for Georgia Tech, UCL for UCLouvain. The book's lecture map lists them. E-numbers are errata of the lectures,
D-numbers their disagreements; the book has a page of both.
"""

__version__ = "0.1.0"
