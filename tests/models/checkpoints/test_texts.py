"""Text of every family: the files that transformers' class of it writes, read with its ids, and written again."""

import io
import json
import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import sentencepiece
from nasty import texts as nasty_texts
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as HuggingFace
from transformers import (
    AutoTokenizer,
    BertTokenizer,
    CohereTokenizer,
    DebertaTokenizer,
    DebertaV2Tokenizer,
    GemmaTokenizer,
    GPT2Tokenizer,
    GPTNeoXTokenizer,
    LlamaTokenizer,
    PreTrainedTokenizerFast,
    Qwen2Tokenizer,
    T5Tokenizer,
)

from llm_anatomy.models.checkpoints.chat import ChatTemplate
from llm_anatomy.models.checkpoints.families import families
from llm_anatomy.models.checkpoints.texts import Texts, read_texts, write_texts
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.bpe import BPE
from llm_anatomy.tokenizers.files import _protobuf_fields
from llm_anatomy.tokenizers.hugging_face import HuggingFaceTokenizer
from llm_anatomy.tokenizers.pretokenization import LLAMA3
from llm_anatomy.tokenizers.simple import ByteTokenizer
from llm_anatomy.tokenizers.unigram import Unigram

# --- Small tokenizers, trained once ---

LINES = [text for text in nasty_texts(300) if not any(part in text for part in ("<0x", "abab", "xxx"))]
"""Without long runs: SentencePiece adds scores as float32, and so decides ties otherwise than doubles do."""
LINES += ["the cat sat on the mat and the dog walked home; it's a house, isn't it?"] * 20


@cache
def byte_level() -> tuple[dict, list]:
    """The vocabulary and the merges of a byte-level BPE."""
    peer = HuggingFace(models.BPE())
    peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    peer.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False))
    model = json.loads(peer.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


@cache
def with_fallback(*special: str) -> tuple[dict, list]:
    """The vocabulary and the merges of a BPE on characters, with ▁ for a space and bytes for what is unknown."""
    peer = HuggingFace(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    names = [*special, *(f"<0x{byte:02X}>" for byte in range(256))]
    words = [word for line in LINES[-200:] for word in line.replace(" ", " ▁").split(" ")]
    peer.train_from_iterator(words, trainers.BpeTrainer(vocab_size=700, special_tokens=names, show_progress=False))
    model = json.loads(peer.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


@cache
def words() -> dict:
    peer = HuggingFace(models.WordPiece(unk_token="[UNK]"))
    peer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    lines = [line.lower() for line in LINES] + LINES
    trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=names, limit_alphabet=150, show_progress=False)
    peer.train_from_iterator(lines, trainer)
    return json.loads(peer.to_str())["model"]["vocab"]


@cache
def sentences(**options) -> bytes:
    """A model of SentencePiece."""
    model = io.BytesIO()
    plain = dict(model_type="unigram", vocab_size=400, hard_vocab_limit=False, minloglevel=2, num_threads=1)
    lines = [line.replace("\0", "") for line in LINES]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **plain | options)
    return model.getvalue()


T5_IDS = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)


def pieces_and_rules(data: bytes) -> tuple[list, bytes]:
    peer = sentencepiece.SentencePieceProcessor(model_proto=data)
    (spec,) = (value for number, value, _ in _protobuf_fields(data, "t.model") if number == 3)
    rules = next(value for number, value, _ in _protobuf_fields(spec, "t.model") if number == 2)
    return [(peer.id_to_piece(i), peer.get_score(i)) for i in range(peer.vocab_size())], rules


# --- The tokenizers of transformers' classes ---


def with_vocab(*texts: str) -> dict:
    vocab, merges = byte_level()
    return {"vocab": vocab | {text: len(vocab) + i for i, text in enumerate(texts)}, "merges": merges}


def pipeline(*steps, normalizer=None, **settings) -> PreTrainedTokenizerFast:
    """A byte-level BPE with other steps before it, as files of models without a class of their own have it."""
    vocab, merges = byte_level()
    peer = HuggingFace(models.BPE(vocab, merges))
    peer.pre_tokenizer = pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(False, use_regex=False)])
    peer.decoder = decoders.ByteLevel()
    if normalizer:
        peer.normalizer = normalizer
    return PreTrainedTokenizerFast(tokenizer_object=peer, **settings)


def isolated(pattern: str):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def opt():
    names = dict(bos_token="</s>", eos_token="</s>", unk_token="</s>", pad_token="<pad>")
    return GPT2Tokenizer(**with_vocab("<s>", "<pad>", "</s>"), **names, add_bos_token=True)


def bloom():
    names = dict(unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    return pipeline(isolated(r" ?[^(\s|[.,!?…。，、।۔،])]+"), **names)


def cohere():
    turns = ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>")
    names = dict(unk_token="<UNK>", bos_token="<BOS_TOKEN>", eos_token=turns[1], pad_token="<PAD>")
    made = CohereTokenizer(**with_vocab("<UNK>", "<BOS_TOKEN>", "<PAD>", *turns), **names, add_bos_token=True)
    made.add_tokens([AddedToken(turns[0], special=True), AddedToken("<|USER_TOKEN|>", special=True)])
    return made


def falcon():
    steps = pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False)
    steps += pre_tokenizers.Digits(individual_digits=False), isolated("[0-9][0-9][0-9]")
    made = PreTrainedTokenizerFast(tokenizer_object=pipeline().backend_tokenizer, eos_token="<|endoftext|>")
    made.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(list(steps))
    made.add_tokens([AddedToken(f">>{name}<<", special=True) for name in ("TITLE", "ABSTRACT")])
    return made


def gpt4_like():
    return pipeline(isolated(LLAMA3.pattern), eos_token="<|endoftext|>", pad_token="<|pad|>")


def granite():
    made = GPT2Tokenizer(**with_vocab("<|endoftext|>", "<fim_prefix>"))
    made.add_tokens([AddedToken(f"<|{role}_of_role|>", special=True) for role in ("start", "end")])
    return made


def smollm3():
    made = pipeline(isolated(LLAMA3.pattern), bos_token="<|begin_of_text|>", eos_token="<|im_end|>")
    made.add_tokens([AddedToken("<think>", normalized=False, special=False)])
    return made


def starcoder2():
    made = GPT2Tokenizer(**with_vocab("<|endoftext|>", "<fim_prefix>"))
    steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    made.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    return made


def deepseek():
    signs = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    signs += r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    steps = isolated(r"\p{N}{1,3}"), isolated("[一-龥\u3040-ゟ゠-ヿ]+"), isolated(signs)
    names = dict(bos_token="<｜begin▁of▁sentence｜>", eos_token="<｜end▁of▁sentence｜>")
    made = pipeline(*steps, **names, add_bos_token=True)
    made.add_tokens([AddedToken("<｜User｜>", normalized=False, special=False), AddedToken("<｜fim▁hole｜>")])
    return made


def llama(**settings):
    vocab, merges = with_fallback("<unk>", "<s>", "</s>")
    return LlamaTokenizer(vocab, merges, add_bos_token=True, **settings)


def gemma():
    vocab, merges = with_fallback("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")
    made = GemmaTokenizer(vocab, merges, add_bos_token=True)
    made.add_tokens([AddedToken("<start_of_turn>", special=True), AddedToken("\n\n", normalized=False)])
    return made


def gemma3():
    made = gemma()
    made.add_tokens([AddedToken("<start_of_image>", special=True), AddedToken("<table>", normalized=False)])
    return made


def gpt_oss():
    ending = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    words = rf"[^\r\n\p{{L}}\p{{N}}]?{upper}*{lower}+{ending}|[^\r\n\p{{L}}\p{{N}}]?{upper}+{lower}*{ending}"
    others = r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    made = pipeline(isolated(words + others), bos_token="<|startoftext|>", eos_token="<|return|>")
    made.add_tokens([AddedToken(f"<|{name}|>", special=True) for name in ("channel", "message", "end")])
    return made


def olmo3():
    made = gpt4_like()
    made.add_tokens([AddedToken("<|im_start|>", special=True), AddedToken("<functions>", normalized=False)])
    return made


def phi3():
    made = llama()
    names = ("assistant", "user", "end")
    made.add_tokens([AddedToken(f"<|{name}|>", special=True, rstrip=True, normalized=False) for name in names])
    return made


def qwen():
    chat = ["<|im_start|>", "<|im_end|>"]
    made = Qwen2Tokenizer(**with_vocab("<|endoftext|>"), additional_special_tokens=chat, eos_token="<|im_end|>")
    made.add_tokens([AddedToken(text, normalized=False, special=False) for text in ("<tool_call>", "</think>")])
    return made


def t5():
    pieces, rules = pieces_and_rules(sentences(**T5_IDS))
    pieces += [(f"<extra_id_{i}>", 0.0) for i in reversed(range(6))]
    return T5Tokenizer(pieces, extra_ids=6, _spm_precompiled_charsmap=rules)


def deberta():
    return DebertaTokenizer(**with_vocab("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"))


def deberta_v2():
    names = dict(control_symbols="[MASK]", pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]")
    pieces, _ = pieces_and_rules(sentences(pad_id=0, bos_id=1, eos_id=2, unk_id=3, **names))
    return DebertaV2Tokenizer(pieces, unk_id=3)


def neox():
    return GPTNeoXTokenizer(**with_vocab("<|endoftext|>", "<|padding|>"))


TEXTS: dict[str, Callable[[], PreTrainedTokenizerFast] | str] = {
    "gpt2": lambda: GPT2Tokenizer(**with_vocab("<|endoftext|>")),
    "gptj": lambda: GPT2Tokenizer(**with_vocab("<|endoftext|>", "<|extratoken_1|>")),
    "opt": opt,
    "gptneox": neox,
    "bloom": bloom,
    "llama": llama,
    "mistral": lambda: llama(legacy=True),
    "mixtral": lambda: llama(add_eos_token=True),
    "qwen2": qwen,
    "qwen3": qwen,
    "qwen3_moe": qwen,
    "granite": granite,
    "smollm3": smollm3,
    "starcoder2": starcoder2,
    "gemma": gemma,
    "gemma2": gemma,
    "gemma3": gemma3,
    "olmo": neox,
    "olmo2": gpt4_like,
    "olmo3": olmo3,
    "phi3": phi3,
    "gpt_oss": gpt_oss,
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek,
    "t5": t5,
    "mt5": t5,
    "t5_encoder": t5,
    "mt5_encoder": t5,
    "bert": lambda: BertTokenizer(words()),
    "roformer": "its class cuts Chinese text with the package rjieba; a tokenizer.json that names its steps is read",
    "deberta": deberta,
    "deberta_v2": deberta_v2,
    "mamba": neox,
    "cohere": cohere,
    "falcon": falcon,
    "mpt": neox,
    "stablelm": gpt4_like,
}
"""For each family a tokenizer of transformers' own class, whose ids and texts are ours; or why there is none."""

MADE = {name: make for name, make in TEXTS.items() if not isinstance(make, str)}


def test_every_family_is_there():
    assert set(TEXTS) == {family.name for family in families().values()}


def some_special(texts: Texts) -> tuple[str, ...]:
    assert texts.note == "" and texts.tokenizer is not None
    known = sorted(texts.tokenizer.special_tokens)
    return tuple(random.Random(0).sample(known, min(4, len(known))))


def same_texts(texts: Texts, theirs, n: int = 500) -> None:
    """Whether ids, with and without those around a text, and decoded texts are those of transformers."""
    special = some_special(texts)
    for text in nasty_texts(n, special=special):
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert texts.tokenizer.encode(text, allowed_special="all") == ids, text
        assert texts.encode(text, allowed_special="all") == theirs(text)["input_ids"], text
        expected = theirs.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert texts.tokenizer.decode(ids) == expected, text
    for token in special:
        with pytest.raises(ValueError, match="the text contains the special token"):
            texts.encode(f"a {token} b")


@pytest.mark.syllabus("GT-40", "GT-42")
@pytest.mark.parametrize("family", MADE)
def test_the_files_of_transformers_class_give_its_ids(family, tmp_path):
    theirs = MADE[family]()
    theirs.save_pretrained(tmp_path)
    texts = read_texts(tmp_path, {"model_type": families()[family].model_type})
    same_texts(texts, theirs)
    added = [token.content for token in theirs.added_tokens_decoder.values() if not token.special]
    for text in added:  # these may be typed
        assert texts.encode(f"a {text} b") == theirs(f"a {text} b")["input_ids"]


# --- Folders without tokenizer.json ---


def slow_layout(family, folder):
    """The files that older versions of transformers wrote for this family; returns its tokenizer for them."""
    theirs = MADE[family]()
    theirs.save_pretrained(folder)
    (folder / "tokenizer.json").unlink()
    vocab = theirs._vocab
    if family == "bert":
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in sorted(vocab, key=vocab.__getitem__)))
    else:
        (folder / "vocab.json").write_text(json.dumps(vocab))
        lines = ["#version: 0.2", *(" ".join(pair) for pair in theirs._merges)]
        (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return type(theirs).from_pretrained(folder)


SLOW = [
    "gpt2",
    "gptj",
    "opt",
    "gptneox",
    "olmo",
    "mamba",
    "mpt",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "starcoder2",
    "deberta",
]
SLOW += ["bert"]


@pytest.mark.syllabus("GT-40", "GT-42")
@pytest.mark.parametrize("family", SLOW)
def test_files_without_tokenizer_json_are_read_as_their_class_reads_them(family, tmp_path):
    theirs = slow_layout(family, tmp_path)
    texts = read_texts(tmp_path, {})
    same_texts(texts, theirs)
    change_settings(tmp_path, tokenizer_class=None)
    texts = read_texts(tmp_path, {"model_type": families()[family].model_type})  # which tells the class as well
    same_texts(texts, theirs, n=60)


def change_settings(folder, **changes):
    path = folder / "tokenizer_config.json"
    fields = (json.loads(path.read_text()) if path.is_file() else {}) | changes
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}))


@pytest.mark.parametrize(
    "settings", [{"do_lower_case": False}, {"strip_accents": True}, {"tokenize_chinese_chars": False}]
)
def test_the_settings_of_bert(settings, tmp_path):
    slow_layout("bert", tmp_path)
    change_settings(tmp_path, **settings)
    same_texts(read_texts(tmp_path, {}), BertTokenizer.from_pretrained(tmp_path))


SENTENCES = {
    "llama": (
        "tokenizer.model",
        dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False)
        | dict(vocab_size=900),
        dict(add_bos_token=True, bos_token="<s>", eos_token={"content": "</s>"}),
        (["<s>"], []),
    ),
    "gemma": (
        "tokenizer.model",
        dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False)
        | dict(
            vocab_size=900,
            remove_extra_whitespaces=False,
            bos_piece="<bos>",
            eos_piece="<eos>",
            pad_id=3,
            pad_piece="<pad>",
        ),
        {},
        (["<bos>"], []),
    ),
    "t5": ("spiece.model", T5_IDS, {"extra_ids": 6}, ([], ["</s>"])),
    "mt5": ("spiece.model", T5_IDS, {"extra_ids": 0, "add_eos_token": False}, ([], [])),
    "deberta_v2": (
        "spm.model",
        dict(pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]")
        | dict(unk_piece="[UNK]"),
        {"added_tokens_decoder": {"N": {"content": "[MASK]", "special": True, "normalized": True}}},
        (["[CLS]"], ["[SEP]"]),
    ),
}


@pytest.mark.syllabus("GT-40", "GT-42")
@pytest.mark.parametrize("family", SENTENCES)
@pytest.mark.parametrize("named", [True, False])
def test_models_of_sentencepiece_have_its_ids(family, named, tmp_path):
    file, options, settings, (before, after) = SENTENCES[family]
    data = sentences(**options)
    (tmp_path / file).write_bytes(data)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    settings = json.loads(json.dumps(settings).replace('"N"', f'"{theirs.vocab_size()}"'))
    name = {"llama": "Llama", "gemma": "Gemma", "t5": "T5", "mt5": "MT5", "deberta_v2": "DebertaV2"}[family]
    change_settings(tmp_path, **settings, tokenizer_class=f"{name}Tokenizer" if named else None)
    texts = read_texts(tmp_path, {} if named else {"model_type": families()[family].model_type})
    assert texts.note == "", texts.note
    ids = texts.tokenizer.special_tokens
    assert (texts.before, texts.after) == (tuple(ids[t] for t in before), tuple(ids[t] for t in after))
    for text in nasty_texts():
        if "\0" in text or any(token in text for token in ids):
            continue
        assert texts.tokenizer.encode(text) == theirs.encode(text), text
        unknown = theirs.unk_id() in theirs.encode(text)  # a special token of its own here, written by its name
        assert unknown or texts.tokenizer.decode(theirs.encode(text)) == theirs.decode(theirs.encode(text)), text
    for token, i in ids.items():
        assert i in texts.tokenizer.encode(f"a {token} b", allowed_special="all")
    if family == "t5":
        assert list(ids)[-6:] == [f"<extra_id_{i}>" for i in reversed(range(6))]


@pytest.mark.parametrize("lstrip", [None, False, True])
def test_whether_the_mask_of_deberta_takes_the_space_before_it(lstrip, tmp_path):
    """It does if the files say so, and not by default."""
    slow_layout("deberta", tmp_path)
    rules = dict(content="[MASK]", rstrip=False, single_word=False, normalized=False)
    mask = None if lstrip is None else {"__type": "AddedToken", "lstrip": lstrip} | rules
    change_settings(tmp_path, added_tokens_decoder=None, mask_token=mask)
    ours, theirs = read_texts(tmp_path, {}), DebertaTokenizer.from_pretrained(tmp_path)
    for text in ["a [MASK] b", "a  [MASK]", " [MASK][MASK]"]:
        assert ours.encode(text, allowed_special="all") == theirs(text)["input_ids"], text


def test_the_older_files_of_opt(tmp_path):
    """Special tokens in a file of their own, and words that no merge forms."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 256 + 68)]  # one for each byte
    vocab = ["<s>", "<pad>", "</s>", *map(chr, visible), "ab", "madeupword0000"]
    (tmp_path / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(vocab)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"pad_token": "<pad>"}))
    names = {"bos_token": {"content": "</s>"}, "eos_token": "</s>", "unk_token": "</s>", "cls_token": "<s>"}
    change_settings(tmp_path, **names, add_bos_token=True, tokenizer_class="GPT2Tokenizer")
    texts = read_texts(tmp_path, {})
    assert texts.note == "" and texts.before == (2,)
    assert texts.encode("abb") == [2, vocab.index("ab"), vocab.index("b")]
    assert texts.tokenizer.special_tokens == {"<s>": 0, "<pad>": 1, "</s>": 2}
    assert texts.tokenizer.decode([0, vocab.index("ab")]) == "<s>ab"


def test_the_older_file_of_added_tokens(tmp_path):
    slow_layout("qwen2", tmp_path)
    change_settings(tmp_path, added_tokens_decoder=None, extra_special_tokens=None, eos_token="<|im_end|>")
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<tool_call>": 502, "<|im_end|>": 501}))
    texts = read_texts(tmp_path, {})
    assert texts.note == "" and texts.tokenizer.special_tokens["<|im_end|>"] == 501
    assert texts.encode("<tool_call>") == [502] and "<tool_call>" not in texts.tokenizer.special_tokens


EXTRA = {"content": "<|Extra|>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False}
BESIDE = {
    "a name": ({"eos_token": "<|Extra|>"}, {}),
    "a list": ({"additional_special_tokens": ["<|im_end|>", "<|Extra|>"]}, {}),
    "by id": ({"added_tokens_decoder": {"N": EXTRA | {"special": True}}}, {}),
    "by id, not special": ({"added_tokens_decoder": {"N": EXTRA}}, {}),
    "nothing": ({"added_tokens_decoder": {"N": EXTRA | {"content": ""}}}, {}),
    "other rules": ({"added_tokens_decoder": {"0": EXTRA | {"content": "<unk>", "rstrip": True, "special": True}}}, {}),
    "names in the older file": ({}, {"special_tokens_map.json": {"eos_token": EXTRA, "pad_token": "<|im_end|>"}}),
    "the older file goes first": ({"eos_token": "<|Extra|>"}, {"special_tokens_map.json": {"eos_token": EXTRA}}),
    "the older file of ids": ({}, {"added_tokens.json": {"<|Extra|>": "N"}}),
    "the older file of ids, named": ({"eos_token": "<|Extra|>"}, {"added_tokens.json": {"<|Extra|>": "N"}}),
}


def beside(name, folder):
    """A folder whose tokenizer.json lacks what the files beside it add; its normalizer makes capitals small."""
    settings, files = BESIDE[name]
    peer = HuggingFace(models.WordLevel({"<unk>": 0, "a": 1, "extra": 2, "<": 3}, unk_token="<unk>"))
    peer.normalizer, peer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    peer.add_special_tokens(["<unk>", "<|im_end|>"])
    peer.save(str(folder / "tokenizer.json"))
    for file, fields in {
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"} | settings,
        **files,
    }.items():
        text = json.dumps(fields).replace('{"N"', '{"5"').replace('"N"', "5")
        (folder / file).write_text(text)


@pytest.mark.parametrize("name", BESIDE)
def test_tokens_that_the_files_beside_tokenizer_json_add(name, tmp_path):
    beside(name, tmp_path)
    ours, theirs = read_texts(tmp_path, {}), AutoTokenizer.from_pretrained(tmp_path)
    assert ours.note == ""
    for text in [
        "a <|Extra|> a",
        "a <|extra|> a",
        "a <unk> a",
        "a<|Extra|>a<|im_end|>",
        *nasty_texts(60, ("<|Extra|>",)),
    ]:
        assert ours.encode(text, allowed_special="all") == theirs(text)["input_ids"], text
    assert pickle.loads(pickle.dumps(ours.tokenizer)).added_tokens == ours.tokenizer.added_tokens


def test_another_id_beside_tokenizer_json(tmp_path):
    beside("by id", tmp_path)
    change_settings(tmp_path, added_tokens_decoder={"9": EXTRA})
    assert read_texts(tmp_path, {}).note == (
        "tokenizer.json: '<|Extra|>' has the id 5, but the files beside it add it as 9"
    )


def test_the_older_file_of_added_tokens_and_capitals(tmp_path):
    """A token that is not special is sought in the normalized text."""
    slow_layout("bert", tmp_path)
    n = (tmp_path / "vocab.txt").read_text().count("\n")
    change_settings(tmp_path, added_tokens_decoder=None, extra_special_tokens=["[E1]"])
    (tmp_path / "added_tokens.json").write_text(json.dumps({"Zurich": n, "[E1]": n + 1}))
    ours, theirs = read_texts(tmp_path, {}), BertTokenizer.from_pretrained(tmp_path)
    for text in ["in ZURICH.", "in Zurich", "in zurich", "[E1] [e1]"]:
        assert ours.encode(text, allowed_special="all") == theirs(text)["input_ids"], text


# --- What is refused ---


def test_where_tokenizer_json_is_nothing_else_is_tried(tmp_path):
    slow_layout("gpt2", tmp_path)
    assert read_texts(tmp_path, {}).tokenizer is not None
    (tmp_path / "tokenizer.json").write_text("{}")
    texts = read_texts(tmp_path, {})
    assert texts.tokenizer is None and texts.note.startswith("tokenizer.json: Hugging Face's library says: ")


REFUSED = {
    "another class": (
        lambda f: change_settings(f, tokenizer_class="CTRLTokenizer"),
        "tokenizer_class='CTRLTokenizer' is",
    ),
    "no class": (lambda f: change_settings(f, tokenizer_class=None), "no tokenizer_class says which it is"),
    "roformer": (lambda f: change_settings(f, tokenizer_class="RoFormerTokenizer"), "the package rjieba"),
    "a file missing": (
        lambda f: (f / "merges.txt").unlink(),
        "merges.txt of GPT2Tokenizer is missing beside vocab.json",
    ),
    "a class of other files": (
        lambda f: change_settings(f, tokenizer_class="BertTokenizerFast"),
        "vocab.txt of BertTokenizer is missing beside merges.txt, vocab.json",
    ),
    "merges cut off": (
        lambda f: (f / "merges.txt").write_text((f / "merges.txt").read_text()[:900].rsplit("\n", 1)[0]),
        "the file ends, but no line forms",
    ),
    "another id": (
        lambda f: change_settings(f, added_tokens_decoder={"3": {"content": "<|endoftext|>"}}),
        "'<|endoftext|>' has the id 500, but is added as 3",
    ),
    "no id": (
        lambda f: change_settings(f, added_tokens_decoder={"x": {}}),
        "key 'added_tokens_decoder': its keys must be",
    ),
    "no list": (lambda f: change_settings(f, additional_special_tokens=3), "it must be a list of tokens, not 3"),
    "no number": (lambda f: (f / "added_tokens.json").write_text('{"a": "b"}'), "key 'a': it must be of type int"),
    "no token": (lambda f: change_settings(f, bos_token=3), "3 does not describe a token"),
}


@pytest.mark.parametrize(("change", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_surely_known_is_refused_with_a_note(change, said, tmp_path):
    slow_layout("gpt2", tmp_path)
    change(tmp_path)
    texts = read_texts(tmp_path, {})
    assert texts.tokenizer is None and said in texts.note and "\n" not in texts.note


@pytest.mark.parametrize("extra_ids", [-1, 10**12, "x", True])
def test_how_many_sentinels_t5_has(extra_ids, tmp_path):
    (tmp_path / "spiece.model").write_bytes(sentences(**T5_IDS))
    change_settings(tmp_path, tokenizer_class="T5Tokenizer", extra_ids=extra_ids)
    assert "tokenizer_config.json, key 'extra_ids': it must be" in read_texts(tmp_path, {}).note


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"do_lower_case": True}, "do_lower_case=True is not supported with spm.model"),
        ({"legacy": False}, "legacy=False is not supported with spm.model; tokenizer.json is needed"),
        (
            {"mask_token": {"content": "[MASK]", "lstrip": True}},
            "lstrip=True of the added token '[MASK]' is not supported",
        ),
        ({"added_tokens_decoder": {"9": {"content": "[MASK]", "special": True}}}, "but is added as 9"),
    ],
)
def test_what_is_not_supported_with_sentencepiece(settings, said, tmp_path):
    _, options, _, _ = SENTENCES["deberta_v2"]
    (tmp_path / "spm.model").write_bytes(sentences(**options))
    change_settings(tmp_path, tokenizer_class="DebertaV2Tokenizer", **settings)
    texts = read_texts(tmp_path, {})
    assert texts.tokenizer is None and said in texts.note


# --- Writing ---


@pytest.mark.parametrize("family", ["gpt2", "bert", "t5", "gemma", "deepseek_v3"])
def test_what_was_read_is_written_as_it_was(family, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    theirs = MADE[family]()
    theirs.chat_template = {"default": "{{ messages }}", "rag": "{{ bos_token }}"}
    theirs.save_pretrained(tmp_path / "in")
    (tmp_path / "in" / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    texts = read_texts(tmp_path / "in", {})
    write_texts(texts, tmp_path / "out")
    files = {f.relative_to(tmp_path / "in") for f in (tmp_path / "in").rglob("*") if f.is_file()}
    assert files == {f.relative_to(tmp_path / "out") for f in (tmp_path / "out").rglob("*") if f.is_file()}
    assert all((tmp_path / "in" / file).read_bytes() == (tmp_path / "out" / file).read_bytes() for file in files)
    assert read_texts(tmp_path / "out", {}) == replace(read_texts(tmp_path / "out", {}), note="") or texts.stop == (
        1,
        2,
    )


@cache
def own_tokenizers() -> dict[str, Tokenizer]:
    lines, special = LINES[-20:], ("<|begin|>", "<|end|>")
    read = HuggingFaceTokenizer(llama()._tokenizer.to_str().encode())
    bpe = BPE.train(lines, 300, special_tokens=special)
    return {
        "bytes": ByteTokenizer(special),
        "bpe": bpe,
        "unigram": Unigram.train(lines, 300, special_tokens=special),
    } | {"hugging face": read}


@pytest.mark.syllabus("GT-40")
@pytest.mark.parametrize("kind", ["bytes", "bpe", "unigram", "hugging face"])
def test_a_tokenizer_of_ones_own_is_written_for_both(kind, tmp_path):
    tokenizer = own_tokenizers()[kind]
    begin, end = list(tokenizer.special_tokens.values())[-2:]
    templates = {"default": "{{ messages[0].content }}", "other": "hi"}
    template = ChatTemplate(templates=templates, variables={"sep_token": "<s>", "pad_token": "é"})
    around = {"before": (begin,), "after": (end,), "start": begin, "bos": begin, "stop": (end,)}
    texts = Texts(tokenizer=tokenizer, **around, chat_template=template)
    write_texts(texts, tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    again, theirs = read_texts(tmp_path, {}), AutoTokenizer.from_pretrained(tmp_path)
    same_texts(again, theirs)
    for text in nasty_texts(200, special=tuple(tokenizer.special_tokens)):
        assert again.encode(text, allowed_special="all") == texts.encode(text, allowed_special="all"), text
    assert replace(again, tokenizer=None, chat_template=None) == replace(texts, tokenizer=None, chat_template=None)
    assert again.chat_template.templates == templates and "pad_token" not in again.chat_template.variables
    assert theirs.eos_token_id == end and theirs.bos_token_id == begin
    assert theirs.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False) == "Hi"


def test_a_tokenizer_that_takes_the_place_of_another_is_written(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    MADE["gpt2"]().save_pretrained(tmp_path / "in")
    texts = replace(read_texts(tmp_path / "in", {}), tokenizer=ByteTokenizer(), stop=())
    write_texts(texts, tmp_path / "out")
    assert read_texts(tmp_path / "out", {}).tokenizer.encode("é") == [195, 169]


def test_texts_without_a_tokenizer_write_where_generation_ends(tmp_path):
    write_texts(Texts(note="there is none", stop=(3, 4)), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["generation_config.json"]
    assert read_texts(tmp_path, {}).stop == (3, 4)
