"""Characters, words and bytes, and the interface that all tokenizers share."""

import json
import pickle
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_anatomy.tokenizers import base
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.bpe import BPE, CharacterBPE
from llm_anatomy.tokenizers.pretokenization import GPT4, NoSplit
from llm_anatomy.tokenizers.simple import UNK_TOKEN, ByteTokenizer, CharacterTokenizer, WordTokenizer, one_hot

OFTEN = settings(deadline=None, derandomize=True, database=None, max_examples=150)
SPECIAL = ["<|end|>", "<|end|>!", "<|"]
EVERY_STRING = st.text(alphabet=st.characters(exclude_categories=()))  # lone surrogates too


@pytest.fixture(scope="session")
def tokenizers(corpus):
    return {
        "characters": CharacterTokenizer.train([*corpus, "<|>"], special_tokens=SPECIAL),
        "words": WordTokenizer.train(corpus, 300, special_tokens=SPECIAL),
        "bytes": ByteTokenizer(SPECIAL),
        "bpe": BPE.train(corpus, 600, special_tokens=SPECIAL),
        "whole": BPE.train(["aaabdaaabac"], 262, pre_tokenizer=NoSplit(), special_tokens=SPECIAL),
        "fallback": CharacterBPE.train(corpus, 700, special_tokens=SPECIAL),
    }


KINDS = ["characters", "words", "bytes", "bpe", "whole", "fallback"]

# --- One token for each … ---


@pytest.mark.syllabus("UCL-04", "UCL-05")
def test_characters_and_one_hot():
    tokenizer = CharacterTokenizer.train(["hello", "world"])
    assert b"".join(tokenizer.vocabulary) == b"dehlorw"
    ids = tokenizer.encode("hold")
    assert ids == [2, 4, 3, 0] and tokenizer.decode(ids) == "hold"
    vectors = one_hot(ids, tokenizer.n_vocab)
    assert [v.index(1) for v in vectors] == ids and all(sum(v) == 1 and len(v) == 7 for v in vectors)
    with pytest.raises(ValueError, match="'x' is not in the alphabet of 7 characters"):
        tokenizer.encode("hex")
    with pytest.raises(ValueError, match="id 7 is not in the vocabulary, whose ids are 0 to 6"):
        one_hot([1, 7], 7)


@pytest.mark.syllabus("UCL-05", "GT-42")
def test_bytes_of_characters():
    assert [len(ByteTokenizer().encode(c)) for c in ("a", "é", "€", "🙂")] == [1, 2, 3, 4]
    assert ByteTokenizer().n_vocab == 256 and ByteTokenizer().vocabulary == [bytes([i]) for i in range(256)]
    with pytest.raises(UnicodeDecodeError):
        ByteTokenizer().decode([0xE2, 0x82], errors="strict")


@pytest.mark.syllabus("UCL-06")
def test_words_that_are_not_frequent_are_unknown():
    tokenizer = WordTokenizer.train(["b b b a a c"], 4)
    assert tokenizer.vocabulary == [b" ", b"b", b"a", UNK_TOKEN.encode()]
    assert tokenizer.encode("a c d") == [2, 0, 3, 0, 3]
    assert tokenizer.decode(tokenizer.encode("a c d")) == "a <unk> <unk>"
    with pytest.raises(ValueError, match="n_vocab=1 must be at least 2"):
        WordTokenizer.train(["a"], 1)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: CharacterTokenizer("aba"), "single characters without duplicates"),
        (lambda: WordTokenizer(["a", "a"]), "must not hold duplicates"),
        (lambda: ByteTokenizer(["<a>", "<a>"]), "must not hold duplicates"),
        (lambda: ByteTokenizer("<a>"), "is one string"),
        (lambda: CharacterTokenizer.train("text"), "is one string"),
        (lambda: BPE.train("text", 300), "is one string"),
        (lambda: ByteTokenizer([""]), "does not hold that text"),
    ],
)
def test_bad_vocabularies_are_refused(make, problem):
    with pytest.raises(ValueError, match=problem):
        make()


# --- Round trips ---


@pytest.mark.syllabus("UCL-08")
@pytest.mark.parametrize("kind", ["bytes", "bpe", "whole", "fallback"])
@OFTEN
@given(text=EVERY_STRING)
def test_every_string_comes_back(tokenizers, kind, text):
    tokenizer = tokenizers[kind]
    if any(special in text for special in SPECIAL):
        return
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids, errors="surrogatepass") == text
    assert tokenizer.decode(ids) == text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


@pytest.mark.parametrize("kind", KINDS)
def test_samples_come_back(tokenizers, kind, samples):
    for name, text in samples.items():
        if kind != "words" and not (kind == "characters" and name not in ("english", "scripts", "code", "runs")):
            assert tokenizers[kind].decode(tokenizers[kind].encode(text)) == text


@OFTEN
@given(data=st.binary(max_size=40))
def test_any_bytes_can_be_decoded_as_asked(tokenizers, data):
    tokenizer = tokenizers["bytes"]
    assert tokenizer.decode_bytes(list(data)) == data
    for errors in ("replace", "ignore"):
        assert tokenizer.decode(list(data), errors=errors) == data.decode("utf-8", errors)


@pytest.mark.parametrize(("ids", "wrong"), [([0, 700_000], 700_000), ([3, -1], -1)])
def test_ids_outside_the_vocabulary_are_refused(tokenizers, ids, wrong):
    for tokenizer in tokenizers.values():
        with pytest.raises(
            ValueError, match=f"id {wrong} is not in the vocabulary, whose ids are 0 to {tokenizer.n_vocab - 1}"
        ):
            tokenizer.decode(ids)
    with pytest.raises(ValueError, match="errors='xml' must be"):
        tokenizer.decode([], errors="xml")


# --- Special tokens ---


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_never_split_and_the_longest_is_found(tokenizers, kind):
    tokenizer = tokenizers[kind]
    ids = tokenizer.special_tokens
    text = "a<|end|>!a<|end|>a<|a"
    found = tokenizer.encode(text, allowed_special="all")
    assert [i for i in found if i in set(ids.values()) - {ids.get(UNK_TOKEN)}] == [
        ids["<|end|>!"],
        ids["<|end|>"],
        ids["<|"],
    ]
    if kind not in ("words", "whole"):
        assert tokenizer.decode(found) == text
    assert all(tokenizer.vocabulary[i].decode() == text for text, i in ids.items())


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_in_user_text_are_refused(tokenizers, kind):
    tokenizer = tokenizers[kind]
    with pytest.raises(ValueError, match=r"special token '<\|end\|>'"):
        tokenizer.encode("a <|end|> b")
    with pytest.raises(ValueError, match=r"special token '<\|end\|>!'"):
        tokenizer.encode("a <|end|>! b", allowed_special=["<|end|>"])
    with pytest.raises(ValueError, match=r"special token '<\|'"):
        list(tokenizer.encode_iterable(["a <", "| b"], allowed_special=["<|end|>"]))
    with pytest.raises(ValueError, match="must be 'all' or some of"):
        tokenizer.encode("a", allowed_special=["<|start|>"])
    with pytest.raises(ValueError, match="must be 'all' or some of"):
        tokenizer.encode("a", allowed_special="<|end|>")


# --- Many texts, long texts ---


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_each_text(tokenizers, kind):
    texts = ["the one", "", "other"]
    assert tokenizers[kind].encode_batch(texts) == [tokenizers[kind].encode(text) for text in texts]
    with pytest.raises(ValueError, match="is one string"):
        tokenizers[kind].encode_batch("text")
    with pytest.raises(ValueError, match="is one string"):
        tokenizers[kind].encode_iterable("text")


@pytest.mark.parametrize("kind", KINDS)
@settings(OFTEN, max_examples=60)
@given(
    parts=st.lists(st.sampled_from(["the ", "we'll", "'l", "<|", "<|end|>", "|>", "!", "  ", "\n", "12", "3", ""])),
    size=st.integers(1, 9),
)
def test_chunks_give_the_same_ids_wherever_they_end(tokenizers, kind, parts, size):
    tokenizer, text = tokenizers[kind], "".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "BLOCK", size)
        for chunks in (parts, list(text), [text]):
            ids = list(tokenizer.encode_iterable(chunks, allowed_special="all"))
            assert ids == tokenizer.encode(text, allowed_special="all")


def test_a_prefix_is_put_before_the_text_once():
    plain = BPE.train(["one two"], 256)
    tokenizer = BPE(plain.vocabulary, {}, GPT4, {}, prefix=" ")
    for text in ("", "one", " one", "one two " * 20000):
        ids = plain.encode(" " + text) if text else []
        assert tokenizer.encode(text) == list(tokenizer.encode_iterable([text])) == ids
        assert list(tokenizer.encode_iterable(["", text[:1], text[1:]])) == ids
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("kind", ["bytes", "characters", "words", "bpe", "fallback"])
def test_memory_for_a_long_text_is_bounded(tokenizers, kind, monkeypatch):
    monkeypatch.setattr(base, "BLOCK", 2000)

    mine = [tracemalloc.Filter(True, __file__), tracemalloc.Filter(True, f"{Path(base.__file__).parent}/*")]

    def peak(n_chunks):
        sizes = []

        def chunks():
            for i in range(n_chunks):
                yield "the water was hot, " * 50
                if i % 5 == 4:  # of this file and of the tokenizers only, since other threads allocate memory, too
                    traces = tracemalloc.take_snapshot().filter_traces(mine).traces
                    sizes.append(sum(trace.size for trace in traces))

        tracemalloc.start()
        n_ids = sum(1 for _ in tokenizers[kind].encode_iterable(chunks()))
        tracemalloc.stop()
        return n_ids, max(sizes)

    peak(20)  # what is remembered of words
    short, long = peak(20), peak(100)
    assert long[0] > 4.9 * short[0] and long[1] < 1.2 * short[1] < 1_000_000


def test_planted_fault_a_text_kept_whole_is_noticed(tokenizers, monkeypatch):
    monkeypatch.setattr(type(tokenizers["bpe"].pre_tokenizer), "stable_pieces", lambda self, text: ([], text))
    with pytest.raises(AssertionError):
        test_memory_for_a_long_text_is_bounded(tokenizers, "bpe", monkeypatch)


def test_what_is_remembered_is_bounded():
    remembered = base._PieceCache(lambda piece: [len(piece)])
    remembered.MAX_SIZE = 10
    for i in range(100):
        assert remembered[str(i)] == [len(str(i))] and len(remembered) <= 10
    assert remembered["x" * 100] == [100] and "x" * 100 not in remembered


@pytest.mark.parametrize("kind", KINDS)
def test_copies_for_other_processes_are_equal(tokenizers, kind):
    copy = pickle.loads(pickle.dumps(tokenizers[kind]))
    assert copy.encode("the other") == tokenizers[kind].encode("the other") and copy is not tokenizers[kind]
    copy.special_tokens.clear(), copy.vocabulary.clear()
    assert copy.special_tokens == tokenizers[kind].special_tokens and copy.n_vocab == tokenizers[kind].n_vocab


# --- Files ---


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_gives_the_same_tokenizer(tokenizers, kind, tmp_path, corpus):
    tokenizer, path = tokenizers[kind], tmp_path / "ours.json"
    tokenizer.save(path)
    for cls in (Tokenizer, type(tokenizer)):
        loaded = cls.load(path)
        assert type(loaded) is type(tokenizer)
        assert loaded.vocabulary == tokenizer.vocabulary and loaded.special_tokens == tokenizer.special_tokens
        assert loaded.pre_tokenizer == tokenizer.pre_tokenizer and loaded.prefix == tokenizer.prefix
        for text in corpus[:3] if kind != "whole" else ["aaab"]:
            assert loaded.encode(text) == tokenizer.encode(text)
    assert [p.name for p in tmp_path.iterdir()] == ["ours.json"]
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_a_file_is_readable(tokenizers, tmp_path):
    tokenizers["bpe"].save(tmp_path / "t.json")
    lines = (tmp_path / "t.json").read_text().splitlines()
    assert any(line.strip() == '" the",' for line in lines) and max(map(len, lines)) < 300


def corrupt(fields, change):
    fields = json.loads(json.dumps(fields))
    change(fields)
    return json.dumps(fields)


CORRUPT = {
    "no version": (lambda f: f.pop("llm_anatomy tokenizer"), r"key 'llm_anatomy tokenizer' is missing"),
    "new version": (
        lambda f: f.update({"llm_anatomy tokenizer": 99}),
        r"'llm_anatomy tokenizer': it must be version 1",
    ),
    "unknown kind": (lambda f: f.update(kind="Magic"), r"key 'kind': 'Magic' must be one of BPE"),
    "another kind": (
        lambda f: f.update(kind="WordTokenizer"),
        r"key 'kind': 'WordTokenizer' must be one of BPE, CharacterBPE",
    ),
    "no vocabulary": (lambda f: f.pop("vocabulary"), r"key 'vocabulary' is missing"),
    "vocabulary no list": (lambda f: f.update(vocabulary="abc"), r"key 'vocabulary': it must be of type list"),
    "token no text": (lambda f: f["vocabulary"].__setitem__(9, 3.5), r"key 'vocabulary': entry 9 is 3.5"),
    "token no bytes": (lambda f: f["vocabulary"].__setitem__(9, [300]), r"key 'vocabulary': entry 9 is \[300\]"),
    "empty vocabulary": (lambda f: f.update(vocabulary=[]), r"t.json: .*vocabulary is empty"),
    "byte missing": (lambda f: f["vocabulary"].__setitem__(65, "zzz"), r"t.json: .*lacks 1 of the 256 .* is 65"),
    "cut vocabulary": (lambda f: f.update(vocabulary=f["vocabulary"][:300]), r"t.json: .*special_tokens\['<\|end"),
    "special elsewhere": (lambda f: f["special_tokens"].update({"<|end|>": 7}), r"special_tokens\['<\|end\|>'\]=7"),
    "special no number": (lambda f: f["special_tokens"].update({"<|end|>": "7"}), r"key 'special_tokens'"),
    "no pre_tokenizer": (lambda f: f.update(pre_tokenizer={"kind": "Axe"}), r"key 'pre_tokenizer': its kind"),
    "bad pattern": (
        lambda f: f["pre_tokenizer"].update(pattern="(a"),
        r"key 'pre_tokenizer': .*is not a regular expression",
    ),
    "pre_tokenizer field": (lambda f: f["pre_tokenizer"].update(colour=1), r"key 'pre_tokenizer': .*colour"),
    "merge of three": (
        lambda f: f["merges"].__setitem__(4, [1, 2]),
        r"key 'merges': entry 4 must be two ids and a rank, not \[1, 2\]",
    ),
    "merge of nothing": (lambda f: f["merges"].__setitem__(4, [1, 2, 3]), r"merges\[1, 2\] gives b'\\x01\\x02'"),
    "merge outside": (lambda f: f["merges"].__setitem__(4, [1, 9999, 3]), r"merges\[1, 9999\] must have ids from 0"),
    "whole no bool": (lambda f: f.update(ignore_merges=1), r"key 'ignore_merges': it must be of type bool"),
}


@pytest.mark.parametrize(("change", "problem"), CORRUPT.values(), ids=CORRUPT)
def test_a_corrupt_file_is_refused_with_the_line_or_key(tokenizers, tmp_path, change, problem):
    path = tmp_path / "t.json"
    tokenizers["bpe"].save(path)
    path.write_text(corrupt(json.loads(path.read_text()), change))
    with pytest.raises(ValueError, match=problem):
        BPE.load(path)


def test_a_truncated_file_is_refused_wherever_it_ends(tokenizers, tmp_path):
    tokenizers["bpe"].save(tmp_path / "t.json")
    data = (tmp_path / "t.json").read_bytes()
    for end in range(0, len(data) - 2, 997):
        (tmp_path / "cut.json").write_bytes(data[:end])
        with pytest.raises(ValueError, match="cut.json, line"):
            Tokenizer.load(tmp_path / "cut.json")
