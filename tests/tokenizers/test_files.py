"""Files of other libraries: the same ids as theirs, and damaged ones refused with the line or key at fault."""

import base64
import io
import json

import pytest
import sentencepiece
import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as HuggingFace

from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.bpe import BPE, GPT2_BYTES, CharacterBPE
from llm_anatomy.tokenizers.files import (
    _protobuf_fields,
    gpt2_bytes,
    read_gpt2,
    read_sentencepiece,
    read_tiktoken,
)
from llm_anatomy.tokenizers.pretokenization import GPT2, GPT4, NoSplit, PreTokenizer
from llm_anatomy.tokenizers.unigram import Unigram


@pytest.fixture(scope="module")
def texts(corpus):
    return corpus[:60] + corpus[200:]


def byte_level(texts, steps, special_tokens=()):
    """Hugging Face's tokenizer, trained on bytes."""
    peer = HuggingFace(models.BPE())
    peer.pre_tokenizer, peer.decoder = steps, decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    peer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=800, initial_alphabet=alphabet, show_progress=False))
    peer.add_special_tokens([AddedToken(text, normalized=False) for text in special_tokens])
    return peer


@pytest.fixture(scope="module")
def gpt2_peer(texts):
    return byte_level(texts, pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])


@pytest.fixture(scope="module")
def gpt2_files(gpt2_peer, tmp_path_factory):
    folder, fields = tmp_path_factory.mktemp("gpt2"), json.loads(gpt2_peer.to_str())
    vocab = gpt2_peer.get_vocab(with_added_tokens=True)
    (folder / "vocab.json").write_text(json.dumps(vocab))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in fields["model"]["merges"])]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def same_ids(ours, theirs, samples):
    for name, text in samples.items():
        assert ours.encode(text) == theirs(text), name
        assert ours.decode(ours.encode(text)) == text


# --- The same ids ---


@pytest.mark.syllabus("GT-40")
def test_bytes_as_gpt2_writes_them():
    visible = [bytes([b]).decode("latin-1") for b in GPT2_BYTES[:188]] + [chr(256 + i) for i in range(68)]
    assert [gpt2_bytes(c) for c in visible] == [bytes([b]) for b in GPT2_BYTES]
    assert set(visible) == set(pre_tokenizers.ByteLevel.alphabet())
    assert GPT2_BYTES[188:] == [b for b in range(256) if not chr(b).isprintable() or b in (32, 160, 173)]


@pytest.mark.syllabus("GT-40", "UCL-09")
def test_gpt2_files(gpt2_files, gpt2_peer, samples):
    ours = read_gpt2(gpt2_files / "vocab.json", gpt2_files / "merges.txt")
    same_ids(ours, lambda text: gpt2_peer.encode(text).ids, samples)
    assert ours.pre_tokenizer == GPT2 and ours.special_tokens == {"<|endoftext|>": 800}
    text = "a<|endoftext|>b"
    assert ours.encode(text, allowed_special="all") == gpt2_peer.encode(text).ids


def rank_file(path, tokens):
    path.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % i for i, token in enumerate(tokens)))
    return path


@pytest.mark.syllabus("UCL-09", "GT-41")
def test_tiktoken_files(texts, samples, tmp_path):
    trained = BPE.train(texts, 800)
    path, special = rank_file(tmp_path / "t.tiktoken", trained.vocabulary), {"<|end|>": 803, "<|user|>": 810}
    peer = tiktoken.Encoding(
        "test", pat_str=GPT4.pattern, mergeable_ranks=load_tiktoken_bpe(str(path)), special_tokens=special
    )
    for backend in ("python", "tiktoken"):
        ours = read_tiktoken(path, GPT4, special, backend=backend)
        same_ids(ours, peer.encode_ordinary, samples)
        text = "a<|user|>b<|end|>"
        assert ours.encode(text, allowed_special="all") == peer.encode(text, allowed_special="all")
        assert ours.n_vocab == peer.n_vocab == 811
    assert ours.encode(samples["english"]) == trained.encode(samples["english"])


def test_tiktoken_joins_by_result_whatever_was_learned(tmp_path):
    """Ranks that no training would give: joins of equal rank overlap, and a token is out of its own merges' reach."""
    tokens = [bytes([i]) for i in range(256)] + [b"ab", b"aba", b"aab", b"abaab", b"xyz", b"ba"]
    path = rank_file(tmp_path / "t.tiktoken", tokens)
    ours = read_tiktoken(path, PreTokenizer(r"\S+", look_ahead=0))
    ranks = {token: i for i, token in enumerate(tokens)}
    peer = tiktoken.Encoding("test", pat_str=r"\S+|\s", mergeable_ranks=ranks, special_tokens={})
    for text in ("abaab", "abaabaab", "aababaab", "xyz xyza", "babab", "abaabab" * 3):
        assert ours.encode(text) == peer.encode_ordinary(text), text


def sentencepiece_model(texts, model_type, **options):
    model = io.BytesIO()
    plain = dict(
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
        byte_fallback=True,
        num_threads=1,
    )
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, model_type=model_type, vocab_size=500, **(plain | options)
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def models_of(texts):
    return {kind: sentencepiece_model(texts[:60], kind) for kind in ("bpe", "unigram")}


@pytest.mark.syllabus("GT-40", "GT-42", "UCL-09")
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_sentencepiece_models(models_of, kind, samples, tmp_path):
    (tmp_path / "t.model").write_bytes(models_of[kind])
    ours = read_sentencepiece(tmp_path / "t.model")
    assert type(ours) is {"bpe": CharacterBPE, "unigram": Unigram}[kind]  # erratum E-88: one library, two methods
    peer = sentencepiece.SentencePieceProcessor(model_proto=models_of[kind])
    same_ids(ours, peer.encode, {name: text for name, text in samples.items() if "\0" not in text})
    assert ours.n_vocab == peer.vocab_size()


@pytest.mark.parametrize("options", [{"add_dummy_prefix": False}, {"split_by_whitespace": False}])
def test_sentencepiece_models_with_other_spaces(texts, samples, tmp_path, options):
    data = sentencepiece_model([text[:200] for text in texts[:40]], "bpe", **options)
    (tmp_path / "t.model").write_bytes(data)
    ours, peer = read_sentencepiece(tmp_path / "t.model"), sentencepiece.SentencePieceProcessor(model_proto=data)
    assert (ours.prefix == "") == ("add_dummy_prefix" in options)
    assert (ours.pre_tokenizer == NoSplit()) == ("split_by_whitespace" in options)
    same_ids(ours, peer.encode, {name: samples[name] for name in ("english", "scripts", "spaces", "generated")})


@pytest.mark.parametrize("read", ["gpt2", "sentencepiece"])
def test_what_was_read_can_be_saved(read, gpt2_files, models_of, samples, tmp_path):
    (tmp_path / "t.model").write_bytes(models_of["bpe"])
    ours = {
        "gpt2": lambda: read_gpt2(gpt2_files / "vocab.json", gpt2_files / "merges.txt"),
        "sentencepiece": lambda: read_sentencepiece(tmp_path / "t.model"),
    }[read]()
    for name in ("ours.json", "tokenizer.json"):
        ours.save(tmp_path / name)
        loaded = Tokenizer.load(tmp_path / name)
        assert all(loaded.encode(text) == ours.encode(text) for text in samples.values())


# --- Damaged files ---


def damaged(path, change):
    if callable(change):
        fields = json.loads(path.read_text())
        change(fields)
        path.write_text(json.dumps(fields))
    else:
        old, new = change
        data = path.read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new, 1))


GPT2_DAMAGE = {
    "cut": ("vocab.json", (b": 0,", b": 0"), r"vocab.json, line 1, column \d+: "),
    "id missing": ("vocab.json", lambda f: f.pop("t"), r"vocab.json, key .*: id 800 must be from 0 to 799"),
    "id twice": ("vocab.json", lambda f: f.update(t=f["a"]), r"vocab.json, key '.': its id \d+ is also that of"),
    "id no number": ("vocab.json", lambda f: f.update(t="5"), r"vocab.json, key 't': id '5' must be"),
    "no special": ("vocab.json", lambda f: f.pop("<|endoftext|>"), r"vocab.json: key '<\|endoftext\|>' is missing"),
    "no byte": ("vocab.json", lambda f: f.update({"日": f.pop("t")}), r"vocab.json: .*'日' contains '日'"),
    "three parts": (
        "merges.txt",
        ("Ġ t\n".encode(), "Ġ t x\n".encode()),
        r"merges.txt, line \d+: the line must be two tokens",
    ),
    "unknown": (
        "merges.txt",
        ("Ġ t\n".encode(), "Ġ tzz\n".encode()),
        r"merges.txt, line 2: 'tzz' is not in vocab.json",
    ),
    "comes twice": ("merges.txt", ("Ġ t\n".encode(), "Ġ t\nĠ t\n".encode()), r"merges.txt, line 3: .* occurs twice"),
    "not UTF-8": ("merges.txt", ("Ġ t\n".encode(), b"\xff t\n"), r"merges.txt, line 2: not UTF-8"),
}


@pytest.mark.parametrize(("name", "change", "problem"), GPT2_DAMAGE.values(), ids=GPT2_DAMAGE)
def test_damaged_gpt2_files(gpt2_files, tmp_path, name, change, problem):
    for file in gpt2_files.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    damaged(tmp_path / name, change)
    with pytest.raises(ValueError, match=problem):
        read_gpt2(tmp_path / "vocab.json", tmp_path / "merges.txt")


def test_merges_that_end_too_early_are_noticed(gpt2_files, tmp_path):
    lines = (gpt2_files / "merges.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "merges.txt").write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=rf"merges.txt, line {len(lines) - 1}: the file ends, but no line forms '.*' of vocab.json"
    ):
        read_gpt2(gpt2_files / "vocab.json", tmp_path / "merges.txt")


TIKTOKEN_DAMAGE = {
    "no base 64": ((b"YQ==", b"Y!=="), r"t.tiktoken, line 98: the line must be base 64 and a rank"),
    "no rank": ((b"YQ== 97", b"YQ=="), r"t.tiktoken, line 98: the line must be base 64"),
    "rank no number": ((b"YQ== 97", b"YQ== x"), r"t.tiktoken, line 98: the line must be base 64"),
    "rank missing": ((b"YQ== 97\n", b""), r"t.tiktoken, line 98: the rank must be 97, not 98"),
    "token twice": ((b"YQ== 97", b"Yg== 97"), r"t.tiktoken, line 99: the token b'b' is empty or occurs twice"),
    "no byte": ((b"YQ== 97", b"YWFh 97"), r"t.tiktoken does not fit together: .*the first is 97"),
    "not UTF-8": ((b"YQ== 97", b"\xff 97"), r"t.tiktoken, line 98: not UTF-8"),
}


@pytest.mark.parametrize(("change", "problem"), TIKTOKEN_DAMAGE.values(), ids=TIKTOKEN_DAMAGE)
def test_damaged_tiktoken_files(tmp_path, change, problem):
    path = rank_file(tmp_path / "t.tiktoken", [bytes([i]) for i in range(256)] + [b"ab"])
    damaged(path, change)
    with pytest.raises(ValueError, match=problem):
        read_tiktoken(path)
    with pytest.raises(
        ValueError, match=r"special_tokens\['<a>'\]=9 must be at least 256, the number of ranks in good.tiktoken"
    ):
        read_tiktoken(rank_file(tmp_path / "good.tiktoken", [bytes([i]) for i in range(256)]), GPT4, {"<a>": 9})


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_truncated_sentencepiece_models(models_of, kind, tmp_path):
    data, path = models_of[kind], tmp_path / "t.model"
    for end in [0, 1, 5, *range(100, len(data) - 1, 2999), len(data) - 1]:
        path.write_bytes(data[:end])
        with pytest.raises(ValueError, match="t.model"):
            read_sentencepiece(path)


@pytest.mark.parametrize("data", [b"\x0a\x05abc", b"\x15abc", b"\x08\x80", b"\x0b", b"\xff"])
def test_fields_that_are_cut_off_or_malformed(data):
    with pytest.raises(
        ValueError, match="t.model, byte 0: (the file ends within a field|the field is malformed or truncated)"
    ):
        list(_protobuf_fields(data, "t.model"))


def field(number, value):
    """A field of a protocol buffer: a number below 128, or fewer than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value if isinstance(value, bytes) else bytes([number << 3, value])


SPECS = field(2, field(3, 1)) + field(3, field(1, b"nfkc"))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (field(1, 5) + SPECS, "t.model, byte 1: the field must be a message, not a number"),
        (field(2, 5) + SPECS, "t.model, byte 1: the field must be a message, not a number"),
        (field(1, field(1, 7)) + SPECS, "t.model, byte 2: piece 0 is malformed"),
        (field(1, field(1, b"\xff")) + SPECS, "t.model, byte 2: piece 0 is malformed"),
        (field(1, field(1, b"a") + field(2, 7)) + SPECS, "t.model, byte 2: piece 0 is malformed"),
        (field(1, field(1, b"a") + field(2, b"abc")) + SPECS, "t.model, byte 2: piece 0 is malformed"),
        (field(1, field(1, b"a") + field(3, b"abc")) + SPECS, "t.model, byte 2: piece 0 is malformed"),
        (field(1, field(3, 1)) + SPECS, "t.model, byte 2: piece 0 is malformed"),
        (field(1, field(1, b"a")) + SPECS + field(3, field(2, 7)), "precompiled_charsmap': it must be bytes, not 7"),
        (field(1, field(1, b"a")), "t.model: the file must contain pieces, trainer_spec and normalizer_spec"),
    ],
)
def test_fields_of_the_wrong_type_are_refused(tmp_path, data, problem):
    (tmp_path / "t.model").write_bytes(data)
    with pytest.raises(ValueError, match=problem):
        read_sentencepiece(tmp_path / "t.model")


def test_a_model_written_by_hand_is_read(tmp_path):
    (tmp_path / "t.model").write_bytes(field(1, field(1, b"a")) + SPECS + field(3, field(3, 0) + field(4, 0)))
    assert read_sentencepiece(tmp_path / "t.model").encode("aa") == [0, 0]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"byte_fallback": False}, "key 'trainer_spec.byte_fallback'"),
        ({"user_defined_symbols": ["<sep>"]}, "key 'pieces': piece 3, '<sep>', has type 4"),
        ({"model_type": "char"}, "key 'trainer_spec.model_type': it must be 1 .Unigram. or 2 .BPE., not 4"),
        ({"treat_whitespace_as_suffix": True}, "treat_whitespace_as_suffix"),
    ],
)
def test_sentencepiece_models_of_unsupported_kinds_are_refused(texts, tmp_path, options, problem):
    options = {"model_type": "bpe", "hard_vocab_limit": False} | options
    data = sentencepiece_model([text[:200] for text in texts[:40]], options.pop("model_type"), **options)
    (tmp_path / "t.model").write_bytes(data)
    with pytest.raises(ValueError, match=problem):
        read_sentencepiece(tmp_path / "t.model")


def test_planted_fault_a_wrong_rank_is_noticed(gpt2_files, gpt2_peer, samples, tmp_path):
    lines = (gpt2_files / "merges.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "merges.txt").write_text("\n".join([lines[0], *lines[:0:-1]]), encoding="utf-8")
    ours = read_gpt2(gpt2_files / "vocab.json", tmp_path / "merges.txt")
    with pytest.raises(AssertionError):
        same_ids(ours, lambda text: gpt2_peer.encode(text).ids, samples)
