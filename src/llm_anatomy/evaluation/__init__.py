"""Evaluation: how well a trained model does."""
