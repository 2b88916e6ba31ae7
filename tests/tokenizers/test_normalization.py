"""SentencePiece's normalizer: the same ids and texts as its own library gives."""

import io
import json
from random import Random

import pytest
import sentencepiece
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.files import _protobuf_fields, read_sentencepiece
from llm_anatomy.tokenizers.normalization import CharacterMap, Normalizer

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
    for text in AWKWARD.values():
        ids = theirs.encode(text)
        assert ours.encode(text) == ids and ours.decode(ids) == theirs.decode(ids), text
    assert ours.unk_id in ours.encode("🙂") and ours.decode(ours.encode("🙂")) == " ⁇ "


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("surface", [" ⁇ ", "XX"])
def test_the_unknown_is_decoded_as_sentencepiece_does(corpus, options, surface, tmp_path):
    ours, theirs = both(trained(corpus, byte_fallback=False, vocab_size=150, unk_surface=surface, **options), tmp_path)
    space, a, unk = theirs.piece_to_id("▁"), theirs.piece_to_id("a"), theirs.unk_id()
    for ids in ([unk], [unk, a], [a, unk, a], [unk, unk], [space, unk], [unk, space, a], [space, a, unk], [a]):
        assert ours.decode(ids) == theirs.decode(ids), ids
    for text in AWKWARD.values():
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text)), text


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


# --- What is refused ---


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
def test_a_saved_normalizer_that_is_damaged_is_refused(corpus, damage, tmp_path):
    both(trained(corpus), tmp_path)[0].save(tmp_path / "ours.json")
    fields = json.loads((tmp_path / "ours.json").read_text())
    changed = fields["normalizer"] | damage
    fields["normalizer"] = {key: value for key, value in changed.items() if value is not ...}
    (tmp_path / "ours.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="ours.json, key 'normalizer': it does not describe a normalizer"):
        Tokenizer.load(tmp_path / "ours.json")


def test_a_file_saved_before_there_were_normalizers_is_read(corpus, tmp_path):
    ours, _ = both(trained(corpus), tmp_path)
    ours.save(tmp_path / "ours.json")
    fields = json.loads((tmp_path / "ours.json").read_text())
    del fields["normalizer"]
    (tmp_path / "ours.json").write_text(json.dumps(fields))
    assert Tokenizer.load(tmp_path / "ours.json").normalizer is None
