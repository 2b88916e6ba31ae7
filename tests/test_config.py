"""The config: what fits is filled in, what does not is refused by name, and JSON brings back what was saved."""

import dataclasses
import json

import pytest

from llm_anatomy import config as module
from llm_anatomy.config import ALLOWED, ModelConfig

SIZES = dict(d_model=24, n_layers=2, n_heads=4, d_ff=36, n_vocab=101)
LATENT = dict(attention="latent", d_latent=8, d_rotary=4, position="rope")
EXPERTS = dict(n_experts=4, n_experts_per_token=2)
GROUPS = EXPERTS | dict(router="top_k_of_softmax_in_groups", n_expert_groups=2, n_open_groups=1)


def test_what_is_left_out_is_filled_in():
    config = ModelConfig(**SIZES)
    assert (config.d_head, config.d_value, config.n_kv_heads, config.n_encoder_layers) == (6, 6, 4, None)
    assert ModelConfig(kind="encoder-decoder", **SIZES).n_encoder_layers == 2
    assert ModelConfig(d_head=5, **SIZES).d_value == 5
    assert ModelConfig(**EXPERTS, **SIZES).d_expert == 36


@pytest.mark.parametrize("field", ALLOWED)
def test_parts_are_named_and_unknown_names_refused_with_those_allowed(field):
    for name in ALLOWED[field]:
        assert name is None or isinstance(name, str)
    with pytest.raises(ValueError, match=f"{field}='guesswork' must be one of .*{ALLOWED[field][-1]}"):
        ModelConfig(**SIZES | {field: "guesswork"})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (dict(d_model=0), "d_model=0 must be at least 1"),
        (dict(n_experts=-1), "n_experts=-1 must be at least 0"),
        (dict(norm_eps=0.0), "norm_eps=0.0 must be above 0"),
        (dict(n_heads=5), "n_heads=5 must divide d_model=24 unless d_head is given"),
        (dict(n_kv_heads=3), "n_kv_heads=3 must divide n_heads=4"),
        (dict(position="rope", rope_fraction=1.5), "rope_fraction=1.5 must be above 0 and at most 1"),
        (dict(parallel_block=True, n_parallel_norms=3), "n_parallel_norms=3 must be 1 or 2"),
        (dict(rope_base=500.0), "rope_base=500.0 means nothing with position='none'; it belongs to 'rope'"),
        (dict(n_encoder_layers=3), "n_encoder_layers=3 means nothing with kind='decoder'"),
        (dict(n_buckets=8), "n_buckets=8 means nothing with position='none'"),
        (dict(norm="rmsnorm", norm_bias=False), "norm_bias=False means nothing with norm='rmsnorm'"),
        (dict(n_parallel_norms=2), "n_parallel_norms=2 means nothing with parallel_block=False"),
        (dict(global_every=2), "global_every=2 means nothing without window"),
        (dict(d_expert=8), "d_expert=8 means nothing without n_experts"),
        (dict(position="rope", rope_factor=2.0), "rope_factor=2.0 means nothing without rope_scaling"),
        (dict(position="learned"), "n_ctx=None must be given"),
        (dict(attention="latent"), "d_latent=None must be given"),
        (dict(position="rope", rope_scaling="ntk"), "rope_factor=None must be given"),
        (
            dict(position="rope", rope_scaling="yarn", rope_factor=2.0),
            "rope_original_max_position_embeddings=None must be given",
        ),
        (dict(n_experts=4), "n_experts_per_token=None must be given"),
        (LATENT | dict(position="alibi", d_rotary=None), "position='alibi' must be 'rope' or 'none'"),
        (LATENT | dict(d_rotary=None), "d_rotary=None must be given for position='rope', and only then"),
        (LATENT | dict(qk_norm="per_head"), "qk_norm and attn_logit_softcapping must be None"),
        (LATENT | dict(output_bias=True), "output_bias=True means nothing with attention='latent'"),
        (LATENT | dict(kind="encoder-decoder"), "attention='latent' must not be with kind='encoder-decoder'"),
        (dict(parallel_block=True, norm_placement="post"), "norm_placement='post' must be 'pre'"),
        (dict(parallel_block=True, kind="encoder-decoder"), "parallel_block=True must not be"),
        (dict(position="deberta", n_kv_heads=2), "n_kv_heads=2 must be n_heads=4 with position='deberta'"),
        (dict(position="deberta_v2", n_kv_heads=2), "n_kv_heads=2 must be n_heads=4 with position='deberta_v2'"),
        (dict(position="deberta_v2", n_buckets=6), "n_buckets=6 must be a multiple of 4 with position='deberta_v2'"),
        (dict(n_experts=4, n_experts_per_token=5), "n_experts_per_token=5 must be 1 to n_experts=4"),
        (GROUPS | dict(n_expert_groups=3), "n_expert_groups=3 must divide n_experts=4"),
        (GROUPS | dict(n_open_groups=3), "n_open_groups=3 must be at most n_expert_groups=2"),
        (EXPERTS | dict(router="top_k_of_sigmoid_in_groups"), "n_expert_groups=None must be given"),
        (EXPERTS | dict(n_dense_layers=3), "n_dense_layers=3 must be at most n_layers=2"),
    ],
)
def test_what_does_not_go_together_is_refused_with_field_value_and_what_is_allowed(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        ModelConfig(**SIZES | change)


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("d_model", 24.0, "int"),
        ("n_layers", True, "int"),
        ("tie_embeddings", 1, "bool"),
        ("n_ctx", "64", "int . None"),
        ("norm_eps", True, "float"),
    ],
)
def test_values_of_another_type_are_refused(field, value, kind):
    """Past jaxtyping, which would refuse most of them first."""
    config = ModelConfig(**SIZES)
    object.__setattr__(config, field, value)
    with pytest.raises(ValueError, match=f"{field}={value!r} must be {kind}$"):
        config._check_types()


def test_every_field_is_explained():
    text = ModelConfig.__doc__
    assert not [field.name for field in dataclasses.fields(ModelConfig) if f"{field.name}" not in text]


def test_it_goes_to_json_and_back(tmp_path):
    config = ModelConfig(
        kind="encoder", n_kv_heads=2, **LATENT | dict(attention="multi_head", d_latent=None, d_rotary=None), **SIZES
    )
    config.save(tmp_path / "config.json")
    assert ModelConfig.load(tmp_path / "config.json") == config
    assert "rope_base" not in json.loads((tmp_path / "config.json").read_text())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", r"config.json holds no model config: .*line 1"),
        ("[1]", "it holds list, not fields"),
        ('{"d_model": 8}', "missing fields n_layers, n_heads, d_ff, n_vocab"),
        ('{"d_model": 8, "width": 3}', "unknown fields width; allowed are d_model"),
        ('{"d_model": 8, "n_layers": 1, "n_heads": 3, "d_ff": 9, "n_vocab": 5}', "n_heads=3 must divide d_model=8"),
    ],
)
def test_a_file_that_holds_no_config_is_refused_by_name(tmp_path, text, sentence):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        ModelConfig.load(tmp_path / "config.json")


def test_the_difference_of_two_says_what_changed():
    before = ModelConfig(**SIZES)
    after = dataclasses.replace(before, norm="rmsnorm", n_kv_heads=2)
    assert before.difference(after) == {"n_kv_heads": (4, 2), "norm": ("layernorm", "rmsnorm")}
    assert before.difference(before) == {} and list(before.changed())[:2] == ["d_model", "n_layers"]


def test_the_tables_of_the_module_name_fields_that_exist():
    fields = {field.name for field in dataclasses.fields(ModelConfig)}
    assert set(ALLOWED) <= fields
    assert set(module._BELONGS_TO) | {owner for owner, _ in module._BELONGS_TO.values()} <= fields
