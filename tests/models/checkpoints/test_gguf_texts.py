"""The tokenizers of GGUF files: ids and texts of the tokenizer that was converted, and notes on what is not read."""

import json

import pytest
import torch
from models.checkpoints.cases import decoder
from models.checkpoints.gguf_writer import tokenizer_metadata, write_gguf
from nasty import texts
from randomness import randomize
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from llm_anatomy import __main__ as command
from llm_anatomy.models.checkpoints import load, save
from llm_anatomy.models.checkpoints.gguf_texts import SPLITTERS, tokenizer_fields
from llm_anatomy.tokenizers.hugging_face import HuggingFaceTokenizer

LINES = [text for text in texts(1000, seed=1) if "<" not in text]  # which would be learned as tokens
SPECIAL = ["<|end|>", "<|im_start|>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
    r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def cut(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def with_digits():
    steps = [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    return pre_tokenizers.Sequence(steps)


# As the released tokenizers cut: the splitter, the normalizer, and whether whole pieces that are tokens are not merged.
PEERS = {
    "gpt-2": (lambda: pre_tokenizers.ByteLevel(add_prefix_space=False), None, False),
    **dict.fromkeys(("smollm", "starcoder", "refact"), (with_digits, None, False)),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), (lambda: cut(LLAMA3), None, True)),
    "qwen2": (lambda: cut(LLAMA3.replace("{1,3}", "")), normalizers.NFC, False),
    "tekken": (lambda: cut(TEKKEN), None, True),
}


def byte_level(pre):
    """A small tokenizer of the kind that a GGUF file calls by this name."""
    splitter, normalizer, ignore_merges = PEERS[pre]
    peer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    peer.pre_tokenizer, peer.decoder = splitter(), decoders.ByteLevel()
    if normalizer:
        peer.normalizer = normalizer()
    alphabet = pre_tokenizers.ByteLevel.alphabet()[21:]  # a released vocabulary may lack single bytes
    trainer = trainers.BpeTrainer(
        vocab_size=500, initial_alphabet=alphabet, special_tokens=SPECIAL, show_progress=False
    )
    peer.train_from_iterator(LINES, trainer)
    peer.add_tokens([AddedToken("<think>", normalized=False)])
    return peer


def sentencepiece(prefixed):
    """BPE on characters as released for Llama 2, with a space before each text, and for Gemma, without one."""
    peer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    space, steps = normalizers.Replace(" ", "▁"), [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    peer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), space]) if prefixed else space
    peer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefixed else steps)
    trainer = trainers.BpeTrainer(
        vocab_size=800, special_tokens=["<unk>", *SPECIAL, *BYTES], max_token_length=9, show_progress=False
    )
    peer.train_from_iterator(LINES, trainer)
    fields = json.loads(peer.to_str())
    known = ("<unk>", *SPECIAL)  # the bytes are no added tokens
    fields["added_tokens"] = [token for token in fields["added_tokens"] if token["content"] in known]
    fields["model"]["merges"] = all_merges(fields["model"])
    peer = Tokenizer.from_str(json.dumps(fields))
    peer.add_tokens([AddedToken("<think>", normalized=False)])
    return peer


def all_merges(model):
    """The pairs that SentencePiece merges: all that form a token, and not only the one by which it was learned."""
    vocab, order = model["vocab"], {}
    for merge in model["merges"]:
        order.setdefault("".join(merge), len(order))
    cuts = [(text[:i], text[i:]) for text in order for i in range(1, len(text))]
    known = [pair for pair in cuts if pair[0] in vocab and pair[1] in vocab]
    return sorted(known, key=lambda pair: (order["".join(pair)], vocab[pair[0]], vocab[pair[1]]))


def same_ids_and_texts(ours, theirs, n=300):
    for text in texts(n, ("<|end|>", "<|im_start|>", "<think>", "<unk>")):
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, allowed_special="all") == expected, text
        assert ours.decode(expected) == theirs.decode(expected, skip_special_tokens=False), text


@pytest.mark.syllabus("GT-40", "GT-42")
@pytest.mark.parametrize("pre", SPLITTERS)
def test_byte_level_bpe_is_that_of_its_splitter(pre):
    theirs = byte_level(pre)
    found = tokenizer_fields(tokenizer_metadata(json.loads(theirs.to_str()), pre))
    same_ids_and_texts(HuggingFaceTokenizer.from_json(found), theirs)


@pytest.mark.parametrize("prefixed", [True, False])
def test_bpe_on_characters_is_that_of_sentencepiece(prefixed):
    theirs = sentencepiece(prefixed)
    metadata = tokenizer_metadata(json.loads(theirs.to_str()), add_space_prefix=prefixed)
    same_ids_and_texts(HuggingFaceTokenizer.from_json(tokenizer_fields(metadata)), theirs)


def test_merges_are_in_the_order_of_sentencepiece():
    """Those defined by hand come first, whatever their score; a tab is a byte; control tokens are not formed."""
    tokens = ["<unk>", "<0x09>", "\t\t", "a", "▁", "▁a", "  ", "</", "s>", "</s>"]
    types, scores = [2, 6, 1, 1, 1, 1, 4, 1, 1, 3], [0, 0, -2, -9, -9, -1, -1000, -9, -9, 0]
    metadata = dict(model="llama", tokens=tokens, token_type=types, scores=list(map(float, scores)))
    fields = tokenizer_fields({f"tokenizer.ggml.{name}": value for name, value in metadata.items()})
    assert fields["model"]["merges"] == [["▁", "▁"], ["▁", "a"], ["\t", "\t"]]
    ours = HuggingFaceTokenizer.from_json(fields)
    assert ours.encode("\t\t\t", allowed_special="all") == [4, 2, 1] and set(ours.special_tokens) == {"<unk>", "</s>"}


def test_the_splitters_differ():
    """If they did not, a wrong one would not be seen."""
    peers = {pre: byte_level(pre) for pre in ("gpt-2", "smollm", "llama-bpe", "qwen2", "tekken")}
    fields = json.loads(peers["gpt-2"].to_str())
    ids = set()
    for pre in peers:
        ours = HuggingFaceTokenizer.from_json(tokenizer_fields(tokenizer_metadata(fields, pre)))
        ids.add(str([ours.encode(text, allowed_special="all") for text in texts(300)]))
    assert len(ids) == len(peers)


@pytest.fixture(scope="module")
def model():
    """A model with as many embeddings as the tokenizer has tokens, and the tokenizer."""
    theirs = byte_level("smollm")
    return randomize(decoder("Llama", vocab_size=theirs.get_vocab_size())).eval(), theirs


CHAT = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ eos_token }}{% endfor %}<|im_start|>"


def file_with(path, model, pre="smollm", **more):
    hf, theirs = model
    return write_gguf(path / "model.gguf", hf, tokenizer=tokenizer_metadata(json.loads(theirs.to_str()), pre, **more))


def test_a_file_brings_its_tokenizer_with_it(model, tmp_path, capsys):
    path = file_with(tmp_path, model, bos_token_id=1, eos_token_id=0, add_bos_token=True, chat_template=CHAT)
    checkpoint, (hf, theirs) = load(path), model
    said = checkpoint.texts
    assert checkpoint.tokenizer_note == "" and (said.before, said.after, said.stop) == ((1,), (), (0,))
    same_ids_and_texts(checkpoint.tokenizer, theirs, 60)
    assert said.chat_template.render([{"role": "user", "content": "Hi"}]) == "<|im_start|>user\nHi<|end|><|im_start|>"
    ids = [1, *theirs.encode("the lake is").ids]
    hf.generation_config.update(bos_token_id=None, eos_token_id=0, pad_token_id=0)
    expected = hf.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False)[0].tolist()
    expected = expected[: expected.index(0, 1)] if 0 in expected[1:] else expected
    assert command.main(["generate", str(path), "the lake is", "--max-new-tokens", "8", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == theirs.decode(expected[len(ids) :], skip_special_tokens=False) + "\n"


def test_a_file_that_is_saved_as_a_folder_is_the_same_model(model, tmp_path):
    path = file_with(tmp_path, model, bos_token_id=1, eos_token_id=0, add_bos_token=True, add_eos_token=True)
    save(load(path), tmp_path / "folder")
    first, again = load(path), load(tmp_path / "folder")
    assert all(a.equal(b) for a, b in zip(first.model.parameters(), again.model.parameters(), strict=True))
    assert again.texts.encode("It is so.") == first.texts.encode("It is so.")
    assert again.texts.stop == first.texts.stop == (0,)


@pytest.mark.parametrize(
    "more, before",
    [
        (dict(pre="smollm", bos_token_id=1), ()),
        (dict(pre="llama-bpe", bos_token_id=1), (1,)),
        (dict(pre="llama-bpe", bos_token_id=1, add_bos_token=False), ()),
        (dict(pre="llama-bpe", bos_token_id=10**6), ()),
        (dict(pre="llama-bpe"), ()),
    ],
)
def test_what_a_file_leaves_out_is_as_in_llama_cpp(more, before, model, tmp_path):
    assert load(file_with(tmp_path, model, **more)).texts.before == before


@pytest.mark.parametrize("pre", ["default", "deepseek-r1-qwen", "SMOLLM"])
def test_an_unknown_splitter_is_not_guessed(pre, model, tmp_path):
    checkpoint = load(file_with(tmp_path, model, pre))
    assert checkpoint.tokenizer is None
    assert checkpoint.tokenizer_note.startswith(
        f"model.gguf: the splitter '{pre}' is not known; it must be one of gpt-2"
    )
    with pytest.raises(ValueError, match="a text cannot be read: model.gguf: the splitter"):
        checkpoint.texts.encode("a")


DAMAGED = {
    "no tokens": ("tokens", None, "the tokens or their types are missing"),
    "tokens that are numbers": ("tokens", [1, 2], "the tokens or their types are missing or malformed"),
    "too few types": ("token_type", [1], "the tokens or their types are missing or malformed"),
    "no merges": ("merges", None, "the merges are missing or malformed"),
    "a merge of three": ("merges", ["a b c"], "the merges are missing or malformed"),
    "a merge of no token": ("merges", ["the qqq"], "Hugging Face's library says"),
    "a token twice": ("tokens", "twice", "the token {} occurs twice"),
    "another kind": ("model", "t5", "the tokenizer 't5' is not supported; it must be 'gpt2' or 'llama'"),
    "none at all": ("model", None, "there is no tokenizer in the file"),
    "no scores": ("model", "llama", "the scores of the tokens are missing or malformed"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_tokenizer_that_is_damaged_leaves_a_note(case, model, tmp_path):
    name, value, note = DAMAGED[case]
    hf, theirs = model
    metadata = tokenizer_metadata(json.loads(theirs.to_str()), "smollm", bos_token_id=1)
    key = f"tokenizer.ggml.{name}"
    if value == "twice":
        value = [*metadata[key][:-1], metadata[key][-2]]
        note = note.format(f"{value[-1]!r:.60}")
    metadata = {k: v for k, v in metadata.items() if k != key} | ({} if value is None else {key: value})
    checkpoint = load(write_gguf(tmp_path / "model.gguf", hf, tokenizer=metadata))
    assert checkpoint.tokenizer is None and checkpoint.tokenizer_note.startswith(f"model.gguf: {note}")
