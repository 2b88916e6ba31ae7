"""The story models: they differ in the scheme alone, and a command repeats, measures and stores them."""

import csv
import math

import pytest
import torch

from llm_anatomy.__main__ import main
from llm_anatomy.data import table
from llm_anatomy.evaluation.paired import paired_difference
from llm_anatomy.models.stored import FOLDER, stored
from llm_anatomy.training.data.stories import stories
from llm_anatomy.training.experiments import story_models
from llm_anatomy.training.experiments.runs import initialize_, results
from llm_anatomy.training.experiments.story_models import SCHEMES, bits_per_byte, corpus, run, story_config


@pytest.fixture
def brief(monkeypatch):
    """A small corpus, so that a test takes a second."""
    monkeypatch.setattr(story_models, "N_TRAINING_STORIES", 40)
    monkeypatch.setattr(story_models, "N_HELD_OUT_STORIES", 4)
    monkeypatch.setattr(story_models, "STEPS_IN_A_ROW", 2)
    corpus.cache_clear()
    yield
    corpus.cache_clear()


def test_the_windows_hold_every_held_out_token_once_as_a_target(brief):
    text, tokenizer, training, held_out = corpus()
    assert tokenizer.decode(training.tolist()) == text
    ids = torch.tensor(tokenizer.encode("".join(f"{story}\n\n" for story in stories(1, 4))))
    targets = held_out[:, 1:].flatten()
    assert torch.equal(targets, ids[1 : len(targets) + 1]) and len(ids) - len(targets) <= 97
    assert not any(story in text for story in stories(1, 4))


@pytest.mark.syllabus("UCL-27")
def test_the_models_differ_in_the_scheme_alone():
    learned, rope = (story_config(scheme) for scheme in SCHEMES)
    assert set(learned.difference(rope)) <= {"position", "learned", "rope"}
    models = [story_models.Transformer(config) for config in (learned, rope)]
    for model in models:
        initialize_(model, seed=3)
    first, second = (dict(model.named_parameters()) for model in models)
    assert first.keys() - second.keys() == {"position.table"} and not second.keys() - first.keys()
    assert all(torch.equal(first[name], second[name]) for name in second)


def test_an_unknown_scheme_is_refused():
    with pytest.raises(ValueError, match="scheme='alibi' must be one of learned, rope"):
        story_config("alibi")


def test_training_lowers_the_loss_and_can_be_repeated(brief):
    _, losses = run("rope", seed=1, n_steps=8)
    assert losses[-1] < losses[0] - 0.3
    assert run("rope", seed=1, n_steps=8)[1] == losses != run("rope", seed=2, n_steps=8)[1]


@pytest.mark.syllabus("UCL-03")
def test_bits_per_byte_of_a_uniform_guess_follow_from_the_sizes(brief):
    _, tokenizer, _, held_out = corpus()
    targets = held_out[:, 1:].flatten().tolist()
    n_bytes = len(b"".join(tokenizer.vocabulary[i] for i in targets))
    model = story_models.Transformer(story_config("rope"))
    torch.nn.init.zeros_(model.embedding.weight)  # all logits are zero
    assert bits_per_byte(model) == pytest.approx(len(targets) * math.log2(480) / n_bytes, rel=1e-5)


def test_the_command_writes_the_tables_and_the_models_of_the_first_seed(brief, tmp_path, capsys):
    arguments = ["experiment", "story_models", "--seeds", "7", "8", "--steps", "4", "--out", str(tmp_path / "new")]
    assert main(arguments) == 0
    assert capsys.readouterr().out == f"The tables are in {tmp_path / 'new'}.\n"
    tables = {}
    for path in (tmp_path / "new").glob("*.csv"):
        with path.open(newline="") as lines:
            tables[path.stem] = list(csv.DictReader(lines))
    assert [(row["scheme"], row["seed"], row["step"]) for row in tables["story_models_curve"][:3]] == [
        ("learned", "7", "2"), ("learned", "7", "4"), ("rope", "7", "2")
    ]  # fmt: skip
    losses = {(row["scheme"], row["seed"]): row for row in tables["story_models_losses"]}
    assert losses.keys() == {(scheme, seed) for scheme in SCHEMES for seed in ("7", "8")}
    settings = {row["field"]: row["value"] for row in tables["story_models"]}
    for scheme in SCHEMES:
        model, metadata = stored(tmp_path / "new" / f"story_{scheme}.safetensors")
        assert metadata["seed"] == 7 and metadata["training_sha256"] == settings["training_sha256"]
        assert metadata["tokenizer"].encode("Once") == corpus().tokenizer.encode("Once")
        assert f"{bits_per_byte(model):.4f}" == losses[scheme, "7"]["bits_per_byte_stored"]


@pytest.mark.syllabus("UCL-24", "UCL-27")
def test_the_models_that_ship_are_small_and_were_trained_on_this_corpus_as_the_table_says():
    files = [FOLDER / f"story_{scheme}.safetensors" for scheme in SCHEMES]
    assert sum(len(file.read_bytes()) for file in files) <= 300_000
    settings = {row["field"]: row["value"] for row in table("story_models")}
    text, tokenizer, _, _ = corpus()
    assert story_models._sha256(text) == settings["training_sha256"]
    for scheme in SCHEMES:
        model, metadata = stored(f"story_{scheme}")
        assert metadata["training_sha256"] == settings["training_sha256"] and metadata["seed"] == 0
        assert metadata["command"] == settings["command"] and metadata["n_steps"] == settings["n_steps"]
        assert metadata["tokenizer"].vocabulary == tokenizer.vocabulary and model.config == story_config(scheme)
        (measured,) = results("story_models_losses", "bits_per_byte_stored", scheme=scheme, seed=0).tolist()
        assert bits_per_byte(model) == pytest.approx(measured, abs=2e-4)


@pytest.mark.syllabus("UCL-03")
def test_the_stored_curves_fall_and_eight_bits_cost_next_to_nothing():
    for scheme in SCHEMES:
        curves = results("story_models_curve", scheme=scheme).view(3, -1)
        assert curves.shape[1] == 60 and (curves[:, -1] < 0.65).all() and (curves[:, 0] > 3).all()
        whole, in_8_bits = (
            results("story_models_losses", name, scheme=scheme) for name in ("bits_per_byte", "bits_per_byte_stored")
        )
        assert len(whole) == 3 and ((in_8_bits - whole).abs() < 0.002).all()
    learned, rope = (results("story_models_losses", "bits_per_byte", scheme=scheme) for scheme in SCHEMES)
    assert paired_difference(learned, rope).is_clear and (learned > rope).all()
