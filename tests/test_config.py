"""The config: what fits is filled in, what does not is refused by name, and JSON brings back what was saved."""

import dataclasses
import json
import re

import pytest

from llm_anatomy import config as module
from llm_anatomy.config import ALLOWED, ModelConfig, MoEConfig, RopeConfig, RopeScaling, types_of
from llm_anatomy.registry import PARTS, takes


def is_config(kind):
    return isinstance(kind, type) and issubclass(kind, module.Config) and dataclasses.fields(kind) != ()


SIZES = dict(d_model=24, n_layers=2, n_heads=4, d_ff=36, n_vocab=101)
LATENT = {"attention": "latent", "latent.d_latent": 8, "latent.d_rotary": 4, "position": "rope"}
EXPERTS = {"moe.n_experts": 4, "moe.n_experts_per_token": 2}
GROUPS = EXPERTS | {"moe.router": "top_k_of_softmax_in_groups", "moe.n_groups": 2, "moe.n_groups_per_token": 1}


REQUIRED = {"moe.router": EXPERTS, "rope.scaling.type": {"rope.scaling.factor": 2.0}}


def test_what_is_left_out_is_filled_in():
    config = ModelConfig(**SIZES)
    assert (config.d_head, config.d_value, config.n_kv_heads, config.n_encoder_layers) == (6, 6, 4, 0)
    assert ModelConfig(kind="encoder-decoder", **SIZES).n_encoder_layers == 2
    assert ModelConfig(d_head=5, **SIZES).d_value == 5
    assert ModelConfig.of(EXPERTS | SIZES).get("moe.d_expert") == 36
    assert ModelConfig(position="rope", **SIZES).rope == RopeConfig() and ModelConfig(**SIZES).rope is None


@pytest.mark.parametrize("field", ALLOWED)
def test_parts_are_named_and_unknown_names_refused_with_those_allowed(field):
    for name in ALLOWED[field]:
        assert name is None or isinstance(name, str)
    with pytest.raises(ValueError, match=f"{field}='guesswork' must be one of .*{ALLOWED[field][-1]}"):
        ModelConfig.of(REQUIRED.get(field, {}) | SIZES | {field: "guesswork"})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (dict(d_model=0), "d_model=0 must be at least 1"),
        (dict(n_segments=-1), "n_segments=-1 must be at least 0"),
        (EXPERTS | {"moe.n_experts": 0}, "moe.n_experts=0 must be at least 1"),
        (dict(norm_eps=0.0), "norm_eps=0.0 must be above 0"),
        (dict(n_heads=5), "n_heads=5 must divide d_model=24 unless d_head is given"),
        (dict(n_kv_heads=3), "n_kv_heads=3 must divide n_heads=4"),
        ({"position": "rope", "rope.fraction": 1.5}, "rope.fraction=1.5 must be above 0 and at most 1"),
        (dict(parallel_block=True, n_parallel_norms=3), "n_parallel_norms=3 must be 1 or 2"),
        ({"rope.base": 500.0}, "rope.base=500.0 must be left out with position='none'; it belongs to position='rope'"),
        (dict(n_encoder_layers=3), "n_encoder_layers=3 must be left out with kind='decoder'"),
        ({"buckets.n_buckets": 8}, "buckets.n_buckets=8 must be left out with position='none'"),
        ({"norm": "rmsnorm", "layernorm.bias": False}, "layernorm.bias=False must be left out with norm='rmsnorm'"),
        (dict(n_parallel_norms=2), "n_parallel_norms=2 must be 1 with parallel_block=False"),
        (dict(layer_types=("full_attention",)), "layer_types=.* must be left out without window"),
        (
            dict(window=4, layer_types=("global",)),
            "layer_types=.* must name at most n_layers=2 types, each 'sliding_att",
        ),
        (dict(window=4, layer_types=("full_attention",) * 3), "layer_types=.* must name at most n_layers=2 types"),
        ({"moe.d_expert": 8}, "missing fields moe.n_experts, moe.n_experts_per_token"),
        ({"position": "rope", "rope.scaling.factor": 2.0}, "missing fields rope.scaling.type"),
        (dict(position="learned"), "n_ctx=None must be given"),
        (dict(attention="latent"), "latent=None must be given with attention='latent'"),
        ({"position": "rope", "rope.scaling.type": "ntk"}, "missing fields rope.scaling.factor"),
        (
            {"position": "rope", "rope.scaling.type": "yarn", "rope.scaling.factor": 2.0},
            "rope.scaling.original_max_position_embeddings=None must be given with rope.scaling.type='yarn'",
        ),
        ({"moe.n_experts": 4}, "missing fields moe.n_experts_per_token"),
        (LATENT | {"position": "alibi", "latent.d_rotary": None}, "position='alibi' must be 'rope' or 'none'"),
        (LATENT | {"latent.d_rotary": None}, "latent.d_rotary=None must be given with position='rope', and only then"),
        (LATENT | dict(qk_norm="per_head"), "qk_norm='per_head' must be None with attention='latent'"),
        (LATENT | dict(clip_qkv=8.0), "clip_qkv=8.0 must be None with attention='latent'"),
        (dict(clip_qkv=0.0), "clip_qkv=0.0 must be above 0"),
        ({"alibi.bias_max": 16}, "alibi.bias_max=16 must be left out with position='none'"),
        (LATENT | dict(output_bias=True), "output_bias=True must be False with attention='latent'"),
        (LATENT | dict(kind="encoder-decoder"), "attention='latent' must be 'multi_head' with kind='encoder-decoder'"),
        (dict(parallel_block=True, norm_placement="post"), "norm_placement='post' must be 'pre'"),
        (
            dict(parallel_block=True, kind="encoder-decoder"),
            "parallel_block=True must be False with kind='encoder-decoder'",
        ),
        (dict(position="deberta", n_kv_heads=2), "n_kv_heads=2 must be n_heads=4 with position='deberta'"),
        (dict(position="deberta_v2", n_kv_heads=2), "n_kv_heads=2 must be n_heads=4 with position='deberta_v2'"),
        (
            {"position": "deberta_v2", "buckets.n_buckets": 6},
            "buckets.n_buckets=6 must be a multiple of 4 with position='deberta_v2'",
        ),
        (
            {"moe.n_experts": 4, "moe.n_experts_per_token": 5},
            "moe.n_experts_per_token=5 must be at most moe.n_experts=4",
        ),
        (GROUPS | {"moe.n_groups": 3}, "moe.n_groups=3 must divide moe.n_experts=4"),
        (GROUPS | {"moe.n_groups_per_token": 3}, "moe.n_groups_per_token=3 must be at most moe.n_groups=2"),
        (
            EXPERTS | {"moe.router": "top_k_of_sigmoid_in_groups"},
            "moe.n_groups=None must be given with moe.router='top_k_of_sigmoid_in_groups'",
        ),
        (EXPERTS | {"moe.n_dense_layers": 3}, "moe.n_dense_layers=3 must be at most n_layers=2"),
        (EXPERTS | {"moe.dense_layers": (2,)}, "moe.dense_layers=.2,. must hold indices below n_layers=2"),
        (EXPERTS | {"moe.dense_layers": (1, 0)}, "moe.dense_layers=.1, 0. must hold increasing indices of layers"),
        (EXPERTS | {"moe.dense_layers": ("0",)}, "moe.dense_layers=.'0',. must hold increasing indices of layers"),
        (
            EXPERTS | {"moe.n_dense_layers": 1, "moe.dense_layers": (0,)},
            "moe.dense_layers=.0,. must hold increasing indices of layers, from moe.n_dense_layers=1",
        ),
        ({"position": "rope", "rope.layers": (1, 0)}, "rope.layers=.1, 0. must hold True or False for each layer"),
        ({"position": "rope", "rope.layers": (False,)}, "rope.layers=.False,. must hold True for at least one layer"),
        ({"position": "rope", "rope.layers": (True,) * 3}, "rope.layers=.* must hold at most n_layers=2 values"),
        (LATENT | {"rope.layers": (True, False)}, "rope.layers=.* must be left out with attention='latent'"),
        (LATENT | {"rope.fraction": 0.5}, "rope.fraction=0.5 must be 1.0 with attention='latent', whose d_rotary says"),
        (dict(residual_multiplier=0.0), "residual_multiplier=0.0 must be above 0"),
        (
            dict(residual_multiplier=0.5, norm_placement="post"),
            "residual_multiplier=0.5 must be 1.0 unless norm_placement='pre' and parallel_block=False",
        ),
        (dict(residual_multiplier=0.5, parallel_block=True), "residual_multiplier=0.5 must be 1.0 unless"),
        (dict(logit_multiplier=0.5, unembedding=False), "logit_multiplier=0.5 must be left out with unembedding=False"),
    ],
)
def test_what_does_not_go_together_is_refused_with_field_value_and_what_is_allowed(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        ModelConfig.of(SIZES | change)


def test_options_of_another_part_are_dropped_only_if_they_say_nothing():
    """So that ``dataclasses.replace`` may exchange a part."""
    config = ModelConfig(**SIZES, position="rope")
    assert dataclasses.replace(config, position="none", norm="rmsnorm").rope is None
    config = dataclasses.replace(config, rope=RopeConfig(base=500.0))
    with pytest.raises(ValueError, match="rope.base=500.0 must be left out with position='t5'"):
        dataclasses.replace(config, position="t5")


def test_layer_types_repeat_from_the_start():
    config = ModelConfig(**SIZES | dict(n_layers=5), window=3, layer_types=("full_attention", "sliding_attention"))
    assert [config.window_of(layer) for layer in range(5)] == [None, 3, None, 3, None]
    config = dataclasses.replace(config, layer_types=())
    assert [config.window_of(layer) for layer in range(5)] == [3] * 5


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
        config.__post_init__()


@pytest.mark.parametrize("made", [ModelConfig, *(kind for kind in vars(module).values() if is_config(kind))])
def test_every_field_is_explained(made):
    assert not [field.name for field in dataclasses.fields(made) if field.name not in made.__doc__]


def test_it_goes_to_json_and_back(tmp_path):
    config = ModelConfig(
        kind="encoder",
        n_kv_heads=2,
        position="rope",
        rope=RopeConfig(fraction=0.5, scaling=RopeScaling(type="linear", factor=2.0)),
        moe=MoEConfig(n_experts=4, n_experts_per_token=2),
        window=3,
        layer_types=("full_attention", "sliding_attention"),
        **SIZES,
    )
    config.save(tmp_path / "config.json")
    assert ModelConfig.load(tmp_path / "config.json") == config
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["rope.scaling.factor"] == 2.0 and "rope.base" not in written
    nested = dict(fraction=0.5, scaling=dict(type="linear", factor=2.0))
    dotted = {name: value for name, value in written.items() if not name.startswith("rope.")}
    assert ModelConfig.of(dotted | dict(rope=nested)) == config and nested == dict(
        fraction=0.5, scaling=dict(type="linear", factor=2.0)
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", r"config.json holds no model config: .*line 1"),
        ("[1]", "it holds list, not fields"),
        ('{"d_model": 8}', "missing fields n_layers, n_heads, d_ff, n_vocab"),
        ('{"d_model": 8, "width": 3}', "unknown fields width; allowed are d_model"),
        ('{"rope.theta": 3}', "missing fields d_model"),
        (json.dumps(SIZES | {"rope.theta": 3}), "unknown fields rope.theta; allowed are rope.base, rope.local_base"),
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
    rope = dataclasses.replace(before, position="rope", rope=RopeConfig(base=500.0))
    assert before.difference(rope) == {"position": ("none", "rope"), "rope.base": (None, 500.0)}
    far = dataclasses.replace(rope, rope=RopeConfig())
    assert rope.difference(far) == {"rope.base": (500.0, 10000.0)}
    assert before.difference(before) == {} and list(before.changed())[:2] == ["d_model", "n_layers"]


def test_the_tables_of_the_module_name_fields_that_exist():
    assert set(PARTS) < set(ALLOWED) <= set(types_of())
    for cls in (ModelConfig, RopeScaling, MoEConfig):
        for field in dataclasses.fields(cls):
            if "owner" in field.metadata:  # some part takes the option, and some does not
                owner = cls.prefix + field.metadata["owner"]
                assert {field.name in takes(owner, name) for name in PARTS[owner]} == {True, False}


def test_an_option_is_refused_by_the_parts_that_do_not_take_it():
    moe = dict(n_experts=4, n_experts_per_token=2)
    owners = [f"moe.router='{name}'" for name in PARTS["moe.router"] if name != "softmax_of_top_k"]
    belongs = re.escape("it belongs to " + " or ".join(owners))
    with pytest.raises(ValueError, match=f"moe.routed_scaling_factor=2.5 must be left out with .*; {belongs}$"):
        MoEConfig(**moe, routed_scaling_factor=2.5)
    with pytest.raises(ValueError, match="moe.router_bias=True must be left out with moe.router='top_k_of_sigmoid'"):
        MoEConfig(**moe, router="top_k_of_sigmoid", router_bias=True)
