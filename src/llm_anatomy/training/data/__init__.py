"""Corpora: two that are made here from a seed, without a network, and one that is fetched; and windows on them."""
