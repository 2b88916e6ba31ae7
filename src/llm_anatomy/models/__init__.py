"""Whole models, each described by one config."""
