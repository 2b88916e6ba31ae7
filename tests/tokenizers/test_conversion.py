"""Our tokenizers as tokenizer.json: Hugging Face's library reads them and gives the same ids and texts."""

import base64

import pytest
import regex
from nasty import texts
from tokenizers import Regex, normalizers, pre_tokenizers
from tokenizers import Tokenizer as HuggingFace

from llm_anatomy.tokenizers import pretokenization
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.bpe import BPE, GPT2_BYTES, CharacterBPE
from llm_anatomy.tokenizers.conversion import in_oniguruma
from llm_anatomy.tokenizers.files import WORDS_WITH_SPACES, read_tiktoken
from llm_anatomy.tokenizers.normalization import Normalizer
from llm_anatomy.tokenizers.pretokenization import NoSplit, PreTokenizer
from llm_anatomy.tokenizers.simple import ByteTokenizer, CharacterTokenizer, WordTokenizer
from llm_anatomy.tokenizers.unigram import METASPACE, WORDS, Unigram

SPECIAL = ("<|end|>", "<|endoftext|>", "<s>", " <pad>")
PATTERNS = {name: value for name, value in vars(pretokenization).items() if isinstance(value, PreTokenizer)} | {
    "WORDS": WORDS,
    "METASPACE": METASPACE,
    "WORDS_WITH_SPACES": WORDS_WITH_SPACES,
}
OTHER_PATTERNS = [
    r"\w+|\s|[^\w\s]",
    r"[a-z]+",
    r"\p{Lu}\p{Ll}*|\d",
    r"(?:ab|cd)+|x{2}|y{1,}",
    r"[^]a]+",
    r"a.b|\.|\ ",
    r"^a|b$",
    r"ab$",
]


@pytest.fixture(scope="module")
def trained(corpus):
    return [*corpus[:60], *corpus[200:], *(text for text in texts(120) if "<0x" not in text)]


def renamed(tokenizer, **changes):
    """The same BPE with other settings."""
    return type(tokenizer)(
        tokenizer.vocabulary, tokenizer.merges, tokenizer.pre_tokenizer, tokenizer.special_tokens, **changes
    )


def made(corpus):
    bpe = BPE.train(corpus, 600, special_tokens=SPECIAL)
    characters = CharacterBPE.train(corpus, 1200, special_tokens=SPECIAL)
    unigram = Unigram.train(corpus, 1300, special_tokens=SPECIAL)
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("▁", -3.0), ("a", -2.0), ("▁the", -4.0), ("e", -3.0), ("the", -5.0)]
    yield "bytes", ByteTokenizer(SPECIAL)
    yield "characters", CharacterTokenizer(sorted(set("".join(texts()))), SPECIAL)
    yield "words", WordTokenizer.train(corpus, 300, special_tokens=SPECIAL)
    yield "bpe", bpe
    yield "bpe of gpt-2", BPE.train(corpus, 500, pre_tokenizer=pretokenization.GPT2, byte_alphabet=GPT2_BYTES)
    yield "bpe without cuts", BPE.train(corpus, 400, pre_tokenizer=NoSplit())
    yield "bpe with a prefix", renamed(bpe, prefix=" ")
    yield "bpe with another prefix", renamed(bpe, prefix="^$")
    yield "bpe with a normalizer", renamed(bpe, prefix=" ", normalizer=Normalizer())
    yield "bpe with half a normalizer", renamed(bpe, prefix=" ", normalizer=Normalizer(collapsed="", stripped="\n\x85"))
    yield "characters in bpe", characters
    yield "characters in bpe with a prefix", renamed(characters, prefix=" ")
    yield "characters in bpe, normalized", renamed(characters, normalizer=Normalizer(collapsed=" \t\n", stripped=""))
    yield "unigram", unigram
    yield "unigram with a prefix", Unigram.train(corpus, 1300, prefix=" ", special_tokens=SPECIAL[:3])
    yield "unigram of pieces", Unigram.from_pieces(pieces, "<unk>", special_tokens=["<s>", "<unk>"], prefix=" ")
    yield (
        "unigram of sentencepiece",
        Unigram.from_pieces(pieces, "<unk>", prefix=" ", unk_surface=" ⁇ ", normalizer=Normalizer()),
    )
    yield "unigram, normalized", Unigram.from_pieces([*pieces, ("n", -3.0)], "<unk>", normalizer=Normalizer())


@pytest.mark.syllabus("GT-40", "GT-42")
def test_the_library_gives_the_same_ids_and_texts(trained, tmp_path):
    for name, ours in made(trained):
        ours.save(tmp_path / "tokenizer.json")
        theirs = HuggingFace.from_file(str(tmp_path / "tokenizer.json"))
        loaded = Tokenizer.load(tmp_path / "tokenizer.json")
        assert loaded.vocabulary == ours.vocabulary, name
        assert loaded.special_tokens == ours.special_tokens, name
        for text in texts(special=tuple(ours.special_tokens)):
            ids = ours.encode(text, allowed_special="all")
            assert theirs.encode(text).ids == ids, (name, text)
            assert theirs.decode(ids, skip_special_tokens=False) == ours.decode(ids), (name, text)
            assert loaded.encode(text, allowed_special="all") == ids, (name, text)


def test_ranks_of_tiktoken_become_merges(tmp_path):
    """Several pairs of one rank form a token; only one of them ever occurs, or none."""
    tokens = [bytes([i]) for i in range(256)] + [b"ab", b"aba", b"aab", b"abaab", b"xyz", b"ba", b"\xc3\xa9a"]
    lines = [base64.b64encode(token) + b" %d\n" % i for i, token in enumerate(tokens)]
    (tmp_path / "t.tiktoken").write_bytes(b"".join(lines))
    ours = read_tiktoken(tmp_path / "t.tiktoken", PreTokenizer(r"\S+", look_ahead=0), {"<|end|>": 300})
    ours.save(tmp_path / "tokenizer.json")
    theirs = HuggingFace.from_file(str(tmp_path / "tokenizer.json"))
    for text in [
        "abaab",
        "abaabaab",
        "aababaab",
        "xyz xyza",
        "babab",
        "abaabab" * 3,
        "éaéaa",
        *texts(special=("<|end|>",)),
    ]:
        assert theirs.encode(text).ids == ours.encode(text, allowed_special="all"), text


# --- Patterns ---


@pytest.mark.parametrize("pattern", [p.pattern for p in PATTERNS.values() if type(p) is PreTokenizer] + OTHER_PATTERNS)
def test_patterns_cut_alike(pattern):
    ours, theirs = PreTokenizer(pattern), pre_tokenizers.Split(Regex(in_oniguruma(pattern)), "isolated")
    for text in [*texts(), "aabcdxxyy", "aXb a.b", "]a]", "ab\n", "b\n", "b\nb", "a\na"]:
        assert [piece for piece, _ in theirs.pre_tokenize_str(text)] == ours(text), text


@pytest.mark.parametrize(
    "pattern, said",
    [
        (r"a(?=b)|\s", r"uses '\(\?='"),
        (r"(?i:ss)|\s", "ligature"),
        (r"\s*", "matches the empty text"),
        (r"a{1,3}?b", r"uses '\{1,3\}\?'"),
        (r"\bword", r"uses '\\\\bw'"),
        (r"[[:alpha:]]+", "could have another meaning"),
        (r"[a&&b]", "could have another meaning"),
        (r"\p{Han}+", "could have another meaning"),
        (r"(?<=a)b", "could have another meaning"),
    ],
)
def test_patterns_that_could_cut_otherwise_are_refused(pattern, said):
    with pytest.raises(ValueError, match=f"cannot be written as tokenizer.json: pattern=.*{said}"):
        in_oniguruma(pattern)


# --- What is refused ---


class Other(ByteTokenizer):
    pass


BYTES = [bytes([i]) for i in range(256)]
REFUSED = {
    "a class of one's own": (lambda: Other(), "must be one of ByteTokenizer, .*, not Other"),
    "a special token of visible bytes": (lambda: ByteTokenizer(["é"]), "would decode the special token 'é' as"),
    "tokens written alike": (
        lambda: BPE([*BYTES, b"a<", b"a<"], {(97, 60): 0}, special_tokens={"a<": 257}),
        "would write the tokens 256 and 257 alike, as 'a<'",
    ),
    "a lone surrogate": (lambda: CharacterTokenizer("a\ud800"), "contains '.ud800', which is no character"),
    "whole words": (
        lambda: CharacterBPE([*BYTES, b"a", b"ab"], {}, ignore_merges=True),
        "ignore_merges=True changes its ids",
    ),
    "one rank for two tokens": (
        lambda: BPE([*BYTES, b"ab", b"bc"], {(97, 98): 0, (98, 99): 0}),
        "merges of rank 0 form b'ab' and b'bc'",
    ),
    "a name that pieces cross": (
        lambda: Unigram.from_pieces([("<unk>", 0.0), ("<u", -1.0), ("un", -1.0), ("nk", -1.0), ("k>", -1.0)], "<unk>"),
        "would take the text '<unk>' for that token",
    ),
    "a name within unknown characters": (
        lambda: Unigram.from_pieces([("<unk>", 0.0), ("a", -1.0)], "<unk>"),
        "would take the text '<unk>' for that token",
    ),
    "a rare piece that somebody laid down": (
        lambda: Unigram.from_pieces([("a", -3.0), ("b" * 9, 0.0)], user_defined=[1]),
        "less probable than all others",
    ),
    "an id without a token": (
        lambda: Unigram([b"a", b""], [-1.0, None]),
        "the id 1 has no token",
    ),
    "replacements": (
        lambda: Unigram.from_pieces([("a", -1.0)], normalizer=Normalizer(precompiled())),
        "character replacements of SentencePiece",
    ),
}  # fmt: skip


def precompiled():
    units = [0] * 98
    units[0], units[1 ^ ord("a")], units[97] = 1 << 10, 1 << 10 | 1 << 8 | ord("a"), 1 << 31
    trie = b"".join(unit.to_bytes(4, "little") for unit in units)
    return len(trie).to_bytes(4, "little") + trie + b"AAA\0"


@pytest.mark.parametrize(("make", "said"), REFUSED.values(), ids=REFUSED)
def test_what_the_format_cannot_represent_is_refused(make, said, tmp_path):
    tokenizer = make()
    with pytest.raises(ValueError, match=f"^the tokenizer cannot be written as tokenizer.json: .*{said}") as error:
        tokenizer.save(tmp_path / "tokenizer.json")
    assert "\n" not in str(error.value) and not any(tmp_path.iterdir())


def test_a_class_that_the_file_does_not_hold(tmp_path):
    ByteTokenizer().save(tmp_path / "tokenizer.json")
    with pytest.raises(
        ValueError, match="tokenizer.json has Hugging Face's format; load it by Tokenizer.load, not BPE.load"
    ):
        BPE.load(tmp_path / "tokenizer.json")


def test_ligatures_are_the_letters_that_match_several():
    """The reason why a pattern that ignores case must not have them: one library folds ß to ss, the other does not."""
    assert not regex.search("(?i:ss)", "ß")
    assert normalizers.Replace(Regex("(?i:ss)"), "-").normalize_str("ß") == "-"
