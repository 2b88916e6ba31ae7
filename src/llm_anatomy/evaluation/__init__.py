"""Evaluation: what a trained model is worth."""
