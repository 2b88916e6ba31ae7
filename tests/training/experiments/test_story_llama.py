"""The stand-in for a released checkpoint: trained, stored, and written as Hugging Face's library reads it."""

import pytest
import torch
import transformers

from llm_anatomy import __main__ as command
from llm_anatomy.models.checkpoints import Checkpoint, load, save
from llm_anatomy.models.stored import stored
from llm_anatomy.training.experiments import story_llama
from llm_anatomy.training.experiments.story_llama import llama_config
from llm_anatomy.training.experiments.story_models import bits_per_byte, corpus


@pytest.mark.syllabus("GT-11")
def test_the_command_trains_and_stores_the_model(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(story_llama, "BATCH_SIZE", 2)
    arguments = ["experiment", "story_llama", "--seeds", "7", "8", "--steps", "2", "--out", str(tmp_path / "new")]
    assert command.main(arguments) == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} >= {
        "story_llama.safetensors",
        "story_llama_8.safetensors",
    }
    model, known = stored(tmp_path / "new" / "story_llama.safetensors")
    assert model.config == llama_config() and known["seed"] == 7 and known["n_steps"] == 2
    with pytest.raises(ValueError, match="n_workers=2 must be 1"):
        story_llama.experiment(tmp_path, n_workers=2)


@pytest.mark.syllabus("GT-11", "CMU-34")
def test_the_model_that_ships_has_learned_the_stories_and_knows_how_it_was_made():
    model, known = stored("story_llama")
    assert model.config == llama_config()
    assert (known["command"], known["seed"], known["n_steps"]) == (story_llama.COMMAND, 0, story_llama.N_STEPS)
    assert known["tokenizer"].vocabulary == corpus().tokenizer.vocabulary
    assert bits_per_byte(model) < 0.8


@pytest.mark.syllabus("GT-11", "CMU-34")
@torch.no_grad()
def test_written_as_a_llama_it_gives_the_logits_and_the_text_of_hugging_faces_library(tmp_path):
    model, known = stored("story_llama")
    save(Checkpoint(model=model, family="llama"), tmp_path / "it", tokenizer=known["tokenizer"])
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "it").eval()
    ours = load(tmp_path / "it")
    ids = torch.randint(0, model.config.n_vocab, (2, 40), generator=torch.Generator().manual_seed(0))
    expected = theirs(ids).logits
    torch.testing.assert_close(ours.model(ids), expected, rtol=1e-4, atol=1e-4)
    assert expected.std() > 1
    prompt = ours.texts.encode("Once upon a time")
    asked = dict(max_new_tokens=30, do_sample=False, eos_token_id=None, pad_token_id=0)
    written = theirs.generate(torch.tensor([prompt]), **asked)[0, len(prompt) :].tolist()
    text = "".join(ours.texts.write(ours.model, "Once upon a time", max_new_tokens=30))
    assert text == known["tokenizer"].decode(written)
