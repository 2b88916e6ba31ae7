"""SentencePiece's normalizer: the same ids and texts as its own library gives, and as Hugging Face's T5 does."""

import base64
import io
import json
import unicodedata
from random import Random

import pytest
import sentencepiece
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as HuggingFace
from transformers import T5Tokenizer

from llm_anatomy.tokenizers import normalization
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.files import _protobuf_fields, read_hugging_face, read_sentencepiece
from llm_anatomy.tokenizers.normalization import WHITE_SPACE, CharacterMap, Normalizer

RULES = ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "identity"]
AWKWARD = {
    "empty": "",
    "one blank": " ",
    "blanks alone": "   \t \n ",
    "ligatures": "ﬁnal oﬃce ﬄ ĳ Ǆ ﷺ ﷽",
    "full width": "Ｈｅｌｌｏ，　ｗｏｒｌｄ！ ﾊﾟﾋﾟ ｶﾞ ①②Ⅻ ½ ㎏ ™",
    "composed": "Ça coûte à l'été, naïve Größe Å",
    "decomposed": "C\u0327a cou\u0302te a\u0300 l'e\u0301te\u0301, nai\u0308ve A\u030a",
    "two accents": "a\u0308\u0323 e\u0302\u0301 o\u031b\u0301 q\u0323\u0307 \u0301x",
    "tabs": "a\tb\t\tc\r\nd\n\ne\x0bf\x0cg",
    "several blanks": "a  b   c    d",
    "around": "  leading and trailing   ",
    "other blanks": "a\u00a0b\u2003c\u3000d\u202fe\u1680f\u2028g\u2029h\u205fi",
    "next line": "a\x85b \x85 c\x85",
    "zero width": "a\u200bb\u200cc\u200dd\ufeffe \u00ad \u2060",
    "zero width alone": "\u200b\x01",
    "emoji": "🙂👍🏽 👨‍👩‍👧‍👦 🇧🇪 3️⃣",
    "scripts": "你好，世界。 こんにちは カ\u3099 안녕 \u1112\u1161\u11ab नमस्ते क\u093c שלום اَلسَّلَام",
    "control": "".join(map(chr, range(1, 32))) + "a\x7f b\x8f\x9f",
    "a spacing accent": "a ¨b ¨ ¨",
    "lower bars": "▁a ▁b▁▁c ▁ d▁",
    "case": "STRASSE straße İI ΣΑΣ",
    "others": "\ufffd \U0010ffff \u202eabc\u202c",
    "long": "ｗ\u3000ｘ e\u0301  " * 500,
}
ANY_TEXT = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
        st.sampled_from(" \t\n▁aeﬁＡ\u0301\u0308\u0323\u200b\u3000¨ıß\u1112\u1161\u11ab\x85"),
    ),
    max_size=30,
)


def trained(texts, rule="nmt_nfkc", model_type="unigram", **options):
    model = io.BytesIO()
    plain = dict(vocab_size=420, hard_vocab_limit=False, byte_fallback=True, num_threads=1, minloglevel=2)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*texts[:40], "été naïve final office hello"]),
        model_writer=model,
        model_type=model_type,
        normalization_rule_name=rule,
        **plain | options,
    )
    return model.getvalue()


def both(data, folder):
    (folder / "t.model").write_bytes(data)
    return read_sentencepiece(folder / "t.model"), sentencepiece.SentencePieceProcessor(model_proto=data)


@pytest.fixture(scope="module")
def precompiled(corpus):
    """The map of each rule."""
    maps = {}
    for rule in RULES:
        (spec,) = (value for number, value, _ in _protobuf_fields(trained(corpus, rule), "t.model") if number == 3)
        maps[rule] = {number: value for number, value, _ in _protobuf_fields(spec, "t.model")}[2]
    return maps


OPTIONS = {
    "plain": {},
    "blanks stay": {"remove_extra_whitespaces": False},
    "no prefix": {"add_dummy_prefix": False},
    "neither": {"add_dummy_prefix": False, "remove_extra_whitespaces": False},
    "across words": {"split_by_whitespace": False},
}


@pytest.mark.syllabus("GT-40", "UCL-09")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_same_ids_and_texts_as_sentencepiece(corpus, samples, rule, model_type, options, tmp_path):
    if rule == "identity" and options.get("remove_extra_whitespaces") is False:
        pytest.skip("no normalizer: see test_files.py")
    ours, theirs = both(trained(corpus, rule, model_type, **options), tmp_path)
    more = {name: text.replace("\0", "") for name, text in samples.items()}
    for name, text in (AWKWARD | more).items():
        ids = theirs.encode(text)
        assert ours.encode(text) == ids, name
        assert ours.decode(ids) == theirs.decode(ids), name
        assert list(ours.encode_iterable(text[i : i + 3] for i in range(0, len(text), 3))) == ids, name


@pytest.mark.syllabus("GT-40")
def test_without_bytes_what_is_unknown_is_one_token(corpus, tmp_path):
    ours, theirs = both(trained(corpus, byte_fallback=False, vocab_size=150), tmp_path)
    assert all(ours.encode(text) == theirs.encode(text) for text in AWKWARD.values())
    assert ours.unk_id in ours.encode("🙂")


def peer_normalizer(rule, blanks):
    plain = dict(add_dummy_prefix=False, escape_whitespaces=False)
    return sentencepiece.SentencePieceNormalizer(rule_name=rule, remove_extra_whitespaces=blanks, **plain)


@pytest.mark.parametrize("rule", RULES[:3])
def test_any_text_is_normalized_as_sentencepiece_does(precompiled, rule):
    peers = {blanks: peer_normalizer(rule, blanks) for blanks in (True, False)}
    ours = {blanks: Normalizer(precompiled[rule], collapsed=" " * blanks, stripped=" " * blanks) for blanks in peers}

    @settings(max_examples=500, deadline=None)
    @given(ANY_TEXT)
    def check(text):
        for blanks, peer in peers.items():
            text = text.replace("▁", "")  # a space to a model, which its normalizer alone leaves as it is
            assert ours[blanks](text) == peer.normalize(text)

    check()


def test_every_character_is_replaced_as_sentencepiece_does(precompiled):
    peer = peer_normalizer("nmt_nfkc", False)
    ours = Normalizer(precompiled["nmt_nfkc"], collapsed="", stripped="")
    for number in range(1, 0x20000):
        if not 0xD800 <= number < 0xE000:
            assert ours(chr(number)) == peer.normalize(chr(number)).replace("▁", " "), hex(number)


@settings(max_examples=300, deadline=None)
@given(text=ANY_TEXT)
def test_any_text_has_the_ids_of_sentencepiece(any_model, text):
    ours, theirs = any_model
    assume(not any(special in text for special in ours.special_tokens))  # a text that spells one is refused
    ids = theirs.encode(text)
    assert ours.encode(text) == ids and ours.decode(ids) == theirs.decode(ids)


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def any_model(request, corpus, tmp_path_factory):
    return both(trained(corpus, model_type=request.param), tmp_path_factory.mktemp("any"))


def test_pieces_that_somebody_laid_down(corpus, tmp_path):
    symbols = [f"▁<extra_id_{i}>" for i in range(3)] + ["ＡＢ", "the"]
    ours, theirs = both(trained(corpus, user_defined_symbols=symbols), tmp_path)
    texts = ["a <extra_id_0> b", "<extra_id_1>x<extra_id_2>", "xＡＢx ＣAB", "they then other the", "▁<extra_id_0>"]
    for text in [*texts, *AWKWARD.values()]:
        assert ours.encode(text) == theirs.encode(text), text
    assert ours.vocabulary[ours.encode(texts[0])[1]] == b" <extra_id_0>"
    ours.save(tmp_path / "ours.json")
    assert all(Tokenizer.load(tmp_path / "ours.json").encode(text) == ours.encode(text) for text in texts)


def test_a_random_split_is_of_the_normalized_text(corpus, tmp_path):
    ours, theirs = both(trained(corpus), tmp_path)
    for text in AWKWARD.values():
        assert ours.decode(ours.sample_encode(text, Random(0))) == theirs.decode(theirs.encode(text))


# --- tokenizer.json, as transformers writes it ---


def t5(data, folder, n_extra=4):
    """A tokenizer.json for a model of SentencePiece."""
    pieces = []
    for number, value, _ in _protobuf_fields(data, "t.model"):
        if number == 1:
            entry = {n: v for n, v, _ in _protobuf_fields(value, "t.model")}
            pieces.append(entry[1].decode())
        elif number == 3:
            rules = {n: v for n, v, _ in _protobuf_fields(value, "t.model")}.get(2, b"")
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    vocab = [(piece, theirs.get_score(i)) for i, piece in enumerate(pieces)]
    vocab += [(f"<extra_id_{i}>", 0.0) for i in reversed(range(n_extra))]
    T5Tokenizer(vocab, extra_ids=n_extra, _spm_precompiled_charsmap=rules or None).save_pretrained(folder)
    return HuggingFace.from_file(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def t5_folder(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5")
    ids = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "spiece.model").write_bytes(trained(corpus, byte_fallback=False, vocab_size=150, **ids))
    t5((folder / "spiece.model").read_bytes(), folder)
    return folder


def joined_with_others(character):
    """Where Hugging Face reads the map otherwise than SentencePiece: it looks at what a reader sees as one sign, takes
    the shortest match in it and drops the rest, and looks at single characters where a sign has six bytes or more."""
    return unicodedata.category(character)[0] == "M" or 0x1100 <= ord(character) < 0x1200


@pytest.mark.syllabus("GT-40", "UCL-09")
def test_the_same_ids_as_the_tokenizer_of_t5(t5_folder, corpus, samples):
    ours, peer = (
        read_hugging_face(t5_folder / "tokenizer.json"),
        HuggingFace.from_file(str(t5_folder / "tokenizer.json")),
    )
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(t5_folder / "spiece.model"))
    for name, text in (AWKWARD | samples).items():
        if name not in ("two accents", "scripts", "combining"):
            assert ours.encode(text) == peer.encode(text, add_special_tokens=False).ids, name
        if name not in ("next line", "control") and "\x85" not in text and "\0" not in text:
            assert ours.encode(text) == theirs.encode(text), name
    text = "The <extra_id_0> walks<extra_id_1>in  <extra_id_2> park"
    assert ours.encode(text, allowed_special="all") == peer.encode(text, add_special_tokens=False).ids
    with pytest.raises(ValueError, match="the text contains the special token '<extra_id_0>'"):
        ours.encode(text)
    assert ours.special_tokens["<extra_id_0>"] == ours.n_vocab - 1
    assert ours.decode(ours.encode("  ﬁnal   oﬃce ")) == "final office"


@settings(max_examples=300, deadline=None)
@given(text=ANY_TEXT)
def test_any_text_has_the_ids_of_the_tokenizer_of_t5(t5_pair, text):
    ours, peer = t5_pair
    text = "".join(c for c in text if not joined_with_others(c))
    assume(not any(special in text for special in ours.special_tokens))
    assert ours.encode(text) == peer.encode(text, add_special_tokens=False).ids


@pytest.fixture(scope="module")
def t5_pair(t5_folder):
    path = t5_folder / "tokenizer.json"
    return read_hugging_face(path), HuggingFace.from_file(str(path))


def change_file(t5_folder, path, **changes):
    fields = json.loads((t5_folder / "tokenizer.json").read_text()) | changes
    path.write_text(json.dumps(fields))
    return path


STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
TO_BAR = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}
TO_SPACE = TO_BAR | {"content": " "}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
SPLIT = {"type": "WhitespaceSplit"}
WORDS = {"type": "Sequence", "pretokenizers": [SPLIT, METASPACE]}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("steps", "words"),
    [([], WORDS), ([TO_SPACE], WORDS), ([STRIP, TO_BAR], METASPACE), ([STRIP, TO_SPACE], METASPACE)],
    ids=["split", "replace and split", "strip", "strip to spaces"],
)
def test_the_ways_in_which_it_is_written(t5_folder, precompiled, rule, steps, words, tmp_path):
    first = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(precompiled[rule]).decode()}
    steps = [first, *steps] if precompiled[rule] else steps
    normalizer = {"type": "Sequence", "normalizers": steps} if steps else None
    path = change_file(t5_folder, tmp_path / "tokenizer.json", normalizer=normalizer, pre_tokenizer=words)
    ours, peer = read_hugging_face(path), HuggingFace.from_file(str(path))
    for name, text in AWKWARD.items():
        if name not in ("two accents", "scripts", "lower bars") and (rule != "nmt_nfkc_cf" or name != "decomposed"):
            assert ours.encode(text) == peer.encode(text, add_special_tokens=False).ids, name
    ours.save(tmp_path / "ours.json")
    again = Tokenizer.load(tmp_path / "ours.json")
    assert all(again.encode(text) == ours.encode(text) for text in AWKWARD.values())


# --- What is refused ---

REFUSED = {
    "no base 64": (dict(normalizer={"type": "Precompiled", "precompiled_charsmap": "%"}), "must be base 64"),
    "cut off": (dict(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAE="}), "precompiled has 2 bytes"),
    "another step": (dict(normalizer={"type": "Lowercase"}), "key 'normalizer': only spaces written as"),
    "one step more": (
        dict(normalizer={"type": "Sequence", "normalizers": [TO_SPACE, {"type": "NFC"}]}),
        "key 'normalizer': only spaces",
    ),
    "no prefix": (
        dict(pre_tokenizer=WORDS | {"pretokenizers": [SPLIT, METASPACE | {"prepend_scheme": "never"}]}),
        "key 'pre_tokenizer': .*must be a Metaspace with prepend_scheme always",
    ),
    "bars that are not split at": (
        dict(normalizer={"type": "Sequence", "normalizers": [TO_BAR]}),
        "key 'normalizer': only spaces",
    ),
    "blanks stay": (
        dict(pre_tokenizer=METASPACE),
        "key 'normalizer': after Precompiled, WhitespaceSplit or Strip and Replace must collapse",
    ),
}


@pytest.mark.parametrize(("changes", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_supported_is_refused(t5_folder, changes, sentence, tmp_path):
    with pytest.raises(ValueError, match=f"tokenizer.json.*{sentence}"):
        read_hugging_face(change_file(t5_folder, tmp_path / "tokenizer.json", **changes))


def test_a_damaged_map_is_refused(precompiled):
    whole = precompiled["nmt_nfkc"]
    size = int.from_bytes(whole[:4], "little")
    for damaged in (whole[:3], whole[:4], whole[:1000], whole[: 4 + size], whole[:-1], bytes(4) + whole[4:]):
        with pytest.raises(ValueError, match="precompiled has .* bytes and is truncated or malformed"):
            CharacterMap(damaged)
    with pytest.raises(ValueError, match="precompiled is malformed: unit .* leads to no replacement"):
        CharacterMap(whole[: 4 + size] + b"\0")
    assert CharacterMap(whole).longest_match("ﬁ".encode(), 0) == (3, b"fi")
    assert CharacterMap(b"").longest_match(b"a", 0) is None


@pytest.mark.parametrize(
    "damage",
    [
        {"precompiled": "%"},
        {"precompiled": "AAE="},
        {"precompiled": ...},
        {"colour": 3},
        {"collapsed": 3},
        {"protected": [3]},
    ],
)
def test_a_saved_normalizer_that_is_damaged_is_refused(t5_folder, damage, tmp_path):
    read_hugging_face(t5_folder / "tokenizer.json").save(tmp_path / "ours.json")
    fields = json.loads((tmp_path / "ours.json").read_text())
    changed = fields["normalizer"] | damage
    fields["normalizer"] = {key: value for key, value in changed.items() if value is not ...}
    (tmp_path / "ours.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="ours.json, key 'normalizer': it does not describe a normalizer"):
        Tokenizer.load(tmp_path / "ours.json")


def test_a_file_saved_before_there_were_normalizers_is_read(t5_folder, tmp_path):
    ours = read_hugging_face(t5_folder / "tokenizer.json")
    ours.save(tmp_path / "ours.json")
    fields = json.loads((tmp_path / "ours.json").read_text())
    del fields["normalizer"]
    (tmp_path / "ours.json").write_text(json.dumps(fields))
    assert Tokenizer.load(tmp_path / "ours.json").normalizer is None


def test_white_space_is_unicode_s():
    every_character = "".join(map(chr, range(0x110000)))
    assert set(WHITE_SPACE) == set(normalization.regex.findall(r"\p{White_Space}", every_character))
