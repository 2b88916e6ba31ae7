"""Tokenizers, from text to token ids and back: characters, words, bytes, byte pair encoding and Unigram."""
