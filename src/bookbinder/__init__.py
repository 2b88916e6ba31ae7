"""What binds the book: texts to executed notebooks, notebooks to pages, and checks of all of it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder of the repository."""
