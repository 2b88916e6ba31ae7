"""Corpora: two that are generated from a seed, one that is downloaded, and the windows that models train on."""
