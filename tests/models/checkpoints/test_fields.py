"""What fields of config.json mean: as Hugging Face's library reads them, or refused."""

import json

import pytest
import torch
import transformers
from models.checkpoints.cases import CASES, FULL, LLAMA3_ROPE, NO_TOKENS, SIZES, decoder, llama, released, t5
from models.checkpoints.parity import difference
from models.checkpoints.test_engine import change_config, change_tensors
from randomness import randomize

from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints import families, load, save
from llm_anatomy.models.checkpoints.fields import HARMLESS, NEUTRAL

BOUND = 1e-4


@pytest.mark.parametrize("d_head, fraction, n_rotated", [(20, 0.25, 5), (12, 0.75, 9), (10, 0.75, 7), (16, 0.1, 1)])
def test_an_odd_number_of_rotated_entries_is_refused(d_head, fraction, n_rotated):
    fields = SIZES | dict(hidden_size=4 * d_head, rotary_pct=fraction)
    with pytest.raises(ValueError, match=f"RoPE would rotate {n_rotated} of the {d_head} entries of a head; it must"):
        families()["gptneox"].config(Record("config.json", fields))


@pytest.mark.parametrize("family, fields", [("llama", dict(head_dim=5)), ("roformer", dict(hidden_size=36))])
def test_so_is_an_odd_head(family, fields):
    with pytest.raises(ValueError, match=r"RoPE would rotate \d of the \d entries of a head"):
        families()[family].config(Record("config.json", SIZES | fields))


T5_FIELDS = [
    ("relu", dict(dense_act_fn="gelu_new")),
    ("relu", dict(dense_act_fn="silu", feed_forward_proj="gelu")),
    ("gated-gelu", dict(dense_act_fn="gelu")),
    ("gated-gelu", dict(dense_act_fn="relu", feed_forward_proj="silu", is_gated_act=True)),
    ("gelu_new", {}),
]


@pytest.mark.parametrize("made_with, changes", T5_FIELDS)
def test_the_derived_fields_of_t5_have_the_last_word(made_with, changes, tmp_path):
    randomize(t5(feed_forward_proj=made_with)).save_pretrained(tmp_path / "theirs")
    change_config(tmp_path / "theirs", **changes)
    hf = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "theirs").eval()
    ours = load(tmp_path / "theirs")
    assert difference(ours.model, hf) <= BOUND
    save(ours, tmp_path / "ours")
    again = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "ours").eval()
    assert difference(ours.model, again) <= BOUND


@pytest.mark.parametrize("field", ["dense_act_fn", "is_gated_act", "feed_forward_proj"])
def test_an_unknown_activation_of_t5_is_refused_by_its_field(field):
    fields = dict(vocab_size=5, d_model=8, num_layers=1, num_heads=2, d_ff=9, **{field: "mish"})
    with pytest.raises(ValueError, match=f"key '{field}': 'mish'"):
        families()["t5"].config(Record("config.json", fields))


def test_gemma_2_without_a_window_is_written_so_that_it_can_be_read(tmp_path):
    hf = randomize(decoder("Gemma2", layer_types=[FULL, FULL], **NO_TOKENS)).eval()
    hf.save_pretrained(tmp_path / "theirs")
    save(load(tmp_path / "theirs"), tmp_path / "ours")
    assert isinstance(json.loads((tmp_path / "ours" / "config.json").read_text())["sliding_window"], int)
    read = transformers.Gemma2ForCausalLM.from_pretrained(tmp_path / "ours").eval()
    ours = load(tmp_path / "ours")
    assert ours.config.window is None and difference(ours.model, read) <= BOUND


NULLS = {
    "deepseek_v3": ["norm_topk_prob", "rope_interleave", "n_shared_experts"],
    "t5": ["scale_decoder_outputs", "is_gated_act"],
}


@pytest.mark.parametrize("family", NULLS)
def test_null_is_refused_where_it_means_something_else(family):
    fields = CASES[family].hf().config.to_dict()
    for name in NULLS[family]:
        with pytest.raises(ValueError, match=f"key '{name}': null is not supported"):
            families()[family].config(Record("config.json", fields | {name: None}))


def test_two_names_of_one_field_must_agree():
    fields = CASES["gpt2"].hf().config.to_dict()
    families()["gpt2"].config(Record("config.json", fields | dict(hidden_size=24)))
    for other in (25, 24.0):
        with pytest.raises(ValueError, match=f"key 'hidden_size': {other} does not agree with n_embd=24"):
            families()["gpt2"].config(Record("config.json", fields | dict(hidden_size=other)))


LINEAR = {"type": "linear", "factor": 4.0}


@pytest.mark.parametrize(
    "changes, factor",
    [
        (dict(rope_parameters={}, rope_scaling=LINEAR), 4.0),
        (dict(rope_parameters=LINEAR, rope_scaling={}), 4.0),
        (dict(rope_parameters=LINEAR | dict(rope_theta=9.0), rope_scaling=LINEAR, rope_theta=9.0), 4.0),
        (dict(rope_parameters=LINEAR | dict(rope_theta=9.0), rope_scaling=LINEAR), None),
        (dict(rope_parameters=LINEAR, rope_scaling=dict(rope_type="default")), None),
        (dict(rope_parameters=LINEAR, rope_scaling=[]), None),
        (dict(rope_scaling=True), None),
    ],
)
def test_older_and_newer_fields_of_rope_must_agree(changes, factor):
    fields = {name: value for name, value in llama().config.to_dict().items() if not name.startswith("rope")}
    if factor is None:
        with pytest.raises(ValueError, match="key 'rope_scaling': .* (does not agree with|must be an object)"):
            families()["llama"].config(Record("config.json", fields | changes))
    else:
        assert families()["llama"].config(Record("config.json", fields | changes)).rope.scaling.factor == factor


@pytest.mark.parametrize("lost", ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"])
def test_the_scaling_of_llama_3_has_no_defaults(lost):
    fields = llama(LLAMA3_ROPE).config.to_dict()
    del fields["rope_parameters"][lost]
    with pytest.raises(ValueError, match=f"key 'rope_parameters': {lost} is missing, which 'llama3' needs"):
        families()["llama"].config(Record("config.json", fields))


def test_the_type_of_a_model_must_be_that_of_its_architecture(folder):
    change_config(folder, model_type="mistral")  # by which the reference would read another model
    with pytest.raises(ValueError, match="key 'model_type': 'mistral' is not supported; it must be 'llama'"):
        load(folder)


# --- Fields without meaning ---

# What released files of the families carry besides the fields that describe the model.
CARRIED = {
    "llama": """is_llama_config=true rope_interleaved=false max_sequence_length=2048 unsloth_fixed=true
        unsloth_version="2024.9" neftune_noise_alpha=5 _model_name_or_path="a/b" _name_or_path="." pretraining_tp=1
        _attn_implementation_autoset=true _flash_attn_2_enabled=true use_flash_attention_2=false model_max_length=4096
        max_window_layers=28
        tokenizer_padding_side="right" partial_rotary_factor=1.0 mlp_bias=false torch_dtype="bfloat16"
        use_sliding_window=false rope_traditional=false temperature=1.0 top_p=1.0 pruned_heads={}""",
    "mistral": """attention_bias=false mlp_bias=false unsloth_version="2025.1" rope_scaling=null""",
    "qwen2": """attention_bias=true use_mrope=false rope_scaling=null""",
    "qwen3": """unsloth_fixed=true mlp_bias=false""",
    "qwen3_moe": """max_window_layers=48 rope_scaling=null shared_expert_intermediate_size=null mlp_bias=false""",
    "granite": """rope_scaling=null use_sliding_window=false""",
    "smollm3": """max_window_layers=28 pretraining_tp=2 use_cache=false""",
    "starcoder2": """mlp_type="default" norm_type="layer_norm" residual_dropout=0.1 embedding_dropout=0.1""",
    "gemma": """unsloth_version="2025.1" hidden_activation=null sliding_window=null""",
    "gemma2": """cache_implementation="hybrid" sliding_window_size=4096 hidden_act="gelu" mlp_bias=false""",
    "gpt2": """n_special=0 predict_special_tokens=true _num_labels=1 summary_type="cls_index" n_ctx=40 is_decoder=false
        add_cross_attention=false gradient_checkpointing=false output_past=true xla_device=true""",
    "gptj": """n_ctx=40 n_special=0""",
    "gptneox": """classifier_dropout=0.1 rope_scaling=null""",
    "bert": """name="Bert" language="german" emb_size=24 cell={} structure=[] pre_trained="" training=""
        directionality="bidi" pooler_type="first_token_transform" problem_type=null is_decoder=false""",
    "roformer": """pooler_type="first_token_transform" directionality="bidi" """,
    "deberta_v2": """conv_act="gelu" pooler_hidden_act="gelu" """,
    "t5": """n_positions=512 output_past=true classifier_dropout=0.0 min_length=10 num_beams=4 early_stopping=true""",
    "opt": """prefix="</s>" use_bfloat16=false""",
    "bloom": """offset_alibi=100 masked_softmax_fusion=true unk_token_id=0 num_beams=1""",
}
MORE = {"transformers.js_config": {"dtype": "q4"}, "id2label": {"0": "LABEL_0"}, "task_specific_params": {"a": {}}}


def fields_of(family):
    name = "deberta v2" if family == "deberta_v2" and "deberta v2" in CASES else family
    return CASES[name].hf().config.to_dict()


@pytest.mark.parametrize("family", CARRIED)
def test_what_released_files_carry_changes_nothing(family):
    fields = fields_of(family)
    plain = families()[family].config(Record("config.json", fields))
    assert families()[family].config(Record("config.json", fields | released(CARRIED[family]) | MORE)) == plain


@pytest.mark.parametrize("name", NEUTRAL)
def test_a_neutral_field_with_another_value_is_refused(name):
    (value, *_), fields = NEUTRAL[name], fields_of("gptj")
    families()["gptj"].config(Record("config.json", fields | {name: value}))
    for other in (not value, 1, "yes"):
        if other != value or isinstance(other, bool):
            with pytest.raises(ValueError, match=f"key '{name}': {other!r} is not supported; it must be "):
                families()["gptj"].config(Record("config.json", fields | {name: other}))


def test_no_harmless_field_is_neutral_too():
    names = HARMLESS.split()
    assert len(names) == len(set(names)) and not set(names) & NEUTRAL.keys()
    for family in families().values():
        assert not set(family.harmless.split()) & set(names), family.name


@pytest.fixture
def folder(tmp_path):
    randomize(llama()).save_pretrained(tmp_path)
    return tmp_path


def test_an_unknown_field_is_ignored_on_request_with_a_warning(folder):
    expected = load(folder).config
    change_config(folder, alibi=True, warp=[1, 2])
    with pytest.raises(ValueError, match=r"'alibi': True is unknown .*; load\(…, ignore=\('alibi',\)\) loads it all"):
        load(folder)
    with pytest.raises(ValueError, match="'warp': .1, 2. is unknown"):
        load(folder, ignore=("alibi",))
    with pytest.warns(
        UserWarning, match=r"config.json: ignored alibi=True, warp=\[1, 2\], which might change"
    ) as caught:
        checkpoint = load(folder, ignore=("alibi", "warp"))
    assert len(caught) == 1
    assert checkpoint.config == expected and not {"alibi", "warp"} & checkpoint.extra_config.keys()


@pytest.mark.parametrize(
    "name, why",
    [
        ("albi", "no field of config.json"),
        ("hidden_size", "a field that the family llama knows"),
        ("use_cache", "a field that the family llama knows"),
        ("rope_interleaved", "a field that the family llama knows"),
    ],
)
def test_only_an_unknown_field_can_be_ignored(name, why, folder):
    change_config(folder, rope_interleaved=False)
    for ignore in (name, (name,)):
        with pytest.raises(ValueError, match=f"^ignore='{name}' must be an unknown field; it is {why}$"):
            load(folder, ignore=ignore)


def test_a_quantized_model_is_refused_even_so(folder):
    change_config(folder, quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(ValueError, match="'quantization_config': .* is unknown"):
        load(folder)


TABLES = {
    "llama": ["model.rotary_emb.inv_freq", "model.layers.0.self_attn.rotary_emb.inv_freq"],
    "mistral": ["model.layers.1.self_attn.rotary_emb.cos_cached", "model.rotary_emb.original_inv_freq"],
    "olmo2": ["model.layers.1.self_attn.rotary_emb.inv_freq"],
    "gptneox": ["gpt_neox.layers.0.attention.masked_bias", "gpt_neox.layers.1.attention.bias"],
    "gpt2": ["transformer.h.1.attn.bias", "transformer.h.0.attn.masked_bias"],
    "bert": ["bert.embeddings.position_ids"],
    "opt": ["model.decoder.version"],
}


@pytest.mark.parametrize("family", TABLES)
def test_tables_that_follow_from_the_config_are_not_read(family, tmp_path):
    randomize(CASES[family].hf()).save_pretrained(tmp_path)
    expected = load(tmp_path).model.state_dict()
    change_tensors(tmp_path, lambda t: t.update({name: torch.rand(3) for name in TABLES[family]}))
    found = load(tmp_path).model.state_dict()
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in found)
