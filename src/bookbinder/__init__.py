"""Build the book: texts become executed notebooks, notebooks become pages, and all of it is checked."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder of the repository."""
