"""Windows that differ by layer, fields whose null means something, and released files that no preset follows."""

import pytest
from models.checkpoints.cases import FULL, SLIDING, released

from llm_anatomy.config import ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints import families

SIZES = released("vocab_size=101 hidden_size=24 intermediate_size=36 num_attention_heads=4 num_key_value_heads=2")
BOTH = [SLIDING, FULL]


def config_of(family, **fields):
    return families()[family].config(Record("config.json", SIZES | {"num_hidden_layers": 4} | fields))


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
@pytest.mark.parametrize(
    "fields, window, types",
    [
        ({}, None, ()),
        (dict(sliding_window=8, max_window_layers=0), None, ()),  # the switch is off
        (dict(use_sliding_window=True, max_window_layers=0), 4096, ()),
        (dict(use_sliding_window=True, sliding_window=8, max_window_layers=4), None, ()),
        (dict(use_sliding_window=True, sliding_window=8), None, ()),  # 28 layers are without
        (dict(use_sliding_window=True, sliding_window=None, max_window_layers=0), None, ()),
        (
            dict(use_sliding_window=True, sliding_window=8, max_window_layers=1, layer_types=2 * BOTH),
            8,
            (SLIDING, FULL),
        ),
        (dict(use_sliding_window=True, sliding_window=8, max_window_layers=3), 8, (FULL, FULL, FULL, SLIDING)),
    ],
    ids=str,
)
def test_a_switch_a_count_and_a_list_say_which_layers_have_windows(family, fields, window, types):
    found = config_of(family, **fields)
    assert (found.window, found.layer_types) == (window, types)


@pytest.mark.parametrize(
    "fields, window, types",
    [
        ({}, 4096, (SLIDING, FULL)),
        (dict(num_hidden_layers=1), 4096, ()),
        (dict(sliding_window=8, layer_types=[SLIDING] * 4), 8, ()),
        (dict(sliding_window=8, layer_types=[SLIDING] * 3 + [FULL]), 8, (SLIDING, SLIDING, SLIDING, FULL)),
        (dict(sliding_window=8, layer_types=[FULL, SLIDING, FULL, FULL]), 8, (FULL, SLIDING, FULL)),
        (dict(sliding_window=8, layer_types=[FULL, SLIDING, FULL, SLIDING]), 8, (FULL, SLIDING)),
        (dict(sliding_window=None, layer_types=[FULL] * 4), None, ()),
    ],
    ids=str,
)
def test_gemma_2_alternates_unless_a_list_says_otherwise(fields, window, types):
    found = config_of("gemma2", **fields)
    assert (found.window, found.layer_types) == (window, types)


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "gemma2"])
@pytest.mark.parametrize(
    "window, types",
    [(None, ()), (8, ()), (8, "SF"), (8, "SSF"), (8, "SSSF"), (8, "FS"), (8, "FFSS"), (8, "FSS")],
)
def test_windows_come_back_as_they_were_written(family, window, types):
    types = tuple({"S": SLIDING, "F": FULL}[letter] for letter in types)
    config = ModelConfig.of(config_of(family).changed() | dict(window=window, layer_types=types))
    fields = families()[family].hf_config(config)  # refuses what would come back as another
    assert fields["layer_types"] == ([FULL] * 4 if window is None else list(((types or (SLIDING,)) * 4)[:4]))
    no_window = 4096 if family == "gemma2" else None  # its class wants a width all the same
    assert fields["sliding_window"] == (window or no_window)


def test_null_and_missing_are_two_things():
    assert config_of("mistral").window == 4096 and config_of("mistral", sliding_window=None).window is None
    fields = {name: value for name, value in SIZES.items() if name != "num_key_value_heads"} | dict(num_hidden_layers=1)
    fields |= dict(hidden_size=32, num_attention_heads=16)
    missing = families()["mistral"].config(Record("config.json", fields))
    null = families()["mistral"].config(Record("config.json", fields | dict(num_key_value_heads=None)))
    assert (missing.n_kv_heads, null.n_kv_heads) == (8, 16)
    bounds = config_of("gemma2"), config_of("gemma2", attn_logit_softcapping=None, final_logit_softcapping=None)
    assert [(c.attn_logit_softcapping, c.final_logit_softcapping) for c in bounds] == [(50.0, 30.0), (None, None)]


@pytest.mark.parametrize(
    "family, changes, said",
    [
        ("mistral", dict(attention_bias=True), "attention_bias=True"),
        ("mixtral", {"moe.d_expert": 9}, "moe.d_expert=9"),
        ("qwen2", dict(window=8, layer_types=2 * (SLIDING, FULL)), "layer_types=.*sliding"),
        ("qwen2", dict(attention_bias=False), "attention_bias=False"),
        ("qwen3", dict(qk_norm=None), "qk_norm=None"),
        ("gemma", dict(feedforward="geglu"), "feedforward='geglu'"),
        ("gemma2", dict(attention_scale=0.3), "attention_scale=0.3"),
        ("gemma2", dict(norm_placement="pre"), "norm_placement='pre'"),
        ("granite", dict(attention_scale=None), "attention_scale=None"),
        ("granite", {"rope.layers": (True, False)}, "rope.layers="),
        ("smollm3", dict(logit_multiplier=0.5), "logit_multiplier=0.5"),
        ("starcoder2", dict(output_bias=False), "output_bias=False"),
        ("qwen3_moe", {"moe.router": "top_k_of_sigmoid"}, "moe.router='top_k_of_sigmoid'"),
    ],
)
def test_a_config_that_a_family_cannot_say_is_refused(family, changes, said):
    values = config_of(family).changed() | changes
    with pytest.raises(ValueError, match=f"the family {family} cannot represent {said}"):
        families()[family].hf_config(ModelConfig.of(values))


QWEN = """attention_dropout=0.0 bos_token_id=151643 eos_token_id=151643 hidden_act="silu"
    initializer_range=0.02 rms_norm_eps=1e-06 tie_word_embeddings=true torch_dtype="bfloat16" use_cache=true
    use_sliding_window=false vocab_size=151936"""
SHARED = {"position": "rope", "norm": "rmsnorm", "feedforward": "swiglu", "rope.base": 1e6}
FILES = {
    "Mixtral 8x7B": (
        "mixtral",
        released(
            """attention_dropout=0.0 bos_token_id=1 eos_token_id=2 hidden_act="silu" hidden_size=4096
            initializer_range=0.02 intermediate_size=14336 max_position_embeddings=32768 model_type="mixtral"
            num_attention_heads=32 num_experts_per_tok=2 num_hidden_layers=32 num_key_value_heads=8 num_local_experts=8
            output_router_logits=false rms_norm_eps=1e-05 rope_theta=1000000.0 router_aux_loss_coef=0.02
            sliding_window=null tie_word_embeddings=false torch_dtype="bfloat16" use_cache=true vocab_size=32000"""
        ),
        dict(d_model=4096, n_layers=32, n_heads=32, n_kv_heads=8, d_ff=14336, n_vocab=32000, n_ctx=32768)
        | {"moe.n_experts": 8, "moe.n_experts_per_token": 2},
    ),
    "Qwen2.5 0.5B": (
        "qwen2",
        released(
            f"""{QWEN} hidden_size=896 intermediate_size=4864 max_position_embeddings=32768 max_window_layers=24
            model_type="qwen2" num_attention_heads=14 num_hidden_layers=24 num_key_value_heads=2 rope_theta=1000000.0
            sliding_window=32768 use_mrope=false"""
        ),
        dict(d_model=896, n_layers=24, n_heads=14, n_kv_heads=2, d_ff=4864, n_vocab=151936, n_ctx=32768)
        | dict(norm_eps=1e-6, tie_embeddings=True, attention_bias=True),
    ),
    "Qwen3 0.6B": (
        "qwen3",
        released(
            f"""{QWEN} attention_bias=false head_dim=128 hidden_size=1024 intermediate_size=3072
            max_position_embeddings=40960 max_window_layers=28 model_type="qwen3" num_attention_heads=16
            num_hidden_layers=28 num_key_value_heads=8 rope_scaling=null rope_theta=1000000 sliding_window=null"""
        ),
        dict(d_model=1024, n_layers=28, n_heads=16, n_kv_heads=8, d_head=128, d_ff=3072, n_vocab=151936, n_ctx=40960)
        | dict(norm_eps=1e-6, tie_embeddings=True, qk_norm="per_head"),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_released_config_without_a_preset_is_read(name):
    family, fields, expected = FILES[name]
    found = families()[family].config(Record("config.json", fields))
    assert found == ModelConfig.of(SHARED | expected)
