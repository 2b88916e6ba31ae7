def encode_words(words: list[str], vocabulary: list[str]) -> list[int]:
    """The numbers of the longest pieces, from the beginning of each word."""
    raise NotImplementedError
