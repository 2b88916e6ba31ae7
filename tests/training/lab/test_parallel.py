"""Many ranks do what one does: the same steps, the same model, and from each other's checkpoints."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from training.lab.small_runs import MODEL, N_STEPS, events, metrics, run_on_rank, run_small, small_config, write_corpus

from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.lab.config import ParallelConfig, TrainConfig
from llm_anatomy.training.lab.parallel import Ranks

FSDP = {"parallel.strategy": "fsdp"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus") / "data", targets=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def on_ranks(forks):
    return lambda n, works: forks(run_on_rank, works, n_ranks=n)[0]


@pytest.fixture(scope="module")
def one(corpus, runs):
    """A run on one rank, and another one that was stopped after eight steps."""
    run_small(small_config(corpus, runs / "one"))
    assert run_small(small_config(corpus, runs / "one_then_three"), stop_after=8).status == 75
    return [line["loss"] for line in metrics(runs / "one")]


@pytest.fixture(scope="module")
def two(on_ranks, corpus, runs):
    """How the runs of two ranks ended, by name: one after the other, in the same processes."""
    average = {"optimizer.ema_decay": 0.9}
    works = [
        {"config": small_config(corpus, runs / "ddp", **{"data.micro_batch_size": 2})},
        {"config": small_config(corpus, runs / "ddp_resumed", **{"data.micro_batch_size": 2}), "stop_after": 10},
        {"config": small_config(corpus, runs / "ddp_resumed", **{"data.micro_batch_size": 2})},
        {"config": small_config(corpus, runs / "fsdp", **FSDP, **average, **{"data.micro_batch_size": 2})},
        {"config": small_config(corpus, runs / "two_then_one", **FSDP), "stop_after": 8, "stopping_rank": 1},
    ]
    names = ["ddp", "stopped", "ddp_resumed", "fsdp", "two_then_one"]
    return dict(zip(names, on_ranks(2, works), strict=True))


def weights(out):
    return load_file(Path(out) / "model/model.safetensors")


@pytest.mark.syllabus("GT-37")
@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_two_ranks_take_the_steps_of_one(one, two, runs, name):
    assert two[name]["status"] == 0
    torch.testing.assert_close([line["loss"] for line in metrics(runs / name)], one, rtol=1e-5, atol=0)


def test_the_validation_loss_does_not_depend_on_the_ranks(one, two, runs):
    """Eight sequences are not divisible by the rows of all ranks."""
    losses = [metrics(runs / name)[9]["validation_loss"] for name in ("one", "ddp")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.syllabus("GT-03")
def test_a_resumed_run_on_as_many_ranks_is_the_same_bit_for_bit(two, runs):
    assert two["stopped"] == two["ddp"] | {"status": 75, "step": 10}
    first, second = ([line["loss"] for line in metrics(runs / name)] for name in ("ddp", "ddp_resumed"))
    assert first == second
    first, second = weights(runs / "ddp"), weights(runs / "ddp_resumed")
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_shards_take_less_memory(two):
    """Parameters, and with them gradients and the two states of AdamW."""
    n = sum(p.numel() for p in Transformer(TrainConfig.of(small_config("d", "o")).model_config(17)).parameters())
    assert two["ddp"]["n_local"] == n and two["fsdp"]["n_local"] <= 0.6 * n


@pytest.mark.syllabus("GT-03")
def test_a_run_of_two_ranks_goes_on_with_one(corpus, one, two, runs):
    """A signal to the second rank had stopped both after the same step."""
    assert two["two_then_one"]["status"] == 75 and two["two_then_one"]["step"] == 8
    assert run_small(small_config(corpus, runs / "two_then_one")).status == 0
    losses = [line["loss"] for line in metrics(runs / "two_then_one")]
    assert len(losses) == N_STEPS
    torch.testing.assert_close(losses, one, rtol=1e-5, atol=0)


@pytest.mark.syllabus("GT-03")
def test_a_run_of_one_rank_goes_on_with_three(on_ranks, corpus, one, runs):
    on_ranks(3, [{"config": small_config(corpus, runs / "one_then_three", **FSDP)}])
    losses = [line["loss"] for line in metrics(runs / "one_then_three")]
    torch.testing.assert_close(losses, one, rtol=1e-5, atol=0)
    assert "3 ranks" in events(runs / "one_then_three", "resume")[0]["message"]


def test_the_average_of_shards_is_that_of_one_rank(corpus, two, runs):
    run_small(small_config(corpus, runs / "averaged", **{"optimizer.ema_decay": 0.9}))
    for name, tensor in weights(runs / "averaged").items():
        torch.testing.assert_close(weights(runs / "fsdp")[name], tensor, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_on_two_ranks(on_ranks, corpus, one, runs, precision):
    changes = {"parallel.precision": precision, "parallel.activation_checkpointing": True}
    changes |= FSDP if precision == "bfloat16" else {}
    on_ranks(2, [{"config": small_config(corpus, runs / precision, **changes)}])
    assert metrics(runs / precision)[5]["loss"] == pytest.approx(one[5], rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_compiled_models_on_two_ranks(on_ranks, corpus, one, runs, strategy):
    changes = {"parallel.compile": True, "parallel.strategy": strategy, "n_steps": 3}
    config = small_config(corpus, runs / f"compiled_{strategy}", **changes)
    on_ranks(2, [{"config": config}])
    assert metrics(config["out"])[0]["loss"] == pytest.approx(one[0], rel=1e-5)


def test_a_batch_that_ranks_cannot_share_is_refused(monkeypatch, corpus, tmp_path):
    monkeypatch.setattr(Ranks, "world_size", 4, raising=False)
    monkeypatch.setattr(Ranks, "__init__", lambda self, config: None)
    monkeypatch.setattr(Ranks, "close", lambda self: None)
    with pytest.raises(ValueError, match="^data.batch_size=6 must be divisible by 4, the number of ranks$"):
        run_small(small_config(corpus, tmp_path, model=MODEL))


@pytest.mark.parametrize(
    "device, sentence", [("tpu", "'tpu' must be cpu or cuda"), ("cuda", "this machine has 0 GPUs, and rank 0 of it")]
)
def test_a_device_that_is_not_there_is_refused(device, sentence):
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=sentence):
        Ranks(ParallelConfig(device=device))
