def encode_words(words: list[str], vocabulary: list[str]) -> list[int]:
    """The numbers of the longest pieces, from the beginning of each word."""
    numbers = []
    for word in words:
        while word:
            fitting = [piece for piece in vocabulary if word.startswith(piece)]
            longest = max(fitting, key=len, default=None)
            numbers.append(-1 if longest is None else vocabulary.index(longest))
            word = word[len(longest or " ") :]
    return numbers
