"""Experiments that take minutes. One command repeats each of them, and the chapters read the tables that it writes."""
