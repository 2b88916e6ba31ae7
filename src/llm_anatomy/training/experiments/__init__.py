"""Experiments that take minutes: each is repeated by one command, and the chapters read what it has written down."""
