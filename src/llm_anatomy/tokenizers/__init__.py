"""Tokenizers, text to integers and back: characters, words, bytes, byte pair encoding and Unigram, all alike in use."""
