"""Byte pair encoding against the lecture's example, slow loops from its definition, and four libraries."""

import io
import json
import random
import re
from collections import Counter
from functools import cmp_to_key

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as HuggingFace

from llm_anatomy.tokenizers import bpe
from llm_anatomy.tokenizers.bpe import (
    BPE,
    GPT2_BYTES,
    CharacterBPE,
    PairCounts,
    first_seen,
    in_letters,
    largest_bytes,
    non_overlapping_pairs,
    overlapping_pairs,
    shortest,
    smallest_ids,
)
from llm_anatomy.tokenizers.files import gpt2_bytes, read_sentencepiece
from llm_anatomy.tokenizers.pretokenization import GPT2, GPT4, WHITESPACE, NoSplit, PreTokenizer
from llm_anatomy.tokenizers.simple import ByteTokenizer

LECTURE = "aaabdaaabac"
BYTES = [bytes([i]) for i in range(256)]


def merged(tokenizer):
    """The merges of a tokenizer as pairs of bytes, in the order of learning."""
    pairs = sorted(tokenizer.merges, key=tokenizer.merges.__getitem__)
    return [(tokenizer.vocabulary[left], tokenizer.vocabulary[right]) for left, right in pairs]


# --- The lecture's example ---


@pytest.mark.syllabus("UCL-07")
def test_the_lectures_example_step_by_step():
    steps = list(BPE.train([LECTURE], 259, pre_tokenizer=NoSplit(), trace=True))
    assert list(in_letters(steps)) == ["ZabdZabac", "ZYdZYac", "XdXac"]
    table = [{b"".join(pair).decode(): n for pair, n in step.counts.items()} for step in steps]
    assert table[0] == {"aa": 4, "ab": 2, "bd": 1, "da": 1, "ba": 1, "ac": 1}
    assert table[1] == {"aaa": 2, "ab": 2, "bd": 1, "daa": 1, "ba": 1, "ac": 1}  # Za, ab, bd, dZ, ba, ac
    assert table[2] == {"aaab": 2, "abd": 1, "daa": 1, "aba": 1, "ac": 1}  # ZY, Yd, dZ, Ya, ac
    assert [list(t.values()) == sorted(t.values(), reverse=True) for t in table] == [True] * 3
    assert [(step.pair, step.token_id, step.count) for step in steps] == [
        ((b"a", b"a"), 256, 4),
        ((b"a", b"b"), 257, 2),
        ((b"aa", b"ab"), 258, 2),
    ]
    assert steps[-1].text == [[b"aaab", b"d", b"aaab", b"a", b"c"]]


@pytest.mark.syllabus("UCL-07")
def test_another_tie_gives_other_merges_and_the_same_text():
    steps = list(BPE.train([LECTURE], 259, pre_tokenizer=NoSplit(), tie_break=first_seen, trace=True))
    assert [step.pair for step in steps] == [(b"a", b"a"), (b"aa", b"a"), (b"aaa", b"b")]
    assert list(in_letters(steps)) == ["ZabdZabac", "YbdYbac", "XdXac"]


@pytest.mark.syllabus("UCL-07", "UCL-08")
def test_what_overlapping_counts_do():
    assert PairCounts({LECTURE: 1}, BYTES).counts["aa"] == 4
    assert (
        PairCounts({LECTURE: 1}, BYTES, non_overlapping_pairs).counts["aa"] == 2
    )  # erratum E-82: two of the four can be joined
    for n in range(8):
        assert (
            Counter(overlapping_pairs("a" * n))["aa"] == max(0, n - 1)
            and Counter(non_overlapping_pairs("a" * n))["aa"] == n // 2
        )
    # aa twice in aaa, bc twice in bcbc: what is counted decides which is joined first.
    texts = ["aaa aaa aaa bcd bcd bcd bcd"]
    first = {
        c: merged(BPE.train(texts, 257, pre_tokenizer=WHITESPACE, find_pairs=c))[0]
        for c in (overlapping_pairs, non_overlapping_pairs)
    }
    assert first == {overlapping_pairs: (b"a", b"a"), non_overlapping_pairs: (b"b", b"c")}


@pytest.mark.syllabus("UCL-08")
def test_letters_run_out():
    text = "".join(chr(33 + i) for i in range(94))
    steps = BPE.train([text + '!"'], 260, pre_tokenizer=NoSplit(), trace=True)
    with pytest.raises(ValueError, match="steps hold more than 0 merges; no letter is left for b"):
        list(in_letters(steps))


@pytest.mark.syllabus("UCL-07")
def test_a_trace_is_the_training(corpus):
    texts = corpus[:5]
    steps = list(BPE.train(texts, 300, trace=True))
    tokenizer = BPE.train(texts, 300)
    assert [step.pair for step in steps] == merged(tokenizer)
    for step in (steps[0], steps[20], steps[-1]):
        assert b"".join(b"".join(tokens) for tokens in step.text).decode() == "".join(texts)
        assert max(step.counts.values()) == step.count == step.counts[step.pair]
    last = [tokenizer.vocabulary[i] for text in texts for i in tokenizer.encode(text)]
    assert [token for tokens in steps[-1].text for token in tokens] == last


# --- Training against a slow loop and the libraries ---


def slow_merges(words, n_merges, tie, count):
    """From the definition: count all pairs of all words again after each merge. Tokens are bytes."""
    words = [([bytes([b]) for b in word.encode()], n) for word, n in Counter(words).items()]
    merges, ids = [], {bytes([b]): b for b in range(256)}
    for _ in range(n_merges):
        counts = {}
        for word, n in words:
            last = None
            for i, pair in enumerate(zip(word, word[1:], strict=False)):
                if count == "non_overlapping_pairs" and last == (i - 1, pair):
                    continue
                last = (i, pair)
                counts[pair] = counts.get(pair, 0) + n
        most = max(counts.values())
        pair = min((p for p in counts if counts[p] == most), key=tie(ids, list(counts)))
        merges.append(pair)
        ids.setdefault(b"".join(pair), len(ids))
        for k, (word, n) in enumerate(words):
            new, i = [], 0
            while i < len(word):
                step = 2 if tuple(word[i : i + 2]) == pair else 1
                new.append(b"".join(word[i : i + step]))
                i += step
            words[k] = (new, n)
    return merges


TIES = {
    smallest_ids: lambda ids, order: lambda pair: (ids[pair[0]], ids[pair[1]]),
    first_seen: lambda ids, order: order.index,
    shortest: lambda ids, order: (
        lambda pair: (len(b"".join(pair).decode(errors="replace")), b"".join(pair).replace(b" ", "▁".encode()))
    ),
    largest_bytes: lambda ids, order: cmp_to_key(lambda one, other: -1 if one > other else one < other),
}


@pytest.mark.parametrize("find_pairs", [overlapping_pairs, non_overlapping_pairs], ids=lambda c: c.__name__)
@pytest.mark.parametrize("tie_break", TIES, ids=lambda t: t.__name__)
def test_merges_equal_a_slow_loop(tie_break, find_pairs, samples):
    text = samples["generated"][:600] + samples["scripts"] + samples["runs"] + LECTURE
    tokenizer = BPE.train([text], 256 + 150, pre_tokenizer=GPT2, tie_break=tie_break, find_pairs=find_pairs)
    assert merged(tokenizer) == slow_merges(GPT2(text), 150, TIES[tie_break], find_pairs.__name__)


@pytest.mark.parametrize("find_pairs", [overlapping_pairs, non_overlapping_pairs], ids=lambda c: c.__name__)
@pytest.mark.parametrize("tie_break", TIES, ids=lambda t: t.__name__)
@settings(deadline=None, derandomize=True, database=None, max_examples=150)
@given(words=st.lists(st.text(alphabet="aab", min_size=1, max_size=24), max_size=6), n=st.integers(1, 40))
def test_merges_of_repetitive_words_equal_a_slow_loop(tie_break, find_pairs, words, n):
    options = dict(pre_tokenizer=NoSplit(), tie_break=tie_break, find_pairs=find_pairs)
    made = merged(BPE.train(words, 256 + n, **options))
    assert bool(made) == any(len(word) > 1 for word in words)
    assert made == slow_merges(words, len(made), TIES[tie_break], find_pairs.__name__)
    counts = [step.counts for step in BPE.train(words, 256 + n, trace=True, **options)]
    assert all(counts) and all(min(c.values()) > 0 for c in counts)


LONG_WORDS = {
    "one letter": "a" * 3000,
    "two letters": "ab" * 1500 + "b",
    "runs": "aaab" * 400 + "aab" * 300 + "a" * 777,
    "DNA": "".join(random.Random(0).choices("ACGT", k=4000)),
    "Chinese": "".join(map(chr, random.Random(1).choices(range(0x4E00, 0x4E80), range(128, 0, -1), k=1500))),
    "unspaced": "".join(random.Random(1).choices(["the", "of", "and", "人", "é"], [5, 4, 3, 2, 1], k=1500)),
}


@pytest.mark.syllabus("UCL-07", "GT-40")
@pytest.mark.parametrize("word", LONG_WORDS.values(), ids=LONG_WORDS)
def test_a_long_word_is_learned_and_encoded_as_by_hugging_face(word):
    peer = hugging_face(r"[^\n]+", [word], 700)
    ours = BPE.train([word], 700, pre_tokenizer=NoSplit(), byte_alphabet=GPT2_BYTES)
    assert merged(ours) == [tuple(map(gpt2_bytes, pair)) for pair in json.loads(peer.to_str())["model"]["merges"]]
    assert ours.encode(word[7:] + word) == peer.encode(word[7:] + word).ids


def test_a_word_of_a_hundred_thousand_equal_letters_is_learned_by_doubling():
    tokenizer = BPE.train(["a" * 2**17], 300)
    assert tokenizer.vocabulary[256:] == [b"a" * 2**i for i in range(1, 18)]


def course_merges(texts, n_merges, special_tokens):
    """From the assignment of Stanford's CS336, with tuples of bytes and ``max``."""
    special = "|".join(re.escape(token) for token in sorted(special_tokens, key=len, reverse=True))
    words = Counter()
    for text in texts:
        for part in re.split(special, text) if special else [text]:
            words.update(tuple(bytes([byte]) for byte in piece.encode()) for piece in GPT2(part))
    merges = []
    for _ in range(n_merges):
        counts = Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:], strict=False):
                counts[pair] += n
        pair = max(counts, key=lambda pair: (counts[pair], pair))
        merges.append(pair)
        joined = Counter()
        for word, n in words.items():
            new = []
            for token in word:
                if new and (new[-1], token) == pair:
                    new[-1] += token
                else:
                    new.append(token)
            joined[tuple(new)] += n
        words = joined
    return merges


SPECIAL = ["<|end|>", "<|end|>end", "<|pad|>"]


@pytest.mark.syllabus("GT-41")
@pytest.mark.parametrize("special_tokens", [[], SPECIAL[:1], SPECIAL], ids=len)
def test_merges_and_ids_equal_a_courses(special_tokens, samples):
    story = (
        samples["english"]
        + samples["runs"]
        + "<|end|>"
        + samples["scripts"]
        + "<|end|><|end|>ended <|end|>ended<|pad|>padded"
    )
    texts = [story * 2, samples["generated"][:800] + "<|end|>"]
    ours = BPE.train(
        texts, 456, pre_tokenizer=GPT2, special_tokens=special_tokens, tie_break=largest_bytes, byte_alphabet=range(256)
    )
    expected = course_merges(texts, 200 - len(special_tokens), special_tokens)
    assert merged(ours) == expected
    assert ours.vocabulary == BYTES + [b"".join(pair) for pair in expected] + [t.encode() for t in special_tokens]
    assert ours.special_tokens == {text: 456 - len(special_tokens) + i for i, text in enumerate(special_tokens)}
    assert ours.decode(ours.encode(story, allowed_special="all")) == story


@pytest.mark.parametrize("kind", [BPE, CharacterBPE])
def test_nothing_is_learned_from_special_tokens_or_across_them(kind):
    texts = ["ab<s>cd<s>ab<s>cd<s><s>"] * 3
    tokenizer = kind.train(texts, 400, pre_tokenizer=NoSplit(), special_tokens=["<s>"])
    assert {b"".join(pair) for pair in merged(tokenizer)} == {b"ab", b"cd"}
    steps = list(kind.train(texts[:1], 400, pre_tokenizer=NoSplit(), special_tokens=["<s>"], trace=True))
    assert [b"".join(tokens) for tokens in steps[-1].text] == [b"ab", b"cd", b"ab", b"cd"]
    assert len(tokenizer.encode(texts[0], allowed_special="all")) == 4 + 5


def test_planted_fault_stale_counts_are_noticed(samples, monkeypatch):
    class Forgetful(PairCounts):
        def merge(self, pair, merged):
            before = dict(self.counts)
            new = super().merge(pair, merged)
            self.counts.update({p: n for p, n in before.items() if p != pair})  # pairs broken up keep their counts
            return new

    monkeypatch.setattr(bpe, "PairCounts", Forgetful)
    with pytest.raises((AssertionError, KeyError)):
        test_merges_equal_a_slow_loop(smallest_ids, overlapping_pairs, samples)


def hugging_face(pattern, texts, n_vocab):
    """A byte-level tokenizer trained by Hugging Face."""
    peer = HuggingFace(models.BPE())
    split = pre_tokenizers.Split(Regex(pattern.replace("{1,3}+", "{1,3}").replace("$", r"\z")), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    peer.pre_tokenizer, peer.decoder = pre_tokenizers.Sequence([split, to_bytes]), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=n_vocab, initial_alphabet=alphabet, show_progress=False)
    peer.train_from_iterator(texts, trainer)
    return peer


@pytest.mark.syllabus("GT-40", "UCL-08")
@pytest.mark.parametrize(
    "pre_tokenizer", [GPT2, GPT4, WHITESPACE, PreTokenizer(r"[^\n]+\n?")], ids=["gpt2", "gpt4", "ws", "lines"]
)
def test_merges_and_ids_equal_hugging_faces(pre_tokenizer, corpus, samples):
    texts = corpus[:60] + corpus[200:]
    peer = hugging_face(pre_tokenizer.pattern, texts, 1200)
    ours = BPE.train(texts, 1200, pre_tokenizer=pre_tokenizer, byte_alphabet=GPT2_BYTES)
    theirs = [tuple(map(gpt2_bytes, pair)) for pair in json.loads(peer.to_str())["model"]["merges"]]
    assert merged(ours) == theirs and ours.n_vocab == peer.get_vocab_size()
    for text in samples.values():
        assert ours.encode(text) == peer.encode(text).ids


@pytest.mark.syllabus("UCL-09")
@pytest.mark.parametrize("pre_tokenizer", [GPT2, GPT4], ids=["gpt2", "gpt4"])
def test_tiktoken_gives_the_same_ids(pre_tokenizer, corpus, samples):
    ours = BPE.train(corpus, 1500, pre_tokenizer=pre_tokenizer, special_tokens=["<|end|>"])
    fast = BPE(ours.vocabulary, ours.merges, pre_tokenizer, ours.special_tokens, backend="tiktoken")
    for text in samples.values():
        assert fast.encode(text) == ours.encode(text)
        assert fast.encode(text + "<|end|>", allowed_special="all")[-1] == 1499
    assert fast.encode("a\ud800b") == ours.encode("a\ud800b")  # a lone surrogate, which tiktoken would replace


def test_the_backend_refuses_what_tiktoken_would_encode_otherwise():
    vocabulary = [*BYTES, b"ab", b"bc", b"abc"]
    merges = {(97, 98): 1, (98, 99): 0, (256, 99): 2}
    assert BPE(vocabulary, merges).encode("abc") == [97, 257]
    for wrong, problem in (
        (merges, "but these merges have another order"),
        ({(97, 98): 0, (98, 99): 1, (256, 99): 2, (97, 257): 3}, "but these merges have another order"),
        ({(97, 98): 0, (98, 99): 1}, "which these merges never form"),
    ):
        with pytest.raises(ValueError, match=problem):
            BPE(vocabulary, wrong, backend="tiktoken")
    with pytest.raises(ValueError, match="backend='rust' must be"):
        BPE(BYTES, {}, backend="rust")


def sentencepiece_model(texts, n_vocab, **options):
    model = io.BytesIO()
    options = dict(model_type="bpe", character_coverage=1.0, byte_fallback=True, minloglevel=2) | options
    plain = dict(
        normalization_rule_name="identity", remove_extra_whitespaces=False, max_sentence_length=100_000, num_threads=1
    )
    words = dict(split_by_unicode_script=False, split_by_number=False, split_digits=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=n_vocab, **plain, **words, **options
    )
    return model.getvalue()


@pytest.mark.syllabus("GT-42", "GT-08")
def test_merges_equal_sentencepieces(corpus):
    texts = [t for t in corpus[:40] if "\n" not in t]
    data = sentencepiece_model(texts, 650)
    library = sentencepiece.SentencePieceProcessor(model_proto=data)
    pieces = [library.id_to_piece(i).replace("▁", " ") for i in range(259, 650)]
    theirs = [piece for piece in pieces if len(piece) > 1]
    pre_tokenizer = PreTokenizer(r" ?[^ \p{N}]+|\p{N}| ", look_ahead=0)
    ours = CharacterBPE.train([" " + text for text in texts], 2000, pre_tokenizer=pre_tokenizer, tie_break=shortest)
    made = [b"".join(pair).decode() for pair in merged(ours)][: len(theirs)]
    assert len(theirs) > 200 and made == theirs


@pytest.mark.syllabus("GT-42", "GT-08", "UCL-09")
def test_ids_equal_sentencepieces(corpus, samples, tmp_path):
    data = sentencepiece_model([t for t in corpus if "\n" not in t], 900)
    (tmp_path / "t.model").write_bytes(data)
    ours, library = read_sentencepiece(tmp_path / "t.model"), sentencepiece.SentencePieceProcessor(model_proto=data)
    for name, text in samples.items():
        if "\0" not in text:  # the library's texts end there
            assert ours.encode(text) == library.encode(text), name
        assert ours.decode(ours.encode(text)) == text


@pytest.mark.syllabus("GT-42", "GT-08")
def test_byte_fallback_digits_and_spaces():
    tokenizer = CharacterBPE.train(["x = 12345\n        y"] * 3, 300)
    assert tokenizer.encode("🙂") == list("🙂".encode()) == [240, 159, 153, 130]
    number = [tokenizer.vocabulary[i] for i in tokenizer.encode("12345")]
    assert number == [b"1", b"2", b"3", b"4", b"5"]
    spaces = BPE.train([" " * 8 + "x"], 270, pre_tokenizer=GPT2)
    assert len(spaces.encode(" " * 7)) == 1
    with pytest.raises(ValueError, match="byte_alphabet must have its default"):
        CharacterBPE.train(["a"], 300, byte_alphabet=GPT2_BYTES)


# --- Encoding ---


def slow_encode(tokenizer, piece):
    """From the definition: join the pair of the lowest rank, leftmost, until none is left."""
    merges = tokenizer.merges
    ids = [tokenizer.vocabulary.index(bytes([b])) for b in piece.encode()]
    token_of = {token: i for i, token in enumerate(tokenizer.vocabulary)}
    while True:
        ranks = [(merges.get(pair, 10**9), i) for i, pair in enumerate(zip(ids, ids[1:], strict=False))]
        rank, i = min(ranks, default=(10**9, 0))
        if rank == 10**9:
            return ids
        ids[i : i + 2] = [token_of[tokenizer.vocabulary[ids[i]] + tokenizer.vocabulary[ids[i + 1]]]]


WAYS = pytest.mark.parametrize(("short", "many"), [(10**6, 0), (0, 10**6), (0, 0)], ids=["scan", "one", "everywhere"])


@WAYS
@settings(deadline=None, derandomize=True, database=None, max_examples=300)
@given(data=st.data())
def test_ids_of_merges_in_any_order_equal_a_slow_loop(short, many, data):
    """In released files, a merge may create a pair of a lower rank, and several pairs may form one token."""
    longer = [a + b for a in ("a", "b", "ab", "ba", "aa") for b in ("a", "b", "bb", "aa")]
    tokens = data.draw(st.lists(st.sampled_from(longer), unique=True, max_size=9))
    vocabulary = BYTES + [token.encode() for token in tokens]
    ids = {token: i for i, token in enumerate(vocabulary)}
    splits = [(token[:k], token[k:]) for token in map(str.encode, tokens) for k in range(1, len(token))]
    pairs = [(ids[left], ids[right]) for left, right in splits if left in ids and right in ids]
    ranks = data.draw(st.lists(st.integers(0, 4), min_size=len(pairs), max_size=len(pairs)))
    tokenizer = BPE(vocabulary, dict(zip(pairs, ranks, strict=True)), NoSplit())
    text = data.draw(st.text(alphabet="ab", min_size=1, max_size=40))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bpe, "SHORT", short)
        patch.setattr(bpe, "MANY", many)
        assert tokenizer.encode(text) == slow_encode(tokenizer, text)


@WAYS
@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("abab", {("a", "b"): 1, ("ab", "a"): 0}),
        ("a" * 6, {("a", "a"): 1, ("aa", "aa"): 0, ("aaaa", "a"): 0}),
    ],
)
def test_a_pair_beside_itself_may_create_one_of_a_lower_rank(short, many, text, ranks, monkeypatch):
    monkeypatch.setattr(bpe, "SHORT", short)
    monkeypatch.setattr(bpe, "MANY", many)
    vocabulary = BYTES + [(left + right).encode() for left, right in ranks]
    merges = {(vocabulary.index(a.encode()), vocabulary.index(b.encode())): rank for (a, b), rank in ranks.items()}
    tokenizer = BPE(vocabulary, merges, NoSplit())
    assert tokenizer.encode(text) == slow_encode(tokenizer, text)


@pytest.fixture(scope="module")
def unsplit(corpus, samples):
    return BPE.train([*corpus[:20], *samples.values()], 600, pre_tokenizer=NoSplit())


def check_ids(tokenizer, samples):
    fresh = BPE(tokenizer.vocabulary, tokenizer.merges, NoSplit())
    for piece in (samples["runs"], samples["scripts"], samples["generated"][:120], "ab" * 30, "a" * 37):
        assert fresh.encode(piece) == slow_encode(fresh, piece)


@WAYS
def test_ids_equal_a_slow_loop(short, many, unsplit, samples, monkeypatch):
    monkeypatch.setattr(bpe, "SHORT", short)
    monkeypatch.setattr(bpe, "MANY", many)
    check_ids(unsplit, samples)


def test_planted_fault_another_order_of_merges_is_noticed(unsplit, samples, monkeypatch):
    monkeypatch.setattr(bpe, "SHORT", 0)
    monkeypatch.setattr(bpe, "heappop", lambda heap: heap.pop())
    with pytest.raises(AssertionError):
        check_ids(unsplit, samples)


@pytest.mark.parametrize("text", ["a" * 100_000, "ab" * 50_000, " " * 100_000, "é" * 30_000, "=" * 65_537 + "\n" * 9])
def test_long_words_are_encoded_as_hugging_face_does(text):
    texts = ["a" * 3000, "abab" * 500, " " * 3000, "éé é", "=" * 100]
    ours = BPE.train(texts, 300, byte_alphabet=GPT2_BYTES)
    peer = HuggingFace.from_str(hugging_face(GPT4.pattern, texts, 300).to_str())
    assert ours.encode(text) == peer.encode(text).ids


def test_every_token_encodes_to_itself(corpus):
    tokenizer = BPE.train(corpus, 1500)
    merges_only = BPE(tokenizer.vocabulary, tokenizer.merges)
    assert [merges_only._ids(t.decode()) for t in tokenizer.vocabulary if _is_text(t)] == [
        [i] for i, t in enumerate(tokenizer.vocabulary) if _is_text(t)
    ]


@pytest.mark.parametrize("find_pairs", [overlapping_pairs, non_overlapping_pairs], ids=lambda c: c.__name__)
@settings(deadline=None, derandomize=True, database=None, max_examples=200)
@given(texts=st.lists(st.text(alphabet="ab", max_size=14), max_size=5))
def test_no_token_comes_twice(find_pairs, texts):
    tokenizer = BPE.train(texts, 300, pre_tokenizer=NoSplit(), find_pairs=find_pairs)
    assert len(set(tokenizer.vocabulary)) == tokenizer.n_vocab
    merges_only = BPE(tokenizer.vocabulary, tokenizer.merges)
    assert all(merges_only._ids(t.decode()) == [i] for i, t in enumerate(tokenizer.vocabulary) if _is_text(t))


def _is_text(token):
    return token.decode(errors="ignore").encode() == token


@pytest.mark.syllabus("UCL-09", "GT-41")
def test_more_merges_make_shorter_sequences(corpus):
    text = corpus[0]
    lengths = [len(ByteTokenizer().encode(text))] + [len(BPE.train(corpus, n).encode(text)) for n in (300, 400, 800)]
    assert lengths == sorted(lengths, reverse=True) and len(set(lengths)) == 4


# --- Bad input and corners ---


def test_training_stops_when_no_pair_is_left():
    tokenizer = BPE.train(["ab"], 1000, special_tokens=["<s>"])
    assert tokenizer.n_vocab == 258 and tokenizer.special_tokens == {"<s>": 257}
    assert BPE.train([], 300).n_vocab == 256


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: BPE.train(["a"], 255), "n_vocab=255 must be at least 256"),
        (lambda: BPE.train(["a"], 256, special_tokens=["<s>"]), "at least 257: 256 tokens of the alphabet and 1"),
        (lambda: CharacterBPE.train(["ab"], 257), "n_vocab=257 must be at least 258"),
        (
            lambda: BPE.train(["a"], 300, byte_alphabet=[1, 2]),
            "byte_alphabet=.* contain each number from 0 to 255 once",
        ),
        (lambda: BPE.train(["a"], 300, special_tokens=["<s>", ""]), "must not contain an empty string"),
        (lambda: BPE.train(["a"], 300, find_pairs=zip), "find_pairs=<class 'zip'> must be overlapping_pairs or non_ov"),
        (lambda: BPE(BYTES[:-1], {}), "lacks 1 of the 256 single bytes; the first is 255"),
        (lambda: BPE(BYTES, {(97, 98): 0}), r"merges\[97, 98\] gives b'ab', which is not in the vocabulary"),
        (lambda: BPE(BYTES, {(97, 256): 0}), r"merges\[97, 256\] must have ids from 0 to 255"),
        (lambda: CharacterBPE([*BYTES, b"a"], {}, byte_ids=range(1, 257)), "byte_ids must be the ids of the bytes"),
        (lambda: CharacterBPE(BYTES, {}, byte_ids=range(2)), "byte_ids must be the ids of the bytes"),
    ],
)
def test_what_does_not_fit_together_is_refused(make, problem):
    with pytest.raises(ValueError, match=problem):
        make()


def test_a_long_text_is_trained_on_as_its_blocks(monkeypatch, samples):
    from llm_anatomy.tokenizers import pretokenization

    whole = merged(BPE.train([samples["generated"]], 400))
    monkeypatch.setattr(pretokenization, "BLOCK", 17)
    assert merged(BPE.train([samples["generated"]], 400, progress=True)) == whole
