"""The position experiment: its models differ in the scheme alone, its tables are whole, a command repeats it."""

import csv

import pytest
import torch
from einops import rearrange

from llm_anatomy.__main__ import main
from llm_anatomy.evaluation.perplexity import next_token_loss
from llm_anatomy.layers.positions.rotary import HalfSplitRotary
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.experiments import positions
from llm_anatomy.training.experiments.positions import (
    SCHEMES,
    LinearSelfAttention,
    corpus,
    losses_by_length,
    mean_weights,
    run,
    small_model,
)


@pytest.fixture
def brief(monkeypatch):
    """Few and short windows, so that a test takes a second."""
    monkeypatch.setattr(positions, "N_WINDOWS", 3)
    monkeypatch.setattr(positions, "LENGTHS", (64, 96))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_the_corpus_is_two_texts_of_known_words():
    words, training, held_out = corpus()
    assert torch.equal(training.unique(), torch.arange(len(words))) and held_out.max() < len(words)
    counts = training.bincount()
    assert (counts.diff() <= 0).all()
    text = " ".join(words[i] for i in training[:11])
    assert text == "Nina , a girl , and Tom , a boy ,"
    assert not torch.equal(training[: len(held_out)], held_out)


@pytest.mark.syllabus("IITD-17", "CMU-33")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_does_not_concern_the_scheme_starts_from_the_same_numbers(scheme):
    plain, model = dict(small_model("none", seed=3).named_parameters()), small_model(scheme, seed=3)
    for name, weight in model.named_parameters():
        if "position" not in name:
            assert torch.equal(weight, plain[name]), name
    other = small_model(scheme, seed=4)
    assert not torch.equal(model.embedding.weight, other.embedding.weight)
    assert model.embedding.weight.std().item() == pytest.approx(1 / 8, rel=0.05)


def test_making_a_model_leaves_the_global_random_numbers_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    small_model("learned")
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.syllabus("IITD-31", "GT-52")
@pytest.mark.parametrize("position", [None, HalfSplitRotary(4)])
def test_linear_self_attention_is_the_sum_over_the_past(position):
    torch.manual_seed(0)
    layer, x = LinearSelfAttention(12, 3, position).double(), torch.randn(2, 5, 12, dtype=torch.float64)
    query, key, value = (
        rearrange(linear(x), "b t (h d) -> b h t d", h=3) for linear in (layer.w_query, layer.w_key, layer.w_value)
    )
    query, key = torch.nn.functional.elu(query) + 1, torch.nn.functional.elu(key) + 1
    positions = torch.arange(5)[None]
    turn = (lambda a: position.rotate(a, positions)) if position else (lambda a: a)
    read = torch.zeros_like(value)
    for m in range(5):
        for n in range(m + 1):
            read[:, :, m] += (turn(query)[:, :, m] * turn(key)[:, :, n]).sum(-1, keepdim=True) * value[:, :, n]
        read[:, :, m] /= (query[:, :, m, None] * key[:, :, : m + 1]).sum((-1, -2))[..., None]
    expected = rearrange(read, "b h t d -> b t (h d)") @ layer.w_output.weight.T
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.syllabus("IITD-31")
def test_the_linear_models_read_with_linear_attention_turned_or_not():
    for scheme, turned in (("linear", False), ("linear_rope", True)):
        layers = [block.attention for block in small_model(scheme).stack.blocks]
        assert all(type(layer) is LinearSelfAttention and bool(layer.rotation) == turned for layer in layers)


def test_training_lowers_the_loss_and_can_be_repeated(brief):
    model, curve = run("rope", seed=1, n_steps=12)
    assert [step for step, _ in curve] == list(range(1, 13)) and curve[-1][1] < curve[0][1] - 0.1
    assert run("rope", seed=1, n_steps=12)[1] == curve != run("rope", seed=2, n_steps=12)[1]


@pytest.mark.syllabus("IITD-17", "GT-52")
def test_every_length_is_judged_by_the_same_last_words(brief):
    seen = []

    class Spy(Transformer):
        def forward(self, ids):
            seen.append(ids)
            return super().forward(ids)

    model = small_model("rope")
    model.__class__ = Spy
    found = list(losses_by_length(model, "rope"))
    short, long = (ids for ids in seen if isinstance(ids, torch.Tensor))
    assert torch.equal(short, long[:, -64:])
    assert [row[:2] for row in found] == [("", 64), ("", 96), ("linear", 96), ("ntk", 96), ("yarn", 96)]
    assert len({loss for _, _, loss in found}) == 5  # scaling changes something
    windows = positions._test_windows(corpus()[2], 96)
    assert found[1][2] == next_token_loss(model, windows, last=64) != next_token_loss(model, windows)


@pytest.mark.syllabus("CMU-24")
def test_the_mean_weights_are_those_of_the_distances(brief):
    model = small_model("alibi")
    found = mean_weights(model, n_distances=5)
    _, records = model(positions._test_windows(corpus()[2], 64)[:, :-1], return_records=True)
    weights = records[1].attention_weights[:, 2]  # the second layer's third head
    expected = sum(weights[:, i, i - 3] for i in range(4, 64)).mean() / 60
    assert found[1, 2, 3].item() == pytest.approx(expected.item(), abs=1e-7)


def test_the_command_writes_the_tables(brief, tmp_path, capsys):
    assert (
        main(["experiment", "positions", "--seeds", "7", "--steps", "1", "--out", str(tmp_path / "new" / "folder")])
        == 0
    )
    assert capsys.readouterr().out == f"The tables are in {tmp_path / 'new' / 'folder'}.\n"
    tables = {}
    for path in (tmp_path / "new" / "folder").iterdir():
        with path.open(newline="") as lines:
            tables[path.stem] = list(csv.DictReader(lines))
    assert {row["scheme"] for row in tables["position_curves"]} == set(SCHEMES)
    assert [row["n_tokens"] for row in tables["position_losses"] if row["scheme"] == "learned"] == ["64"]
    assert len(tables["position_heads"]) == 8 * 2 * 4 * 32  # all but linear attention, which has no weights
    assert len(tables["learned_positions"]) == 64 and tables["learned_positions"][5]["5"] == "1.00"
    assert len(tables["t5_biases"]) == 4 * 64
    settings = {row["field"]: row["value"] for row in tables["position_experiment"]}
    assert settings["seeds"] == "7" and settings["n_steps"] == "1" and settings["n_vocab"] == str(len(corpus()[0]))


def test_an_unknown_scheme_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="scheme='rotary' must be one of none, sinusoidal, learned"):
        small_model("rotary")
