"""What chapter 13 says of the twelve families that the lectures do not mention, read from their presets."""

import pytest

from llm_anatomy.models.presets import preset, presets


@pytest.mark.parametrize("name", ["gpt-j", "palm-540b", "falcon-7b", "command-r"])
def test_the_parallel_block_comes_back_with_one_norm(name):
    assert preset(name).parallel_block and preset(name).n_parallel_norms == 1


def test_starcoder2_keeps_what_gpt_3_had_but_for_three_choices():
    new, old = preset("starcoder2-3b"), preset("gpt-3")
    for field in ("norm", "norm_placement", "feedforward", "ff_bias", "attention_bias", "output_bias"):
        assert new.get(field) == old.get(field)
    assert new.position == "rope" and new.n_kv_heads < new.n_heads and new.window and not new.layer_types


def test_mpt_and_stablelm_take_their_positions_from_bloom_and_gpt_neox():
    assert preset("mpt-7b").position == preset("bloom").position == "alibi"
    assert preset("stablelm-3b").rope.fraction == preset("gpt-neox").rope.fraction == 0.25


def test_a_factor_of_the_logits_is_older_than_command_r():
    assert preset("command-r").logit_multiplier != 1 and preset("t5-11b").scale_logits


def test_heads_are_shared_by_all_models_of_2025_but_olmo_3():
    of_2025 = ("gemma-3-1b", "qwen3-30b-a3b", "smollm3-3b", "gpt-oss-20b", "olmo-3-7b")
    assert [name for name in of_2025 if preset(name).n_kv_heads == preset(name).n_heads] == ["olmo-3-7b"]
    assert [name for name in of_2025 if preset(name).qk_norm] == ["gemma-3-1b", "qwen3-30b-a3b", "olmo-3-7b"]
    assert [name for name in of_2025 if preset(name).window] == ["gemma-3-1b", "gpt-oss-20b", "olmo-3-7b"]


def test_gemma_3_normalizes_where_gemma_2_bounds():
    old, new = preset("gemma-2-9b"), preset("gemma-3-1b")
    assert old.attn_logit_softcapping and not old.qk_norm
    assert new.qk_norm and not new.attn_logit_softcapping and not new.final_logit_softcapping


def test_granite_has_the_four_factors_of_mup():
    granite = preset("granite-3.0-2b")
    assert granite.attention_scale == 1 / granite.d_head
    assert 1 not in (granite.embedding_multiplier, granite.residual_multiplier, granite.logit_multiplier)


def test_layers_differ_in_their_rope():
    assert preset("smollm3-3b").rope.layers == (True, True, True, False)
    gemma, olmo, gpt_oss = preset("gemma-3-1b").rope, preset("olmo-3-7b").rope, preset("gpt-oss-20b").rope
    assert gemma.local_base < gemma.base and gemma.scaling is None
    assert olmo.scaling.type == gpt_oss.scaling.type == "yarn"
    assert olmo.local_base == olmo.base and gpt_oss.local_base is None  # which is not scaled


@pytest.mark.parametrize(
    ("name", "everywhere"), [("qwen3-30b-a3b", True), ("gpt-oss-20b", True), ("deepseek-v2", False)]
)
def test_experts_are_in_all_layers_and_none_is_shared(name, everywhere):
    config = preset(name)
    assert all(map(config.moe.has_layer, range(config.n_layers))) == everywhere
    assert (config.moe.n_shared_experts == 0) == everywhere


def test_gpt_oss_alone_has_sinks():
    assert [one.name for one in presets().values() if one.values.get("attention_sinks")] == ["gpt-oss-20b"]
