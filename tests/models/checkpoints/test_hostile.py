"""Fields of no meaning in released files, hostile files, clumsy arguments: one sentence each, nothing half-written."""

from pathlib import Path

import pytest
import torch
from models.checkpoints.cases import RELEASED, released
from models.checkpoints.test_engine import a_model, byte_level, change_config, change_tensors, run
from safetensors.torch import load_file, save_file

from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints import Checkpoint, engine, families, load, save
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.tokenizers.simple import ByteTokenizer


@pytest.fixture
def folder(tmp_path):
    save(Checkpoint(model=a_model(), family="llama"), tmp_path / "llama")
    return tmp_path / "llama"


def config_of(family, fields, **more):
    return families()[family].config(Record("config.json", fields | more))


# --- Released files ---

# state-spaces/mamba-130m-hf, with what is left in it of the original's configuration
MAMBA_130M = released(
    """bos_token_id=0 conv_kernel=4 d_inner=1536 d_model=768 eos_token_id=0 expand=2 fused_add_norm=true
    hidden_act="silu" hidden_size=768 initializer_range=0.1 intermediate_size=1536 layer_norm_epsilon=1e-05
    model_type="mamba" n_layer=24 num_hidden_layers=24 pad_token_id=0 pad_vocab_size_multiple=8
    rescale_prenorm_residual=false residual_in_fp32=true rms_norm=true ssm_cfg={} state_size=16 time_step_floor=0.0001
    time_step_init_scheme="random" time_step_max=0.1 time_step_min=0.001 time_step_rank=48 time_step_scale=1.0
    torch_dtype="float32" use_bias=false use_cache=true use_conv_bias=true vocab_size=50280"""
)


def test_a_released_mamba_says_its_width_three_times():
    config = config_of("mamba", MAMBA_130M)
    assert (config.d_model, config.n_layers, config.d_inner, config.dt_rank) == (768, 24, 1536, 48)
    for name in ("intermediate_size", "d_inner"):
        with pytest.raises(ValueError, match=f"key '{name}': 1537 must be expand \\* hidden_size = 1536"):
            config_of("mamba", MAMBA_130M, **{name: 1537})


def test_distilgpt2_counts_its_labels():
    _, fields = RELEASED["gpt-2"]
    assert config_of("gpt2", fields, _num_labels=1, n_layer=6) == config_of("gpt2", fields, n_layer=6)


# --- Numbers and values that no model has ---

WRONG = {
    "an infinite epsilon": ("llama-3-8b", dict(rms_norm_eps=float("inf")), "inf must be at most"),
    "a base of 400 digits": ("llama-3-8b", dict(rope_theta=10**400), "must be at most"),
    "more numbers than there are": ("llama-3-8b", dict(vocab_size=2**70), "must be at most"),
    "more layers than can be built": ("gemma-2-2b", dict(num_hidden_layers=10**9), "must be at most 10000"),
    "rotations larger than memory": ("gemma-2-2b", dict(head_dim=2**31 - 2), "must be at most 16777216"),
    "and by default": ("llama-3-8b", dict(hidden_size=2**31 - 8), "must be at most 16777216"),
    "and beside latents": ("deepseek-v2-lite", dict(qk_rope_head_dim=2**31 - 2), "must be at most 16777216"),
    "a switch that is a number": ("gpt-neox", dict(use_parallel_residual=0), "0 must be true or false"),
    "another": ("t5-small", dict(tie_word_embeddings=0), "0 must be true or false"),
    "one more": ("t5-small", dict(scale_decoder_outputs="no"), "'no' must be true or false"),
    "a large scalar": ("gemma-2-2b", dict(query_pre_attn_scalar=10**400), "must be a number without fraction, from 1"),
    "two kinds of RoPE": (
        "llama-3.1-8b",
        dict(rope_parameters={"rope_type": "default", "rope_theta": 5e5}),
        "key 'rope_scaling': .* does not agree with rope_parameters",
    ),
    "two factors of RoPE": (
        "llama-3-8b",
        dict(rope_parameters={"type": "linear", "factor": 2.0}, rope_scaling={"type": "linear", "factor": 4.0}),
        "key 'rope_scaling': .* does not agree with rope_parameters",
    ),
    "mscale without end": (
        "deepseek-v2-lite",
        dict(rope_scaling=dict(type="yarn", factor=40, mscale=float("inf"), mscale_all_dim=1.0)),
        "mscale=inf must be at most",
    ),
    "yarn without factor": (
        "deepseek-v2-lite",
        dict(rope_scaling=dict(type="yarn", mscale=1.0, mscale_all_dim=1.0)),
        "missing fields rope.scaling.factor",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_value_that_no_model_has_is_refused_by_its_field(name):
    preset, changes, sentence = WRONG[name]
    family, fields = RELEASED[preset]
    with pytest.raises(ValueError, match=f"^config.json.*{sentence}"):
        config_of(family, fields, **changes)


def test_an_expansion_that_is_no_number_is_refused():
    for expand in ("2", float("nan"), float("inf"), 1.5, True):
        with pytest.raises(ValueError, match="key 'expand': .* must be a whole number above 0"):
            config_of("mamba", MAMBA_130M, expand=expand)


HOSTILE = {
    "nested without end": (
        lambda f: (f / "config.json").write_text('{"a":' * 100_000),
        "config.json: the file is nested too",
    ),
    "too many weights": (
        lambda f: change_config(f, hidden_size=2**24, head_dim=2**24, num_attention_heads=9998),
        "config.json describes no model: ",
    ),
    "a name of two lines": (
        lambda f: change_tensors(f, lambda t: t.update({"a\nb\x1b[2J": torch.ones(2)})),
        r"model.safetensors holds 'a\\nb\\x1b\[2J', which is no name of a tensor",
    ),
}
AT_THE_END = ["a", [1], {"type": "Sequence", "processors": [1]}, {"type": "Sequence", "processors": None}]
AT_THE_END += [{"type": "TemplateProcessing"}, {"type": "BertProcessing", "cls": []}]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hostile_is_refused_in_one_line(name, folder):
    damage, sentence = HOSTILE[name]
    damage(folder)
    with pytest.raises(ValueError, match=sentence) as caught:
        load(folder)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("last", AT_THE_END, ids=str)
def test_what_stands_around_a_text_must_be_of_a_known_form(last, folder):
    byte_level(folder, last)
    checkpoint = load(folder)
    assert checkpoint.tokenizer is None and checkpoint.tokenizer_note.startswith("tokenizer.json: ")


def other_shape(path):
    save_file({name: torch.ones(3) for name in load_file(path)}, path)


@pytest.mark.parametrize(
    "change, sentence",
    [
        (Path.unlink, ""),
        (lambda path: path.write_bytes(b"short"), ""),
        (lambda path: save_file({"another": torch.ones(3)}, path), ""),
        (other_shape, r".* was \(.*\) and is \(3,\)"),
    ],
)
def test_a_file_that_changes_after_its_headers_is_refused(change, sentence, folder, monkeypatch):
    headers = engine.storage.headers

    def changed_behind(where):
        found = headers(where)
        change(where / "model.safetensors")
        return found

    monkeypatch.setattr(engine.storage, "headers", changed_behind)
    with pytest.raises(ValueError, match=f"model.safetensors changed while it was read: {sentence}"):
        load(folder)


# --- Saving ---


def test_fields_of_the_model_are_said_by_the_model(tmp_path):
    for more in ({"hidden_size": 3}, {"alibi": True}):
        with pytest.raises(ValueError, match="more holds '.*', which the family llama cannot keep"):
            save(Checkpoint(model=a_model(), family="llama", extra_config=more), tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_a_link_is_followed_and_the_working_folder_left_alone(tmp_path, monkeypatch):
    checkpoint = Checkpoint(model=a_model(), family="llama")
    for name in ("there", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("there")
    save(checkpoint, tmp_path / "link")
    assert (tmp_path / "there" / "config.json").is_file() and (tmp_path / "link").is_symlink()
    monkeypatch.chdir(tmp_path / "work")
    with pytest.raises(ValueError, match="must be another than the working folder"):
        save(checkpoint, ".")
    assert not any((tmp_path / "work").iterdir())


# --- Texts ---


def test_ids_without_a_token_are_written_as_nothing():
    wanted = iter([97, 259, 98])
    texts = Texts(tokenizer=ByteTokenizer())
    pieces = texts.write(a_model(), "x", max_new_tokens=3, sampler=lambda logits, seen: torch.tensor([next(wanted)]))
    assert "".join(pieces) == "ab"


# --- The command ---


def test_the_system_refuses_in_a_sentence_too(folder, capsys):
    code, out, err = run(capsys, "a" * 5000, "hello")
    assert code == 2 and not out and "File name too long" in err and len(err.splitlines()) == 1


def test_the_keyboard_stops_the_command_with_130(capsys, monkeypatch):
    def load(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("llm_anatomy.commands.texts.load", load)
    code, out, err = run(capsys, "a", "hello")
    assert code == 130 and not out and err.split() == ["stopped", "by", "the", "keyboard"]
