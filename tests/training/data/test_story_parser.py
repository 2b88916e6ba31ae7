"""Each sentence of the stories is one, and sentences that have been changed are none."""

import random
import re

import pytest

from llm_anatomy.training.data import story_grammar
from llm_anatomy.training.data.stories import stories, story
from llm_anatomy.training.data.story_parser import is_sentence, parsed_fraction, sentences


@pytest.fixture(scope="module")
def written():
    """The sentences of 2,000 stories with one plot, and of 30 with all."""
    texts = [*stories(seed=7, n=2000), *stories(seed=8, n=30, n_plots=len(story_grammar.PLOTS))]
    return sorted({sentence for text in texts for sentence in sentences(text)})


def test_every_sentence_of_the_stories_is_one(written):
    assert len(written) > 20_000
    assert [sentence for sentence in written if not is_sentence(sentence)] == []


def still_sentences(written, change, n=1000):
    """Those of ``n`` changed sentences that the grammar can write all the same."""
    rng = random.Random(0)
    changed = []
    for sentence in rng.choices(written, k=n):
        words = sentence.split(" ")
        if len(words) > 2:
            change(words, rng.randrange(len(words) - 1))
            changed += [" ".join(words)] * (" ".join(words) != sentence)
    assert len(changed) > 0.9 * n
    return [sentence for sentence in changed if is_sentence(sentence)]


def test_no_sentence_is_one_with_two_words_exchanged_or_a_word_twice(written):
    def exchange(words, i):
        words[i], words[i + 1] = words[i + 1], words[i]

    assert still_sentences(written, exchange) == []
    assert still_sentences(written, lambda words, i: words.insert(i, words[i])) == []


def test_hardly_a_sentence_is_one_without_one_of_its_words(written):
    """Without its season, "One spring day" is "One day", and without a word, "There once was" is "There was"."""
    assert len(still_sentences(written, lambda words, i: words.pop(i))) <= 5


@pytest.mark.parametrize(
    ("word", "other"),
    [("was", "were"), ("were", "was"), ("is", "are"), ("are", "is"), ("a", "an"), ("an", "a"), ("a", "some")]
    + [("his", "her"), ("himself", "herself"), ("herself", "himself"), ("him", "her")],
)
def test_words_must_agree(written, word, other):
    with_word = [sentence for sentence in written if re.search(rf"\b{word}\b", sentence)][:400]
    assert with_word
    assert not [s for s in with_word if is_sentence(re.sub(rf"\b{word}\b", other, s, count=1))]


def test_a_pronoun_must_fit_where_the_sentence_says_to_whom(written):
    """Where it does not, the other pronoun is as good: "She had eaten nothing all day." """
    decisive = {*story_grammar.GIRLS, *story_grammar.BOYS, "his", "her", "him"}
    n_decided = 0
    other = {"he": "she", "she": "he", "He": "She", "She": "He"}
    for sentence in written:
        changed = re.sub(r"\b([Hh]e|[Ss]he)\b", lambda word: other[word[0]], sentence)
        if changed != sentence:
            is_decided = bool(decisive & {*re.findall(r"\w+", sentence)})
            n_decided += is_decided
            assert is_sentence(changed) != is_decided, changed
    assert n_decided > 1000


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (
            "From that day on, Mia and Tom met at the pond every week.",
            "From that day on, Mia and Lucy met at the pond every week.",
        ),
        (
            "From that day on, Mia and Tom met at the pond every week.",
            "From that day on, Mia and Tom met on the pond every week.",
        ),
        ("Tom, a boy, and Mia, a girl, were good friends.", "Tom, a girl, and Mia, a boy, were good friends."),
        ("Tom, a boy, and Mia, a girl, were good friends.", "Tom, a boy, and Mia, a fox, were good friends."),
        ("Tom, an owl, and Mia, a fox, were good friends.", "Tom, an owl, and Mia, an owl, were good friends."),
        ("Mia gave Tom one plum.", "Mia gave Tom one plums."),
        ("Mia ate five plums, and Tom ate six.", None),
        ("Mia lost to Tom.", None),
        ("Tom ate two, and Mia ate nine.", "Tom ate three, and Mia ate nine."),
        ("So Tom had two plums, and Mia had three plums.", "So Tom had two plums, and Mia had three figs."),
        ("Mia counted the plums and gave eight to Tom.", "Mia counted the plums and gave eleven to Tom."),
        ("Tom was fast, but Mia was slow.", "Tom was fast, but Mia was clumsy."),
        ("The red kite was not there.", "The red shoes was not there."),
        ("On the way back Mia passed the pond, then the hill, and last of all the lake.",)
        + ("On the way back Mia passed the pond, then the hill, and last of all the pond.",),
        ("In the evening Mia could not find her red kite anywhere, and she was sad.",)
        + ("In the evening Mia could not find her kite red anywhere, and she was sad.",),
        ("It was Tom's birthday, and Mia wanted to give him a present.",)
        + ("It was Tom's birthday, and Mia wanted to give her a present.",),
        ("In autumn they counted seven roses.", "In autumn they counted seven rose."),
        ("An hour later Mia came to the lake.", "A hour later Mia came to the lake."),
    ],
)
def test_examples(right, wrong):
    assert is_sentence(right) == (wrong is not None)
    assert wrong is None or not is_sentence(wrong)


def test_text_is_split_where_sentences_end():
    text = '"Stop!" cried Mia. "Why?" asked Tom.\nThey ran. "I have five plums. Would you like some?"'
    assert sentences(text) == [
        '"Stop!" cried Mia.',
        '"Why?" asked Tom.',
        "They ran.",
        '"I have five plums.',
        'Would you like some?"',
    ]
    assert sentences("") == sentences("\n\n") == []


def test_the_fraction_of_sentences():
    text = story(seed=1, index=2).text
    assert parsed_fraction(text) == 1.0
    n = len(sentences(text))
    assert parsed_fraction(text + "\nThe kite a was.") == pytest.approx(n / (n + 1))
    assert parsed_fraction(text + "\nMia had a re") == 1.0  # the sample ends here
    for empty in ("", "\n", "Mia had a"):
        with pytest.raises(ValueError, match="must have at least one sentence"):
            parsed_fraction(empty)
