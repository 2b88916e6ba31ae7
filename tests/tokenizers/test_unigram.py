"""Unigram against brute force over all splits, SentencePiece and Hugging Face, and what its training promises."""

import itertools
import math
import random
from collections import Counter

import pytest

from llm_anatomy.tokenizers import unigram
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.bpe import BPE
from llm_anatomy.tokenizers.unigram import (
    UNKNOWN,
    WORDS,
    TrainingRound,
    Unigram,
    best_segmentation,
    count_words,
    expected_counts,
    forward,
    lattice,
    maximum_likelihood_scores,
    pruning_losses,
    sample_segmentation,
    seed_pieces,
    training_rounds,
)
from llm_anatomy.training.data.stories import story_text

HARD_TEXTS = [
    "",
    " ",
    "   two  spaces\n\n\tand\ttabs \r\n",
    "Ωμέγα, Straße, 東京に行きました。 नमस्ते दुनिया",
    "👩‍👩‍👧‍👦 and 🙂🙂🙂🙂",
    "def f(x):\n    return x ** 2  # 12345.67",
    "a" * 300,
    "\u0000\u0001 \u200b \ufffd \xa0 e\u0301",
    "xyzzy" * 40,
]


def all_splits(text, pieces):
    """Every split of the text, by recursion: the definition that the lattice replaces."""
    if not text:
        yield []
    for piece in pieces:
        if text.startswith(piece):
            for rest in all_splits(text[len(piece) :], pieces):
                yield [piece, *rest]


def random_pieces(rng, alphabet="abc", n=12):
    """Characters and some longer pieces, with random scores; the last score is that of unknown characters."""
    longer = ["".join(p) for k in (2, 3, 4) for p in itertools.product(alphabet, repeat=k)]
    pieces = [*alphabet, *rng.sample(longer, n)]
    return pieces, [math.log(rng.random()) for _ in pieces] + [-30.0]


@pytest.fixture(scope="module")
def text():
    return story_text(60_000)


@pytest.fixture(scope="module")
def trained(text):
    return Unigram.train([text], 900, special_tokens=["<|end|>"], character_coverage=1.0)


# --- The lattice, against all splits written out ---


@pytest.mark.syllabus("GT-40")
@pytest.mark.parametrize("seed", range(40))
def test_the_best_split_is_the_best_of_all(seed):
    rng = random.Random(seed)
    pieces, scores = random_pieces(rng)
    score_of = dict(zip(pieces, scores, strict=False))
    word = "".join(rng.choices("abc", k=rng.randrange(1, 10)))
    splits = list(all_splits(word, pieces))
    best = max(splits, key=lambda split: sum(map(score_of.get, split)))
    arcs = lattice(word, {piece: i for i, piece in enumerate(pieces)}, 4)
    ids, score = best_segmentation(arcs, scores)
    assert [pieces[i] for i in ids] == best
    assert score == pytest.approx(sum(map(score_of.get, best)), abs=1e-9)
    total = math.log(sum(math.exp(sum(map(score_of.get, split))) for split in splits))
    assert forward(arcs, scores)[-1] == pytest.approx(total, abs=1e-9)


@pytest.mark.syllabus("GT-40")
@pytest.mark.parametrize("seed", range(10))
def test_expected_counts_are_the_average_over_all_splits(seed):
    rng = random.Random(seed)
    pieces, scores = random_pieces(rng)
    score_of, ids = dict(zip(pieces, scores, strict=False)), {piece: i for i, piece in enumerate(pieces)}
    words = {"".join(rng.choices("abc", k=k)): rng.randrange(1, 9) for k in (1, 5, 8)}
    expected, likelihood = Counter(), 0.0
    for word, times in words.items():
        splits = {tuple(s): math.exp(sum(map(score_of.get, s))) for s in all_splits(word, pieces)}
        likelihood += times * math.log(sum(splits.values()))
        for split, p in splits.items():
            for piece in split:
                expected[piece] += times * p / sum(splits.values())
    counts, found = expected_counts([(lattice(w, ids, 4), n) for w, n in words.items()], scores)
    assert found == pytest.approx(likelihood, abs=1e-9)
    assert counts[:-1] == pytest.approx([expected[piece] for piece in pieces], abs=1e-9)


@pytest.mark.syllabus("GT-40")
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 2.0])
def test_samples_come_as_often_as_the_posterior_says(alpha):
    rng = random.Random(3)
    pieces, scores = random_pieces(rng, "ab", 20)
    score_of = dict(zip(pieces, scores, strict=False))
    weights = {tuple(s): math.exp(alpha * sum(map(score_of.get, s))) for s in all_splits("abbab", pieces)}
    assert len(weights) > 4
    arcs, n = lattice("abbab", {piece: i for i, piece in enumerate(pieces)}, 4), 6000
    found = Counter(tuple(pieces[i] for i in sample_segmentation(arcs, scores, rng, alpha)) for _ in range(n))
    assert set(found) <= set(weights)
    for split, weight in weights.items():
        p = weight / sum(weights.values())
        assert abs(found[split] / n - p) < 4.5 * math.sqrt(p * (1 - p) / n) + 1e-9


def test_a_long_word_neither_underflows_nor_takes_quadratic_time():
    ids, scores = {"a": 0, "aa": 1, "b": 2}, [-700.0, -701.0, -900.0, -1000.0]
    arcs = lattice("a" * 5000, ids, 2)
    assert sum(map(len, arcs)) == 9999
    assert best_segmentation(arcs, scores) == ([1] * 2500, -701.0 * 2500)
    assert math.isfinite(forward(arcs, scores)[-1])
    counts, _ = expected_counts([(arcs, 1)], scores)
    assert counts[0] + 2 * counts[1] == pytest.approx(5000)


# --- Training ---


@pytest.mark.syllabus("GT-40")
def test_the_likelihood_never_falls_while_the_pieces_stay():
    words = count_words([story_text(8000)], WORDS, 1.0)
    rounds = list(training_rounds(words, 120, n_seed_pieces=400, n_em_steps=6))
    sizes = [len(r.scores) for r in rounds]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] == 400 and sizes[-1] == 120
    compared = 0
    for before, after in itertools.pairwise(rounds):
        if before.scores.keys() == after.scores.keys():
            assert after.log_likelihood >= before.log_likelihood - 1e-7 * abs(before.log_likelihood)
            compared += 1
        else:
            assert after.scores.keys() < before.scores.keys()
    assert compared >= 20
    gain = rounds[5].log_likelihood - rounds[0].log_likelihood
    assert gain > 0.05 * abs(rounds[0].log_likelihood)
    for r in rounds:
        assert sum(map(math.exp, r.scores.values())) == pytest.approx(1)


def test_a_planted_fault_makes_the_likelihood_fall(monkeypatch):
    monkeypatch.setattr(
        unigram, "maximum_likelihood_scores", lambda counts: maximum_likelihood_scores([c**1.5 for c in counts])
    )
    words = count_words([story_text(4000)], WORDS, 1.0)
    rounds = itertools.takewhile(
        lambda r: len(r.scores) == 300, training_rounds(words, 120, n_seed_pieces=300, n_em_steps=6)
    )
    values = [r.log_likelihood for r in rounds]
    assert any(after < before for before, after in itertools.pairwise(values))


def test_the_loss_is_what_the_best_other_split_costs():
    rng = random.Random(5)
    pieces, scores = random_pieces(rng)
    score_of = dict(zip(pieces, scores, strict=False))
    counts = [rng.random() * 9 for _ in pieces]
    for piece, loss, count in zip(pieces, pruning_losses(pieces, scores, counts), counts, strict=True):
        others = [s for s in all_splits(piece, pieces) if s != [piece]]
        if len(piece) == 1:
            assert loss == math.inf
        else:
            best = max(sum(map(score_of.get, split)) for split in others)
            assert loss == pytest.approx(count * (score_of[piece] - best))


def test_seeds_are_the_substrings_that_cover_most():
    words = {" banana": 3, " bandana": 2, "x": 1}
    expected = Counter()
    for word, times in words.items():
        for start, end in itertools.combinations(range(len(word) + 1), 2):
            if end - start <= 4:
                expected[word[start:end]] += times * (end - start)
    seeds = seed_pieces(words, 4, 1000)
    assert seeds == {piece: n for piece, n in expected.items() if len(piece) == 1 or n > len(piece)}
    fewer = seed_pieces(words, 4, 12)
    assert len(fewer) == 12 and set(" bandx") <= set(fewer)
    assert min(n for p, n in fewer.items() if len(p) > 1) >= max(n for p, n in seeds.items() if p not in fewer)


def test_training_gives_as_many_ids_as_asked_and_keeps_all_characters(text, trained):
    assert trained.n_vocab == 900 and len(set(trained.vocabulary[256:])) == 900 - 256
    assert trained.vocabulary[:256] == [bytes([b]) for b in range(256)] and trained.vocabulary[256] == b"<|end|>"
    assert {c.encode() for c in text} <= set(trained.vocabulary[257:])
    scores = trained.scores[257:]
    assert scores == sorted(scores, reverse=True) and sum(map(math.exp, scores)) == pytest.approx(1)
    again = Unigram.train([text], 900, special_tokens=["<|end|>"], character_coverage=1.0)
    assert again.vocabulary == trained.vocabulary and again.scores == trained.scores
    assert max(trained.encode(text)) > 256  # whole pieces, not bytes
    assert not [i for i in trained.encode(text) if i < 256]


def test_rare_characters_are_left_to_bytes():
    tokenizer = Unigram.train(["common words " * 200 + "€"], 256 + 30, character_coverage=0.999)
    assert "€".encode() not in tokenizer.vocabulary
    assert tokenizer.encode("€") == [0xE2, 0x82, 0xAC]
    everything = Unigram.train(["common words " * 200 + "€"], 256 + 30, character_coverage=1.0)
    assert "€".encode() in everything.vocabulary


@pytest.mark.syllabus("GT-40")
def test_it_compresses_as_well_as_sentencepiece_trained_on_the_same_text(text, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    n_pieces = 600
    ours = Unigram.train([text], 256 + n_pieces, character_coverage=1.0)
    theirs = train_sentencepiece(sentencepiece, text, tmp_path, vocab_size=n_pieces + 1, add_dummy_prefix=False)
    held_out = story_text(20_000, seed=9).replace("\n", " ")
    assert len(ours.encode(held_out)) < 1.03 * len(theirs.encode(held_out))


@pytest.mark.syllabus("GT-40")
def test_bpe_on_the_same_text_splits_differently_and_about_as_short(text):
    unigrams = Unigram.train([text], 700, character_coverage=1.0)
    merges = BPE.train([text], 700, pre_tokenizer=WORDS)
    held_out = story_text(20_000, seed=9)
    assert 0.85 < len(unigrams.encode(held_out)) / len(merges.encode(held_out)) < 1.15
    words = sorted(set(WORDS(held_out)))
    splits = [[[t.vocabulary[i] for i in t.encode(word)] for t in (unigrams, merges)] for word in words]
    differing = sum(ours != theirs for ours, theirs in splits)
    assert 0.1 * len(words) < differing < len(words)


# --- The same vocabulary, the same ids ---


def train_sentencepiece(sentencepiece, text, folder, **options):
    settings = dict(
        vocab_size=700, add_dummy_prefix=True, model_type="unigram", normalization_rule_name="identity",
        remove_extra_whitespaces=False, character_coverage=1.0, bos_id=-1, eos_id=-1, num_threads=1,
        minloglevel=2, model_prefix=str(folder / "model"), sentence_iterator=iter(text.split("\n")),
    )  # fmt: skip
    sentencepiece.SentencePieceTrainer.train(**settings | options)
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "model.model"))


@pytest.mark.syllabus("GT-40", "GT-42", "UCL-09")
@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize("prefix", [True, False])
def test_same_ids_as_sentencepiece_and_hugging_face(text, tmp_path, byte_fallback, prefix):
    sentencepiece = pytest.importorskip("sentencepiece")
    tokenizers = pytest.importorskip("tokenizers")
    theirs = train_sentencepiece(sentencepiece, text, tmp_path, byte_fallback=byte_fallback, add_dummy_prefix=prefix)
    pieces = [(theirs.id_to_piece(i), theirs.get_score(i)) for i in range(theirs.get_piece_size())]
    ours = Unigram.from_pieces(pieces, "<unk>", prefix=" " * prefix)
    model = tokenizers.models.Unigram(pieces, theirs.unk_id(), byte_fallback)
    rng, stories = random.Random(0), story_text(20_000, seed=4)
    texts = HARD_TEXTS + stories.split("\n") + ["".join(rng.choices("abeo \u00e9€🙂", k=60)) for _ in range(100)]
    for sample in texts:
        sample = sample.replace("\0", "")  # SentencePiece ends there
        assert ours.encode(sample) == theirs.encode(sample), sample
        ids = [token.id for token in model.tokenize((" " * prefix * bool(sample) + sample).replace(" ", "▁"))]
        assert ours.encode(sample) == ids, sample
        if byte_fallback:
            assert ours.decode(ours.encode(sample)) == sample


# --- The tokenizer ---


def test_every_text_comes_back(text, trained):
    for sample in [*HARD_TEXTS, text]:
        assert trained.decode(trained.encode(sample), errors="strict") == sample
    lone = "a\ud800b"
    assert trained.decode(trained.encode(lone), errors="surrogatepass") == lone
    hypothesis = pytest.importorskip("hypothesis")

    @hypothesis.settings(max_examples=150, deadline=None, database=None, derandomize=True)
    @hypothesis.given(hypothesis.strategies.text())
    def comes_back(sample):
        assert trained.decode(trained.encode(sample), errors="strict") == sample

    comes_back()


@pytest.mark.syllabus("GT-42")
def test_unseen_characters_become_bytes(trained):
    assert trained.encode("🙂") == list("🙂".encode())
    assert len(trained.encode("🙂")) == 4


def test_text_in_chunks_gives_the_same_ids(text, trained):
    rng = random.Random(1)
    long = text + "".join(HARD_TEXTS) + text[::-1]
    cuts = sorted(rng.randrange(len(long)) for _ in range(500))
    chunks = [long[a:b] for a, b in itertools.pairwise([0, *cuts, len(long)])]
    assert list(trained.encode_iterable(chunks)) == trained.encode(long)


@pytest.mark.syllabus("GT-40")
def test_random_splits_are_of_the_same_text(text, trained):
    rng, sample = random.Random(0), text[:600]
    seen = [trained.sample_encode(sample, rng, alpha=0.2) for _ in range(20)]
    assert len(set(map(tuple, seen))) == 20
    for ids in seen:
        assert trained.decode(ids) == sample and len(ids) > len(trained.encode(sample))
    assert trained.sample_encode(sample, rng, alpha=1e4) == trained.encode(sample)
    assert trained.sample_encode(sample, random.Random(7)) == trained.sample_encode(sample, random.Random(7))
    assert trained.sample_encode("", rng) == [] and trained.sample_encode("🙂", rng) == list("🙂".encode())


def test_a_file_keeps_everything(text, trained, tmp_path):
    trained.save(tmp_path / "unigram.json")
    for kind in (Unigram, Tokenizer):
        loaded = kind.load(tmp_path / "unigram.json")
        assert loaded.encode(text + "🙂") == trained.encode(text + "🙂")
        assert (loaded.scores, loaded.byte_ids, loaded.unk_id) == (trained.scores, trained.byte_ids, None)
        assert loaded.sample_encode(text[:200], random.Random(3)) == trained.sample_encode(text[:200], random.Random(3))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"scores": [\n  null,', '"scores": [', "scores has 899 entries; it must have one for each of 900 tokens"),
        ('"unk_id": null', '"unk_id": "x"', "'unk_id': it must be an id or null, not 'x'"),
        ('"unk_id": null', '"unk_id": 900', "unk_id=900"),
        ('"byte_ids": [\n  0,\n  1,', '"byte_ids": [\n  1,\n  0,', "byte_ids"),
        ('"byte_ids": [\n  0,', '"byte_ids": [\n  true,', "'byte_ids': entry 0 must be a number, not True"),
        ('"byte_ids": [\n  0,', '"byte_ids": [', "byte_ids"),
        ('"scores": [\n  null,', '"scores": [\n  NaN,', r"scores\[0\]"),
        ('"scores": [\n  null,', '"scores": [\n  "a",', "'scores': entry 0 must be a number or null, not 'a'"),
        ('"scores"', '"scorse"', "'scores' is missing"),
    ],
)
def test_a_file_at_fault_is_refused(trained, tmp_path, old, new, said):
    path = tmp_path / "unigram.json"
    trained.save(path)
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new, 1))
    with pytest.raises(ValueError, match=said) as error:
        Unigram.load(path)
    assert str(error.value).startswith("unigram.json")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Unigram([b"a", b"b"], [-1.0]), "scores has 1 entries; it must have one for each of 2 tokens"),
        (lambda: Unigram([b"a", b"a"], [-1.0, -2.0]), r"vocabulary\[1\]=b'a'"),
        (lambda: Unigram([b"\xff"], [-1.0]), r"vocabulary\[0\]"),
        (lambda: Unigram([b"a", b""], [-1.0, -1.0]), r"vocabulary\[1\]"),
        (lambda: Unigram([b"a"], [math.inf]), r"scores\[0\]=inf"),
        (lambda: Unigram([b"a"], [None]), "all None"),
        (lambda: Unigram([b"a"], [-1.0], byte_ids=[0]), "byte_ids"),
        (lambda: Unigram([b"a"], [-1.0], unk_id=1), "unk_id=1"),
        (lambda: Unigram([b"a"], [-1.0]).encode("ab"), "'b' has no piece"),
        (lambda: Unigram.from_pieces([("a", -1.0)], "<unk>"), "'<unk>' must be one of the pieces"),
        (lambda: Unigram.train("abc", 300), "texts is one string"),
        (lambda: Unigram.train(["abc"], 256), "n_vocab=256"),
        (lambda: Unigram.train([""], 300), "texts have no characters"),
        (lambda: Unigram.train(["abcabc"], 258), "n_pieces=2 must be from 3"),
        (lambda: Unigram.train(["abcabc"], 400), "n_pieces=144 must be from 3, .* to 6"),
        (lambda: Unigram.train(["abcabc"], 260, character_coverage=0.0), "character_coverage=0.0"),
        (lambda: Unigram.train(["abcabc"], 260, max_piece_length=0), "max_piece_length=0"),
        (lambda: Unigram([b"a"], [-1.0]).sample_encode("a", random.Random(0), alpha=-1.0), "alpha=-1.0"),
        (
            lambda: Unigram([b"a", b"<s>"], [-1.0, None], special_tokens={"<s>": 1}).sample_encode(
                "<s>", random.Random(0)
            ),
            "special token",
        ),
    ],
)
def test_bad_input_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_special_tokens_are_never_split(trained):
    ids = trained.encode("one<|end|>two", allowed_special="all")
    assert ids.count(256) == 1 and trained.decode(ids) == "one<|end|>two"
    with pytest.raises(ValueError, match="special token"):
        trained.encode("one<|end|>two")


def test_of_equal_splits_the_last_piece_is_the_longest():
    ids, scores = {"a": 0, "b": 1, "ab": 2, "aa": 3}, [-1.0, -1.0, -2.0, -2.0, -30.0]
    assert best_segmentation(lattice("ab", ids, 2), scores)[0] == [2]
    assert best_segmentation(lattice("aab", ids, 2), scores)[0] == [0, 2]
    assert best_segmentation(lattice("aaa", ids, 2), scores)[0] == [0, 3]


def test_an_unknown_character_is_less_probable_than_the_rarest_piece_by_ten():
    tokenizers = pytest.importorskip("tokenizers")
    rare, common = ["éa", "b", "cé", "ép", "q", "r", "sé"], ["abc", "pqrs"]
    pieces = [("<unk>", 0.0), *((piece, -14.0) for piece in rare), *((piece, -0.1) for piece in common)]
    ours, model = Unigram.from_pieces(pieces, "<unk>"), tokenizers.models.Unigram(pieces, 0, False)
    for word, expected in [("éabcé", [1, 2, 3]), ("épqrsé", [0, 9, 0])]:
        assert ours.encode(word) == expected == [token.id for token in model.tokenize(word)]


def test_bytes_stand_where_their_character_stood():
    alphabet = [bytes([b]) for b in range(256)]
    tokenizer = Unigram([*alphabet, "é€".encode(), b"a"], [None] * 256 + [-1.0, -2.0], byte_ids=range(256))
    assert tokenizer.encode("é€🙂aé\ud800") == [256, *"🙂".encode(), 257, *"é".encode(), 0xED, 0xA0, 0x80]


def test_lone_surrogates_in_the_training_text_get_no_piece():
    tokenizer = Unigram.train(["ab\ud800ab " * 9], 256 + 4, character_coverage=1.0)
    assert tokenizer.decode(tokenizer.encode("ab\ud800"), errors="surrogatepass") == "ab\ud800"


def test_unknown_characters_are_one_token_for_a_run():
    tokenizer = Unigram.from_pieces([("<unk>", 0.0), ("a", -1.0), ("ab", -1.5)], "<unk>")
    assert tokenizer.encode("xxabzya") == [0, 2, 0, 1]
    assert lattice("x", {"a": 0}, 1) == [[], [(0, UNKNOWN)]]
    assert lattice("xy", {"xy": 0}, 2) == [[], [(0, UNKNOWN)], [(0, 0), (1, UNKNOWN)]]


def test_a_round_is_a_pair():
    scores, likelihood = TrainingRound({"a": 0.0}, -1.0)
    assert scores == {"a": 0.0} and likelihood == -1.0
