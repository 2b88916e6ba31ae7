"""The memory experiment: its task needs the first symbol alone, its table is whole, a command repeats it."""

import csv
from collections import defaultdict

import pytest
import torch

from llm_anatomy.__main__ import main
from llm_anatomy.data import table
from llm_anatomy.training.experiments import memory


def test_the_answer_is_the_first_symbol_and_stands_nowhere_else():
    ids, answers = memory.examples(500, 7, torch.Generator().manual_seed(0))
    assert ids.shape == (500, 8) and torch.equal(ids[:, 0], answers)
    assert answers.unique().tolist() == [0, 1, 2, 3] and ids[:, 1:].unique().tolist() == [4, 5, 6]
    again, _ = memory.examples(500, 7, torch.Generator().manual_seed(0))
    assert torch.equal(again, ids)


@pytest.mark.syllabus("UCL-15")
def test_an_open_gate_is_learned_from_where_a_closed_one_is_not():
    """The chapter's claim at a distance of 20, for a seed of its own."""
    shares = {}
    for name in ("LSTM", "LSTM, gate open"):
        torch.manual_seed(7)
        shares[name] = memory.run(memory.MODELS[name](), 20, seed=7, n_steps=150)
    assert shares["LSTM"] < 0.4 and shares["LSTM, gate open"] > 0.9


@pytest.mark.parametrize("name", memory.MODELS)
def test_models_begin_as_their_names_say(name):
    torch.manual_seed(0)
    model = memory.MODELS[name]()
    assert model(torch.tensor([[3, 4, 5], [0, 6, 6]])).shape == (2, memory.N_SYMBOLS)
    weights, d = dict(model.layer.named_parameters()), memory.D_HIDDEN
    if "orthogonal" in name:
        w = weights["cells.0.weight_hh"]
        torch.testing.assert_close(w @ w.T, torch.eye(d), atol=1e-5, rtol=0)
    if "open" in name:
        assert weights["cells.0.bias_hh"].eq(memory.OPEN).nonzero().flatten().tolist() == list(range(d, 2 * d))


def test_clipping_bounds_the_step():
    def moved(max_grad_norm):
        torch.manual_seed(0)
        model = memory.MODELS["Elman"]()
        before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
        options = dict(max_lr=2.0, max_grad_norm=max_grad_norm, optimizer=torch.optim.SGD)
        memory.run(model, 5, n_steps=1, **options)
        return (torch.cat([p.detach().flatten() for p in model.parameters()]) - before).norm().item()

    assert moved(0.01) == pytest.approx(0.02, rel=1e-3) and moved(1e9) > 0.1


def test_a_command_writes_the_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memory, "DISTANCES", (2, 3))
    out = tmp_path / "new"
    assert main(["experiment", "memory", "--seeds", "0", "1", "--steps", "2", "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    tables = {path.stem: list(csv.DictReader(path.open())) for path in out.glob("*.csv")}
    assert set(tables) == {"memory_accuracies", "memory_experiment"}
    for name, rows in tables.items():
        assert list(rows[0]) == list(table(name)[0])
    rows = tables["memory_accuracies"]
    assert len(rows) == 2 * len(memory.MODELS) * len(memory.MAX_LRS) * 2
    assert {float(row["max_lr"]) for row in rows} == set(memory.MAX_LRS)
    settings = {row["field"]: row["value"] for row in tables["memory_experiment"]}
    assert settings["n_steps"] == "2" and settings["seeds"] == "0 1"


def test_the_stored_tables_are_those_of_the_defaults():
    stored = {row["field"]: row["value"] for row in table("memory_experiment")}
    for field in ("n_symbols", "n_noise", "d_embed", "d_hidden", "n_steps", "batch_size", "n_test"):
        assert stored[field] == getattr(memory, field.upper())
    runs = defaultdict(list)
    for row in table("memory_accuracies"):
        runs[row["model"], row["distance"], row["max_lr"]].append(row["seed"])
    expected = {(m, d, lr) for m in memory.MODELS for d in memory.DISTANCES for lr in memory.MAX_LRS}
    assert set(runs) == expected and all(seeds == [0, 1, 2, 3, 4] for seeds in runs.values())
