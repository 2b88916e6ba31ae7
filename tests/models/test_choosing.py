"""Choosing an architecture: budgets against costs, the memory, reasons against their tables, and the command line."""

import re

import pytest
from models.architecture_choices import BUDGETS, N_VOCAB, rows

from llm_anatomy.config import ModelConfig
from llm_anatomy.data import table
from llm_anatomy.models.choosing import TOLERANCE, Shape, choose_architecture, inference_bytes, reasons, train_yaml
from llm_anatomy.models.costs import costs
from llm_anatomy.models.presets import preset, presets

PAPER = {row["row"]: row for row in table("narang2021")}
CASES = [(10**n * m, v) for n, v in ((6, 1024), (8, 32000), (9, 50257), (10, 128256)) for m in (1, 2, 5)]


@pytest.mark.syllabus("CMU-01")
@pytest.mark.parametrize(("n_parameters", "n_vocab"), CASES)
def test_a_config_has_the_parameters_of_the_budget(n_parameters, n_vocab):
    config = choose_architecture(n_parameters=n_parameters, n_vocab=n_vocab)
    assert costs(config, 1).total.n_parameters == pytest.approx(n_parameters, rel=TOLERANCE)
    assert config.n_kv_heads == config.n_heads and 2 <= config.d_ff / config.d_model <= 3.6
    assert 8 <= config.d_model / config.n_layers <= 256 and config.d_model == config.n_heads * config.d_head
    assert config.tie_embeddings == (config.d_model * n_vocab > n_parameters / 10)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n_kv_heads", [1, 3, 6])
def test_parameters_and_operations_are_those_of_costs(n_kv_heads, tied):
    shape = Shape(192, 5, tied)
    sizes = dict(d_model=192, n_layers=5, n_heads=6, n_kv_heads=n_kv_heads, d_ff=520, n_vocab=777)
    one = ModelConfig(**sizes, tie_embeddings=tied, position="rope", norm="rmsnorm", feedforward="swiglu")
    counted = costs(one, 100)
    assert (shape.n_heads, shape.d_head) == (one.n_heads, one.d_head)
    assert shape.count(n_kv_heads, 520, 777) == counted.total.n_parameters
    assert shape.flops(n_kv_heads, 520, 777, 100) == counted.flops_per_token
    cached = costs(one, 70, batch=3, bytes_per_number=2)
    assert inference_bytes(one, 70, 3) == cached.weight_bytes + cached.cache_bytes


@pytest.mark.parametrize("name", ["llama-13b", "llama-7b"])
def test_llamas_sizes_come_out_of_their_budgets(name):
    """Touvron et al. (2023), table 2; the width of the feed-forward layer is rounded otherwise."""
    released = preset(name)
    config = choose_architecture(n_parameters=costs(released, 1).total.n_parameters)
    for field in ("d_model", "n_layers", "n_heads"):
        assert config.get(field) == released.get(field)
    assert config.d_ff == pytest.approx(released.d_ff, rel=0.02)


def test_no_more_heads_have_keys_than_fit_and_no_fewer():
    chosen = {}
    for n_ctx in (2048, 8192, 32768, 131072):
        config = choose_architecture(n_parameters=7 * 10**9, n_ctx=n_ctx, memory=24e9, batch=2)
        chosen[n_ctx] = config.n_kv_heads
        assert inference_bytes(config, n_ctx, 2) <= 24e9
        assert costs(config, 1).total.n_parameters == pytest.approx(7e9, rel=TOLERANCE)
        more = [n for n in range(config.n_kv_heads + 1, config.n_heads + 1) if config.n_heads % n == 0]
        if more:  # the next number of heads would not fit
            wider = 4 * 2 * n_ctx * config.n_layers * (more[0] - config.n_kv_heads) * config.d_head
            assert inference_bytes(config, n_ctx, 2) + wider > 24e9 * 0.98
    assert chosen == {2048: 32, 8192: 32, 32768: 8, 131072: 2}


def test_a_bound_of_the_operations_is_kept():
    free = choose_architecture(n_parameters=10**8, n_ctx=32768)
    before = costs(free, 32768).flops_per_token
    bound = 0.8 * before
    config = choose_architecture(n_parameters=10**8, n_ctx=32768, max_flops=bound)
    assert costs(config, 32768).flops_per_token <= bound < before
    assert costs(config, 1).total.n_parameters == pytest.approx(1e8, rel=TOLERANCE)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(n_parameters=10**5), r"n_parameters=100000 does not suit n_vocab=.* from about 1.03e\+06 to 1.12e"),
        (dict(n_parameters=10**13), r"n_parameters=10000000000000 does not suit n_vocab=32000"),
        (dict(n_parameters=10**9, memory=1e9), r"memory=1e\+09 is too small: the weights of n_parameters=1000000000 t"),
        (dict(n_parameters=10**9, n_ctx=10**6, memory=4e9), r"memory=4e\+09 is too small: weights and cache .*heads"),
        (dict(n_parameters=10**9, max_flops=1e9), r"max_flops=1e\+09 is too small: .* a token takes at least 2\.05e"),
        (dict(n_parameters=0), "n_parameters=0 must be at least 1"),
        (dict(n_parameters=10**8, n_ctx=0), "n_ctx=0 must be at least 1"),
        (dict(n_parameters=10**8, batch=0), "batch=0 must be at least 1"),
        (dict(n_parameters=10**8, memory=-1), "memory=-1 must be above 0, or None for no bound"),
        (dict(n_parameters=10**8, max_flops=float("nan")), "max_flops=nan must be above 0"),
    ],
)
def test_an_impossible_budget_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        choose_architecture(**given)


def test_the_stored_choices_are_those_of_the_function():
    """After a change: ``PYTHONPATH=src:tests python -m models.architecture_choices``."""
    stored = table("architecture_choices")
    assert list(dict.fromkeys(row["budget"] for row in stored)) == BUDGETS
    for budget in BUDGETS[::3]:
        assert [row for row in stored if row["budget"] == budget] == rows(budget)
    for row in stored:
        config = choose_architecture(n_parameters=row["budget"], n_vocab=N_VOCAB)
        assert (config.d_model, config.n_layers) == (row["d_model"], row["n_layers"])


@pytest.mark.syllabus("CMU-21")
def test_each_choice_has_a_reason_with_a_chapter():
    config = choose_architecture(n_parameters=7 * 10**9, n_ctx=32768, memory=24e9)
    said = reasons(config)
    assert all(re.match(r"Chapter \d+: [A-Z0-9].*\.$", reason) and "{" not in reason for reason in said.values())
    assert set(config.changed()) - {*said} == {"n_layers", "n_vocab", "n_ctx", "d_head", "d_value"}
    assert set(said) - set(config.changed()) == {"norm_placement", "tie_embeddings", "biases"}  # the defaults
    assert said["n_kv_heads"].startswith("Chapter 11: 16 of 32 heads")
    assert "Do input and output share a table: no." in said["tie_embeddings"]
    assert "share a table: yes." in reasons(choose_architecture(n_parameters=10**8))["tie_embeddings"]


@pytest.mark.syllabus("GT-19")
def test_the_numbers_in_the_reasons_are_those_of_the_tables():
    said = {row["field"]: row["reason"] for row in table("architecture_reasons")}
    losses = {number: row["final_loss"] for number, row in PAPER.items()}
    speeds = {number: f"{row['steps_per_s']:.2f}" for number, row in PAPER.items()}
    depths = [losses[number] for number in (1, 18, 19, 20, 21)]
    assert f"between {min(depths)} and {max(depths)} nats" in said["d_model"]
    assert f"makes {speeds[18]} steps per second, and the baseline with 12 layers {speeds[1]}" in said["d_model"]
    assert f"at {losses[13]} nats against LayerNorm's {losses[1]}" in said["norm"]
    assert f"makes {speeds[13]} steps per second against {speeds[1]}" in said["norm"]
    assert f"at {losses[9]} nats against {losses[1]} with ReLU" in said["feedforward"]
    assert set(sorted(range(1, 13), key=losses.get)[:5]) == {5, 6, 7, 9, 10} and "five gated" in said["feedforward"]
    assert f"separate tables end at {losses[31]} nats and shared ones at {losses[1]}" in said["tie_embeddings"]
    assert PAPER[31]["params_M"] - PAPER[1]["params_M"] == 50 and "50 million" in said["tie_embeddings"]
    heads = [one.config().d_head for one in presets().values() if one.known]
    assert sum(d in (64, 128) for d in heads) > 0.8 * len(heads) and "More than four fifths" in said["n_heads"]


def test_the_command_train_accepts_the_file(tmp_path):
    pytest.importorskip("jsonargparse")
    from llm_anatomy.training.lab.command import read_config

    config = choose_architecture(n_parameters=2_000_000, n_ctx=128, n_vocab=1024, memory=5e6)
    path = tmp_path / "a run.yaml"
    path.write_text(train_yaml(config, "data: #1", out=str(tmp_path / "out")))
    read = read_config([str(path), "--optimizer.max_lr", "0.01"])
    assert read.model_config(n_vocab=1024) == config
    assert (read.data.path, read.data.n_tokens, read.n_steps) == ("data: #1", 128, 1000)
