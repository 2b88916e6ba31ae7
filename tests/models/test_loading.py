"""One loader for folders, files, runs, and the models of the package."""

import shutil

import pytest
import torch

from llm_anatomy.__main__ import main
from llm_anatomy.config import ModelConfig
from llm_anatomy.data_generation.local_model import LocalModel
from llm_anatomy.models.before_transformers import BigramNetwork
from llm_anatomy.models.checkpoints import Checkpoint, save
from llm_anatomy.models.checkpoints.description import describe as describe_folder
from llm_anatomy.models.loading import describe, load
from llm_anatomy.models.sampling import Sampler, Temperature
from llm_anatomy.models.stored import FOLDER, shipped, store, stored
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.simple import ByteTokenizer

IDS = torch.tensor([[3, 14, 15, 9]])


def test_a_model_of_the_package_is_loaded_by_its_name_and_by_its_file(tmp_path, monkeypatch):
    shutil.copy(FOLDER / "story_rope.safetensors", tmp_path / "mine.safetensors")
    expected, metadata = stored("story_rope")
    for name in ("story_rope", tmp_path / "mine.safetensors"):
        found = load(name, dtype="bfloat16")
        assert found.model.embedding.weight.dtype == torch.bfloat16 and not found.model.training
        assert found.tokenizer.encode("The pig.") == metadata["tokenizer"].encode("The pig.")
    torch.testing.assert_close(load("story_rope").model(IDS), expected(IDS), rtol=0, atol=0)
    monkeypatch.chdir(tmp_path)  # what exists as a path is read from there
    (tmp_path / "story_rope").mkdir()
    with pytest.raises(ValueError, match="story_rope"):
        load("story_rope")


def test_folders_runs_and_names_are_told_apart(tmp_path):
    model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=256))
    save(model, tmp_path / "run/model", tokenizer=ByteTokenizer())
    (tmp_path / "run/config.json").write_text('{"seed": 0}')  # of the run
    store(model, tmp_path / "small.safetensors")
    for path in (tmp_path / "run", tmp_path / "run/model"):
        torch.testing.assert_close(load(path).model(IDS), model(IDS), rtol=0, atol=0)
        assert describe(path) == describe_folder(tmp_path / "run/model")
    assert load(tmp_path / "small.safetensors").texts.tokenizer is None
    for name in ("story_rop", "no/such/folder", tmp_path / "none.safetensors", "none.gguf"):
        with pytest.raises(ValueError, match=r"none|is no folder, and no name|cannot be loaded: it is no path"):
            load(name)
    with pytest.raises(ValueError, match=", ".join(shipped())):
        load("story_rop")
    with pytest.raises(ValueError, match="dtype='float7' must be one of"):
        load("story_rope", dtype="float7")
    with pytest.raises(ValueError, match="device='nowhere' is not there"):
        load("story_rope", device="nowhere")


def test_a_stored_model_is_described_as_a_folder_is(capsys):
    found, of_folder = describe("story_rope"), {"path", "family", "architecture", "model", "parameters", "dtypes"}
    assert of_folder | {"files", "tokenizer", "tokenizer_note", "pooling", "pooling_note", "parts", "config"} == {
        *found
    }
    assert found["parameters"] == sum(found["dtypes"].values()) == sum(p["parameters"] for p in found["parts"])
    assert main(["models", "show", "story_rope"]) == 0
    assert f"{found['parameters']:,}" in capsys.readouterr().out


def test_every_command_takes_a_model_of_the_package(capsys, monkeypatch):
    assert main(["generate", "story_rope", "The pig", "--max-new-tokens", "4", "--temperature", "0"]) == 0
    model, metadata = stored("story_rope")
    prompt = metadata["tokenizer"].encode("The pig")
    ids = torch.tensor([prompt])
    for _ in range(4):
        ids = torch.cat((ids, model(ids)[:, -1:].argmax(-1)), 1)
    assert capsys.readouterr().out == metadata["tokenizer"].decode(ids[0, len(prompt) :].tolist()) + "\n"
    assert LocalModel.open("story_rope").complete(["The pig"], max_tokens=2, seed=0)[0].text
    assert main(["evaluate", "story_rope", "--limit", "2", "--tasks", "story_facts"]) == 0


def test_what_is_loaded_generates_streams_and_chats():
    story, texts = load("story_rope"), load("story_rope").texts
    sampler = Sampler(Temperature(2.0), generator=torch.Generator().manual_seed(3))
    expected = "".join(texts.write(story.model, "The pig", max_new_tokens=9))
    assert story.generate("The pig", max_new_tokens=9) == "".join(story.stream("The pig", max_new_tokens=9)) == expected
    assert story.generate("The pig", max_new_tokens=9, sampler=sampler) != expected
    assert len(texts.tokenizer.encode(story.generate("The pig", overflow="slide"))) == pytest.approx(50, abs=2)
    chatty = load("story_instructed")
    asked = [{"role": "user", "content": "Write a story about a pig."}]
    assert (
        chatty.chat(asked[0]["content"])
        == chatty.chat(asked)
        == "".join(chatty.texts.reply(chatty.model, asked, max_new_tokens=60))
    )
    with pytest.raises(ValueError, match="has no chat template"):
        story.chat("Hello")
    sizes = dict(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=256)
    for model in (Transformer(ModelConfig(kind="encoder", **sizes)), BigramNetwork(7, 4)):
        with pytest.raises(ValueError, match=f"a {type(model).__name__} of this config generates no text"):
            Checkpoint(model=model, texts=texts).generate("a")


def test_an_answer_of_the_instructed_model_ends_with_its_line(capsys, monkeypatch):
    monkeypatch.setattr("llm_anatomy.commands.texts.sys.stdin", Typed(), raising=False)
    assert main(["chat", "story_instructed", "--temperature", "0"]) == 0
    answers = capsys.readouterr().out.split("\n\n")
    assert len(answers) == 3 and all(answer.strip().endswith(".") and "\n" not in answer for answer in answers[:2])


class Typed(list):
    """Two lines that do not come from a terminal."""

    def __init__(self):
        super().__init__(["Write a story about a pig.\n", "Write a story about a goose.\n"])

    def isatty(self):
        return False
