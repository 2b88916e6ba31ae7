"""Every model row of the lectures: known values with their sources, counts as published, and small twins that run."""

import dataclasses
import re
from functools import cache

import pytest
import torch
import transformers

from llm_anatomy.config import ModelConfig, types_of
from llm_anatomy.data import table
from llm_anatomy.models import parts
from llm_anatomy.models.costs import costs
from llm_anatomy.models.presets import find, preset, presets, tiny
from llm_anatomy.models.transformer import Transformer

RECORDS = presets()
BUILDABLE = [name for name, record in RECORDS.items() if record.known]
TINY = {tiny(name): name for name in BUILDABLE}  # models that differ in size alone have one tiny twin
TWINS = sorted(TINY.values())


@cache
def n_parameters(name):
    """By the formulas, from models of few layers, since all but the first are alike. Whole models are counted below."""
    full = preset(name)
    few, both = max(2, len(full.layer_types), len(full.get("rope.layers") or ())), full.kind == "encoder-decoder"

    def counted(n_layers, n_encoder_layers=2):
        config = dataclasses.replace(full, n_layers=n_layers, **dict(n_encoder_layers=n_encoder_layers) if both else {})
        return costs(config, 1, n_source=1 if both else None).total.n_parameters

    least = counted(few)
    more = (full.n_encoder_layers - 2) * (counted(few, 3) - least) if both else 0
    return least + (full.n_layers - few) * (counted(few + 1) - least) + more


# --- The data ---


def test_every_value_has_one_source_and_every_field_is_one_of_the_config():
    fields = set(types_of())
    for name, record in RECORDS.items():
        assert set(record.values) == set(record.sources) <= fields, name
        assert set(record.unknown) <= fields - set(record.values), name
        assert record.title and record.year and record.paper, name
        assert all(record.sources.values()) and (record.exact is None) == (record.exact_source is None), name
        assert (record.printed is None) == (record.printed_source is None), name


LATER = {"starcoder2-3b", "granite-3.0-2b", "smollm3-3b", "qwen3-30b-a3b"}
LATER |= {"stablelm-3b", "falcon-7b", "mpt-7b", "command-r", "phi-3-mini-4k", "gemma-3-1b", "olmo-3-7b", "gpt-oss-20b"}
"""Models that no lecture mentions: one of each family that can be loaded since."""


def test_the_items_are_items_of_the_lectures():
    known = {row["id"] for row in table("syllabus_items")}
    for name, record in RECORDS.items():
        assert set(record.items) <= known and bool(record.items) == (name not in LATER), name


TABLES = ["model_architectures", "llama_sizes", "olmo_sizes", "embedding_sizes", "ffn_sizes", "vocab_context"]


@pytest.mark.syllabus("GT-43", "GT-44", "UCL-09", "UCL-13", "UCL-26", "GT-06", "GT-49")
@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_the_lectures_is_a_preset_that_names_its_item(name):
    for row in table(name):
        record = find(row["preset"])
        assert set(row["item"].split(", ")) & set(record.items), row


def test_presets_are_fresh_so_that_changing_one_harms_nobody():
    presets()["gpt-2"].values["d_model"] = 1
    assert preset("gpt-2").d_model == 768


# --- What cannot be asked for ---


def test_an_unknown_name_is_refused_with_those_that_are_close():
    with pytest.raises(ValueError, match="name='GPT2' is no preset; close to it are .*gpt-2"):
        preset("GPT2")
    with pytest.raises(ValueError, match="name='zzz' is no preset; there are transformer-base, .*megabyte"):
        tiny("zzz")


@pytest.mark.parametrize("make", [preset, tiny])
def test_what_is_not_public_is_listed_and_not_built(make):
    for name in set(RECORDS) - set(BUILDABLE):
        record = RECORDS[name]
        with pytest.raises(ValueError, match="cannot be built|is built by") as refusal:
            make(name)
        assert all(field in str(refusal.value) for field in record.unknown), name
        assert record.unknown or record.builder in str(refusal.value), name


@pytest.mark.syllabus("GT-44")
def test_unknown_are_the_cells_that_the_lectures_leave_empty():
    columns = {"norm": "norm", "position_embedding": "position", "activation": "feedforward"}
    for row in table("model_architectures"):
        if row["row_in_second_version"]:
            empty = {field for column, field in columns.items() if row[column] is None}
            assert empty == set(RECORDS[row["preset"]].unknown) & set(columns.values()), row["model"]


# --- Counts: Hugging Face's class of the sizes in its released configs ---


def gpt2(n_layers, d_model):
    return "GPT2LMHeadModel", dict(n_layer=n_layers, n_embd=d_model, n_head=d_model // 64)


def bert(n_layers, d_model):
    sizes = dict(num_hidden_layers=n_layers, hidden_size=d_model, intermediate_size=4 * d_model)
    return "BertForMaskedLM", dict(num_attention_heads=d_model // 64, **sizes)


def t5(n_layers, d_model, n_heads, d_kv, d_ff, made="T5ForConditionalGeneration", gated=False, **more):
    sizes = dict(num_layers=n_layers, d_model=d_model, num_heads=n_heads, d_kv=d_kv, d_ff=d_ff)
    return made, dict(feed_forward_proj="gated-gelu" if gated else "relu", **sizes, **more)


def t5_gated(n_layers, d_model, n_heads, d_ff):
    return t5(n_layers, d_model, n_heads, 64, d_ff, gated=True)


def mt5(n_layers, d_model, n_heads, d_ff):
    return t5(n_layers, d_model, n_heads, 64, d_ff, "MT5ForConditionalGeneration", gated=True, vocab_size=250112)


def opt(n_layers, d_model, n_heads):
    widths = dict(hidden_size=d_model, word_embed_proj_dim=d_model, ffn_dim=4 * d_model)
    return "OPTForCausalLM", dict(num_hidden_layers=n_layers, num_attention_heads=n_heads, **widths)


def bloom(n_layers, d_model, n_heads):
    return "BloomForCausalLM", dict(vocab_size=250880, n_layer=n_layers, hidden_size=d_model, n_head=n_heads)


def llama(n_layers, d_model, n_heads, d_ff, n_kv=None, n_vocab=32000, made="LlamaForCausalLM", **more):
    sizes = dict(num_hidden_layers=n_layers, hidden_size=d_model, intermediate_size=d_ff, vocab_size=n_vocab)
    return made, dict(num_attention_heads=n_heads, num_key_value_heads=n_kv or n_heads, **sizes, **more)


def llama3(n_layers, d_model, n_heads, d_ff, **more):
    return llama(n_layers, d_model, n_heads, d_ff, n_kv=8, n_vocab=128256, **more)


def gemma(made, n_layers, d_model, n_heads, n_kv, d_head, d_ff):
    return llama(n_layers, d_model, n_heads, d_ff, n_kv, 256000, made, head_dim=d_head)


def deepseek_v2(n_layers, d_model, n_heads, d_ff, d_expert, n_experts, q_rank):
    made, sizes = llama(n_layers, d_model, n_heads, d_ff, n_vocab=102400, made="DeepseekV2ForCausalLM")
    latent = dict(kv_lora_rank=512, q_lora_rank=q_rank, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128)
    experts = dict(moe_intermediate_size=d_expert, n_routed_experts=n_experts, n_shared_experts=2)
    return made, dict(first_k_dense_replace=1, num_experts_per_tok=6, **sizes, **latent, **experts)


DEBERTA = dict(vocab_size=50265, relative_attention=True, position_biased_input=False, pos_att_type="c2p|p2c")
HUGGING_FACE = {
    "gpt": ("OpenAIGPTLMHeadModel", {}),
    "gpt-2": gpt2(12, 768),
    "gpt-2-medium": gpt2(24, 1024),
    "gpt-2-large": gpt2(36, 1280),
    "gpt-2-xl": gpt2(48, 1600),
    "bert-base": bert(12, 768),
    "bert-large": bert(24, 1024),
    "roformer": ("RoFormerForMaskedLM", {}),
    "deberta-base": ("DebertaForMaskedLM", dict(type_vocab_size=0, legacy=False, **DEBERTA)),
    "t5-small": t5(6, 512, 8, 64, 2048),
    "t5-base": t5(12, 768, 12, 64, 3072),
    "t5-large": t5(24, 1024, 16, 64, 4096),
    "t5-3b": t5(24, 1024, 32, 128, 16384),
    "t5-11b": t5(24, 1024, 128, 128, 65536),
    "t5-v1.1-small": t5_gated(8, 512, 6, 1024),
    "t5-v1.1-base": t5_gated(12, 768, 12, 2048),
    "t5-v1.1-large": t5_gated(24, 1024, 16, 2816),
    "t5-v1.1-xl": t5_gated(24, 2048, 32, 5120),
    "t5-v1.1-xxl": t5_gated(24, 4096, 64, 10240),
    "mt5-small": mt5(8, 512, 6, 1024),
    "mt5-base": mt5(12, 768, 12, 2048),
    "mt5-large": mt5(24, 1024, 16, 2816),
    "mt5-xl": mt5(24, 2048, 32, 5120),
    "mt5-xxl": mt5(24, 4096, 64, 10240),
    "gpt-j": ("GPTJForCausalLM", dict(vocab_size=50400, n_embd=4096, n_layer=28, n_head=16, rotary_dim=64)),
    "gpt-neox": ("GPTNeoXForCausalLM", dict(vocab_size=50432)),
    "opt-125m": opt(12, 768, 12),
    "opt-1.3b": opt(24, 2048, 32),
    "opt-2.7b": opt(32, 2560, 32),
    "opt-6.7b": opt(32, 4096, 32),
    "opt-13b": opt(40, 5120, 40),
    "opt-30b": opt(48, 7168, 56),
    "opt-66b": opt(64, 9216, 72),
    "opt-175b": opt(96, 12288, 96),
    "bloom-560m": bloom(24, 1024, 16),
    "bloom-7.1b": bloom(30, 4096, 32),
    "bloom": bloom(70, 14336, 112),
    "llama-7b": llama(32, 4096, 32, 11008),
    "llama-13b": llama(40, 5120, 40, 13824),
    "llama-33b": llama(60, 6656, 52, 17920),
    "llama-65b": llama(80, 8192, 64, 22016),
    "llama-2-7b": llama(32, 4096, 32, 11008),
    "llama-2-13b": llama(40, 5120, 40, 13824),
    "llama-2-70b": llama(80, 8192, 64, 28672, n_kv=8),
    "llama-3-8b": llama3(32, 4096, 32, 14336),
    "llama-3-70b": llama3(80, 8192, 64, 28672),
    "llama-3.1-8b": llama3(32, 4096, 32, 14336),
    "llama-3.1-70b": llama3(80, 8192, 64, 28672),
    "llama-3.1-405b": llama3(126, 16384, 128, 53248),
    "llama-3.2-1b": llama3(16, 2048, 32, 8192, tie_word_embeddings=True),
    "llama-3.2-3b": llama3(28, 3072, 24, 8192, tie_word_embeddings=True),
    "mistral-7b": llama(32, 4096, 32, 14336, n_kv=8, made="MistralForCausalLM"),
    "gemma-2b": gemma("GemmaForCausalLM", 18, 2048, 8, 1, 256, 16384),
    "gemma-7b": gemma("GemmaForCausalLM", 28, 3072, 16, 16, 256, 24576),
    "gemma-2-2b": gemma("Gemma2ForCausalLM", 26, 2304, 8, 4, 256, 9216),
    "gemma-2-9b": gemma("Gemma2ForCausalLM", 42, 3584, 16, 8, 256, 14336),
    "gemma-2-27b": gemma("Gemma2ForCausalLM", 46, 4608, 32, 16, 128, 36864),
    "qwen-14b": llama(40, 5120, 40, 13696, n_vocab=152064, made="Qwen2ForCausalLM"),
    "deepseek-67b": llama(95, 8192, 64, 22016, n_kv=8, n_vocab=102400),
    "deepseek-v2": deepseek_v2(60, 5120, 128, 12288, 1536, 160, q_rank=1536),
    "deepseek-v2-lite": deepseek_v2(27, 2048, 16, 10944, 1408, 64, q_rank=None),
    "yi-6b": llama(32, 4096, 32, 11008, n_kv=4, n_vocab=64000),
    "yi-34b": llama(60, 7168, 56, 20480, n_kv=8, n_vocab=64000),
    "olmo-1b": llama(16, 2048, 16, 8192, n_vocab=50304, made="OlmoForCausalLM", tie_word_embeddings=True),
    "olmo-7b": llama(32, 4096, 32, 11008, n_vocab=50304, made="OlmoForCausalLM"),
    "starcoder2-3b": llama(30, 3072, 24, 12288, 2, 49152, "Starcoder2ForCausalLM", tie_word_embeddings=True),
    "granite-3.0-2b": llama(40, 2048, 32, 8192, 8, 49155, "GraniteForCausalLM", tie_word_embeddings=True),
    "smollm3-3b": llama(36, 2048, 16, 11008, 4, 128256, "SmolLM3ForCausalLM", tie_word_embeddings=True),
    "stablelm-3b": ("StableLmForCausalLM", {}),
    "falcon-7b": ("FalconForCausalLM", {}),
    "mpt-7b": ("MptForCausalLM", dict(d_model=4096, n_heads=32, n_layers=32, vocab_size=50432)),
    "command-r": llama(40, 8192, 64, 22528, n_vocab=256000, made="CohereForCausalLM", tie_word_embeddings=True),
    "qwen3-30b-a3b": llama(48, 2048, 32, 6144, 4, 151936, "Qwen3MoeForCausalLM", head_dim=128),
    "phi-3-mini-4k": llama(32, 3072, 32, 8192, n_vocab=32064, made="Phi3ForCausalLM"),
    "gemma-3-1b": llama(26, 1152, 4, 6912, 1, 262144, "Gemma3ForCausalLM", head_dim=256, tie_word_embeddings=True),
    "olmo-3-7b": llama(32, 4096, 32, 11008, n_vocab=100278, made="Olmo3ForCausalLM"),
    "gpt-oss-20b": ("GptOssForCausalLM", dict(num_hidden_layers=24, num_local_experts=32)),
}
# Hugging Face 5 always ties T5's output; the released T5 v1.1 and mT5 have a table of their own.
OWN_OUTPUT_TABLE = {"t5-v1.1": 32128, "mt5": 250112}
OURS_HAS_MORE = {"deberta-base": 12 * 768}  # biases of keys


@cache
def n_published(name):
    made, arguments = HUGGING_FACE[name]
    model_class = getattr(transformers, made)
    with torch.device("meta"):
        model = model_class(model_class.config_class(**arguments))
    count = sum(p.numel() for name, p in model.named_parameters() if "embed_positions" not in name or made[0] == "O")
    for family, n_vocab in OWN_OUTPUT_TABLE.items():
        if name.startswith(family):
            count += n_vocab * arguments["d_model"]
    return count


def test_every_preset_with_an_exact_count_has_a_class_to_compare_with():
    assert set(HUGGING_FACE) == {name for name, record in RECORDS.items() if record.exact}


SMALLEST = {HUGGING_FACE[name][0]: name for name in sorted(HUGGING_FACE, key=lambda name: -RECORDS[name].exact)}


@pytest.mark.syllabus("GT-43", "GT-44", "GT-06", "GT-05", "GT-49", "UCL-13")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in SMALLEST.values())) for name in HUGGING_FACE]
)
def test_the_full_model_has_as_many_parameters_as_the_published(name):
    with torch.device("meta"):
        ours = sum(parameter.numel() for parameter in Transformer(preset(name)).parameters())
    assert n_published(name) == RECORDS[name].exact == ours - OURS_HAS_MORE.get(name, 0)
    assert ours == n_parameters(name)


@pytest.mark.syllabus("GT-43", "GT-44", "GT-06", "GT-05", "GT-49", "UCL-13")
def test_every_model_has_as_many_parameters_by_the_formulas_as_the_published():
    for name in HUGGING_FACE:
        assert RECORDS[name].exact == n_parameters(name) - OURS_HAS_MORE.get(name, 0), name
    for name, more in OURS_HAS_MORE.items():
        assert f"{more:,} more" in RECORDS[name].difference


def agrees(count, printed):
    """Whether the count, rounded or cut, has the printed digits; zeros at the end of an integer are no digits."""
    digits, unit = re.fullmatch(r"([\d.]+)([MB]?)", printed).groups()
    step = 10.0 ** -len(digits.partition(".")[2]) if "." in digits else 10 ** (len(digits) - len(digits.rstrip("0")))
    step *= {"": 1, "M": 10**6, "B": 10**9}[unit]
    target = round(float(digits) * {"": 1, "M": 10**6, "B": 10**9}[unit] / step)
    return round(count / step) == target, int(count / step) == target


def test_printed_sizes_are_read_digit_by_digit():
    assert agrees(65_286_000_000, "65.2B") == (False, True) and agrees(65_286_000_000, "65.3B") == (True, False)
    assert agrees(13_016_000_000, "13.0B") == (True, True) and agrees(13_060_000_000, "13.0B") == (False, True)
    assert agrees(279_700_000_000, "280B") == (True, False) and agrees(271_000_000_000, "280B") == (False, False)
    assert agrees(20_554_567_680, "20554567680") == (True, True) and not any(agrees(20_554_567_690, "20554567680"))


# Sizes of a model that differ from the printed, and by how much at most; each record says why.
FAR_FROM_PRINTED = {
    "transformer-base": 0.031,
    "transformer-big": 0.006,
    "gpt-2": 0.07,
    "gpt-2-medium": 0.03,
    "gpt-2-large": 0.02,
    "gpt-2-xl": 0.011,
    "t5-large": 0.043,
    "gpt-j": 0.0005,
    "gemma-2b": 0.0002,
    "gemma-7b": 0.0002,
    "gemma-2-2b": 0.0002,
    "gemma-2-9b": 0.0002,
    "gemma-2-27b": 0.0002,
}


@pytest.mark.syllabus("GT-43", "GT-44", "GT-06")
def test_every_full_model_has_the_printed_size_or_the_record_says_why_not():
    for name in BUILDABLE:
        record = RECORDS[name]
        if not record.printed:
            continue
        count = n_parameters(name)
        rounded, cut = agrees(count, record.printed)
        if not rounded:
            assert cut or name in FAR_FROM_PRINTED, name
            assert record.difference or record.printed in ("2.8B",), name
        if name in FAR_FROM_PRINTED:
            number = float(record.printed.rstrip("MB")) * {"M": 1e6, "B": 1e9}.get(record.printed[-1], 1)
            assert not rounded and not cut and abs(count / number - 1) < FAR_FROM_PRINTED[name], name


@pytest.mark.syllabus("GT-44")
def test_lamda_has_its_printed_size_without_embeddings_by_the_known_fields():
    v = RECORDS["lamda"].values
    attention = 4 * v["d_model"] * v["n_heads"] * v["d_head"]
    assert all(agrees(v["n_layers"] * (attention + 3 * v["d_model"] * v["d_ff"]), RECORDS["lamda"].printed))


# --- Values that Hugging Face's configs have by default are those of a released model ---

THEIR_NAMES = {
    "norm_eps": ["layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps"],
    "n_ctx": ["n_positions", "max_position_embeddings"],
    "n_vocab": ["vocab_size"],
    "d_model": ["hidden_size", "n_embd", "d_model"],
    "n_layers": ["num_hidden_layers", "n_layer"],
    "n_heads": ["num_attention_heads", "n_head"],
    "n_kv_heads": ["num_key_value_heads"],
    "d_ff": ["intermediate_size", "d_ff"],
    "feedforward": ["activation_function", "hidden_activation", "hidden_act", "afn", "feed_forward_proj"],
    "tie_embeddings": ["tie_word_embeddings"],
    "n_segments": ["type_vocab_size"],
    "window": ["sliding_window"],
    "latent.d_latent": ["kv_lora_rank"],
    "latent.d_query_latent": ["q_lora_rank"],
    "attn_logit_softcapping": ["attn_logit_softcapping"],
    "final_logit_softcapping": ["final_logit_softcapping"],
    "buckets.n_buckets": ["relative_attention_num_buckets"],
    "buckets.max_distance": ["relative_attention_max_distance"],
}
ACTIVATIONS = {"gelu_new": "gelu_tanh", "silu": "swiglu", "gelu_pytorch_tanh": "geglu_tanh", "gated-gelu": "geglu_tanh"}
# Where a class's defaults are of another model, or Hugging Face writes another word.
NOT_THEIRS = {
    "gpt": {"feedforward"},  # "gelu" means the tanh form in this class
    "bert-base": set(),
    "gpt-2": set(),
    "roformer": set(),
    "deberta-base": {"n_segments"},
    "t5-small": {"tie_embeddings"},
    "mt5-small": {"tie_embeddings"},
    "gpt-j": set(),
    "gpt-neox": {"feedforward"},  # the released config has "gelu_fast", the tanh form
    "opt-125m": set(),
    "llama-7b": set(),
    "mistral-7b": {"n_ctx", "norm_eps"},
    "gemma-7b": set(),
    "gemma-2-2b": set(),
    "olmo-7b": set(),
    "stablelm-3b": set(),
    "falcon-7b": set(),
}


@pytest.mark.parametrize("name", NOT_THEIRS)
def test_values_are_those_of_hugging_faces_config(name):
    theirs, ours = getattr(transformers, HUGGING_FACE[name][0]).config_class(), preset(name)
    compared = 0
    for field, names in THEIR_NAMES.items():
        for their_name in names:
            value = getattr(theirs, their_name, None)
            if value is not None and field not in NOT_THEIRS[name] and ours.get(field) is not None:
                assert ours.get(field) == ACTIVATIONS.get(value, value), (field, their_name)
                compared += 1
    assert compared >= 6
    rope = getattr(theirs, "rope_parameters", None) or {}
    if ours.position == "rope" and "rope_theta" in rope:
        assert ours.rope.base == rope["rope_theta"]


# --- What configs say of groups of experts and of YaRN ---


@pytest.mark.parametrize(
    "change, words",
    [
        ({"moe.n_groups": 3}, "moe.n_groups=3 must divide moe.n_experts=8"),
        ({"moe.n_groups_per_token": 5}, "moe.n_groups_per_token=5 must be at most moe.n_groups=4"),
        ({"moe.n_groups_per_token": 1}, "hold moe.n_experts_per_token=3"),
        ({"moe.n_groups_per_token": None}, "moe.n_groups_per_token=None must be given"),
        ({"moe.router": "top_k_of_softmax"}, "moe.n_groups=4 must be left out with moe.router='top_k_of_softmax'"),
        (
            {"rope.scaling.type": "linear", "rope.scaling.original_max_position_embeddings": None},
            "rope.scaling.beta_fast=32.0 must be left out with rope.scaling.type='linear'",
        ),
    ],
)
def test_groups_that_do_not_share_out_the_experts_are_refused(change, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        ModelConfig.of(tiny("deepseek-v2").changed() | change)


def test_the_temperature_of_yarn_is_passed_on():
    config = tiny("deepseek-v2")
    (scheme,) = parts.attention_positions(config, 1, causal=True)
    assert scheme.attention_scaling == 1.0
    (scheme,) = parts.attention_positions(
        ModelConfig.of(config.changed() | {"rope.scaling.attention_factor": None}), 1, causal=True
    )
    assert scheme.attention_scaling == pytest.approx(1.3689, abs=1e-4)  # of the paper: 0.1 ln 40 + 1


# --- What the lectures ask ---


@pytest.mark.syllabus("GT-12")
def test_the_three_types():
    expected = {"bert": "encoder", "roformer": "encoder", "deberta": "encoder"}
    expected |= dict.fromkeys(["transformer-base", "transformer-big", "t5", "mt5"], "encoder-decoder")
    for name in BUILDABLE:
        family = next((start for start in expected if name.startswith(start)), None)
        assert preset(name).kind == expected.get(family, "decoder"), name


@pytest.mark.syllabus("UCL-13")
def test_parameters_of_the_embeddings():
    shown = {"transformer-base": "18.9M", "transformer-big": "37.9M", "llama-2-7b": "131.1M", "gemma-7b": "786M"}
    for row in table("embedding_sizes"):
        config = preset(row["preset"])
        assert (config.n_vocab, config.d_model) == (row["n_voc_corrected"], row["d_emb_corrected"])
        assert config.n_vocab * config.d_model == row["embedding_params_corrected"]
        if row["preset"] in shown:
            assert any(agrees(config.n_vocab * config.d_model, shown[row["preset"]]))
        if row["preset"] != "gpt-2-xl":  # E-75: the slide's width is the smallest model's
            assert row["d_emb"] == config.d_model
    assert preset("gpt-2").d_model == table("embedding_sizes")[0]["d_emb"]


@pytest.mark.syllabus("UCL-26")
def test_expansion_of_the_feed_forward_layers():
    ratios = []
    for row in table("ffn_sizes"):
        config = preset(row["preset"])
        assert (config.d_model, config.d_ff) == (row["d_emb_corrected"], row["d_ff_corrected"])
        assert config.d_ff / config.d_model == row["ratio_corrected"]
        ratios.append(row["ratio"])
        if row["ratio"] is not None and config.feedforward.startswith("geglu"):  # E-78: gate and value together
            assert row["ratio"] == 2 * config.d_ff / config.d_model
    assert ratios == [4, 16, 16, 8, 8, 16, None, 4, 4]


@pytest.mark.syllabus("GT-06")
def test_the_sizes_of_llama():
    for row, shown in zip(table("llama_sizes"), ["6.738B", "13.016B", "32.529B", "65.286B"], strict=True):
        config = preset(row["preset"])
        assert (config.d_model, config.n_heads, config.n_layers) == (row["dimension"], row["n_heads"], row["n_layers"])
        assert config.d_ff == 256 * -(-8 * config.d_model // (3 * 256)) == row["d_ff_derived"]
        assert config.d_head == 128
        assert n_parameters(row["preset"]) == row["params_exact_derived"]
        assert agrees(row["params_exact_derived"], shown)[0]
        assert agrees(row["params_exact_derived"], f"{row['params_B_corrected']:.1f}B")[0]


@pytest.mark.syllabus("GT-44")
def test_factors_and_layers_of_the_big_table():
    for row in table("model_architectures"):
        values = RECORDS[row["preset"]].values
        if row["mlp_factor_corrected"] is not None:
            assert values["d_ff"] / values["d_model"] == pytest.approx(row["mlp_factor_corrected"], abs=1e-4)
            assert values["n_layers"] == row["num_layers_corrected"]
    by_name = {name: RECORDS[name].values for name in ("t5-11b", "t5-v1.1-xxl", "mt5-xxl", "lamda", "mistral-7b")}
    assert [v["d_ff"] / v["d_model"] for v in by_name.values()] == [64, 2.5, 2.5, 8, 3.5]


@pytest.mark.syllabus("GT-43", "GT-44")
def test_the_parts_of_the_big_table():
    positions = {"Sine": "sinusoidal", "Learned absolute": "learned", "RoPE": "rope", "ALiBi": "alibi"}
    positions |= {"Relative (T5 bias)": "t5", "Relative": "t5", "Relative (Transformer-XL style)": "transformer_xl"}
    feedforward = {"ReLU": "relu", "GeLU": "gelu_tanh", "SwiGLU": "swiglu"}
    for row in table("model_architectures"):
        values, name = RECORDS[row["preset"]].values, row["model"]
        if row["norm_corrected"]:
            assert values["norm"] == row["norm_corrected"].lower(), name
        if row["position_embedding_corrected"]:
            assert values["position"] == positions[row["position_embedding_corrected"]], name
        if row["activation_corrected"] == "GeGLU":
            assert values["feedforward"] in ("geglu", "geglu_tanh"), name
        elif row["activation_corrected"]:
            assert values["feedforward"] == feedforward[row["activation_corrected"]], name
        if row["parallel_layer"]:
            assert values.get("parallel_block", False) == (row["parallel_layer"] == "Parallel"), name
            assert values["norm_placement"] == ("pre" if row["pre_norm_corrected"] == "yes" else "post"), name
        if row["vocab_rows"] and name != "GPT4":
            assert values["n_vocab"] == row["vocab_rows"], name


def test_norms_without_biases_and_without_anything():
    for name in BUILDABLE:
        config = preset(name)
        if config.norm == "layernorm":
            assert config.layernorm.bias == (not name.startswith(("palm", "olmo", "mpt", "command"))), name  # E-66
            assert config.layernorm.weight == (not name.startswith("olmo")), name


@pytest.mark.syllabus("GT-43")
def test_counts_by_choice_in_the_first_version_of_the_big_table():
    rows = [row for row in table("model_architectures") if row["row_in_first_version"]]
    assert sorted(row["row_in_first_version"] for row in rows) == list(range(1, 22))

    def count(column, among=rows):
        values = [row[column] for row in among]
        return {value: values.count(value) for value in set(values)}

    assert count("norm") == {"RMSNorm": 12, "LayerNorm": 8, None: 1}
    assert count("parallel_layer") == {"Serial": 17, "Parallel": 3, None: 1}
    legible = [row for row in rows if row["row_in_first_version"] <= 16]
    assert count("position_embedding", legible) == {"Relative": 6, "RoPE": 4, "Sine": 3, "Absolute": 2, "AliBi": 1}
    assert count("activation", legible) == {"GeLU": 6, "ReLU": 5, "GeGLU": 3, "SwiGLU": 2}


@pytest.mark.syllabus("GT-49")
def test_the_width_of_olmo_is_divisible_by_its_heads_where_the_slide_is_corrected():
    rows = table("olmo_sizes")
    assert [row["hidden_size"] % row["attention_heads"] for row in rows] == [0, 22, 0]
    for row in rows:
        values = RECORDS[row["preset"]].values
        assert values["d_model"] == row["hidden_size_corrected"] == 128 * row["attention_heads"]
        assert (values["n_layers"], values["n_heads"]) == (row["layers"], row["attention_heads"])


@pytest.mark.syllabus("CMU-34")
def test_the_choice_of_llama_3():
    config = preset("llama-3-8b")
    assert config.d_ff == 1024 * -(-int(1.3 * int(2 * 4 * config.d_model / 3)) // 1024) == 14336
    expected = {
        "d_model": 4096,
        "n_layers": 32,
        "n_heads": 32,
        "n_kv_heads": 8,
        "n_vocab": 128256,
        "rope.base": 5e5,
        "norm_eps": 1e-5,
    }
    expected |= dict(norm="rmsnorm", feedforward="swiglu", position="rope", norm_placement="pre")
    assert {field: config.get(field) for field in expected} == expected


@pytest.mark.syllabus("UCL-09")
def test_vocabulary_and_context():
    for row in table("vocab_context"):
        values = RECORDS[row["preset"]].values
        if row["n_voc_exact"]:
            assert values["n_vocab"] == row["n_voc_exact"] and abs(row["n_voc_approx"] / values["n_vocab"] - 1) < 0.01
        if row["n_ctx_exact"]:
            assert values["n_ctx"] == row["n_ctx_exact"]


@pytest.mark.syllabus("GT-11")
def test_from_gpt_2_to_llama_3():
    changed = preset("gpt-2").difference(preset("llama-3-8b"))
    assert changed["norm"] == ("layernorm", "rmsnorm") and changed["position"] == ("learned", "rope")
    assert "norm_placement" not in changed and "kind" not in changed


# --- Small twins ---

SIZES = "d_model n_layers n_encoder_layers n_heads n_kv_heads d_head d_value d_ff n_vocab n_ctx latent.d_latent "
SIZES += "latent.d_rotary latent.d_query_latent window buckets.n_buckets buckets.max_distance clipping.max_distance "
SIZES += (
    "rope.scaling.original_max_position_embeddings moe.n_experts moe.n_experts_per_token moe.d_expert moe.n_groups "
)
SIZES += "moe.n_groups_per_token"


def structure(config):
    """All that is not a size, and how sizes stand to each other."""
    sizes = SIZES.split()
    share = config.d_model / config.n_heads
    sees_all = sum(config.window_of(layer) is None for layer in range(config.n_layers)) if config.window else 0
    return {
        **{name: config.get(name) for name in types_of() if name not in sizes},
        "sizes that are given": [name for name in sizes if config.get(name)],
        "grouped": (config.n_kv_heads == config.n_heads, config.n_kv_heads == 1),
        "head beside its share": (config.d_head > share) - (config.d_head < share),
        "value as wide as a key": config.d_value == config.d_head,
        "window inside": config.window is not None and (config.n_ctx is None or config.window < config.n_ctx),
        "layers that see all": sees_all > 0 and sees_all < config.n_layers,
        "layers of both kinds": 0 < (config.get("moe.n_dense_layers") or 0) < config.n_layers,
        "experts that rest": config.moe is not None and config.moe.n_experts > config.moe.n_experts_per_token,
    }


def test_tiny_keeps_the_structure():
    for name in BUILDABLE:
        full, small = preset(name), tiny(name)
        assert structure(small) == structure(full), name
        assert small.d_ff / small.d_model == pytest.approx(full.d_ff / full.d_model, abs=0.51 / small.d_model), name
        assert 2 <= small.n_layers <= max(4, len(full.layer_types)), name
        assert small.d_model <= 64 and small.n_vocab == 101, name


def test_a_tiny_model_that_forgot_a_choice_would_be_seen():
    small = tiny("gemma-2-9b")
    for change in (dict(window=None, layer_types=()), dict(n_kv_heads=4), dict(d_head=12), dict(norm_eps=1e-3)):
        assert structure(dataclasses.replace(small, **change)) != structure(preset("gemma-2-9b"))


@cache
def twin(name):
    torch.manual_seed(3)
    model = Transformer(tiny(name))
    for parameter in model.parameters():  # at the gentle initialization a text hardly changes what is said of it
        parameter.data += 0.2 * torch.randn_like(parameter)
    generator = torch.Generator().manual_seed(4)
    ids = torch.randint(101, (3, 23), generator=generator)
    source = torch.randint(101, (3, 7), generator=generator) if model.encoder is not None else None
    return model, ids, source


@pytest.mark.syllabus("GT-43", "GT-44")
@pytest.mark.parametrize("name", TWINS)
def test_a_tiny_model_runs_and_gradients_reach_every_parameter(name):
    model, ids, source = twin(name)
    segments = None if model.segment_embedding is None else ids % 2
    logits = model(ids, source=source, segments=segments)
    assert logits.shape == (3, 23, 101) and logits.isfinite().all()
    model.zero_grad()
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.roll(-1, 1).flatten()).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), parameter_name
        # what is added to all keys alike does not change a softmax, unless positions turn it or look at it
        if not parameter_name.endswith("w_key.bias"):
            assert parameter.grad.any(), parameter_name


@pytest.mark.syllabus("GT-12")
@pytest.mark.parametrize("name", TWINS)
def test_decoders_see_the_past_alone_and_encoders_all(name):
    model, ids, source = twin(name)
    changed = ids.clone()
    changed[:, 12:] = (ids[:, 12:] + 1) % 101
    with torch.no_grad():
        first, second = (model.eval()(x, source=source)[:, :12] for x in (ids, changed))
    if model.config.kind == "encoder":
        assert (first - second).abs().max() > 1e-2
    else:
        torch.testing.assert_close(first, second, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in TWINS if RECORDS[name].values["kind"] == "encoder-decoder"])
def test_all_of_the_source_is_seen(name):
    model, ids, source = twin(name)
    for position in (0, source.shape[1] - 1):
        changed = source.clone()
        changed[:, position] = (source[:, position] + 1) % 101
        with torch.no_grad():
            assert (model(ids, source=source) - model(ids, source=changed))[:, 0].abs().max() > 1e-3
