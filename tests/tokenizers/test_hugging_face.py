"""tokenizer.json in all layouts: the ids and texts of Hugging Face's library, and bad files refused in a sentence."""

import copy
import json
import pickle
import random
import subprocess
import sys

import pytest
from nasty import texts
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as HuggingFace

from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.hugging_face import HuggingFaceTokenizer, read_hugging_face

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


@pytest.fixture(scope="module")
def trained(corpus):
    """The model of each kind, without the steps around it."""
    lines = [*corpus[:40], *corpus[200:], *texts(80)]
    byte_level = HuggingFace(models.BPE())
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fallback = HuggingFace(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    fallback.normalizer = normalizers.Replace(" ", "▁")
    unigram, pieces, words = (HuggingFace(kind()) for kind in (models.Unigram, models.WordPiece, models.WordLevel))
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    pieces.model.unk_token = words.model.unk_token = "[UNK]"
    pieces.pre_tokenizer = words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    alphabet, quiet = pre_tokenizers.ByteLevel.alphabet(), dict(show_progress=False)
    for peer, trainer in [
        (byte_level, trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, **quiet)),
        (fallback, trainers.BpeTrainer(vocab_size=800, special_tokens=["<unk>", *BYTES], max_token_length=9, **quiet)),
        (unigram, trainers.UnigramTrainer(vocab_size=400, unk_token="<unk>", special_tokens=["<unk>"], **quiet)),
        (pieces, trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[UNK]", "[CLS]"], **quiet)),
        (words, trainers.WordLevelTrainer(vocab_size=200, special_tokens=["[UNK]"], **quiet)),
    ]:
        peer.train_from_iterator(lines, trainer)
    peers = {"bytes": byte_level, "fallback": fallback, "unigram": unigram, "pieces": pieces, "words": words}
    return {name: json.loads(peer.to_str())["model"] for name, peer in peers.items()}


NORMALIZERS = [
    normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase, normalizers.Strip,
    normalizers.StripAccents, normalizers.Nmt, normalizers.BertNormalizer, lambda: normalizers.Prepend("▁"),
    lambda: normalizers.Replace(" ", "▁"), lambda: normalizers.Replace(Regex(r"\s+"), " "),
]  # fmt: skip
PRE_TOKENIZERS = [
    pre_tokenizers.Whitespace, pre_tokenizers.WhitespaceSplit, pre_tokenizers.BertPreTokenizer,
    pre_tokenizers.Punctuation, pre_tokenizers.UnicodeScripts, lambda: pre_tokenizers.Digits(True),
    lambda: pre_tokenizers.Split(" ", "merged_with_previous"),
    lambda: pre_tokenizers.Split(Regex(r"\p{N}"), "isolated"),
    lambda: pre_tokenizers.Split(Regex(r"\w+"), "removed", invert=True),
    *(lambda s=s, split=split: pre_tokenizers.Metaspace("▁", s, split)
      for s in ("always", "first", "never") for split in (True, False)),
]  # fmt: skip
DECODERS = [
    None, decoders.ByteLevel(), decoders.Metaspace(), decoders.WordPiece(), decoders.Fuse(), decoders.BPEDecoder(),
    *(decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
      for strip in ([], [decoders.Strip(" ", 1, 0)])),
]  # fmt: skip
ADDED = ["<s>", "</s>", "<|im_start|>", "[MASK]", "<tool_call>", "é", " x", "the", "ing", "  ", "\n\n", "ＡＢ", "I'm"]


def generated(models, seed):
    """A tokenizer with any settings, and the texts of its added tokens."""
    rng = random.Random(seed)
    name = rng.choice(list(models))
    peer = HuggingFace.from_str(json.dumps({"version": "1.0", "added_tokens": [], "model": models[name]}))
    if steps := [make() for make in rng.sample(NORMALIZERS, rng.randint(0, 3))]:
        peer.normalizer = normalizers.Sequence(steps)
    steps = [make() for make in rng.sample(PRE_TOKENIZERS, rng.randint(0, 2))]
    if name == "bytes":
        steps.append(pre_tokenizers.ByteLevel(rng.random() < 0.5, use_regex=rng.random() < 0.5))
    peer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    decoder = DECODERS[1] if name == "bytes" else rng.choice(DECODERS)
    if decoder is not None:
        peer.decoder = decoder
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    for text in rng.sample(ADDED, rng.randint(0, 6)):
        rules = {flag: rng.random() < 0.5 for flag in flags}
        if peer.normalizer and not peer.normalizer.normalize_str(text):
            rules["normalized"] = False  # else the library runs away; see test_an_added_token_of_which_nothing_is_left
        peer.add_tokens([AddedToken(text, **rules)])
    return peer


@pytest.mark.syllabus("GT-40", "GT-42")
@pytest.mark.parametrize("seeds", [range(first, first + 25) for first in range(0, 100, 25)], ids=str)
def test_any_settings_give_the_ids_and_texts_of_the_library(trained, seeds, tmp_path):
    for seed in seeds:
        peer, path = generated(trained, seed), tmp_path / "tokenizer.json"
        samples = random.Random(seed).sample(texts(special=tuple(ADDED)), 60)
        expected = {text: ids_of(peer, text) for text in samples}
        special = {t.content: i for i, t in peer.get_added_tokens_decoder().items() if t.special}
        peer.enable_truncation(3)
        peer.enable_padding(length=200)
        peer.save(str(path))
        ours = read_hugging_face(path)
        assert ours.special_tokens == special and ours.n_vocab == len(ours.vocabulary) >= peer.get_vocab_size()
        for text, ids in expected.items():
            if ids is None:
                continue
            assert ours.encode(text, allowed_special="all") == ids, (seed, text)
            assert list(ours.encode_iterable(iter(text), allowed_special="all")) == ids
            assert ours.decode(ids) == peer.decode(ids, skip_special_tokens=False), (seed, text)
            assert "\ufffd" in ours.decode(ids) or ours.decode_bytes(ids).decode() == ours.decode(ids), (seed, text)
        known = [text for text, ids in expected.items() if ids is not None]
        assert ours.encode_batch(known, allowed_special="all") == [expected[text] for text in known], seed


def ids_of(peer, text):
    """The ids of the library; None where its own code goes wrong, as with some normalized added tokens."""
    try:
        return peer.encode(text, add_special_tokens=False).ids
    except BaseException as error:
        assert type(error).__name__ == "PanicException"
        return None


def test_an_added_token_of_which_nothing_is_left(trained):
    peer = HuggingFace(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    peer.normalizer = normalizers.Strip()
    peer.add_tokens([AddedToken("\n\n", normalized=False)])
    assert HuggingFaceTokenizer.from_json(peer.to_str()).encode("a\n\n") == peer.encode("a\n\n").ids
    peer.add_tokens([AddedToken("  ", normalized=True)])
    with pytest.raises(
        ValueError, match="leaves nothing of the added token '  ', whose key 'normalized' must .* false"
    ):
        HuggingFaceTokenizer.from_json(peer.to_str())


def test_ids_beyond_the_vocabulary(trained):
    fields = {"model": trained["bytes"], "decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "ByteLevel"}}
    rules = dict(single_word=False, lstrip=False, rstrip=False, normalized=False)
    fields["pre_tokenizer"] |= dict(add_prefix_space=False, trim_offsets=True, use_regex=True)
    fields["decoder"] |= dict(add_prefix_space=False, trim_offsets=True, use_regex=True)
    fields["added_tokens"] = [dict(id=600, content="<|end|>", special=True, **rules)]
    with pytest.raises(ValueError, match="token '<.end.>' must have the id 500, which .* give it, not 600, or be in"):
        HuggingFaceTokenizer.from_json(fields)
    fields["model"] = trained["bytes"] | {"vocab": trained["bytes"]["vocab"] | {"<|end|>": 600}}
    ours = HuggingFaceTokenizer.from_json(fields)
    assert ours.encode("a<|end|>", allowed_special="all")[-1] == 600 and ours.n_vocab == 601
    assert ours.vocabulary[550] == b"" and ours.vocabulary[600] == b"<|end|>"
    assert ours.decode([600, 550]) == "<|end|>"
    with pytest.raises(ValueError, match="id 601 is not in the vocabulary, whose ids are 0 to 600"):
        ours.decode([601])


# --- Special tokens ---


def chat(**rules):
    """A tokenizer of words with a special token, one that is added but not special, and an unknown token."""
    peer = HuggingFace(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    peer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    peer.add_special_tokens([AddedToken("[UNK]"), AddedToken("<|end|>", special=True, **rules)])
    peer.add_tokens([AddedToken("<tool_call>", special=False)])
    return HuggingFaceTokenizer.from_json(peer.to_str())


def test_a_special_token_in_the_text_must_be_allowed():
    ours = chat()
    for text in ("a <|end|>", "<|end|>b", "a<|end|> [UNK]"):
        with pytest.raises(
            ValueError, match="the text contains the special token '<|end|>'; list it in allowed_special"
        ):
            ours.encode(text)
        with pytest.raises(ValueError, match="the text contains the special token"):
            ours.encode_batch(["a", text], allowed_special=["[UNK]"])
    assert ours.encode("a <|end|>b", allowed_special=["<|end|>"]) == [1, 3, 2]
    assert ours.encode("a <tool_call>b") == [1, 4, 2]
    with pytest.raises(ValueError, match="allowed_special=.'<tool_call>'. must be 'all' or some of"):
        ours.encode("a", allowed_special=["<tool_call>"])


def test_what_is_unknown_is_no_special_token_that_somebody_typed():
    ours = chat()
    assert ours.encode("a what b") == [1, 0, 2]
    with pytest.raises(ValueError, match="the text contains the special token '.UNK.'"):
        ours.encode("a what [UNK]")


def test_a_special_token_that_is_found_in_other_letters_is_refused_too():
    ours = chat(normalized=True)
    fields = json.loads(ours._content) | {"normalizer": {"type": "Lowercase"}}
    fields["added_tokens"][1]["content"] = "<|END|>"
    ours = HuggingFaceTokenizer.from_json(fields)
    assert ours.encode("a <|eNd|>", allowed_special="all")[-1] == 3
    with pytest.raises(ValueError, match="the text contains the special token '<.END.>'"):
        ours.encode("a <|eNd|>")


# --- Bytes, copies, files ---


def llama(trained):
    peer = HuggingFace.from_str(json.dumps({"version": "1.0", "added_tokens": [], "model": trained["fallback"]}))
    peer.normalizer, peer.decoder = normalizers.Sequence([NORMALIZERS[9](), NORMALIZERS[10]()]), DECODERS[-1]
    return HuggingFaceTokenizer.from_json(peer.to_str())


def test_bytes_of_half_a_character(trained):
    ours = llama(trained)
    ids = ours.encode("a 🙃")
    assert ours.decode_bytes(ids[:-1]) == b"a \xf0\x9f\x99" and ours.decode(ids[:-1]) == "a \ufffd\ufffd\ufffd"
    assert ours.decode(ids[:-1], errors="ignore") == "a " and ours.decode(ids, errors="strict") == "a 🙃"
    with pytest.raises(UnicodeDecodeError):
        ours.decode(ids[:-1], errors="strict")
    with pytest.raises(ValueError, match="errors='loud' must be"):
        ours.decode(ids, errors="loud")
    assert ours.decode_bytes(ours.encode(" a")) == b" a"


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies(trained, duplicate):
    ours = llama(trained)
    again = duplicate(ours)
    assert again is not ours and again.vocabulary == ours.vocabulary
    assert all(again.encode(text) == ours.encode(text) for text in texts(60))


def test_a_file_is_saved_as_it_was(trained, tmp_path):
    peer = HuggingFace.from_str(llama(trained)._content.decode())
    peer.post_processor = processors.TemplateProcessing("<unk> $A", special_tokens=[("<unk>", 0)])
    peer.enable_truncation(5)
    (tmp_path / "tokenizer.json").write_text(peer.to_str(pretty=True))
    Tokenizer.load(tmp_path / "tokenizer.json").save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()
    assert type(Tokenizer.load(tmp_path / "again.json")) is HuggingFaceTokenizer


def test_a_lone_surrogate_is_refused(trained):
    with pytest.raises(
        ValueError, match="the text has a lone surrogate at position 1, '.ud800', which is no character"
    ):
        llama(trained).encode("a\ud800")
    assert "\ufffd" in llama(trained).decode(llama(trained).encode("\ufffd"))


# --- What is refused ---

RULES = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
PRECOMPILED = {"type": "Precompiled", "precompiled_charsmap": "AAE="}
BAD = {
    "empty": (b"", "EOF while parsing"),
    "no JSON": (b"\xff\x00", "expected value"),
    "cut": (lambda f: json.dumps(f).encode()[:-9], "EOF while parsing|expected"),
    "nested": (b"[" * 10**5, "invalid type|recursion"),
    "a list": (b"[]", "invalid"),
    "no model": (lambda f: f.pop("model"), "Model missing|missing field"),
    "no such model": (lambda f: f["model"].update(type="Magic"), "says: "),
    "no such step": (lambda f: f.update(pre_tokenizer={"type": "Axe"}), "says: "),
    "vocab a list": (lambda f: f["model"].update(vocab=[]), "says: "),
    "id no number": (lambda f: f["model"]["vocab"].update(a="x"), "says: "),
    "id too large": (lambda f: f["model"]["vocab"].update(a=10**9), "the id 1000000000 is too large"),
    "no vocabulary": (lambda f: f["model"].update(vocab={}, merges=[]), "the vocabulary is empty"),
    "merge unknown": (lambda f: f["model"]["merges"].insert(0, ["zz", "yy"]), "says: .*out of vocabulary"),
    "dropout": (lambda f: f["model"].update(dropout=0.5), "dropout=0.5 makes the ids random"),
    "no expression": (
        lambda f: f.update(pre_tokenizer=dict(type="Split", pattern={"Regex": "("}, behavior="Isolated", invert=False)),
        "says: .*unmatched parenthesis",
    ),
    "a panic": (lambda f: f.update(normalizer=PRECOMPILED), "says: Precompiled: Error"),
    "added token without rules": (lambda f: f.update(added_tokens=[{"id": 3, "content": "a"}]), "missing field"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "said"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_in_a_sentence(trained, change, said, tmp_path, capfd):
    fields = {"version": "1.0", "added_tokens": [], "model": copy.deepcopy(trained["bytes"])}
    content = change(fields) if callable(change) else change
    content = content if isinstance(content, bytes) else json.dumps(fields).encode()
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"^tokenizer.json: .*{said}") as error:
        read_hugging_face(tmp_path / "tokenizer.json").vocabulary  # noqa: B018
    assert len(str(error.value)) < 250 and "\n" not in str(error.value)


def test_a_text_that_cannot_be_encoded_is_refused_in_a_sentence():
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "[UNK]"}
    ours = HuggingFaceTokenizer.from_json({"model": model}, "words.gguf")
    assert ours.encode("a") == [0]
    with pytest.raises(ValueError, match="^words.gguf: Hugging Face's library says: WordLevel error: Missing"):
        ours.encode("b")


def test_the_library_is_asked_for_when_it_is_missing(tmp_path):
    script = """
import sys
sys.modules["tokenizers"] = None
from llm_anatomy.tokenizers.hugging_face import HuggingFaceTokenizer
try:
    HuggingFaceTokenizer(b"{}")
except ValueError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "to read tokenizer.json, install tokenizers (pip install 'llm_anatomy[checkpoints]')\n"
