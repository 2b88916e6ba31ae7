from collections import Counter


def _kept(training, n_words):
    return {word for word, _ in Counter(training).most_common(n_words)}


def share_of_known(training, new, n_words):
    """You return the share of the words that are known. Return the share of the others."""
    return sum(word in _kept(training, n_words) for word in new) / len(new)


def different_words_only(training, new, n_words):
    """You count each different word of the new text once. Count every occurrence."""
    return len(set(new) - _kept(training, n_words)) / len(set(new))


def different_unknown_words(training, new, n_words):
    """You count each unknown word once, even if it comes several times in the new text. Count every occurrence."""
    return len(set(new) - _kept(training, n_words)) / len(new)


def how_many(training, new, n_words):
    """You return how many words are unknown. Divide by the number of words of the new text."""
    return float(sum(word not in _kept(training, n_words) for word in new))


def of_the_training_text(training, new, n_words):
    """You divide by the length of the training text. Divide by the length of the new one."""
    return sum(word not in _kept(training, n_words) for word in new) / len(training)


def first_words(training, new, n_words):
    """Your vocabulary keeps the words that come first. It should keep those that occur most often."""
    kept = list(dict.fromkeys(training))[:n_words]
    return sum(word not in kept for word in new) / len(new)


def rarest_words(training, new, n_words):
    """Your vocabulary keeps the rarest words. In which direction do you sort?"""
    order = sorted(Counter(training), key=Counter(training).get)
    return sum(word not in order[:n_words] for word in new) / len(new)


def all_training_words(training, new, n_words):
    """You keep every word of the training text. The vocabulary has room for n_words only."""
    return sum(word not in training for word in new) / len(new)


def last_of_equals(training, new, n_words):
    """Of words that occur equally often you keep those that come last. Keep those that come first."""
    order = sorted(dict.fromkeys(reversed(training)), key=Counter(training).get, reverse=True)
    return sum(word not in order[:n_words] for word in new) / len(new)


def alphabetical_ties(training, new, n_words):
    """Of words that occur equally often you keep those that come first in the alphabet. Keep those that come
    first in the training text."""
    order = sorted(set(training), key=lambda word: (-training.count(word), word))
    return sum(word not in order[:n_words] for word in new) / len(new)


def room_for_unk(training, new, n_words):
    """You keep one word too few. The token <unk> is not counted in n_words."""
    return sum(word not in _kept(training, max(n_words - 1, 0)) for word in new) / len(new)


def lower_case(training, new, n_words):
    """You ignore capital letters. Words that differ in spelling are different words."""
    kept = _kept([word.lower() for word in training], n_words)
    return sum(word.lower() not in kept for word in new) / len(new)


def per_cent(training, new, n_words):
    """You return per cent. Return a number from 0 to 1."""
    return 100 * sum(word not in _kept(training, n_words) for word in new) / len(new)


def vocabulary_of_the_new_text(training, new, n_words):
    """You make the vocabulary from the new text. It is made from the training text, before anybody sees the new one."""
    return sum(word not in _kept(new, n_words) for word in new) / len(new)


def every_word_for_zero(training, new, n_words):
    """If n_words is 0, your vocabulary keeps every word of the training text. It should keep none."""
    return sum(word not in _kept(training, n_words or None) for word in new) / len(new)


def every_word_for_zero_and_last_of_equals(training, new, n_words):
    """If n_words is 0, your vocabulary keeps every word: the slice `[-0:]`, for example, is a whole list. And of words
    that occur equally often, you keep those that come last."""
    counts = Counter(training)
    order = sorted(counts, key=counts.get)[-n_words:]
    return sum(word not in order for word in new) / len(new)
