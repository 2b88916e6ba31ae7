"""A run goes on from wherever it was stopped as if nothing had happened, and does what its config says about spikes."""

import json
import math
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from training.lab.small_runs import MODEL, N_STEPS, events, metrics, run_small, small_config, stopping, write_corpus

from llm_anatomy.__main__ import main
from llm_anatomy.models.checkpoints import Checkpoint, load, save
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.data.batches import Sequences
from llm_anatomy.training.data.shards import ShardWriter, TokenShards
from llm_anatomy.training.lab import loop
from llm_anatomy.training.lab.config import TrainConfig
from llm_anatomy.training.lab.loop import run
from llm_anatomy.training.lab.step import Gradients, Stepper
from llm_anatomy.training.schedules import warmup_then_cosine
from llm_anatomy.training.trainer import train


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus") / "data")


@pytest.fixture(scope="module")
def undisturbed(corpus, tmp_path_factory):
    """A run that was not stopped, with everything that a checkpoint must hold."""
    out = tmp_path_factory.mktemp("runs") / "undisturbed"
    assert run_small(small_config(corpus, out, **EVERYTHING)).status == 0
    return out


EVERYTHING = {"optimizer.ema_decay": 0.9, "data.micro_batch_size": 4}


def weights(out):
    return load_file(Path(out) / "model/model.safetensors")


def assert_same_run(one, other):
    """Each step is there once, with the same numbers, and the model at the end is the same, bit for bit."""
    compared = ("step", "loss", "gradient_norm", "learning_rate", "position", "validation_loss")
    first, second = ([{name: line.get(name) for name in compared} for line in metrics(out)] for out in (one, other))
    assert first == second and [line["step"] for line in first] == [*range(1, N_STEPS + 1)]
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.syllabus("GT-37")
def test_a_run_takes_the_same_steps_as_the_trainer_of_the_chapters(corpus, tmp_path):
    """Without packing, averages and scaling, it is AdamW with a cosine, on the same batches."""
    fields = small_config(corpus, tmp_path, **{"data.mask_documents": False, "watch.evaluate_every": 0})
    run_small(fields | {"optimizer.beta2": 0.999, "schedule.warmup_steps": 5})
    torch.manual_seed(0)
    model = Transformer(TrainConfig.of(fields).model_config(n_vocab=17))
    sequences = Sequences(TokenShards(corpus, "train"), 12, seed=0)
    batches = (sequences.batch(range(6 * step, 6 * step + 6)).ids for step in range(N_STEPS))
    losses = train(model, batches, n_steps=N_STEPS, max_lr=0.01, warmup_steps=5)
    torch.testing.assert_close([line["loss"] for line in metrics(tmp_path)], losses, rtol=1e-5, atol=0)
    rates = [line["learning_rate"] for line in metrics(tmp_path)]
    assert rates == [0.01 * warmup_then_cosine(step, N_STEPS, 5) for step in range(1, N_STEPS + 1)]


@pytest.mark.syllabus("GT-03")
def test_a_run_that_a_signal_stops_goes_on_as_if_it_had_not(corpus, undisturbed, tmp_path):
    fields = small_config(corpus, tmp_path, **EVERYTHING)
    stopped = run_small(fields, stop_after=10)
    assert (stopped.status, stopped.step) == (75, 10) and not (tmp_path / "model").exists()
    assert run_small(fields).status == 0
    assert_same_run(undisturbed, tmp_path)
    assert [event["step"] for event in events(tmp_path, "resume")] == [10]


@pytest.mark.syllabus("GT-03")
def test_a_run_that_breaks_off_goes_on_from_its_last_checkpoint(corpus, undisturbed, tmp_path, monkeypatch):
    update = Stepper.update

    def fail(self, step):
        if step == 18:
            raise RuntimeError("the machine is gone")
        update(self, step)

    fields = small_config(corpus, tmp_path, **EVERYTHING)
    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="gone"):
        patched.setattr(Stepper, "update", fail)
        run_small(fields)
    assert metrics(tmp_path)[-1]["step"] == 17
    run_small(fields)
    assert [event["step"] for event in events(tmp_path, "resume")] == [14]
    assert_same_run(undisturbed, tmp_path)
    before = weights(tmp_path)
    assert run_small(fields).status == 0  # a finished run stays as it is
    assert all(torch.equal(before[name], tensor) for name, tensor in weights(tmp_path).items())


@pytest.mark.syllabus("GT-37")
def test_micro_batches_make_the_step_of_the_whole_batch(tmp_path):
    """Also if the targets are not spread evenly over them."""
    corpus, losses = write_corpus(tmp_path / "data", targets=True), {}
    for size in (0, 1, 4):
        fields = small_config(corpus, tmp_path / str(size), **{"data.micro_batch_size": size, "n_steps": 8})
        run_small(fields)
        losses[size] = [line["loss"] for line in metrics(tmp_path / str(size))]
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=0)
    torch.testing.assert_close(losses[4], losses[0], rtol=1e-5, atol=0)


def test_only_targets_that_count_have_a_loss(tmp_path):
    corpus = write_corpus(tmp_path / "data", targets=True)
    run_small(small_config(corpus, tmp_path / "run", n_steps=1))
    torch.manual_seed(0)
    model = Transformer(TrainConfig.of(small_config(corpus, tmp_path)).model_config(n_vocab=17))
    batch = Sequences(TokenShards(corpus, "train"), 12, seed=0, mask_documents=True).batch(range(6))
    logits = model(batch.ids[:, :-1], documents=batch.documents)
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch.ids[:, 1:], reduction="none")
    assert metrics(tmp_path / "run")[0]["loss"] == pytest.approx(losses[batch.targets].mean().item(), rel=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"parallel.precision": "bfloat16"},
        {"parallel.precision": "float16"},
        {"parallel.activation_checkpointing": True},
        {"schedule.name": "warmup_stable_decay", "schedule.decay_steps": 6, "optimizer.max_grad_norm": None},
    ],
    ids=lambda changes: next(iter(changes.values())),
)
def test_options_change_how_a_step_is_computed_and_hardly_what_it_is(corpus, undisturbed, tmp_path, changes):
    run_small(small_config(corpus, tmp_path, **changes))
    usual, other = (metrics(out)[5]["loss"] for out in (undisturbed, tmp_path))
    close = {"parallel.activation_checkpointing": 1e-6}.get(next(iter(changes)), 0.02)
    assert other == pytest.approx(usual, rel=close)
    assert metrics(tmp_path)[-1]["loss"] < 0.9 * metrics(tmp_path)[0]["loss"]


def test_a_step_that_overflows_in_float16_is_left_out_and_the_scale_halved(corpus, tmp_path, monkeypatch):
    scales, update = [], Stepper.update

    def record(self, step):
        if step == 1:
            self.scaler._scale.fill_(2.0**40)  # above all that float16 can hold
        update(self, step)
        scales.append(self.scaler.get_scale())

    monkeypatch.setattr(Stepper, "update", record)
    gradients = Stepper.gradients

    def scale_first(self, batch):
        if not scales and self.scaler._scale is None:
            self.scaler._lazy_init_scale_growth_tracker(torch.device("cpu"))
            self.scaler._scale.fill_(2.0**40)
        return gradients(self, batch)

    monkeypatch.setattr(Stepper, "gradients", scale_first)
    run_small(small_config(corpus, tmp_path, n_steps=3, **{"parallel.precision": "float16"}))
    assert scales[0] == 2.0**39 and len(metrics(tmp_path)) == 3
    assert events(tmp_path, "overflow") and not events(tmp_path, "spike")
    assert all(math.isfinite(line["loss"]) for line in metrics(tmp_path))


# --- Spikes ---


@pytest.fixture
def spike_at(monkeypatch):
    """A function that makes one step, counted over the whole run, a spike with gradients that are not finite."""

    def make(number):
        gradients, calls = Stepper.gradients, []

        def spike(self, batch):
            calls.append(batch)
            found = gradients(self, batch)
            if len(calls) != number:
                return found
            for group in self.optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad.fill_(math.nan)
            return Gradients(math.nan, math.nan)

        monkeypatch.setattr(Stepper, "gradients", spike)

    return make


@pytest.mark.syllabus("GT-03")
def test_a_spike_stops_a_run(corpus, tmp_path, spike_at):
    spike_at(12)
    result = run_small(small_config(corpus, tmp_path))
    assert result.status == 1 and "step 12: loss nan is not finite" in result.message
    assert len(metrics(tmp_path)) == 11 and len(events(tmp_path, "spike")) == 1


@pytest.mark.syllabus("GT-03")
def test_a_spike_is_skipped(corpus, tmp_path, spike_at):
    spike_at(12)
    assert run_small(small_config(corpus, tmp_path, **{"spikes.action": "skip"})).status == 0
    positions = [line["position"] for line in metrics(tmp_path)]
    assert positions == [6 * step for step in range(1, N_STEPS + 1)]
    assert all(torch.isfinite(tensor).all() for tensor in weights(tmp_path).values())


@pytest.mark.syllabus("GT-03")
@pytest.mark.parametrize("rewind_steps, step", [(0, 14), (6, 7), (100, 1)])
def test_a_run_rewinds_to_a_checkpoint_and_goes_on_after_the_data_of_the_spike(
    corpus, tmp_path, spike_at, rewind_steps, step
):
    spike_at(17)
    fields = small_config(corpus, tmp_path, **{"spikes.action": "rewind", "spikes.rewind_steps": rewind_steps})
    assert run_small(fields).status == 0
    lines = metrics(tmp_path)
    assert [line["step"] for line in lines] == [*range(1, N_STEPS + 1)]
    before, after = [6 * s for s in range(1, step + 1)], [6 * (17 + s) for s in range(1, N_STEPS - step + 1)]
    assert [line["position"] for line in lines] == before + after
    assert [event["step"] for event in events(tmp_path, "rewind")] == [step]


@pytest.fixture
def only_spikes(monkeypatch):
    """A function after which each step is a spike."""
    gradients = Stepper.gradients

    def begin():
        spiky = lambda self, batch: gradients(self, batch)._replace(loss=math.inf)  # noqa: E731
        monkeypatch.setattr(Stepper, "gradients", spiky)

    return begin


def test_a_run_that_rewinds_too_often_stops(corpus, tmp_path, only_spikes):
    fields = small_config(corpus, tmp_path, **{"spikes.action": "rewind", "spikes.max_rewinds": 2})
    run_small(fields, stop_after=8)
    only_spikes()
    result = run_small(fields)
    assert result.status == 1 and len(events(tmp_path, "rewind")) == 2


def test_a_run_that_skips_too_many_steps_in_a_row_stops(corpus, tmp_path, only_spikes):
    """Its weights are damaged, and the steps that are left would all be skipped."""
    fields = small_config(corpus, tmp_path, **{"spikes.action": "skip", "spikes.max_skips": 3})
    run_small(fields, stop_after=8)
    only_spikes()
    result = run_small(fields)
    assert result.status == 1 and result.step == 11 and not (tmp_path / "model").exists()


# --- What is refused, and what is reported ---


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"data.path": "no/such/folder"}, "no/such/folder has no index.json"),
        ({"data.n_tokens": 13}, "data.n_tokens=13 must be at most model.n_ctx=12"),
        ({"finetune.start_from": "no/such/model", "model": None}, "'no/such/model' is no folder"),
        ({"model": MODEL | {"n_vocab": 3}}, r"model.n_vocab=3 must be at least \d+, the vocabulary of the data"),
        ({"parallel.device": ""}, "parallel.device='' must be cpu or cuda"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence(corpus, tmp_path, changes, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        run_small(small_config(corpus, tmp_path / "run", **changes))
    assert "\n" not in str(error.value) and not (tmp_path / "run/metrics.jsonl").exists()


def test_a_folder_that_cannot_be_made_is_one_sentence(corpus, tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(ValueError, match=r"out='.*run' must be a folder, or one that can be made \(File exists\)"):
        run_small(small_config(corpus, tmp_path / "run"))


def test_texts_that_are_too_short_for_a_validation_loss_are_named_with_the_remedy(tmp_path):
    writer = ShardWriter(tmp_path / "data", n_vocab=7)
    writer.add("train", list(range(7)) * 20)
    writer.add("validation", [1, 2])
    writer.finish()
    fields = small_config(tmp_path / "data", tmp_path / "run", **{"watch.evaluate_every": 2})
    with pytest.raises(ValueError, match="'validation'.* has 2 tokens.*set watch.evaluate_every to 0"):
        run_small(fields)
    assert run_small(fields | {"n_steps": 2, "watch.evaluate_every": 0}).status == 0


def test_a_config_that_was_damaged_does_not_hinder_the_run(corpus, tmp_path):
    run_small(small_config(corpus, tmp_path), stop_after=8)
    (tmp_path / "config.json").write_text("{")
    assert run_small(small_config(corpus, tmp_path)).status == 0
    assert "config.json, line 1" in events(tmp_path, "damaged")[0]["message"]
    assert TrainConfig.load(tmp_path) == TrainConfig.of(small_config(corpus, tmp_path))


@pytest.mark.parametrize("error", [MemoryError("7 TiB"), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9")])
def test_too_little_memory_is_one_sentence(corpus, tmp_path, monkeypatch, capsys, error):
    def too_large(self, batch):
        raise error

    TrainConfig.of(small_config(corpus, tmp_path / "run", n_steps=2)).save(tmp_path)
    monkeypatch.setattr(Stepper, "gradients", too_large)
    assert main(["train", str(tmp_path / "config.json")]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("there is not enough memory (") and "make data.micro_batch_size" in said


def test_another_config_does_not_go_on_with_the_run(corpus, tmp_path):
    run_small(small_config(corpus, tmp_path), stop_after=8)
    with pytest.raises(ValueError, match="was made with model.d_ff=24, and this run has model.d_ff=25"):
        run_small(small_config(corpus, tmp_path, model=MODEL | {"d_ff": 25}))
    run_small(small_config(corpus, tmp_path, **{"optimizer.max_lr": 0.005}))  # an engineer may lower the rate
    assert events(tmp_path, "change")[0]["message"] == "optimizer.max_lr was 0.01, and is 0.005"


def test_a_checkpoint_of_another_version_names_what_it_lacks(corpus, tmp_path, monkeypatch):
    newer = loop.training_state

    def older(*parts, n_skips, scaler, **more):
        return newer(*parts, **more)

    with monkeypatch.context() as before:
        before.setattr(loop, "training_state", older)
        run_small(small_config(corpus, tmp_path), stop_after=8)
    with pytest.raises(ValueError, match="^the checkpoint of step 8 has no n_skips, scaler, because another version"):
        run_small(small_config(corpus, tmp_path))
    assert (tmp_path / "checkpoints" / "step-00000008").is_dir()


def test_samples_and_diagnostics_are_recorded(corpus, tmp_path):
    fields = small_config(corpus, tmp_path, n_steps=4, **{"watch.diagnose_every": 2, "watch.sample_every": 2})
    run_small(fields)
    lines = metrics(tmp_path)
    assert [("update_ratio/stack.blocks.1" in line) for line in lines] == [False, True, False, True]
    assert not events(tmp_path, "sample")  # this corpus has no tokenizer


# --- From released weights ---


@pytest.fixture
def released(tmp_path):
    torch.manual_seed(1)
    fields = TrainConfig.of(small_config(Path("data"), Path("out")))
    model = Transformer(fields.model_config(n_vocab=17))
    save(Checkpoint(model=model, family="llama"), tmp_path / "released")
    return tmp_path / "released"


@pytest.mark.parametrize("lora_rank", [0, 2])
def test_a_run_begins_with_released_weights(corpus, tmp_path, released, lora_rank):
    changes = {"model": None, "finetune.start_from": str(released), "finetune.lora_rank": lora_rank}
    fields = small_config(corpus, tmp_path / "run", **changes)
    run_small(fields, stop_after=9)
    run_small(fields)
    before, after = load(released).model.state_dict(), load(tmp_path / "run/model").model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    adapted = {f"stack.blocks.{i}.attention.w_{n}.weight" for i in (0, 1) for n in ("query", "key", "value", "output")}
    assert changed == (adapted if lora_rank else before.keys())
    lines = metrics(tmp_path / "run")
    assert lines[-1]["loss"] < lines[0]["loss"] and len(lines) == N_STEPS


def test_the_command_returns_the_status_of_the_run(corpus, tmp_path, capsys, spike_at):
    TrainConfig.of(small_config(corpus, tmp_path / "run", n_steps=12)).save(tmp_path)
    words = ["train", str(tmp_path / "config.json")]
    with stopping(after=5):
        assert main(words) == 75
    assert "a signal stopped the run after step 5" in capsys.readouterr().err
    assert main(words) == 0
    assert re.search(r"finished after 12 steps, with a loss of \d\.\d{3}", capsys.readouterr().out)
    assert main([*words, "--seed", "1"]) == 2 and "made with seed=0" in capsys.readouterr().err
    spike_at(3)
    assert main([*words, "--out", str(tmp_path / "other")]) == 1 and "step 3: loss nan" in capsys.readouterr().err


def test_the_config_of_a_run_is_beside_it(corpus, undisturbed):
    saved = TrainConfig.load(undisturbed)
    assert saved == TrainConfig.of(small_config(corpus, undisturbed, **EVERYTHING))
    assert json.loads((undisturbed / "config.json").read_text())["optimizer"] == {"max_lr": 0.01, "ema_decay": 0.9}
    assert run(saved).status == 0
