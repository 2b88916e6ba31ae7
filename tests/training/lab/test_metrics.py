"""What a run writes: each step once, events for ever, throughput."""

import json
import math
import sys
import types

import pytest
import torch

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.costs import costs
from llm_anatomy.training.lab import metrics as module
from llm_anatomy.training.lab.metrics import Metrics, Throughput, flops_per_token, peak_flops


def lines(path):
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


def test_metrics_are_written_line_by_line(tmp_path):
    metrics = Metrics(tmp_path / "runs" / "a", n_steps=3, quiet=True)
    metrics.log(1, loss=2.5, **{"update_ratio/stack.blocks.0": 0.001})
    metrics.log(2, loss=torch.tensor(2.25), lr=1)
    # before the file is closed: a kill leaves what has been logged
    assert lines(tmp_path / "runs/a/metrics.jsonl") == [
        {"step": 1, "loss": 2.5, "update_ratio/stack.blocks.0": 0.001},
        {"step": 2, "loss": 2.25, "lr": 1.0},
    ]
    metrics.close()


def test_numbers_that_are_not_finite_are_null(tmp_path):
    with Metrics(tmp_path, n_steps=3, quiet=True) as metrics:
        metrics.log(1, loss=math.nan, gradient_norm=math.inf)
    assert lines(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": None, "gradient_norm": None}]


def test_each_step_is_there_once_after_a_rewind_and_after_a_resume(tmp_path):
    with Metrics(tmp_path, n_steps=9, quiet=True) as metrics:
        for step in range(1, 7):
            metrics.log(step, loss=1.0)
        metrics.event(6, "rewind", "The loss was too high; the run goes back to step 4.")
        metrics.rewind(4)
        metrics.log(5, loss=0.5)
        metrics.log(6, loss=0.25)
    with Metrics(tmp_path, n_steps=9, quiet=True) as metrics:
        metrics.rewind(5)
        metrics.log(6, loss=0.125)
    found = lines(tmp_path / "metrics.jsonl")
    assert [(line["step"], line["loss"]) for line in found] == [(n, 1.0) for n in (1, 2, 3, 4)] + [(5, 0.5), (6, 0.125)]
    assert [event["kind"] for event in lines(tmp_path / "events.jsonl")] == ["rewind"]


def test_a_rewind_is_whole_or_has_not_happened(tmp_path, monkeypatch):
    metrics = Metrics(tmp_path, n_steps=9, quiet=True)
    for step in range(1, 7):
        metrics.log(step, loss=1.0)

    def no_space(path, content):
        raise OSError("No space left on device")

    monkeypatch.setattr(module, "write_atomically", no_space)
    with pytest.raises(OSError, match="No space"):
        metrics.rewind(2)
    assert len(lines(tmp_path / "metrics.jsonl")) == 6


def test_lines_that_a_kill_has_cut_off_are_removed(tmp_path):
    names = ("metrics.jsonl", "events.jsonl")
    for name in names:
        (tmp_path / name).write_text('{"step": 1}\n{"step": 2, "lo')
    with Metrics(tmp_path, n_steps=3, quiet=True) as metrics:
        metrics.rewind(1)
        metrics.log(2, loss=1.0)
        metrics.event(2, "note", "größer")
    assert all([line["step"] for line in lines(tmp_path / name)] == [1, 2] for name in names)


@pytest.mark.parametrize("line", [b'{"step": 1, "lo', b"[]", b"3", b'{"loss": 1}', b"\xff"])
def test_a_damaged_line_of_metrics_is_named_and_nothing_is_lost(tmp_path, line):
    content = b'{"step": 1}\n' + line + b'\n{"step": 3}\n'
    (tmp_path / "metrics.jsonl").write_bytes(content)
    sentence = "metrics.jsonl, line 2: it must be the metrics of a step; remove the line"
    with Metrics(tmp_path, n_steps=3, quiet=True) as metrics, pytest.raises(ValueError, match=sentence):
        metrics.rewind(2)
    assert (tmp_path / "metrics.jsonl").read_bytes() == content


def test_an_event_has_its_time_and_is_shown(tmp_path, capsys):
    for quiet in (False, True):
        with Metrics(tmp_path, n_steps=3, quiet=quiet) as metrics:
            metrics.event(2, "spike", "loss 8 is far above the median 2 of the last 100 steps")
        shown = capsys.readouterr().err
        assert ("step 2, spike: loss 8 is far above" in shown) == (not quiet)
    first, _ = lines(tmp_path / "events.jsonl")
    assert first["time"].endswith("+00:00") and (first["step"], first["kind"]) == (2, "spike")


def test_the_bar_shows_loss_throughput_and_the_time_that_remains(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Metrics(tmp_path, n_steps=8) as metrics:
        metrics.log(2, loss=2.34567, tokens_per_second=12345.6, mfu=0.4321, lr=1e-3)
        metrics.rewind(1)
    shown = capsys.readouterr().err.split("\r")
    assert any("2/8" in line and "loss=2.346, tokens/s=12,346, MFU=43.2%" in line and "<" in line for line in shown)
    assert "1/8" in shown[-1] or "1/8" in shown[-2]


def test_only_rank_0_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(module.dist, "is_initialized", lambda: True)
    for rank in (1, 0):
        monkeypatch.setattr(module.dist, "get_rank", lambda rank=rank: rank)
        with Metrics(tmp_path / "run", n_steps=3, tensorboard=True, quiet=True) as metrics:
            metrics.log(1, loss=1.0)
            metrics.event(1, "note", "…")
            metrics.rewind(1)
        assert (tmp_path / "run").exists() == (rank == 0)


def test_tensorboard_has_each_step_once(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with Metrics(tmp_path, n_steps=9, tensorboard=True, quiet=True) as metrics:
        for step in range(1, 6):
            metrics.log(step, loss=float(step))
        metrics.rewind(3)
        metrics.log(4, loss=0.5)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 0.5)]


def test_weights_and_biases_receives_the_metrics(tmp_path, monkeypatch):
    """Of the library there is only a stand-in: it needs an account."""
    calls = []
    run = types.SimpleNamespace(
        define_metric=lambda name, step_metric: calls.append((name, step_metric)),
        log=calls.append,
        finish=lambda: calls.append("finish"),
    )
    monkeypatch.setitem(
        sys.modules, "wandb", types.SimpleNamespace(init=lambda **options: calls.append(options) or run)
    )
    with Metrics(tmp_path / "run", n_steps=9, wandb=True, quiet=True) as metrics:
        metrics.log(4, loss=0.5)
    options = {"dir": str(tmp_path / "run"), "name": "run"}
    assert calls == [options, ("*", "step"), {"step": 4, "loss": 0.5}, "finish"]


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("tensorboard", "torch.utils.tensorboard", r"pip install 'llm_anatomy\[training\]'"),
        ("wandb", "wandb", "pip install wandb"),
    ],
)
def test_a_missing_library_is_one_sentence(tmp_path, monkeypatch, option, name, message):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=message):
        Metrics(tmp_path, n_steps=1, quiet=True, **{option: True})


@pytest.mark.parametrize(
    ("name", "bfloat16", "float32"),
    [
        ("NVIDIA H100 80GB HBM3", 989.4e12, 66.9e12),
        ("NVIDIA H200", 989.4e12, 66.9e12),
        ("NVIDIA A100-SXM4-80GB", 312e12, 19.5e12),
        ("NVIDIA A100-PCIE-40GB", 312e12, 19.5e12),
        ("Tesla T4", 65e12, 8.1e12),
        ("NVIDIA H100 PCIe", None, None),
        ("NVIDIA H100 NVL", None, None),
        ("NVIDIA GH200 480GB", None, None),
        ("NVIDIA T400 4GB", None, None),
        ("NVIDIA GeForce RTX 4090", None, None),
    ],
)
def test_the_peak_is_looked_up_by_the_name_of_the_gpu(monkeypatch, name, bfloat16, float32):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert peak_flops("cuda", torch.bfloat16) == peak_flops(torch.device("cuda", 1), torch.float16) == bfloat16
    assert peak_flops("cuda", torch.float32) == float32
    assert peak_flops("cuda", torch.float64) is None and peak_flops("cpu", torch.float32) is None


def test_throughput_and_utilization(monkeypatch):
    config = ModelConfig(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=101)
    counted = costs(config, 20)
    per_token = flops_per_token(config, 20)
    assert per_token == counted.flops_per_token + counted.flops_per_token_backward
    assert per_token == pytest.approx(counted.rule_of_thumb / 20, rel=0.25)  # the rule leaves out attention's scores
    clock = iter([10.0, 20.0, 22.0, 24.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    throughput = Throughput(per_token, peak=1e9)
    throughput.start()
    assert throughput.read(500) == {"tokens_per_second": 250.0, "mfu": pytest.approx(250 * per_token / 1e9)}
    throughput.peak = None
    assert throughput.read(300) == {"tokens_per_second": 150.0}
