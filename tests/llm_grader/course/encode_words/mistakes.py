def _numbers(words, vocabulary, choose, unknown):
    numbers = []
    for word in words:
        while word:
            fitting = [piece for piece in vocabulary if word.startswith(piece)]
            numbers += [vocabulary.index(choose(fitting))] if fitting else unknown
            word = word[len(choose(fitting)) if fitting else 1 :]
    return numbers


def _longest(fitting):
    return max(fitting, key=len)


def shortest_piece(words, vocabulary):
    """You take the shortest piece that fits. Take the longest."""
    return _numbers(words, vocabulary, lambda fitting: min(fitting, key=len), [-1])


def first_piece(words, vocabulary):
    """You take the first piece of the vocabulary that fits. A longer one may come later."""
    return _numbers(words, vocabulary, lambda fitting: fitting[0], [-1])


def unknown_left_out(words, vocabulary):
    """You leave out characters that no piece begins with. They get the number -1."""
    return _numbers(words, vocabulary, _longest, [])


def counted_from_one(words, vocabulary):
    """You count the pieces from 1. The first of the vocabulary has the number 0."""
    return [number + 1 if number >= 0 else -1 for number in _numbers(words, vocabulary, _longest, [-1])]


def pieces_not_numbers(words, vocabulary):
    """You return the pieces themselves. Asked are their numbers."""
    return [vocabulary[number] if number >= 0 else "?" for number in _numbers(words, vocabulary, _longest, [-1])]
