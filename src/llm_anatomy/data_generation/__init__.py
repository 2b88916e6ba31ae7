"""Instruction data that a language model writes itself: the pipeline of Self-Instruct and of Alpaca."""
