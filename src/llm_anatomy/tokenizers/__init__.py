"""Tokenizers, from text to token ids and back: characters, words, bytes, byte pair encoding and Unigram."""

from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.conversion import to_hugging_face
from llm_anatomy.tokenizers.hugging_face import read_hugging_face

# base.py cannot import what stands on it
Tokenizer._to_hugging_face = staticmethod(to_hugging_face)
Tokenizer._from_hugging_face = staticmethod(read_hugging_face)
