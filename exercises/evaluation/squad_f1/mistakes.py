import re
import string
from collections import Counter

ARTICLES = ("a", "an", "the")


def _words(text, lower=True, marks="", articles=ARTICLES):
    text = text.lower() if lower else text
    if marks is not None:
        text = text.translate(str.maketrans({c: marks for c in string.punctuation}))
    return [word for word in text.split() if word.lower() not in articles]


def _f1(found, wanted):
    if not found or not wanted:
        return float(found == wanted)
    return 2 * (Counter(found) & Counter(wanted)).total() / (len(found) + len(wanted))


def _scores(prediction, answers, f1=_f1, match=lambda a, b: a == b, best=max, **options):
    found, pairs = _words(prediction, **options), [_words(answer, **options) for answer in answers]
    return float(best(match(found, b) for b in pairs)), best(f1(found, b) for b in pairs)


def capitals_kept(prediction, answers):
    """You distinguish capital and small letters."""
    return _scores(prediction, answers, lower=False)


def punctuation_kept(prediction, answers):
    """You leave the punctuation in the words."""
    return _scores(prediction, answers, marks=None)


def punctuation_as_space(prediction, answers):
    """You replace punctuation by a space, so that some words become two. Delete it."""
    return _scores(prediction, answers, marks=" ")


def articles_kept(prediction, answers):
    """You keep the articles a, an and the."""
    return _scores(prediction, answers, articles=())


def the_alone_left_out(prediction, answers):
    """You leave out *the*, but not the other articles."""
    return _scores(prediction, answers, articles=("the",))


def articles_as_letters(prediction, answers):
    """You delete the letters of the articles inside of other words, too. Only whole words are left out."""

    def cut(text):
        for article in ("the", "an", "a"):
            text = text.replace(article, "")
        return text

    def words(text):
        return cut(" ".join(_words(text, articles=()))).split()

    pairs = [words(answer) for answer in answers]
    return float(words(prediction) in pairs), max(_f1(words(prediction), b) for b in pairs)


def first_answer_alone(prediction, answers):
    """You compare with the first accepted answer only."""
    return _scores(prediction, answers[:1])


def last_answer_alone(prediction, answers):
    """You compare with the last accepted answer only."""
    return _scores(prediction, answers[-1:])


def mean_over_answers(prediction, answers):
    """You average over the accepted answers. The best one counts."""
    return _scores(prediction, answers, best=lambda scores: (lambda s: sum(s) / len(s))(list(scores)))


def sets_of_words(prediction, answers):
    """You count each different word once. A word matches as often as both sides have it."""

    def f1(a, b):
        return _f1(list(dict.fromkeys(a)), list(dict.fromkeys(b)))

    return _scores(prediction, answers, f1)


def common_words_once(prediction, answers):
    """You count each common word as one match, even if both sides have it twice. A word matches as often as both sides
    have it."""

    def f1(a, b):
        return 2 * len(set(a) & set(b)) / (len(a) + len(b)) if a and b else float(a == b)

    return _scores(prediction, answers, f1)


def repeated_words_match(prediction, answers):
    """You count a word of the prediction as a match each time, even if the answer has it less often."""

    def f1(a, b):
        n = sum(word in b for word in a)
        return 2 * n / (len(a) + len(b)) if a and b else float(a == b)

    return _scores(prediction, answers, f1)


def precision_alone(prediction, answers):
    """Your second number is the precision P. F1 also contains the recall."""

    def f1(a, b):
        return (Counter(a) & Counter(b)).total() / len(a) if a and b else float(a == b)

    return _scores(prediction, answers, f1)


def recall_alone(prediction, answers):
    """Your second number is the recall R. F1 also contains the precision."""

    def f1(a, b):
        return (Counter(a) & Counter(b)).total() / len(b) if a and b else float(a == b)

    return _scores(prediction, answers, f1)


def plain_mean(prediction, answers):
    """Your second number is the plain mean of P and R. F1 is their harmonic mean."""

    def f1(a, b):
        if not a or not b:
            return float(a == b)
        n = (Counter(a) & Counter(b)).total()
        return (n / len(a) + n / len(b)) / 2

    return _scores(prediction, answers, f1)


def factor_two_forgotten(prediction, answers):
    """Your F1 is half of what it should be where words match: there is a factor of 2 in the formula."""

    def f1(a, b):
        return _f1(a, b) / 2 if a and b else float(a == b)

    return _scores(prediction, answers, f1)


def nothing_left(prediction, answers):
    """If neither side has a word left, F1 is 1. Yours is 0."""

    def f1(a, b):
        return _f1(a, b) if a and b else 0.0

    return _scores(prediction, answers, f1)


def match_without_order(prediction, answers):
    """Your exact match does not look at the order of the words. Compare the normalized texts."""
    return _scores(prediction, answers, match=lambda a, b: sorted(a) == sorted(b))


def match_of_raw_texts(prediction, answers):
    """Your exact match compares the texts as they are. Normalize both of them first."""
    return float(prediction in answers), _scores(prediction, answers)[1]


def exchanged(prediction, answers):
    """Your two numbers are exchanged: the exact match comes first."""
    return _scores(prediction, answers)[::-1]


def match_if_contained(prediction, answers):
    """Your exact match is 1 if the prediction contains the answer. The two have to be equal."""
    return _scores(prediction, answers, match=lambda a, b: " ".join(b) in " ".join(a))


def match_of_the_first_answer(prediction, answers):
    """Your exact match compares with the first accepted answer only. Any of them will do."""
    return _scores(prediction, answers[:1])[0], _scores(prediction, answers)[1]


def f1_of_the_first_answer(prediction, answers):
    """Your F1 compares with the first accepted answer only. The best one counts."""
    return _scores(prediction, answers)[0], _scores(prediction, answers[:1])[1]


def f1_of_the_first_unless_exact(prediction, answers):
    """If no accepted answer matches exactly, your F1 is that of the first one. The best one counts."""
    match, f1 = _scores(prediction, answers)
    return match, f1 if match else _scores(prediction, answers[:1])[1]


def best_precision_with_best_recall(prediction, answers):
    """You combine the largest P and the largest R, which may belong to different answers. Work out F1 for each
    answer."""

    def best(share):
        return _scores(prediction, answers, lambda a, b: share(a, b) if a and b else float(a == b))[1]

    precision = best(lambda a, b: (Counter(a) & Counter(b)).total() / len(a))
    recall = best(lambda a, b: (Counter(a) & Counter(b)).total() / len(b))
    both = precision + recall
    return _scores(prediction, answers)[0], 2 * precision * recall / both if both else 0.0


def _of_words(words, prediction, answers):
    found, pairs = words(prediction), [words(answer) for answer in answers]
    return float(found in pairs), max(_f1(found, wanted) for wanted in pairs)


def _bare(text):
    return text.lower().translate(str.maketrans("", "", string.punctuation))


def articles_before_punctuation(prediction, answers):
    """You leave out the articles before you delete the punctuation, so that an article after a quotation mark stays."""
    return _of_words(
        lambda text: _bare(" ".join(w for w in text.lower().split() if w not in ARTICLES)).split(), prediction, answers
    )


def articles_beside_punctuation(prediction, answers):
    """You leave out the articles before you delete the punctuation, so that a word such as *A-Team* loses its A."""
    return _of_words(lambda text: _bare(re.sub(r"\b(a|an|the)\b", " ", text.lower())).split(), prediction, answers)


def only_ascii(prediction, answers):
    """You delete letters with accents. They are not in `string.punctuation`."""
    return _of_words(
        lambda text: [w for w in _bare(text).encode("ascii", "ignore").decode().split() if w not in ARTICLES],
        prediction,
        answers,
    )


def spaces_alone(prediction, answers):
    """Your words end at spaces only. A line break is white space, too."""
    return _of_words(lambda text: [w for w in _bare(text).split(" ") if w not in ("", *ARTICLES)], prediction, answers)


def empty_words(prediction, answers):
    """Where two spaces meet, you count an empty word. Split at any white space."""
    return _of_words(lambda text: [w for w in _bare(text).split(" ") if w not in ARTICLES], prediction, answers)


def match_with_holes(prediction, answers):
    """Your exact match is strict about white space: where an article is left out, or where there are two spaces or a
    line break, one space should remain."""

    def cut(text):
        return re.sub(r"\b(a|an|the)\b", "", _bare(text)).strip()

    return float(cut(prediction) in map(cut, answers)), _scores(prediction, answers)[1]


def match_of_the_best_f1(prediction, answers):
    """You decide the exact match by one answer whose F1 is the largest. Another may have the same F1 and match
    exactly."""
    found = _words(prediction)
    best = max(map(_words, answers), key=lambda wanted: _f1(found, wanted))
    return float(found == best), _f1(found, best)
