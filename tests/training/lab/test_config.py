"""A run's config is checked whole before anything is done, and what is wrong is one sentence."""

import dataclasses

import pytest
import yaml
from training.lab.small_runs import small_config

from llm_anatomy.config import types_of
from llm_anatomy.models.presets import preset
from llm_anatomy.training.lab.command import options, read_config
from llm_anatomy.training.lab.config import ScheduleConfig, TrainConfig
from llm_anatomy.training.schedules import SCHEDULES

FIELDS = small_config("shards", "run")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"out": "run", "n_steps": 24, "model": FIELDS["model"], "data": DATA}))
    return str(path)


DATA = {"path": "shards", "n_tokens": 12, "batch_size": 6}


def test_a_file_and_options_describe_a_run(file):
    config = read_config([file, "--optimizer.max_lr", "3e-4", "--model.d_ff", "40", "--optimizer.ema_decay=0.5"])
    changes = {"optimizer.max_lr": 3e-4, "model": FIELDS["model"] | {"d_ff": 40}, "optimizer.ema_decay": 0.5}
    assert config == TrainConfig.of({"out": "run", "n_steps": 24, "data": DATA} | changes)
    assert config.model_config(n_vocab=17).d_ff == 40


def test_null_and_lists_can_be_given(file):
    config = read_config([file, "--optimizer.max_grad_norm", "null", "--finetune.lora_targets", "[w_query,w_up]"])
    assert config.optimizer.max_grad_norm is None and config.finetune.lora_targets == ("w_query", "w_up")


def test_the_printed_config_is_the_config(file, capsys, tmp_path):
    with pytest.raises(SystemExit) as left:
        read_config([file, "--n_steps", "31", "--print_config"])
    assert left.value.code == 0
    printed = tmp_path / "printed.yaml"
    printed.write_text(capsys.readouterr().out)
    assert read_config([str(printed)]) == read_config([file, "--n_steps", "31"])


def test_help_explains_every_field(capsys):
    with pytest.raises(SystemExit) as left:
        read_config(["--help"])
    text, words = capsys.readouterr().out, [*options(TrainConfig)]
    assert left.value.code == 0 and len(words) == len(types_of(TrainConfig)) > 40
    for _, name, _, meaning in words:
        assert f"--{name} " in text and " ".join(meaning.split()[:3]) in " ".join(text.split())


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--n_steps", "0"], "n_steps=0 must be at least 1"),
        (["--n_steps", "ten"], "n_steps=ten must be int"),
        (["--optimizer.max_lr", "high"], "optimizer.max_lr=high must be float"),
        (["--optimizer.max_lr", "0"], "optimizer.max_lr=0.0 must be above 0"),
        (["--optimizer.weight_decay", "-1"], "optimizer.weight_decay=-1.0 must be at least 0"),
        (["--optimizer.beta1", "1"], "optimizer.beta1=1.0 must be below 1"),
        (["--optimizer.max_rl", "1"], "there is no option --optimizer.max_rl; close to it is --optimizer.max_lr"),
        (["--parallel.precision", "fp8"], "parallel.precision='fp8' must be one of float32, bfloat16, float16"),
        (["--parallel.strategy", "zero"], "parallel.strategy='zero' must be one of ddp, fsdp"),
        (
            ["--parallel.precision", "float16", "--parallel.strategy", "fsdp"],
            "parallel.precision='float16' must be float32 or bfloat16 with parallel.strategy='fsdp'",
        ),
        (["--schedule.name", "step"], f"schedule.name='step' must be one of {', '.join(SCHEDULES)}"),
        (["--schedule.warmup_steps", "24"], "schedule.warmup_steps=24 must be below n_steps=24"),
        (["--schedule.decay_steps", "2"], "schedule.decay_steps=2 must be left out with schedule.name='cosine'"),
        (["--spikes.action", "pray"], "spikes.action='pray' must be one of none, stop, skip, rewind"),
        (["--spikes.gradient_factor", "1"], "spikes.gradient_factor=1.0 must be above 1"),
        (["--spikes.window", "3"], "spikes.window=3 must be at least 4"),
        (["--model.n_heads", "5"], "model: n_heads=5 must divide d_model=16 unless d_head is given"),
        (["--model.n_layer", "5"], "model: unknown fields n_layer; allowed are d_model"),
        (["--model", "gpt-1000"], "name='gpt-1000' is no preset; close to it are gpt-"),
        (["--model", "bert-base"], "model: kind='encoder' must be 'decoder' with an unembedding"),
        (["--data.n_tokens", "13"], "data.n_tokens=13 must be at most model.n_ctx=12"),
        (["--finetune.start_from", "gpt2"], "must be left out with finetune.start_from, which brings its own"),
        (["--finetune.lora_rank", "4"], "finetune.lora_rank=4 must be 0 without finetune.start_from"),
        (["--data", "{}"], "there is no option --data"),
        (["--optimizer.max_lr", "1e400"], "optimizer.max_lr=inf must be finite"),
        (["--optimizer.max_grad_norm", "inf"], "optimizer.max_grad_norm=inf must be float | None"),
        (["--out", ""], "out='' must be the name of a folder"),
        (["--seed", "9223372036854775808"], "seed=9223372036854775808 must be below 2**63"),
        (["--model", '{"preset": 3}'], "model.preset=3 must be the name of a preset"),
    ],
)
def test_what_is_wrong_is_one_sentence(file, words, sentence):
    with pytest.raises(ValueError) as error:
        read_config([file, *words])
    assert str(error.value).startswith(sentence) or sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content, sentence",
    [
        ("n_step: 3", "there is no field n_step; close to it is n_steps"),
        ("out: [a", "^the file of the config is not valid YAML: while parsing a flow sequence, line 1, column 6"),
        ("n_steps: 3", "missing fields out, data.path, data.n_tokens"),
        (None, "^the file of the config does not exist: .*a.yaml$"),
        ("", "the file of the config must hold fields, such as n_steps: 100, not nothing"),
        ("- out", "the file of the config must hold fields, such as n_steps: 100, not - out"),
        (b"\xff", "the file of the config is not UTF-8"),
        ("model: [a]", r"model=\['a'\] must be dict"),
        ("n_steps: 3\nout: run\nn_steps: 4", "^a.yaml, line 3: the key n_steps is given twice$"),
        ("model: {d_ff: 7,\n d_model: 6, d_ff: 9}", "^a.yaml, line 2: the key model.d_ff is given twice$"),
        ("data: {path: a}\n\ndata.path: b", "^a.yaml, line 3: the key data.path is given twice$"),
        ('{"data.path": "b",\n "data": {"path": "a"}}', "^a.yaml, line 2: the key data.path is given twice$"),
        ("data: {path: a}\ndata: {n_tokens: 8}", "^a.yaml, line 2: the key data is given twice$"),
        ("model: &a {b: *a}", "model"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "a.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=sentence) as error:
        read_config([str(tmp_path / "a.yaml")])
    assert "\n" not in str(error.value)


def test_a_key_may_stand_in_two_places_and_an_option_may_change_it(file):
    with open(file, "a") as lines:
        lines.write("optimizer: {eps: 1e-7}\nwatch: {quiet: true}\noptimizer.max_lr: 1e-2\n")
    config = read_config([f"--config={file}", "--optimizer.eps", "1e-6"])
    assert config.optimizer.eps == 1e-6 and config.optimizer.max_lr == 0.01


def test_a_preset_takes_the_vocabulary_and_the_context_of_the_data():
    config = TrainConfig.of(FIELDS | {"model": {"preset": "gpt-2", "n_layers": 3}, "data.n_tokens": 64})
    changed = preset("gpt-2").difference(config.model_config(n_vocab=99))
    assert {name: now for name, (_, now) in changed.items()} == {"n_layers": 3, "n_vocab": 99, "n_ctx": 64}


def test_a_config_is_saved_whole(tmp_path):
    config = TrainConfig.of(FIELDS | {"finetune.lora_targets": ("w_up",)})
    config.save(tmp_path)
    assert TrainConfig.load(tmp_path) == config
    (tmp_path / "config.json").write_text('{"n_steps": 0}')
    with pytest.raises(ValueError, match="^config.json: .* missing fields out"):
        TrainConfig.load(tmp_path)


@pytest.mark.parametrize("name", SCHEDULES)
def test_each_schedule_gets_its_arguments(name):
    decay = {"decay_steps": 3} if name == "warmup_stable_decay" else {}
    schedule = ScheduleConfig(name=name, warmup_steps=2, **decay)
    assert SCHEDULES[name](1, 9, **schedule.options()) == 0.5


def test_every_field_has_its_meaning_in_the_docstring():
    for field, name, owner, meaning in options(TrainConfig):
        assert len(meaning) > 10, name
        assert field in dataclasses.fields(owner)
