import re
import string


def _strip(text, lower=True, marks=True):
    pieces = (text.lower() if lower else text).split()
    return [piece for piece in (p.strip(string.punctuation) if marks else p for p in pieces) if piece]


def _runs(words, length):
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def _overlap(own, texts, n):
    length = min(n, len(own))
    return any(_runs(own, length) & _runs(text, length) for text in texts)


def _result(questions, texts, is_right, n, hit=_overlap, split=_strip):
    seen = [split(text) for text in texts]
    clean = [right for q, right in zip(questions, is_right, strict=True) if not hit(split(q), seen, n)]
    return len(questions) - len(clean), sum(is_right) / len(is_right), sum(clean) / len(clean) if clean else 0.0


def capitals_kept(questions, texts, is_right, n):
    """You distinguish capital and small letters."""
    return _result(questions, texts, is_right, n, split=lambda text: _strip(text, lower=False))


def punctuation_kept(questions, texts, is_right, n):
    """You leave punctuation at the ends of the words."""
    return _result(questions, texts, is_right, n, split=lambda text: _strip(text, marks=False))


def across_texts(questions, texts, is_right, n):
    """Your runs cross from one training text to the next."""
    return _result(questions, [" ".join(texts)], is_right, n)


def short_questions_forgotten(questions, texts, is_right, n):
    """You find no question that is shorter than n words. All of its words may stand in a text."""
    return _result(
        questions, texts, is_right, n, hit=lambda own, seen, n: any(_runs(own, n) & _runs(text, n) for text in seen)
    )


def short_questions_always(questions, texts, is_right, n):
    """You take every question that is shorter than n words for contaminated."""
    return _result(questions, texts, is_right, n, hit=lambda own, seen, n: len(own) < n or _overlap(own, seen, n))


def whole_questions(questions, texts, is_right, n):
    """You look for the whole question. A run of n of its words is enough."""
    return _result(questions, texts, is_right, n, hit=lambda own, seen, n: _overlap(own, seen, len(own)))


def first_words_alone(questions, texts, is_right, n):
    """You look for the first n words of a question. Any run of n words counts."""
    return _result(questions, texts, is_right, n, hit=lambda own, seen, n: _overlap(own[:n], seen, n))


def all_runs(questions, texts, is_right, n):
    """You ask that all runs of a question stand in the training text. One of them is enough."""

    def hit(own, seen, n):
        length = min(n, len(own))
        return _runs(own, length) <= set().union(*(_runs(text, length) for text in seen))

    return _result(questions, texts, is_right, n, hit=hit)


def one_word_more(questions, texts, is_right, n):
    """You look for runs of n + 1 words."""
    return _result(questions, texts, is_right, n + 1)


def right_end_alone(questions, texts, is_right, n):
    """You strip punctuation from the right end of a piece only. A bracket or a quotation mark may stand on the left."""
    return _result(
        questions,
        texts,
        is_right,
        n,
        split=lambda text: [p for p in (p.rstrip(string.punctuation) for p in text.lower().split()) if p],
    )


def some_punctuation_kept(questions, texts, is_right, n):
    """You strip full stops, commas and the like. `string.punctuation` has more characters, such as brackets,
    quotation marks and dashes."""
    return _result(
        questions,
        texts,
        is_right,
        n,
        split=lambda text: [p for p in (p.strip(".,;:!?") for p in text.lower().split()) if p],
    )


def words_in_any_order(questions, texts, is_right, n):
    """You ignore the order of the words. A run has to stand in the text as it is."""

    def hit(own, seen, n):
        length = min(n, len(own))
        runs = {tuple(sorted(run)) for run in _runs(own, length)}
        return any(runs & {tuple(sorted(run)) for run in _runs(text, length)} for text in seen)

    return _result(questions, texts, is_right, n, hit=hit)


def accuracy_of_the_contaminated(questions, texts, is_right, n):
    """Your last number is the accuracy on the contaminated questions. It should be that on the others."""
    number, accuracy, clean = _result(questions, texts, is_right, n)
    left = sum(is_right) - clean * (len(questions) - number)
    return number, accuracy, left / number if number else 0.0


def clean_of_all(questions, texts, is_right, n):
    """In your last number, you divide by the number of all questions. Divide by that of the clean ones."""
    number, accuracy, clean = _result(questions, texts, is_right, n)
    return number, accuracy, clean * (len(questions) - number) / len(questions)


def number_of_the_clean(questions, texts, is_right, n):
    """Your first number counts the clean questions."""
    number, *rest = _result(questions, texts, is_right, n)
    return len(questions) - number, *rest


def share_for_number(questions, texts, is_right, n):
    """Your first number is a share. It should be a number of questions."""
    number, *rest = _result(questions, texts, is_right, n)
    return number / len(questions), *rest


def last_run_forgotten(questions, texts, is_right, n):
    """You forget the last run of each question. A question of m words has m − n + 1 runs."""
    return _result(
        questions, texts, is_right, n, hit=lambda own, seen, n: _overlap(own[:-1] if len(own) > n else own, seen, n)
    )


def split_at_punctuation(questions, texts, is_right, n):
    """You split words at punctuation inside of them, such as a hyphen. It is only stripped from their ends."""
    return _result(questions, texts, is_right, n, split=lambda text: re.findall(r"\w+", text.lower()))


def all_punctuation_deleted(questions, texts, is_right, n):
    """You delete punctuation inside of words, such as a hyphen. It is only stripped from their ends."""
    nothing = str.maketrans("", "", string.punctuation)
    return _result(questions, texts, is_right, n, split=lambda text: text.lower().translate(nothing).split())


def empty_pieces_kept(questions, texts, is_right, n):
    """You keep pieces of which nothing is left, such as a dash between spaces. Leave them out."""
    return _result(
        questions, texts, is_right, n, split=lambda text: [p.strip(string.punctuation) for p in text.lower().split()]
    )


def spaces_alone(questions, texts, is_right, n):
    """You split at spaces only. A line break is white space, too."""
    return _result(
        questions,
        texts,
        is_right,
        n,
        split=lambda text: [p for p in (p.strip(string.punctuation) for p in text.lower().split(" ")) if p],
    )


def parts_of_words(questions, texts, is_right, n):
    """You look for a run in a joined string, where it may begin or end inside of a word."""

    def hit(own, seen, n):
        return any(" ".join(run) in " ".join(text) for text in seen for run in _runs(own, min(n, len(own))))

    return _result(questions, texts, is_right, n, hit=hit)


def short_questions_in_any_order(questions, texts, is_right, n):
    """For a question of fewer than n words, you ignore the order. Its words have to stand one after the other."""

    def hit(own, seen, n):
        return any(set(own) <= set(text) for text in seen) if len(own) < n else _overlap(own, seen, n)

    return _result(questions, texts, is_right, n, hit=hit)
