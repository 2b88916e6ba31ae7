"""One entry for each family: a tiny model of Hugging Face's, what must be seen when it is wrong, and what is refused.

No option stands at its default, sizes are pairwise different where they can be, and windows are shorter than the text.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
import torch
import transformers
from torch import nn
from transformers.models.mpt import modeling_mpt

from llm_anatomy.layers.positions.relative import ALiBi
from llm_anatomy.layers.positions.rotary import Frequencies
from llm_anatomy.models.checkpoints import families
from llm_anatomy.models.checkpoints.rules import Reversed, Same, Split

VOCAB = 101
NO_TOKENS = dict(bos_token_id=None, eos_token_id=None, pad_token_id=None)
SIZES = dict(vocab_size=VOCAB, hidden_size=24, intermediate_size=36, num_hidden_layers=2, num_attention_heads=4)


@dataclass(frozen=True, kw_only=True)
class Case:
    """What ``test_parity.py`` asks of a family.

    ``hf`` makes a model of Hugging Face's, with any values: the test draws them. Each of ``faults`` is a dict of
    fields to change in our config, or a function that changes our model, or one that gives wrong rules for the right
    ones (``WrongRules``); with it the logits must differ. ``refused`` are changes to ``config.json``. ``exact`` puts
    right what their code rounds to fewer digits than float64 has. ``their_cache`` says whether their generation may
    use a cache: with dynamic RoPE it keeps keys that were rotated for shorter texts.
    """

    family: str
    hf: Callable[[], transformers.PreTrainedModel]
    faults: dict[str, dict | Callable[[nn.Module], None] | Callable] = field(default_factory=dict)
    refused: tuple[dict, ...] = ()
    their_cache: bool = True
    exact: Callable[[nn.Module], None] = lambda hf: None


class WrongRules:
    """The family with a fault in its rules: ``change`` gets each rule, and returns it or another."""

    def __init__(self, change):
        self.change = change

    def __call__(self, name):
        family = families()[name]
        return replace(family, rules=lambda config: [self.change(rule) for rule in family.rules(config)])


def as_thirds_of_equal_width(rule):
    """A fused projection read as parts of equal width, though there are fewer keys and values than queries."""
    if isinstance(rule.change, Split):
        query, key, value = rule.change.sizes
        return replace(rule, ours=rule.ours[1:] + rule.ours[:1], change=Split((key, value, query)))
    return rule


def as_thirds(rule):
    """A fused projection read as all queries, all keys, all values, where each head has its own three."""
    if isinstance(rule.change, Split):
        sizes = tuple(size * rule.change.n_groups for size in rule.change.sizes)
        return replace(rule, change=Split(sizes))
    return rule


def gate_and_up_exchanged(rule):
    return replace(rule, hf=rule.hf[::-1]) if isinstance(rule.change, Reversed) else rule


def output_as_it_is(rule):
    """A square weight fits, transposed or not."""
    return replace(rule, change=Same()) if rule.ours[0].endswith("w_output.{kind}") else rule


def gpt2(**more):
    sizes = dict(vocab_size=VOCAB, n_embd=24, n_inner=36, n_layer=2, n_head=4, n_positions=40)
    config = transformers.GPT2Config(layer_norm_epsilon=1e-3, **sizes, **NO_TOKENS, **more)
    return transformers.GPT2LMHeadModel(config)


def llama(rope=None, **more):
    rope = dict(rope_type="default", rope_theta=500.0) if rope is None else rope
    options = dict(num_key_value_heads=2, head_dim=10, rms_norm_eps=1e-3, max_position_embeddings=48) | more
    config = transformers.LlamaConfig(rope_parameters=rope, **SIZES, **options, **NO_TOKENS)
    return transformers.LlamaForCausalLM(config)


LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=3.0)
LLAMA3_ROPE |= dict(original_max_position_embeddings=32)
YARN_ROPE = dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=16)
YARN_ROPE |= dict(beta_fast=3.0, beta_slow=1.5)


def gptneox(**more):
    rope = dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=0.5)
    sizes = SIZES | dict(hidden_size=32)
    options = dict(rope_parameters=rope, layer_norm_eps=1e-3, max_position_embeddings=48) | more
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**sizes, **options, **NO_TOKENS))


def bloom(**more):
    sizes = dict(vocab_size=VOCAB, hidden_size=24, n_layer=2, n_head=3)  # slopes of no power of two
    config = transformers.BloomConfig(layer_norm_epsilon=1e-3, **sizes, **NO_TOKENS, **more)
    return transformers.BloomForCausalLM(config)


def with_all_digits_of_gelu(hf):
    """Their constant has eight."""
    for block in hf.transformer.h:
        block.mlp.gelu_impl = nn.GELU("tanh")


def t5(own_head=False, kind=("T5Config", "T5ForConditionalGeneration"), **more):
    sizes = dict(vocab_size=VOCAB, d_model=24, d_kv=5, d_ff=36, num_layers=3, num_decoder_layers=2, num_heads=4)
    options = dict(relative_attention_num_buckets=8, relative_attention_max_distance=9, layer_norm_epsilon=1e-3)
    tokens = NO_TOKENS | dict(pad_token_id=0, decoder_start_token_id=0)
    config = getattr(transformers, kind[0])(**sizes, **options, **tokens, **more)
    model = getattr(transformers, kind[1])(config)
    return with_own_head(model) if own_head else model


def with_own_head(hf):
    """A T5 as the released T5 1.1 has it, and the class of today makes it no more."""
    hf.lm_head.weight = nn.Parameter(torch.empty_like(hf.lm_head.weight))
    hf.all_tied_weights_keys.pop("lm_head.weight")
    return hf


CASES = {
    "gpt2": Case(
        family="gpt2",
        hf=gpt2,
        faults={
            "exact gelu": dict(feedforward="gelu"),
            "epsilon": dict(norm_eps=1e-5),
            "output not transposed": WrongRules(output_as_it_is),
        },
        refused=(
            dict(scale_attn_by_inverse_layer_idx=True),
            dict(scale_attn_weights=False),
            dict(add_cross_attention=True),
            dict(activation_function="mish"),
            dict(quantization_config={"bits": 8}),
        ),
    ),
    "gpt2, own head": Case(family="gpt2", hf=lambda: gpt2(tie_word_embeddings=False)),
    "llama": Case(
        family="llama",
        hf=llama,
        faults={
            "rotary pairing": {"rope.pairing": "interleaved"},
            "rotary base": {"rope.base": 10000.0},
            "gate for up": WrongRules(gate_and_up_exchanged),
        },
        refused=(
            dict(hidden_act="relu6"),
            dict(rope_parameters=dict(rope_type="longrope", factor=2.0)),
            dict(rope_parameters=dict(rope_type="default", partial_rotary_factor=0.5)),
            dict(rope_parameters=dict(rope_type="linear", factor=2.0, temperature=3)),
            dict(rope_parameters=[]),
            dict(sliding_window=8),
        ),
    ),
    "llama 3.1": Case(family="llama", hf=lambda: llama(LLAMA3_ROPE), faults={"turns": {"rope.scaling.beta_fast": 4.0}}),
    "llama, linear, biases": Case(
        family="llama",
        hf=lambda: llama(dict(rope_type="linear", rope_theta=500.0, factor=4.0), attention_bias=True, mlp_bias=True),
        faults={"no scaling": {"rope.scaling": None}},
    ),
    "llama, yarn, tied": Case(
        family="llama",
        hf=lambda: llama(YARN_ROPE, tie_word_embeddings=True),
        faults={"temperature": {"rope.scaling.attention_factor": 1.0}},
    ),
    "gptneox": Case(
        family="gptneox",
        hf=gptneox,
        faults={
            "whole heads turned": {"rope.fraction": 1.0},
            "rotary pairing": {"rope.pairing": "interleaved"},
            "projections as thirds": WrongRules(as_thirds),
        },
        refused=(dict(hidden_act="relu6"), dict(use_cache=True, attention_window=3)),
    ),
    "gptneox, serial": Case(
        family="gptneox",
        hf=lambda: gptneox(use_parallel_residual=False, attention_bias=False, hidden_act="gelu_new"),
        faults={"exact gelu": dict(feedforward="gelu")},
    ),
    "bloom": Case(
        family="bloom",
        hf=bloom,
        faults={"no positions": dict(position="none"), "projections as thirds": WrongRules(as_thirds)},
        exact=with_all_digits_of_gelu,
        refused=(dict(apply_residual_connection_post_layernorm=True), dict(n_inner=7)),
    ),
    "t5": Case(
        family="t5",
        hf=t5,
        faults={"logits not scaled": dict(scale_logits=False), "distance": {"buckets.max_distance": 128}},
        refused=(dict(feed_forward_proj="gated-mish"), dict(relative_attention_max_distance=None, bias=1)),
    ),
    "t5 1.1": Case(
        family="t5",
        hf=lambda: t5(own_head=True, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
        faults={"exact gelu": dict(feedforward="geglu"), "gate for up": WrongRules(gate_and_up_exchanged)},
    ),
    "mt5": Case(
        family="mt5",
        hf=lambda: t5(True, ("MT5Config", "MT5ForConditionalGeneration"), tie_word_embeddings=False),
        faults={"buckets": {"buckets.max_distance": 20}},
    ),
    "t5_encoder": Case(
        family="t5_encoder",
        hf=lambda: t5(kind=("T5Config", "T5EncoderModel")),
        faults={"distance": {"buckets.max_distance": 128}, "left to right": dict(kind="decoder")},
        refused=(dict(feed_forward_proj="gated-mish"),),
    ),
    "mt5_encoder": Case(
        family="mt5_encoder",
        hf=lambda: t5(kind=("MT5Config", "MT5EncoderModel")),
        faults={"buckets": {"buckets.max_distance": 20}, "gate for up": WrongRules(gate_and_up_exchanged)},
    ),
}


def released(text, **more):
    """Fields of a released config.json, as words: name=value."""
    return {name: json.loads(value) for name, _, value in (word.partition("=") for word in text.split())} | more


LLAMA3_RELEASED = """hidden_act="silu" hidden_size=4096 initializer_range=0.02 intermediate_size=14336
    model_type="llama" num_attention_heads=32 num_hidden_layers=32 num_key_value_heads=8 pretraining_tp=1
    rms_norm_eps=1e-05 rope_theta=500000.0 tie_word_embeddings=false torch_dtype="bfloat16" vocab_size=128256
    attention_bias=false attention_dropout=0.0 bos_token_id=128000"""
T5_RELEASED = """d_ff=2048 d_kv=64 d_model=512 decoder_start_token_id=0 dropout_rate=0.1 eos_token_id=1
    initializer_factor=1.0 is_encoder_decoder=true layer_norm_epsilon=1e-06 model_type="t5" n_positions=512 num_heads=8
    num_layers=6 output_past=true pad_token_id=0 relative_attention_num_buckets=32 vocab_size=32128"""

# What the released config.json of a preset of the lectures holds: the table must read it as that very preset.
RELEASED = {
    "gpt-2": (
        "gpt2",
        released(
            """activation_function="gelu_new" attn_pdrop=0.1 bos_token_id=50256 embd_pdrop=0.1 eos_token_id=50256
            initializer_range=0.02 layer_norm_epsilon=1e-05 model_type="gpt2" n_ctx=1024 n_embd=768 n_head=12 n_layer=12
            n_positions=1024 resid_pdrop=0.1 summary_activation=null summary_first_dropout=0.1
            summary_proj_to_labels=true summary_type="cls_index" summary_use_proj=true vocab_size=50257""",
            task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}},
        ),
    ),
    "llama-3-8b": ("llama", released(LLAMA3_RELEASED, max_position_embeddings=8192, rope_scaling=None)),
    "llama-3.1-8b": (
        "llama",
        released(
            LLAMA3_RELEASED,
            max_position_embeddings=131072,
            mlp_bias=False,
            rope_scaling=dict(
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=8192,
                rope_type="llama3",
            ),
        ),
    ),
    "gpt-neox": (
        "gptneox",
        released(
            """attention_probs_dropout_prob=0 bos_token_id=0 eos_token_id=0 hidden_act="gelu_fast"
            hidden_dropout_prob=0 hidden_size=6144 initializer_range=0.02 intermediate_size=24576 layer_norm_eps=1e-05
            max_position_embeddings=2048 model_type="gpt_neox" num_attention_heads=64 num_hidden_layers=44
            rotary_emb_base=10000 rotary_pct=0.25 tie_word_embeddings=false torch_dtype="float16" use_cache=true
            vocab_size=50432"""
        ),
    ),
    "bloom-560m": (
        "bloom",
        released(
            """apply_residual_connection_post_layernorm=false attention_dropout=0.0 attention_softmax_in_fp32=true
            bias_dropout_fusion=true bos_token_id=1 eos_token_id=2 pad_token_id=3 hidden_dropout=0.0
            initializer_range=0.02 layer_norm_epsilon=1e-05 masked_softmax_fusion=true model_type="bloom" n_embed=1024
            n_inner=null n_layer=24 num_attention_heads=16 offset_alibi=100 pretraining_tp=1 seq_length=2048
            skip_bias_add=true skip_bias_add_qkv=false slow_but_exact=false unk_token_id=0 use_cache=true
            vocab_size=250880"""
        ),
    ),
    "t5-small": ("t5", released(T5_RELEASED)),
    "t5-v1.1-small": (
        "t5",
        released(
            T5_RELEASED,
            d_ff=1024,
            num_layers=8,
            num_decoder_layers=8,
            num_heads=6,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,
        ),
    ),
    "mt5-small": (
        "mt5",
        released(
            T5_RELEASED,
            d_ff=1024,
            num_layers=8,
            num_decoder_layers=8,
            num_heads=6,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,
            model_type="mt5",
            tokenizer_class="T5Tokenizer",
            vocab_size=250112,
        ),
    ),
}


# --- Mistral, Qwen, Gemma ---

GROUPED = SIZES | dict(num_key_value_heads=2, head_dim=10, rms_norm_eps=1e-3, max_position_embeddings=48)
PLAIN_ROPE = dict(rope_type="default", rope_theta=500.0)
SLIDING, FULL = "sliding_attention", "full_attention"
NO_WINDOW = dict(window=None, layer_types=())


def decoder(name, rope=PLAIN_ROPE, config=None, **more):
    """One of the models that share Llama's names of fields."""
    of_config = getattr(transformers, f"{name}Config" if config is None else config)
    config = of_config(**dict(rope_parameters=rope) | GROUPED | NO_TOKENS | more)
    return getattr(transformers, f"{name}ForCausalLM")(config)


def with_identity_for(part):
    def change(model):
        for block in model.stack.blocks:
            setattr(block.attention, part, nn.Identity())

    return change


def without_bias_of_keys_and_values(model):
    """That of keys alone would change little: RoPE apart, it adds one number to all scores of a query."""
    for block in model.stack.blocks:
        block.attention.w_key.bias.data.zero_()
        block.attention.w_value.bias.data.zero_()


def gate_and_up_of_experts_exchanged(rule):
    return replace(rule, hf=rule.hf[::-1]) if rule.hf[0].endswith("w1.weight") else rule


def one_expert_after_the_other(hf):
    """The product of groups that they take by default knows no float64."""
    hf.set_experts_implementation("eager")


def norms_in_the_order_of_names(rule):
    """Gemma 2's second norm stands after attention; Llama's of that name stands before the feed-forward layer."""
    after, before = "attention_residual.norm_out", "feedforward_residual.norm_in"
    exchanged = {after: before, before: after}
    for name, other in exchanged.items():
        if name in rule.ours[0]:
            return replace(rule, ours=rule.ours[0].replace(name, other))
    return rule


CASES |= {
    "mistral": Case(
        family="mistral",
        hf=lambda: decoder("Mistral", sliding_window=5),
        faults={
            "no window": dict(window=None),
            "window of one more": dict(window=6),
            "rotary pairing": {"rope.pairing": "interleaved"},
            "gate for up": WrongRules(gate_and_up_exchanged),
        },
        refused=(
            dict(hidden_act="relu6"),
            dict(layer_types=[SLIDING, FULL]),
            dict(sliding_window="5"),
            dict(attention_bias=True),
            dict(rope_parameters=dict(rope_type="longrope", factor=2.0)),
        ),
    ),
    "mistral, no window": Case(
        family="mistral",
        hf=lambda: decoder("Mistral", sliding_window=None, tie_word_embeddings=True, hidden_act="relu"),
        faults={"a window": dict(window=16), "gates of silu": dict(feedforward="swiglu")},
    ),
    "mixtral": Case(
        family="mixtral",
        hf=lambda: decoder("Mixtral", sliding_window=5, num_local_experts=3, num_experts_per_tok=2),
        faults={
            "no window": dict(window=None),
            "weights that do not sum to 1": {"moe.router": "top_k_of_softmax"},
            "one expert": {"moe.n_experts_per_token": 1},
            "gate for up": WrongRules(gate_and_up_of_experts_exchanged),
        },
        exact=one_expert_after_the_other,
        refused=(dict(layer_types=[SLIDING, FULL]), dict(shared_expert_intermediate_size=8), dict(hidden_act="relu6")),
    ),
    "mixtral, no window": Case(
        family="mixtral",
        hf=lambda: decoder("Mixtral", sliding_window=None, hidden_act="gelu", tie_word_embeddings=True),
        exact=one_expert_after_the_other,
        faults={"approximate gelu": dict(feedforward="geglu_tanh")},
    ),
    "qwen2": Case(
        family="qwen2",
        hf=lambda: decoder("Qwen2", max_window_layers=2),
        faults={
            "no biases": without_bias_of_keys_and_values,
            "rotary pairing": {"rope.pairing": "interleaved"},
            "gate for up": WrongRules(gate_and_up_exchanged),
        },
        refused=(
            dict(use_mrope=True),
            dict(dual_chunk_attention_config={"chunk_size": 8}),
            dict(layer_types=[SLIDING, FULL]),  # and no width
            dict(layer_types=[FULL]),
            dict(layer_types=["chunked_attention", FULL]),
            dict(layer_types=None, use_sliding_window="yes"),
            dict(layer_types=None, max_window_layers=-1),
        ),
    ),
    "qwen2, windows": Case(
        family="qwen2",
        hf=lambda: decoder(
            "Qwen2",
            YARN_ROPE,
            use_sliding_window=True,
            sliding_window=5,
            max_window_layers=0,
            tie_word_embeddings=True,
            head_dim=6,
            max_position_embeddings=64,
        ),
        faults={"window of one more": dict(window=6), "temperature": {"rope.scaling.attention_factor": 1.0}},
    ),
    "qwen2, windows by list": Case(
        family="qwen2",
        hf=lambda: decoder(
            "Qwen2",
            num_hidden_layers=3,
            use_sliding_window=True,
            sliding_window=5,
            max_window_layers=0,
            layer_types=[SLIDING, FULL, SLIDING],
            hidden_act="gelu_pytorch_tanh",
        ),
        faults={"windows everywhere": dict(layer_types=()), "exact gelu": dict(feedforward="geglu")},
    ),
    "qwen2, windows in the last layers": Case(
        family="qwen2",
        hf=lambda: decoder("Qwen2", use_sliding_window=True, sliding_window=5, max_window_layers=1),
        faults={"windows in the first layers": dict(layer_types=(SLIDING, FULL)), "no windows": NO_WINDOW},
    ),
    "qwen3": Case(
        family="qwen3",
        hf=lambda: decoder("Qwen3", max_window_layers=2),
        faults={
            "queries as they are": with_identity_for("query_norm"),
            "keys as they are": with_identity_for("key_norm"),
            "rotary pairing": {"rope.pairing": "interleaved"},
        },
        refused=(
            dict(num_experts=4),
            dict(hidden_act="relu6"),
        ),
    ),
    "qwen3, windows, biases": Case(
        family="qwen3",
        hf=lambda: decoder(
            "Qwen3",
            num_hidden_layers=3,
            use_sliding_window=True,
            sliding_window=5,
            max_window_layers=0,
            layer_types=[SLIDING, SLIDING, FULL],
            attention_bias=True,
            tie_word_embeddings=True,
        ),
        faults={"windows everywhere": dict(layer_types=()), "no biases": without_bias_of_keys_and_values},
    ),
    "qwen3, windows in the last layers": Case(
        family="qwen3",
        hf=lambda: decoder("Qwen3", use_sliding_window=True, sliding_window=5, max_window_layers=1),
        faults={"windows in the first layers": dict(layer_types=(SLIDING, FULL)), "no windows": NO_WINDOW},
    ),
    "gemma": Case(
        family="gemma",
        hf=lambda: decoder("Gemma", num_key_value_heads=1),
        faults={
            "w for 1 + w": dict(norm="rmsnorm"),
            "embeddings not scaled": dict(scale_embeddings=False),
            "exact gelu": dict(feedforward="geglu"),
        },
        refused=(
            dict(hidden_act="silu"),
            dict(hidden_activation="gelu"),
            dict(use_bidirectional_attention=True),
            dict(sliding_window=8),
        ),
    ),
    "gemma, own head, biases": Case(
        family="gemma",
        hf=lambda: decoder("Gemma", attention_bias=True, tie_word_embeddings=False),
        faults={"no biases": without_bias_of_keys_and_values},
    ),
    "gemma2": Case(
        family="gemma2",
        hf=lambda: decoder(
            "Gemma2",
            num_hidden_layers=3,
            sliding_window=5,
            query_pre_attn_scalar=5,
            attn_logit_softcapping=0.8,
            final_logit_softcapping=0.9,
        ),
        faults={
            "w for 1 + w": dict(norm="rmsnorm"),
            "windows everywhere": dict(layer_types=()),
            "scores not bounded": dict(attn_logit_softcapping=None),
            "logits not bounded": dict(final_logit_softcapping=None),
            "scale of the head": dict(attention_scale=None),
            "norms by name": WrongRules(norms_in_the_order_of_names),
        },
        refused=(
            dict(use_bidirectional_attention=True),
            dict(query_pre_attn_scalar=0),
            dict(query_pre_attn_scalar=True),
            dict(hidden_activation="relu6"),
            dict(sliding_window=None, layer_types=None),
            dict(attn_logit_softcapping="50"),
        ),
    ),
    "gemma2, a window in the middle": Case(
        family="gemma2",
        hf=lambda: decoder("Gemma2", num_hidden_layers=3, sliding_window=5, layer_types=[FULL, SLIDING, FULL]),
        faults={"windows around it": dict(layer_types=(SLIDING, FULL)), "no windows": NO_WINDOW},
    ),
    "gemma2, no bounds": Case(
        family="gemma2",
        hf=lambda: decoder(
            "Gemma2",
            num_hidden_layers=3,
            sliding_window=5,
            layer_types=[SLIDING, SLIDING, FULL],
            query_pre_attn_scalar=10,
            attn_logit_softcapping=None,
            final_logit_softcapping=None,
            hidden_activation="gelu",
            attention_bias=True,
            tie_word_embeddings=False,
        ),
        faults={
            "every other window": dict(layer_types=(SLIDING, FULL)),
            "approximate gelu": dict(feedforward="geglu_tanh"),
        },
    ),
}

GEMMA_RELEASED = """attention_bias=false attention_dropout=0.0 bos_token_id=2 eos_token_id=1 initializer_range=0.02
    max_position_embeddings=8192 pad_token_id=0 rms_norm_eps=1e-06 rope_theta=10000.0 torch_dtype="bfloat16"
    use_cache=true vocab_size=256000"""
GEMMA2_RELEASED = f"""{GEMMA_RELEASED} attn_logit_softcapping=50.0 cache_implementation="hybrid"
    final_logit_softcapping=30.0 hidden_act="gelu_pytorch_tanh" hidden_activation="gelu_pytorch_tanh"
    model_type="gemma2" sliding_window=4096"""

RELEASED |= {
    "mistral-7b": (
        "mistral",
        released(
            """bos_token_id=1 eos_token_id=2 hidden_act="silu" hidden_size=4096 initializer_range=0.02
            intermediate_size=14336 max_position_embeddings=32768 model_type="mistral" num_attention_heads=32
            num_hidden_layers=32 num_key_value_heads=8 rms_norm_eps=1e-05 rope_theta=10000.0 sliding_window=4096
            tie_word_embeddings=false torch_dtype="bfloat16" use_cache=true vocab_size=32000"""
        ),
    ),
    "gemma-2b": (
        "gemma",
        released(
            f"""{GEMMA_RELEASED} head_dim=256 hidden_act="gelu" hidden_size=2048 intermediate_size=16384
            model_type="gemma" num_attention_heads=8 num_hidden_layers=18 num_key_value_heads=1 rope_scaling=null"""
        ),
    ),
    "gemma-7b": (
        "gemma",
        released(
            f"""{GEMMA_RELEASED} head_dim=256 hidden_act="gelu_pytorch_tanh" hidden_activation="gelu_pytorch_tanh"
            hidden_size=3072 intermediate_size=24576 model_type="gemma" num_attention_heads=16 num_hidden_layers=28
            num_key_value_heads=16 rope_scaling=null"""
        ),
    ),
    "gemma-2-2b": (
        "gemma2",
        released(
            f"""{GEMMA2_RELEASED} head_dim=256 hidden_size=2304 intermediate_size=9216 num_attention_heads=8
            num_hidden_layers=26 num_key_value_heads=4 query_pre_attn_scalar=256"""
        ),
    ),
    "gemma-2-9b": (
        "gemma2",
        released(
            f"""{GEMMA2_RELEASED} head_dim=256 hidden_size=3584 intermediate_size=14336 num_attention_heads=16
            num_hidden_layers=42 num_key_value_heads=8 query_pre_attn_scalar=256 sliding_window_size=4096"""
        ),
    ),
    "gemma-2-27b": (
        "gemma2",
        released(
            f"""{GEMMA2_RELEASED} head_dim=128 hidden_size=4608 intermediate_size=36864 num_attention_heads=32
            num_hidden_layers=46 num_key_value_heads=16 query_pre_attn_scalar=144 sliding_window_size=4096"""
        ),
    ),
}

# Where a released file says more than the paper that the preset follows: both values.
RELEASED_OTHERWISE = {"mistral-7b": {"n_ctx": (32768, 8192)}}
# --- OLMo, OPT, GPT-J, BERT, RoFormer ---


def olmo(kind="Olmo", **more):
    options = dict(max_position_embeddings=48, num_key_value_heads=2) | more
    options = dict(rope_parameters=dict(rope_type="default", rope_theta=500.0)) | options
    config = getattr(transformers, f"{kind}Config")(**SIZES | options | NO_TOKENS)
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def olmo2(**more):
    return olmo("Olmo2", rms_norm_eps=1e-3, **more)


def opt(**more):
    sizes = dict(vocab_size=VOCAB, hidden_size=24, ffn_dim=36, num_hidden_layers=2, num_attention_heads=4)
    config = transformers.OPTConfig(max_position_embeddings=40, **sizes, **NO_TOKENS, **more)
    return transformers.OPTForCausalLM(config)


def gptj(**more):
    sizes = dict(vocab_size=VOCAB, n_embd=40, n_layer=2, n_head=4, n_positions=44)
    options = dict(n_inner=36, rotary_dim=6, layer_norm_epsilon=1e-3) | more
    return transformers.GPTJForCausalLM(transformers.GPTJConfig(**sizes, **options, **NO_TOKENS))


def bert(**more):
    options = dict(max_position_embeddings=40, type_vocab_size=3, layer_norm_eps=1e-3) | more
    return transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, **options, **NO_TOKENS))


def roformer(kind="RoFormerForMaskedLM", **more):
    options = dict(max_position_embeddings=40, type_vocab_size=3, layer_norm_eps=1e-3) | more
    return with_table_as_buffer(
        getattr(transformers, kind)(transformers.RoFormerConfig(**SIZES, **options, **NO_TOKENS))
    )


def with_table_as_buffer(hf):
    """A RoFormer whose table of sines and cosines is no weight of its own: neither drawn nor saved."""
    table = hf.base_model.encoder.embed_positions
    values = table.weight.detach()
    del table.weight
    table.register_buffer("weight", values, persistent=False)
    return hf


def with_our_frequencies(hf):
    """Their tables of sines and cosines from frequencies in float32, as ours are."""
    for name, table in [*hf.named_parameters(), *hf.named_buffers()]:
        if "embed_positions" in name:
            angles = torch.arange(len(table))[:, None] * Frequencies()(table.shape[1], 10000.0).double()
            exact = torch.cat((angles.sin(), angles.cos()), 1)
            torch.testing.assert_close(table.double(), exact, rtol=0, atol=1e-5)
            table.data = exact


def root_mean_square(model):
    model.stack.norm.forward = lambda x: nn.functional.rms_norm(x, x.shape[-1:], eps=1e-5)


def each_head_by_itself(model):
    """QK-norm with the mean square of each head in place of that of all."""
    for block in model.stack.blocks:
        for across in (block.attention.query_norm, block.attention.key_norm):
            weight = across.norm.weight.unflatten(0, (-1, 1, model.config.d_head))
            across.forward = lambda x, w=weight: nn.functional.rms_norm(x, x.shape[-1:], eps=1e-3) * w


def no_bias_of_the_head(model):
    model.unembedding.bias = None


def feedforward_not_normed(model):
    for block in model.stack.blocks:
        block.feedforward_norm = nn.Identity()


def one_segment(model):
    with torch.no_grad():
        model.segment_embedding.weight[1:] = model.segment_embedding.weight[0]


def token_head_without_norm(model):
    model.token_head[2] = nn.Identity()


CASES |= {
    "olmo": Case(
        family="olmo",
        hf=lambda: olmo(hidden_act="gelu", attention_bias=True),
        faults={
            "mean kept": root_mean_square,
            "epsilon": dict(norm_eps=1e-3),
            "rotary pairing": {"rope.pairing": "interleaved"},
            "gate for up": WrongRules(gate_and_up_exchanged),
        },
        refused=(dict(clip_qkv="8"), dict(hidden_act="relu6"), dict(head_dim=10), dict(rms_norm_eps=1e-5)),
    ),
    "olmo, clipped": Case(
        family="olmo",
        hf=lambda: olmo(clip_qkv=0.5),
        faults={"not clipped": dict(clip_qkv=None), "bound": dict(clip_qkv=0.6)},
    ),
    "olmo, linear, tied": Case(
        family="olmo",
        hf=lambda: olmo(
            rope_parameters=dict(rope_type="linear", rope_theta=500.0, factor=4.0), tie_word_embeddings=True
        ),
        faults={"no scaling": {"rope.scaling": None}},
    ),
    "olmo2": Case(
        family="olmo2",
        hf=lambda: olmo2(hidden_act="gelu_pytorch_tanh", attention_bias=True),
        faults={
            "norms before sublayers": dict(norm_placement="pre"),
            "heads normed one by one": each_head_by_itself,
            "rotary base": {"rope.base": 10000.0},
        },
        refused=(dict(clip_qkv=8.0), dict(hidden_act="relu6"), dict(layer_types=["sliding_attention"] * 2)),
    ),
    "olmo2, yarn, tied": Case(
        family="olmo2",
        hf=lambda: olmo2(hidden_act="relu", rope_parameters=YARN_ROPE, tie_word_embeddings=True),
        faults={"temperature": {"rope.scaling.attention_factor": 1.0}},
    ),
    "opt": Case(
        family="opt",
        hf=opt,
        faults={
            "positions from row 1": {"learned.offset": 1, "n_ctx": 41},
            "gelu": dict(feedforward="gelu"),
            "epsilon": dict(norm_eps=1e-3),
        },
        refused=(
            dict(word_embed_proj_dim=12),
            dict(_remove_final_layer_norm=True),
            dict(activation_function="mish"),
            dict(do_layer_norm_before="no"),
            dict(layer_norm_eps=1e-5),
        ),
    ),
    "opt, norms after sublayers": Case(
        family="opt",
        hf=lambda: opt(do_layer_norm_before=False, activation_function="gelu_new", tie_word_embeddings=False),
        faults={"exact gelu": dict(feedforward="gelu")},
    ),
    "opt, without biases": Case(
        family="opt",
        hf=lambda: opt(enable_bias=False, layer_norm_elementwise_affine=False, activation_function="gelu"),
        faults={"approximate gelu": dict(feedforward="gelu_tanh")},
    ),
    "gptj": Case(
        family="gptj",
        hf=gptj,
        faults={
            "rotary pairing": {"rope.pairing": "half_split"},
            "whole heads turned": {"rope.fraction": 1.0},
            "feed-forward reads the stream": feedforward_not_normed,
            "no bias of the head": no_bias_of_the_head,
        },
        exact=with_our_frequencies,
        refused=(
            dict(rotary_dim=None),
            dict(rotary_dim=5),
            dict(rotary_dim=12),
            dict(rotary=False),
            dict(scale_attn_weights=False),
            dict(activation_function="mish"),
            dict(rope_scaling={"type": "linear", "factor": 2.0}),
        ),
    ),
    "gptj, tied": Case(
        family="gptj",
        hf=lambda: gptj(n_inner=None, rotary_dim=10, activation_function="gelu", tie_word_embeddings=True),
        faults={"approximate gelu": dict(feedforward="gelu_tanh")},
        exact=with_our_frequencies,
    ),
    "gptj, relu": Case(family="gptj", hf=lambda: gptj(activation_function="relu"), exact=with_our_frequencies),
    "bert": Case(
        family="bert",
        hf=bert,
        faults={
            "one segment": one_segment,
            "token head without norm": token_head_without_norm,
            "epsilon": dict(norm_eps=1e-12),
            "left to right": dict(kind="decoder"),
        },
        refused=(
            dict(is_decoder=True),
            dict(add_cross_attention=True),
            dict(position_embedding_type="relative_key"),
            dict(hidden_act="mish"),
            dict(tie_word_embeddings=False),
            dict(embedding_size=12),
        ),
    ),
    "bert, approximate gelu": Case(
        family="bert", hf=lambda: bert(hidden_act="gelu_new"), faults={"exact gelu": dict(feedforward="gelu")}
    ),
    "bert, relu": Case(family="bert", hf=lambda: bert(hidden_act="relu")),
    "roformer": Case(
        family="roformer",
        hf=roformer,
        faults={
            "rotary pairing": {"rope.pairing": "half_split"},
            "one segment": one_segment,
            "left to right": dict(kind="decoder"),
        },
        exact=with_our_frequencies,
        refused=(
            dict(rotary_value=True),
            dict(embedding_size=12),
            dict(add_cross_attention=True),
            dict(hidden_act="mish"),
            dict(tie_word_embeddings=False),
            dict(rope_theta=500.0),
        ),
    ),
    "roformer, left to right": Case(
        family="roformer",
        hf=lambda: roformer("RoFormerForCausalLM", is_decoder=True, hidden_act="gelu_new"),
        faults={"both ways": dict(kind="encoder"), "rotary pairing": {"rope.pairing": "half_split"}},
        exact=with_our_frequencies,
    ),
    "roformer, relu": Case(family="roformer", hf=lambda: roformer(hidden_act="relu"), exact=with_our_frequencies),
}

RELEASED |= {
    "olmo-7b": (
        "olmo",
        released(
            """attention_bias=false attention_dropout=0.0 clip_qkv=null eos_token_id=50279 hidden_act="silu"
            hidden_size=4096 initializer_range=0.02 intermediate_size=11008 max_position_embeddings=2048
            model_type="olmo" num_attention_heads=32 num_hidden_layers=32 num_key_value_heads=32 pad_token_id=1
            rope_scaling=null rope_theta=10000.0 tie_word_embeddings=false torch_dtype="float32" use_cache=true
            vocab_size=50304"""
        ),
    ),
    "opt-125m": (
        "opt",
        released(
            """_remove_final_layer_norm=false activation_dropout=0.0 activation_function="relu" attention_dropout=0.0
            bos_token_id=2 do_layer_norm_before=true dropout=0.1 eos_token_id=2 ffn_dim=3072 hidden_size=768
            init_std=0.02 layerdrop=0.0 max_position_embeddings=2048 model_type="opt" num_attention_heads=12
            num_hidden_layers=12 pad_token_id=1 prefix="</s>" torch_dtype="float16" use_cache=true vocab_size=50272
            word_embed_proj_dim=768"""
        ),
    ),
    "gpt-j": (
        "gptj",
        released(
            """activation_function="gelu_new" attn_pdrop=0.0 bos_token_id=50256 embd_pdrop=0.0 eos_token_id=50256
            gradient_checkpointing=false initializer_range=0.02 layer_norm_epsilon=1e-05 model_type="gptj" n_embd=4096
            n_head=16 n_inner=null n_layer=28 n_positions=2048 resid_pdrop=0.0 rotary=true rotary_dim=64
            scale_attn_weights=true summary_activation=null summary_first_dropout=0.1 summary_proj_to_labels=true
            summary_type="cls_index" summary_use_proj=true tie_word_embeddings=false tokenizer_class="GPT2Tokenizer"
            use_cache=true vocab_size=50400"""
        ),
    ),
    "bert-base": (
        "bert",
        released(
            """attention_probs_dropout_prob=0.1 gradient_checkpointing=false hidden_act="gelu" hidden_dropout_prob=0.1
            hidden_size=768 initializer_range=0.02 intermediate_size=3072 layer_norm_eps=1e-12
            max_position_embeddings=512 model_type="bert" num_attention_heads=12 num_hidden_layers=12 pad_token_id=0
            position_embedding_type="absolute" type_vocab_size=2 use_cache=true vocab_size=30522"""
        ),
    ),
    "roformer": (
        "roformer",
        released(
            """attention_probs_dropout_prob=0.1 bos_token_id=0 embedding_size=768 eos_token_id=2 hidden_act="gelu"
            hidden_dropout_prob=0.1 hidden_size=768 initializer_range=0.02 intermediate_size=3072 layer_norm_eps=1e-12
            max_position_embeddings=1536 model_type="roformer" num_attention_heads=12 num_hidden_layers=12
            pad_token_id=0 rotary_value=false type_vocab_size=2 use_cache=true vocab_size=50000"""
        ),
    ),
}


# --- DeepSeek, Mamba, DeBERTa ---

LATENT = dict(num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=8, qk_rope_head_dim=6, qk_nope_head_dim=10)
LATENT |= dict(v_head_dim=7, max_position_embeddings=48, moe_intermediate_size=12, first_k_dense_replace=1)
LATENT |= dict(num_experts_per_tok=3, n_shared_experts=2, routed_scaling_factor=1.5)
MSCALE_ROPE = YARN_ROPE | dict(mscale=0.7, mscale_all_dim=0.9)


def deepseek_v2(n_experts=4, **more):
    rope = dict(rope_type="default", rope_theta=500.0)
    options = SIZES | LATENT | NO_TOKENS | dict(num_hidden_layers=3, n_routed_experts=n_experts, rope_parameters=rope)
    return transformers.DeepseekV2ForCausalLM(transformers.DeepseekV2Config(**options | more))


def deepseek_v3(**more):
    options = SIZES | LATENT | NO_TOKENS | dict(num_hidden_layers=3, n_routed_experts=8, n_group=4, topk_group=2)
    options |= dict(rope_parameters=MSCALE_ROPE, q_lora_rank=9)
    return with_selection_bias(transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(**options | more)))


def with_selection_bias(hf):
    """A DeepSeek-V3 whose router has the bias that training adjusts, which is no parameter."""
    g = torch.Generator().manual_seed(2)
    for name, bias in hf.named_buffers():
        if name.endswith("e_score_correction_bias"):
            bias.copy_(0.3 * torch.randn(bias.shape, generator=g))
    return hf


def expert_by_expert(hf):
    """Their grouped product takes no float64."""
    hf.set_experts_implementation("eager")


def without_selection_bias(model):
    for name, bias in model.named_buffers():
        if name.endswith("selection_bias"):
            bias.zero_()


CASES |= {
    "deepseek_v2": Case(
        family="deepseek_v2",
        exact=expert_by_expert,
        hf=lambda: deepseek_v2(mlp_bias=True),
        faults={
            "rotary pairing": {"rope.pairing": "half_split"},
            "scale of experts": {"moe.routed_scaling_factor": 1.0},
            "all keys, then all values": WrongRules(as_thirds),
            "gate for up": WrongRules(gate_and_up_exchanged),
        },
        refused=(
            dict(rms_norm_eps=1e-5),
            dict(topk_method="noaux_tc"),
            dict(norm_topk_prob=True),
            dict(scoring_func="sigmoid"),
            dict(moe_layer_freq=2),
            dict(num_key_value_heads=2),
            dict(head_dim=8),
            dict(attention_bias=True),
            dict(q_lora_rank=2.5),
            dict(n_shared_experts=None),
            dict(rope_parameters=dict(rope_type="dynamic", factor=2.0)),
            dict(rope_parameters=dict(rope_type="linear", factor=2.0, mscale_all_dim=1.0)),
            dict(rope_parameters=YARN_ROPE | dict(mscale=0.7)),
            dict(rope_parameters=YARN_ROPE | dict(mscale_all_dim=0.7)),
            dict(rope_parameters=YARN_ROPE | dict(mscale=0.7, mscale_all_dim="0.7")),
        ),
    ),
    "deepseek_v2, groups, yarn, latent of queries": Case(
        family="deepseek_v2",
        exact=expert_by_expert,
        hf=lambda: deepseek_v2(
            n_experts=12,
            topk_method="group_limited_greedy",
            n_group=4,
            topk_group=2,
            q_lora_rank=9,
            attention_bias=True,
            rope_parameters=MSCALE_ROPE,
        ),
        faults={
            "no mscale_all_dim": dict(attention_scale=None),
            "no mscale": {"rope.scaling.attention_factor": 1.0},
            "no groups": {"moe.router": "top_k_of_softmax", "moe.n_groups": None, "moe.n_groups_per_token": None},
        },
        refused=(dict(n_group=None), dict(mlp_bias=1)),
    ),
    "deepseek_v2, yarn without mscale, tied": Case(
        family="deepseek_v2",
        exact=expert_by_expert,
        hf=lambda: deepseek_v2(rope_parameters=YARN_ROPE, tie_word_embeddings=True, hidden_act="gelu"),
        faults={"temperature": {"rope.scaling.attention_factor": 1.0}},
    ),
    "deepseek_v3": Case(
        family="deepseek_v3",
        exact=expert_by_expert,
        hf=lambda: deepseek_v3(attention_bias=True),
        faults={
            "no selection bias": without_selection_bias,
            "no groups": {"moe.router": "top_k_of_sigmoid", "moe.n_groups": None, "moe.n_groups_per_token": None},
            "no mscale_all_dim": dict(attention_scale=None),
        },
        refused=(
            dict(norm_topk_prob=False),
            dict(scoring_func="softmax"),
            dict(topk_method="greedy"),
            dict(quantization_config={"quant_method": "fp8"}),
            dict(rms_norm_eps=1e-5),
            dict(n_group=1, topk_group=2),
        ),
    ),
    "deepseek_v3, one group, halves": Case(
        family="deepseek_v3",
        exact=expert_by_expert,
        hf=lambda: deepseek_v3(
            n_group=1,
            topk_group=1,
            q_lora_rank=None,
            rope_interleave=False,
            rope_parameters=dict(rope_type="linear", rope_theta=500.0, factor=4.0),
        ),
        faults={"rotary pairing": {"rope.pairing": "interleaved"}},
    ),
}

DEEPSEEK_V2_RELEASED = """attention_bias=false attention_dropout=0.0 aux_loss_alpha=0.001 bos_token_id=100000
    eos_token_id=100001 ep_size=1 first_k_dense_replace=1 hidden_act="silu" initializer_range=0.02 kv_lora_rank=512
    max_position_embeddings=163840 model_type="deepseek_v2" moe_layer_freq=1 n_shared_experts=2 norm_topk_prob=false
    num_experts_per_tok=6 pretraining_tp=1 qk_nope_head_dim=128 qk_rope_head_dim=64 rms_norm_eps=1e-06 rope_theta=10000
    scoring_func="softmax" seq_aux=true tie_word_embeddings=false torch_dtype="bfloat16" use_cache=true v_head_dim=128
    vocab_size=102400"""
DEEPSEEK_V2_ROPE = dict(beta_fast=32, beta_slow=1, factor=40, mscale=0.707, mscale_all_dim=0.707, type="yarn")
DEEPSEEK_V2_ROPE |= dict(original_max_position_embeddings=4096)

RELEASED |= {
    "deepseek-v2": (
        "deepseek_v2",
        released(
            DEEPSEEK_V2_RELEASED
            + """ hidden_size=5120 intermediate_size=12288 moe_intermediate_size=1536 n_group=8 n_routed_experts=160
            num_attention_heads=128 num_hidden_layers=60 num_key_value_heads=128 q_lora_rank=1536
            routed_scaling_factor=16.0 topk_group=3 topk_method="group_limited_greedy" """,
            rope_scaling=DEEPSEEK_V2_ROPE,
        ),
    ),
    "deepseek-v2-lite": (
        "deepseek_v2",
        released(
            DEEPSEEK_V2_RELEASED
            + """ hidden_size=2048 intermediate_size=10944 moe_intermediate_size=1408 n_group=1 n_routed_experts=64
            num_attention_heads=16 num_hidden_layers=27 num_key_value_heads=16 q_lora_rank=null
            routed_scaling_factor=1.0 topk_group=1 topk_method="greedy" """,
            rope_scaling=DEEPSEEK_V2_ROPE,
        ),
    ),
}


def mamba(**more):
    sizes = dict(vocab_size=VOCAB, hidden_size=20, num_hidden_layers=2, state_size=5, conv_kernel=3, expand=3)
    options = dict(time_step_rank=4, layer_norm_epsilon=1e-3)
    return transformers.MambaForCausalLM(transformers.MambaConfig(**sizes, **options, **NO_TOKENS, **more))


def steps_longer(model):
    with torch.no_grad():
        model.blocks[1].dt_proj.bias += 0.1


def other_epsilon(model):
    model.norm.eps = 1e-5


def gate_for_input(rule):
    """What the convolution reads and what closes the gate lie in one tensor."""
    return replace(rule, change=Exchanged()) if rule.ours[0].endswith("in_proj.weight") else rule


class Exchanged(Same):
    def from_hf(self, *hf):
        return tuple(torch.cat(tensor.chunk(2)[::-1]) for tensor in hf)

    to_hf = from_hf


CASES |= {
    "mamba": Case(
        family="mamba",
        hf=mamba,
        faults={"step": steps_longer, "epsilon": other_epsilon, "gate for input": WrongRules(gate_for_input)},
        refused=(
            dict(use_bias=True),
            dict(use_conv_bias=False),
            dict(hidden_act="relu"),
            dict(intermediate_size=41),
            dict(expand=1.5),
            dict(time_step_rank=0),
            dict(ssm_cfg={"layer": "Mamba2"}),
            dict(n_groups=2),
        ),
    ),
    "mamba, own head": Case(family="mamba", hf=lambda: mamba(tie_word_embeddings=False)),
}


DEBERTA = dict(legacy=False, relative_attention=True, pos_att_type="c2p|p2c", position_biased_input=False)
DEBERTA |= dict(layer_norm_eps=1e-3, max_position_embeddings=48)
DEBERTA_V2 = DEBERTA | dict(position_buckets=4, max_relative_positions=11, share_att_key=True)
DEBERTA_V2 |= dict(norm_rel_ebd="layer_norm")


def deberta(**more):
    return transformers.DebertaForMaskedLM(transformers.DebertaConfig(**SIZES | NO_TOKENS | DEBERTA | more))


def deberta_v2(**more):
    return transformers.DebertaV2ForMaskedLM(transformers.DebertaV2Config(**SIZES | NO_TOKENS | DEBERTA_V2 | more))


def papers_reading(model):
    """The term of the positions that ask reads the row of the key's view, as the paper has it."""
    for block in model.stack.blocks:
        block.attention.position.position_to_content_rows = block.attention.position.buckets


def table_not_normalized(model):
    model.stack.blocks[0].attention.position.table[1] = nn.Identity()
    for block in model.stack.blocks:
        block.attention.position.table = model.stack.blocks[0].attention.position.table


CASES |= {
    "deberta": Case(
        family="deberta",
        hf=lambda: deberta(max_relative_positions=6, type_vocab_size=2),
        faults={
            "the paper's reading": papers_reading,
            "projections as thirds": WrongRules(as_thirds),
            "epsilon": dict(norm_eps=1e-7),
        },
        refused=(
            dict(relative_attention=False),
            dict(relative_attention=None),
            dict(position_biased_input=True),
            dict(pos_att_type=["c2p"]),
            dict(pos_att_type=None),
            dict(talking_head=True),
            dict(tie_word_embeddings=False),
            dict(hidden_act="mish"),
            dict(embedding_size=12),
        ),
    ),
    "deberta, reach of the longest text": Case(
        family="deberta", hf=lambda: deberta(hidden_act="gelu_new", max_position_embeddings=19)
    ),
    "deberta_v2": Case(
        family="deberta_v2",
        hf=lambda: deberta_v2(type_vocab_size=2),
        faults={
            "the paper's reading": papers_reading,
            "table not normalized": table_not_normalized,
            "buckets": {"buckets.max_distance": 40},
        },
        refused=(
            dict(share_att_key=False),
            dict(share_att_key=None),
            dict(norm_rel_ebd="none"),
            dict(position_buckets=-1),
            dict(position_buckets=5),
            dict(conv_kernel_size=3),
            dict(attention_head_size=6),
            dict(pos_att_type="p2c"),
        ),
    ),
    "deberta_v2, reach of the longest text": Case(
        family="deberta_v2",
        hf=lambda: deberta_v2(max_relative_positions=-1, hidden_act="relu", position_buckets=6),
    ),
}

RELEASED |= {
    "deberta-base": (
        "deberta",
        released(
            """attention_probs_dropout_prob=0.1 hidden_act="gelu" hidden_dropout_prob=0.1 hidden_size=768
            initializer_range=0.02 intermediate_size=3072 layer_norm_eps=1e-7 max_position_embeddings=512
            max_relative_positions=-1 model_type="deberta" num_attention_heads=12 num_hidden_layers=12 padding_idx=0
            pooler_dropout=0 pooler_hidden_act="gelu" pos_att_type="c2p|p2c" position_biased_input=false
            relative_attention=true type_vocab_size=0 vocab_size=50265"""
        ),
    ),
}


# --- Granite, SmolLM3, StarCoder2, Qwen 3 with experts ---

MULTIPLIERS = dict(embedding_multiplier=3.0, attention_multiplier=0.21, residual_multiplier=0.4, logits_scaling=1.7)


def without_head_dim(name, **more):
    """One of the models whose class has no field for the width of a head."""
    return decoder(name, **dict(head_dim=6) | more)


def starcoder2(**more):
    options = GROUPED | NO_TOKENS | dict(head_dim=6, norm_epsilon=1e-3, rope_parameters=PLAIN_ROPE)
    options = {name: value for name, value in options.items() if name != "rms_norm_eps"}
    return transformers.Starcoder2ForCausalLM(transformers.Starcoder2Config(**options | more))


def qwen3_moe(**more):
    options = dict(num_hidden_layers=3, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=20)
    return decoder("Qwen3Moe", **options | more)


def no_bias_of_the_feedforward_layer(model):
    for block in model.stack.blocks:
        block.feedforward.w_up.bias.data.zero_()


CASES |= {
    "granite": Case(
        family="granite",
        hf=lambda: without_head_dim("Granite", **MULTIPLIERS),
        faults={
            "embeddings not scaled": dict(embedding_multiplier=1.0),
            "scale of the head": dict(attention_scale=None),
            "sublayers not scaled": dict(residual_multiplier=1.0),
            "logits multiplied, not divided": dict(logit_multiplier=1.7),
        },
        refused=(
            dict(hidden_act="relu6"),
            dict(logits_scaling=0),
            dict(logits_scaling="8"),
            dict(embedding_multiplier=True),
            dict(sliding_window=8),
            dict(num_local_experts=4),
            dict(rope_parameters=dict(rope_type="longrope", factor=2.0)),
        ),
    ),
    "granite, yarn, biases, tied": Case(
        family="granite",
        hf=lambda: without_head_dim(
            "Granite",
            rope=YARN_ROPE,
            attention_bias=True,
            mlp_bias=True,
            tie_word_embeddings=True,
            hidden_act="gelu",
            **MULTIPLIERS,
        ),
        faults={
            "no biases": without_bias_of_keys_and_values,
            "logits not scaled": dict(logit_multiplier=1.0),
            "approximate gelu": dict(feedforward="geglu_tanh"),
        },
    ),
    "smollm3": Case(
        family="smollm3",
        hf=lambda: without_head_dim(
            "SmolLM3", num_hidden_layers=4, no_rope_layer_interval=3, tie_word_embeddings=False, attention_bias=True
        ),
        faults={
            "RoPE everywhere": {"rope.layers": ()},
            "NoPE in the layer before": {"rope.layers": (True, False, True)},
            "rotary base": {"rope.base": 2e6},
            "no biases": without_bias_of_keys_and_values,
        },
        refused=(
            dict(no_rope_layers=[1, 0]),
            dict(no_rope_layers=[1, 0, 1, 2]),
            dict(no_rope_layers=[0, 0, 0, 0]),
            dict(no_rope_layers=None, no_rope_layer_interval=1),
            dict(no_rope_layers=None, no_rope_layer_interval=0),
            dict(layer_types=[SLIDING, FULL, FULL, FULL]),  # and windows are switched off
            dict(layer_types=None, use_sliding_window="yes"),
            dict(hidden_act="relu6"),
            dict(sliding_window="5", use_sliding_window=True),
        ),
    ),
    "smollm3, windows": Case(
        family="smollm3",
        hf=lambda: without_head_dim(
            "SmolLM3",
            rope=YARN_ROPE,
            num_hidden_layers=3,
            no_rope_layer_interval=2,
            use_sliding_window=True,
            sliding_window=5,
            mlp_bias=True,
        ),
        faults={
            "windows where there is RoPE": dict(layer_types=(SLIDING, FULL)),
            "no windows": NO_WINDOW,
            "temperature": {"rope.scaling.attention_factor": 1.0},
        },
    ),
    "smollm3, both by list": Case(
        family="smollm3",
        hf=lambda: without_head_dim(
            "SmolLM3",
            num_hidden_layers=3,
            no_rope_layers=[0, 0, 1],
            use_sliding_window=True,
            sliding_window=5,
            layer_types=[SLIDING, FULL, SLIDING],
        ),
        faults={
            "NoPE in the last layer": {"rope.layers": (True, True, False)},
            "windows everywhere": dict(layer_types=()),
        },
    ),
    "starcoder2": Case(
        family="starcoder2",
        hf=lambda: starcoder2(sliding_window=5),
        faults={
            "no window": dict(window=None),
            "exact gelu": dict(feedforward="gelu"),
            "epsilon": dict(norm_eps=1e-5),
            "no biases": without_bias_of_keys_and_values,
            "no bias of the feed-forward layer": no_bias_of_the_feedforward_layer,
        },
        refused=(
            dict(hidden_act="silu"),
            dict(mlp_type="gated"),
            dict(norm_type="rms_norm"),
            dict(use_bias="yes"),
            dict(layer_types=[SLIDING, FULL]),
            dict(rope_parameters=dict(rope_type="longrope", factor=2.0)),
        ),
    ),
    "starcoder2, without biases, own head": Case(
        family="starcoder2",
        hf=lambda: starcoder2(use_bias=False, tie_word_embeddings=False, hidden_act="gelu", rope_parameters=YARN_ROPE),
        faults={
            "a window": dict(window=16),
            "approximate gelu": dict(feedforward="gelu_tanh"),
            "temperature": {"rope.scaling.attention_factor": 1.0},
        },
    ),
    "qwen3_moe": Case(
        family="qwen3_moe",
        hf=lambda: qwen3_moe(norm_topk_prob=True, decoder_sparse_step=2),
        exact=expert_by_expert,
        faults={
            "weights that do not sum to 1": {"moe.router": "top_k_of_softmax"},
            "one expert": {"moe.n_experts_per_token": 1},
            "queries as they are": with_identity_for("query_norm"),
            "gate for up": WrongRules(gate_and_up_exchanged),
        },
        refused=(
            dict(decoder_sparse_step=0),
            dict(mlp_only_layers=[True]),
            dict(mlp_only_layers=1),
            dict(norm_topk_prob="yes"),
            dict(use_sliding_window="yes"),
            dict(shared_expert_intermediate_size=8),
            dict(hidden_act="relu6"),
            dict(layer_types=[SLIDING, FULL, FULL]),
        ),
    ),
    "qwen3_moe, windows, biases, a list of dense layers": Case(
        family="qwen3_moe",
        exact=expert_by_expert,
        hf=lambda: qwen3_moe(
            mlp_only_layers=[1],
            use_sliding_window=True,
            sliding_window=5,
            attention_bias=True,
            tie_word_embeddings=True,
            rope=YARN_ROPE,
            hidden_act="gelu_pytorch_tanh",
        ),
        faults={
            "weights that sum to 1": {"moe.router": "softmax_of_top_k"},
            "no window": dict(window=None),
            "no biases": without_bias_of_keys_and_values,
            "exact gelu": dict(feedforward="geglu"),
        },
    ),
}


RELEASED |= {
    "granite-3.0-2b": (
        "granite",
        released(
            """attention_bias=false attention_dropout=0.1 attention_multiplier=0.015625 bos_token_id=0
            embedding_multiplier=12.0 eos_token_id=0 hidden_act="silu" hidden_size=2048 initializer_range=0.02
            intermediate_size=8192 logits_scaling=8.0 max_position_embeddings=4096 mlp_bias=false model_type="granite"
            num_attention_heads=32 num_hidden_layers=40 num_key_value_heads=8 pad_token_id=0 residual_multiplier=0.22
            rms_norm_eps=1e-05 rope_scaling=null rope_theta=10000.0 tie_word_embeddings=true torch_dtype="bfloat16"
            use_cache=true vocab_size=49155"""
        ),
    ),
    "smollm3-3b": (
        "smollm3",
        released(
            """attention_bias=false attention_dropout=0.0 bos_token_id=null eos_token_id=128012 hidden_act="silu"
            hidden_size=2048 initializer_range=0.02 intermediate_size=11008 max_position_embeddings=65536
            max_window_layers=28 mlp_bias=false model_type="smollm3" no_rope_layer_interval=4 num_attention_heads=16
            num_hidden_layers=36 num_key_value_heads=4 pad_token_id=128004 pretraining_tp=2 rms_norm_eps=1e-06
            rope_scaling=null rope_theta=5000000.0 sliding_window=null tie_word_embeddings=true torch_dtype="bfloat16"
            use_cache=false use_sliding_window=false vocab_size=128256""",
            no_rope_layers=[1, 1, 1, 0] * 9,
            layer_types=[FULL] * 36,
        ),
    ),
    "starcoder2-3b": (
        "starcoder2",
        released(
            """attention_dropout=0.1 bos_token_id=0 embedding_dropout=0.1 eos_token_id=0 hidden_act="gelu_pytorch_tanh"
            hidden_size=3072 initializer_range=0.018042 intermediate_size=12288 max_position_embeddings=16384
            mlp_type="default" model_type="starcoder2" norm_epsilon=1e-05 norm_type="layer_norm" num_attention_heads=24
            num_hidden_layers=30 num_key_value_heads=2 residual_dropout=0.1 rope_theta=999999.4420358813
            sliding_window=4096 use_bias=true use_cache=true vocab_size=49152"""
        ),
    ),
    "qwen3-30b-a3b": (
        "qwen3_moe",
        released(
            """attention_bias=false attention_dropout=0.0 bos_token_id=151643 decoder_sparse_step=1 eos_token_id=151645
            head_dim=128 hidden_act="silu" hidden_size=2048 initializer_range=0.02 intermediate_size=6144
            max_position_embeddings=40960 max_window_layers=48 mlp_only_layers=[] model_type="qwen3_moe"
            moe_intermediate_size=768 norm_topk_prob=true num_attention_heads=32 num_experts=128 num_experts_per_tok=8
            num_hidden_layers=48 num_key_value_heads=4 output_router_logits=false rms_norm_eps=1e-06 rope_scaling=null
            rope_theta=1000000.0 router_aux_loss_coef=0.001 sliding_window=null tie_word_embeddings=false
            torch_dtype="bfloat16" use_cache=true use_sliding_window=false vocab_size=151936"""
        ),
    ),
}


# --- Cohere, StableLM, Falcon, MPT ---


def cohere(**more):
    sizes = SIZES | dict(num_key_value_heads=2, max_position_embeddings=48, layer_norm_eps=1e-3)
    options = dict(rope_parameters=PLAIN_ROPE, logit_scale=0.3)
    return transformers.CohereForCausalLM(transformers.CohereConfig(**sizes | options | NO_TOKENS | more))


def stablelm(**more):
    sizes = SIZES | dict(hidden_size=32, num_key_value_heads=2, max_position_embeddings=48, layer_norm_eps=1e-3)
    options = dict(rope_parameters=PLAIN_ROPE | dict(partial_rotary_factor=0.5))
    return transformers.StableLmForCausalLM(transformers.StableLmConfig(**sizes | options | NO_TOKENS | more))


def falcon(**more):
    sizes = dict(vocab_size=VOCAB, hidden_size=24, ffn_hidden_size=36, num_hidden_layers=2, num_attention_heads=4)
    options = dict(rope_parameters=PLAIN_ROPE, layer_norm_epsilon=1e-3, max_position_embeddings=48)
    return transformers.FalconForCausalLM(transformers.FalconConfig(**sizes | options | NO_TOKENS | more))


def mpt(attn_config=None, **more):
    sizes = dict(vocab_size=VOCAB, d_model=24, n_layers=2, n_heads=3, max_seq_len=48, layer_norm_epsilon=1e-3)
    attn_config = dict(clip_qkv=0.5, softmax_scale=0.7, alibi_bias_max=3) if attn_config is None else attn_config
    return transformers.MptForCausalLM(transformers.MptConfig(attn_config=attn_config, **sizes | NO_TOKENS | more))


def alibi_of_their_config(self, num_heads, sequence_length, alibi_bias_max=8, device=None):
    """Their class reads ``alibi_bias_max``, and computes with 8 whatever it says; MPT-7B-StoryWriter has 16."""
    said = self.config.attn_config.alibi_bias_max
    return modeling_mpt.build_mpt_alibi_tensor(num_heads, sequence_length, said, device)


modeling_mpt.MptModel.build_mpt_alibi_tensor = alibi_of_their_config


def weights_of_the_first_head(model):
    for block in model.stack.blocks:
        for part in (block.attention.query_norm, block.attention.key_norm):
            part.weight.data[1:] = part.weight.data[0]


def heads_in_reverse(rule):
    return replace(rule, hf=rule.hf[::-1]) if "q_layernorm" in rule.hf[0] else rule


def keys_and_values_exchanged(rule):
    query, *both = rule.ours
    return replace(rule, ours=(query, *both[::-1])) if "w_query" in query else rule


def head_by_head(rule):
    """A fused projection read as if each of three heads had its own query, key and value."""
    return replace(rule, change=Split((8, 8, 8), 3)) if "w_query" in rule.ours[0] else rule


def norms_of_the_sublayers_exchanged(rule):
    exchanged = {"ln_attn": "ln_mlp", "ln_mlp": "ln_attn"}
    for name, other in exchanged.items():
        if name in rule.hf[0]:
            return replace(rule, hf=rule.hf[0].replace(name, other))
    return rule


class UnroundedALiBi(ALiBi):
    """Falcon's, with all digits."""

    def _slopes(self, query):
        return super()._slopes(query) * self.scale(query.shape[-1])


def slopes_not_rounded(model):
    for block in model.stack.blocks:
        block.attention.position = UnroundedALiBi(block.attention.n_heads)


CASES |= {
    "cohere": Case(
        family="cohere",
        hf=lambda: cohere(use_qk_norm=True),
        faults={
            "logits not scaled": dict(logit_multiplier=1.0),
            "rotary pairing": {"rope.pairing": "half_split"},
            "rotary base": {"rope.base": 500000.0},
            "one weight for all heads": weights_of_the_first_head,
            "queries as they are": with_identity_for("query_norm"),
            "gate for up": WrongRules(gate_and_up_exchanged),
        },
        refused=(
            dict(logit_scale=None),
            dict(hidden_act="relu6"),
            dict(head_dim=10),
            dict(use_qk_norm="yes"),
            dict(sliding_window=8),
            dict(rope_parameters=dict(rope_type="default", partial_rotary_factor=0.5)),
        ),
    ),
    "cohere, biases, own head": Case(
        family="cohere",
        hf=lambda: cohere(attention_bias=True, tie_word_embeddings=False, hidden_act="gelu"),
        faults={"no biases": without_bias_of_keys_and_values, "epsilon": dict(norm_eps=1e-5)},
    ),
    "stablelm": Case(
        family="stablelm",
        hf=lambda: stablelm(qk_layernorm=True, use_qkv_bias=True),
        faults={
            "whole heads turned": {"rope.fraction": 1.0},
            "rotary pairing": {"rope.pairing": "interleaved"},
            "one weight for all heads": weights_of_the_first_head,
            "heads in reverse": WrongRules(heads_in_reverse),
            "no biases": without_bias_of_keys_and_values,
            "gate for up": WrongRules(gate_and_up_exchanged),
        },
        refused=(
            dict(hidden_act="relu6"),
            dict(qk_layernorm="yes"),
            dict(use_parallel_residual=1),
            dict(norm_eps=1e-5),
            dict(sliding_window=8),
        ),
    ),
    "stablelm, parallel, tied": Case(
        family="stablelm",
        hf=lambda: stablelm(use_parallel_residual=True, tie_word_embeddings=True, hidden_act="gelu"),
        faults={"approximate gelu": dict(feedforward="geglu_tanh"), "epsilon": dict(norm_eps=1e-5)},
    ),
    "falcon": Case(
        family="falcon",
        hf=falcon,
        faults={
            "keys for values": WrongRules(keys_and_values_exchanged),
            "rotary pairing": {"rope.pairing": "interleaved"},
            "rotary base": {"rope.base": 10000.0},
            "epsilon": dict(norm_eps=1e-5),
        },
        refused=(
            dict(activation="mish"),
            dict(num_ln_in_parallel_attn=2),
            dict(multi_query=None),
            dict(parallel_attn="yes"),
            dict(multi_query=False, num_kv_heads=2),
            dict(apply_residual_connection_post_layernorm=True),
            dict(n_embed=25),
        ),
    ),
    "falcon, new decoder": Case(
        family="falcon",
        hf=lambda: falcon(new_decoder_architecture=True, num_kv_heads=2),
        faults={
            "all keys, then all values": WrongRules(as_thirds),
            "norms exchanged": WrongRules(norms_of_the_sublayers_exchanged),
        },
        refused=(dict(parallel_attn=False), dict(num_ln_in_parallel_attn=3), dict(num_kv_heads="2")),
    ),
    "falcon, new decoder, one norm, biases": Case(
        family="falcon",
        hf=lambda: falcon(
            new_decoder_architecture=True,
            num_kv_heads=2,
            num_ln_in_parallel_attn=1,
            bias=True,
            activation="relu",
            tie_word_embeddings=False,
        ),
        faults={"no biases": without_bias_of_keys_and_values, "gelu": dict(feedforward="gelu")},
    ),
    "falcon, alibi, serial": Case(
        family="falcon",
        hf=lambda: falcon(num_attention_heads=12, alibi=True, multi_query=False, parallel_attn=False, bias=True),
        faults={
            "the paper's ALiBi": dict(position="alibi"),
            "slopes not rounded": slopes_not_rounded,
            "projections as thirds": WrongRules(as_thirds),
        },
    ),
    "falcon, alibi, one key": Case(
        family="falcon",
        hf=lambda: falcon(num_attention_heads=3, alibi=True, parallel_attn=False, activation="gelu_new"),
    ),
    "mpt": Case(
        family="mpt",
        hf=mpt,
        faults={
            "not clipped": dict(clip_qkv=None),
            "scale of the scores": dict(attention_scale=None),
            "slopes": {"alibi.bias_max": 8},
            "projections head by head": WrongRules(head_by_head),
            "approximate gelu": dict(feedforward="gelu_tanh"),
        },
        refused=(
            *(dict(attn_config=options) for options in (dict(alibi=False), dict(qk_ln=True), dict(prefix_lm=True))),
            dict(attn_config=dict(attn_type="multiquery_attention")),
            dict(attn_config=dict(attn_uses_sequence_id=True)),
            dict(attn_config=dict(clip_qkv="6")),
            dict(attn_config=dict(sliding_window_size=8)),
            dict(attn_config=[8]),
            dict(expansion_ratio=2),
            dict(no_bias=False),
            dict(logit_scale="inv_sqrt_d_model"),
            dict(norm_type="rmsnorm"),
        ),
    ),
    "mpt, own head": Case(family="mpt", hf=lambda: mpt({}, tie_word_embeddings=False)),
}

RELEASED_OTHERWISE["falcon-7b"] = {"n_ctx": (None, 2048)}  # said by the class alone
RELEASED |= {
    "command-r": (
        "cohere",
        released(
            """attention_bias=false attention_dropout=0.0 bos_token_id=5 eos_token_id=255001 hidden_act="silu"
            hidden_size=8192 initializer_range=0.02 intermediate_size=22528 layer_norm_eps=1e-05 logit_scale=0.0625
            max_position_embeddings=8192 model_max_length=131072 model_type="cohere" num_attention_heads=64
            num_hidden_layers=40 num_key_value_heads=64 pad_token_id=0 rope_theta=8000000.0 torch_dtype="float16"
            use_cache=true vocab_size=256000"""
        ),
    ),
    "stablelm-3b": (
        "stablelm",
        released(
            """bos_token_id=0 eos_token_id=0 hidden_act="silu" hidden_size=2560 initializer_range=0.02
            intermediate_size=6912 layer_norm_eps=1e-05 max_position_embeddings=4096 model_type="stablelm"
            num_attention_heads=32 num_hidden_layers=32 num_key_value_heads=32 partial_rotary_factor=0.25
            rope_theta=10000 tie_word_embeddings=false torch_dtype="bfloat16" use_cache=true use_qkv_bias=false
            vocab_size=50304"""
        ),
    ),
    "falcon-7b": (
        "falcon",
        released(
            """alibi=false apply_residual_connection_post_layernorm=false attention_dropout=0.0 bias=false
            bos_token_id=11 eos_token_id=11 hidden_dropout=0.0 hidden_size=4544 initializer_range=0.02
            layer_norm_epsilon=1e-05 model_type="falcon" multi_query=true new_decoder_architecture=false
            num_attention_heads=71 num_hidden_layers=32 parallel_attn=true torch_dtype="bfloat16" use_cache=true
            vocab_size=65024"""
        ),
    ),
    "mpt-7b": (
        "mpt",
        released(
            """d_model=4096 emb_pdrop=0 embedding_fraction=1.0 expansion_ratio=4 init_device="cpu"
            learned_pos_emb=true logit_scale=null max_seq_len=2048 model_type="mpt" n_heads=32 n_layers=32 no_bias=true
            norm_type="low_precision_layernorm" resid_pdrop=0 tokenizer_name="EleutherAI/gpt-neox-20b"
            torch_dtype="bfloat16" use_cache=false verbose=0 vocab_size=50432""",
            attn_config=released(
                """alibi=true alibi_bias_max=8 attn_impl="torch" attn_pdrop=0 attn_type="multihead_attention"
                attn_uses_sequence_id=false clip_qkv=null prefix_lm=false qk_ln=false softmax_scale=null"""
            ),
        ),
    ),
}


# --- Gemma 3, OLMo 3, Phi-3, gpt-oss, and RoPE that depends on the length ---


def two_ropes(full, local=300.0):
    return {FULL: full, SLIDING: dict(rope_type="default", rope_theta=local)}


GEMMA3 = dict(num_hidden_layers=3, sliding_window=5, layer_types=[SLIDING, SLIDING, FULL], query_pre_attn_scalar=5)


def phi3(rope=PLAIN_ROPE, **more):
    sizes = SIZES | dict(hidden_size=40, num_key_value_heads=2, rms_norm_eps=1e-3, max_position_embeddings=48)
    config = transformers.Phi3Config(**sizes | NO_TOKENS | more, rope_parameters=copy.deepcopy(rope))
    return transformers.Phi3ForCausalLM(config)


LONG_ROPE = dict(rope_type="longrope", rope_theta=500.0, partial_rotary_factor=0.8)
LONG_ROPE |= dict(short_factor=[1.0, 1.1, 1.3, 2.0], long_factor=[1.2, 2.0, 3.5, 6.0])


ROUGH_YARN = YARN_ROPE | dict(original_max_position_embeddings=64, beta_slow=0.5, truncate=False)


def gpt_oss(**more):
    options = GROUPED | NO_TOKENS | dict(num_hidden_layers=3, sliding_window=5, num_local_experts=4)
    options |= dict(num_experts_per_tok=2, swiglu_limit=0.8, swiglu_alpha=1.3)
    more = dict(rope_parameters=ROUGH_YARN) | more
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(**options | more))


def without_sinks(model):
    for block in model.stack.blocks:
        block.attention.sinks = None


def bias_left_out(part):
    def change(model):
        for block in model.stack.blocks:
            block.feedforward.get_parameter(part).data.zero_()

    return change


def experts_not_transposed(rule):
    """Their square weight fits, transposed or not."""
    return replace(rule, change=Same()) if rule.ours[0].endswith("experts.w_down") else rule


def halves_for_neighbours(rule):
    """Gates and ups read as if they stood one after the other in the file too."""
    if not rule.ours[0].endswith("experts.b_up"):
        return rule
    return replace(rule, change=Same())


def frequencies_of_short_texts(model):
    for module in model.modules():
        if hasattr(module, "by_length"):
            module.by_length = False


DYNAMIC_ROPE = dict(rope_type="dynamic", rope_theta=500.0, factor=3.0)

CASES |= {
    "gemma3": Case(
        family="gemma3",
        hf=lambda: decoder(
            "Gemma3",
            rope=None,
            config="Gemma3TextConfig",
            **GEMMA3,
            rope_parameters=two_ropes(dict(rope_type="linear", rope_theta=500.0, factor=4.0)),
            final_logit_softcapping=0.9,
        ),
        faults={
            "one RoPE": {"rope.local_base": None},
            "base of full layers in all": {"rope.local_base": 500.0},
            "no scaling": {"rope.scaling": None},
            "windows everywhere": dict(layer_types=()),
            "queries as they are": with_identity_for("query_norm"),
            "scale of the head": dict(attention_scale=None),
            "logits not bounded": dict(final_logit_softcapping=None),
            "w for 1 + w": dict(norm="rmsnorm"),
            "norms by name": WrongRules(norms_in_the_order_of_names),
        },
        refused=(
            dict(use_bidirectional_attention=True),
            dict(attn_logit_softcapping=50.0),
            dict(hidden_activation="relu6"),
            dict(query_pre_attn_scalar=0),
            dict(layer_types=None, sliding_window_pattern=0),
            dict(layer_types=None, sliding_window=None),
            dict(rope_parameters=PLAIN_ROPE),
            dict(rope_parameters=[]),
            dict(rope_parameters={FULL: 3}),
            dict(rope_parameters={SLIDING: dict(rope_type="linear", factor=2.0)}),
            dict(rope_parameters={SLIDING: dict(factor=2.0)}),
            dict(rope_parameters={SLIDING: dict(rope_theta="500")}),
            dict(rope_parameters={FULL: YARN_ROPE | dict(truncate=False)}),
            dict(rope_parameters={FULL: dict(rope_type="longrope", factor=2.0)}),
            dict(rope_local_base_freq="500", rope_parameters=None),
            dict(rope_scaling=dict(type="linear", factor=4.0), rope_parameters=None),
        ),
    ),
    "gemma3, biases, own head": Case(
        family="gemma3",
        hf=lambda: decoder(
            "Gemma3",
            rope=None,
            config="Gemma3TextConfig",
            num_hidden_layers=3,
            sliding_window=5,
            layer_types=[FULL, SLIDING, FULL],
            rope_parameters=two_ropes(PLAIN_ROPE),
            attention_bias=True,
            tie_word_embeddings=False,
            hidden_activation="gelu",
        ),
        faults={"one RoPE": {"rope.local_base": None}, "approximate gelu": dict(feedforward="geglu_tanh")},
    ),
    "olmo3": Case(
        family="olmo3",
        hf=lambda: olmo(
            "Olmo3",
            num_hidden_layers=4,
            sliding_window=5,
            rms_norm_eps=1e-3,
            rope_parameters=two_ropes(YARN_ROPE, 500.0),
        ),
        faults={
            "all layers scaled": {"rope.local_base": None},
            "no scaling": {"rope.scaling": None},
            "temperature": {"rope.scaling.attention_factor": 1.0},
            "every other window": dict(layer_types=(SLIDING, FULL)),
            "norms before sublayers": dict(norm_placement="pre"),
            "heads normed one by one": each_head_by_itself,
        },
        refused=(
            dict(hidden_act="relu6"),
            dict(clip_qkv=8.0),
            dict(head_dim=10),
            dict(layer_types=None, sliding_window=None),
            dict(rope_parameters={SLIDING: YARN_ROPE}),
        ),
    ),
    "olmo3, windows by list, biases, tied": Case(
        family="olmo3",
        hf=lambda: olmo(
            "Olmo3",
            num_hidden_layers=3,
            sliding_window=5,
            layer_types=[FULL, SLIDING, SLIDING],
            rope_parameters=two_ropes(dict(rope_type="default", rope_theta=500.0), 500.0),
            attention_bias=True,
            tie_word_embeddings=True,
            hidden_act="gelu",
        ),
        faults={"windows everywhere": dict(layer_types=()), "another RoPE": {"rope.local_base": 300.0}},
    ),
    "olmo3, dynamic": Case(
        family="olmo3",
        hf=lambda: olmo(
            "Olmo3",
            num_hidden_layers=4,
            sliding_window=5,
            max_position_embeddings=8,
            rope_parameters=two_ropes(DYNAMIC_ROPE, 300.0),
        ),
        their_cache=False,
        faults={"as in training": frequencies_of_short_texts},
    ),
    "phi3": Case(
        family="phi3",
        hf=lambda: phi3(
            dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=0.6), sliding_window=5, hidden_act="gelu"
        ),
        faults={
            "whole heads turned": {"rope.fraction": 1.0},
            "no window": dict(window=None),
            "approximate gelu": dict(feedforward="geglu_tanh"),
            "projections as thirds": WrongRules(as_thirds_of_equal_width),
        },
        refused=(
            dict(hidden_act="relu6"),
            dict(head_dim=10),
            dict(sliding_window="5"),
            dict(attention_bias=True),
            dict(rope_parameters=dict(rope_type="linear", factor=2.0)),
            dict(rope_parameters=dict(rope_type="longrope", short_factor=[1.0])),
            dict(rope_parameters=dict(rope_type="longrope", short_factor=[1.0], long_factor="1")),
            dict(rope_parameters=dict(rope_type="longrope", short_factor=[1.0], long_factor=[True])),
            dict(rope_parameters=LONG_ROPE | dict(original_max_position_embeddings=8)),
            dict(rope_parameters=LONG_ROPE | dict(beta_fast=8.0)),
        ),
    ),
    "phi3, long texts": Case(
        family="phi3",
        hf=lambda: phi3(LONG_ROPE, original_max_position_embeddings=9),
        faults={
            "as short texts": frequencies_of_short_texts,
            "no factor of queries and keys": {"rope.scaling.attention_factor": 1.0},
            "divisors exchanged": {
                "rope.scaling.short_factor": tuple(LONG_ROPE["long_factor"]),
                "rope.scaling.long_factor": tuple(LONG_ROPE["short_factor"]),
            },
        },
    ),
    "phi3, texts that grow long, tied": Case(
        family="phi3",
        hf=lambda: phi3(
            LONG_ROPE | dict(attention_factor=1.3), original_max_position_embeddings=20, tie_word_embeddings=True
        ),
        faults={"no factor of queries and keys": {"rope.scaling.attention_factor": 1.0}},
    ),
    "gpt_oss": Case(
        family="gpt_oss",
        hf=gpt_oss,
        exact=expert_by_expert,
        faults={
            "no sinks": without_sinks,
            "windows everywhere": dict(layer_types=()),
            "bounds rounded": {"rope.scaling.truncate": True},
            "no bound of gate and up": {"clamped_swiglu.limit": 100.0},
            "Swish": {"clamped_swiglu.alpha": 1.0},
            "no bias of the router": bias_left_out("router.w_router.bias"),
            "no bias up": bias_left_out("experts.b_up"),
            "no bias down": bias_left_out("experts.b_down"),
            "halves for neighbours": WrongRules(halves_for_neighbours),
        },
        refused=(
            dict(quantization_config={"quant_method": "mxfp4"}),
            dict(quantization_config={"quant_method": "mxfp4", "dequantize": "yes"}),
            dict(quantization_config="mxfp4"),
            dict(swiglu_limit="7"),
            dict(swiglu_alpha=True),
            dict(experts_per_token=3),
            dict(num_experts=3),
            dict(layer_types=[SLIDING, FULL]),
            dict(layer_types=None, sliding_window=None),
            dict(rope_parameters=YARN_ROPE | dict(truncate="no")),
        ),
    ),
    "gpt_oss, as wide as the stream, tied": Case(
        family="gpt_oss",
        hf=lambda: gpt_oss(
            intermediate_size=24,
            layer_types=[FULL, FULL, SLIDING],
            attention_bias=False,
            tie_word_embeddings=True,
            rope_parameters=PLAIN_ROPE,
        ),
        exact=expert_by_expert,
        faults={
            "not transposed": WrongRules(experts_not_transposed),
            "every other window": dict(layer_types=(SLIDING, FULL)),
        },
    ),
    "llama, dynamic": Case(
        family="llama",
        hf=lambda: llama(DYNAMIC_ROPE, max_position_embeddings=8),
        their_cache=False,
        faults={
            "as in training": frequencies_of_short_texts,
            "factor": {"rope.scaling.factor": 2.0},
            "length of the training": {"rope.scaling.original_max_position_embeddings": 9},
        },
        refused=(dict(max_position_embeddings=None), dict(max_position_embeddings=0)),
    ),
    "gptneox, dynamic": Case(
        family="gptneox",
        hf=lambda: gptneox(max_position_embeddings=8, rope_parameters=DYNAMIC_ROPE | dict(partial_rotary_factor=0.5)),
        their_cache=False,
        faults={"as in training": frequencies_of_short_texts, "whole heads turned": {"rope.fraction": 1.0}},
    ),
}

# A case of each family; the others have its other options.
FIRST = {case.family: name for name, case in reversed(CASES.items())}.values()


def first_or_slow(names, *more):
    """The names as parameters of a test that finds the same in a family's other options: those are in the slow round,
    but for ``more``."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (name not in {*FIRST, *more})) for name in names]
