"""Whole models against Hugging Face's of the same weights, and the properties that every model must have."""

import re

import pytest
import torch
import transformers

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.transformer import Transformer

BATCH, TOKENS, VOCAB = 3, 11, 101
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BIASES = dict(attention_bias=True, output_bias=True, ff_bias=True)


def randomize(module, seed=0):
    """Every parameter random, biases and norms too: default values hide faults."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            around = float("norm" in name and name.endswith("weight"))
            parameter.copy_(around + 0.2 * torch.randn(parameter.shape, generator=g))
    return module.double()


def ids(seed=1, tokens=TOKENS, batch=BATCH):
    return torch.randint(0, VOCAB, (batch, tokens), generator=torch.Generator().manual_seed(seed))


# --- A tiny twin for each family: our config, their model, and where each of our parameters is among theirs ---


def fill(ours, theirs, table):
    """Give our parameters the values of theirs: ``table`` maps patterns of our names to their names, or to functions
    of their state and the matched groups. Every parameter must be found."""
    state, mine = theirs.state_dict(), ours.state_dict()
    for name in mine:
        (rule,) = [(re.fullmatch(p, name), target) for p, target in table.items() if re.fullmatch(p, name)] or [None]
        assert rule is not None, f"nothing says where {name} comes from"
        match, target = rule
        mine[name] = state[match.expand(target)] if isinstance(target, str) else target(state, *match.groups())
    ours.load_state_dict(mine)
    return ours


def transposed(name):
    return lambda state, layer: state[name.format(layer)].T


def third(name, i, transpose=False):
    """One of queries, keys and values stored side by side."""

    def pick(state, layer, kind="weight"):
        tensor = state[name.format(layer, kind)]
        return (tensor.T if transpose and kind == "weight" else tensor).chunk(3)[i]

    return pick


def interleaved_third(name, i, n_heads):
    """Queries, keys and values side by side within each head."""
    return lambda state, layer, kind: state[name.format(layer, kind)].unflatten(0, (n_heads, 3, -1))[:, i].flatten(0, 1)


def joined(first, second):
    return lambda state, layer: torch.cat([state[first.format(layer)], state[second.format(layer)]])


def llama_like(**more):
    at, theirs = r"stack\.blocks\.(\d+)\.", r"model.layers.\1."
    return {
        r"(un)?embedding\.(embedding\.)?weight": lambda state, un, _: state[
            "lm_head.weight" if un else "model.embed_tokens.weight"
        ],
        at + r"attention\.w_query\.(weight|bias)": theirs + r"self_attn.q_proj.\2",
        at + r"attention\.w_key\.(weight|bias)": theirs + r"self_attn.k_proj.\2",
        at + r"attention\.w_value\.(weight|bias)": theirs + r"self_attn.v_proj.\2",
        at + r"attention\.w_output\.weight": theirs + "self_attn.o_proj.weight",
        at + r"around_attention\.norm\.weight": theirs + "input_layernorm.weight",
        at + r"around_feedforward\.norm\.weight": theirs + "post_attention_layernorm.weight",
        at + r"feedforward\.w_gate_up\.weight": joined(
            "model.layers.{}.mlp.gate_proj.weight", "model.layers.{}.mlp.up_proj.weight"
        ),
        at + r"feedforward\.w_down\.weight": theirs + "mlp.down_proj.weight",
        r"stack\.norm\.weight": "model.norm.weight",
    } | more


SIZES = dict(d_model=24, n_layers=2, n_heads=4, d_ff=36, n_vocab=VOCAB)
THEIR_SIZES = dict(
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=36,
    vocab_size=VOCAB,
    pad_token_id=None,
) | {"bos_token_id": None, "eos_token_id": None}


def gpt2():
    ours = ModelConfig(
        n_ctx=40, position="learned", feedforward="gelu_tanh", tie_embeddings=True, **SIZES | dict(d_ff=96), **BIASES
    )
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCAB, n_embd=24, n_layer=2, n_head=4, n_positions=40, bos_token_id=None, eos_token_id=None
        )
    )
    at, qkv = r"stack\.blocks\.(\d+)\.", "transformer.h.{}.attn.c_attn.{}"
    table = {
        r"(?:un)?embedding\.(?:embedding\.)?weight": "transformer.wte.weight",
        r"position\.\w+": "transformer.wpe.weight",
        at + r"attention\.w_query\.(weight|bias)": third(qkv, 0, True),
        at + r"attention\.w_key\.(weight|bias)": third(qkv, 1, True),
        at + r"attention\.w_value\.(weight|bias)": third(qkv, 2, True),
        at + r"attention\.w_output\.weight": transposed("transformer.h.{}.attn.c_proj.weight"),
        at + r"attention\.w_output\.bias": r"transformer.h.\1.attn.c_proj.bias",
        at + r"around_attention\.norm\.(weight|bias)": r"transformer.h.\1.ln_1.\2",
        at + r"around_feedforward\.norm\.(weight|bias)": r"transformer.h.\1.ln_2.\2",
        at + r"feedforward\.w_up\.weight": transposed("transformer.h.{}.mlp.c_fc.weight"),
        at + r"feedforward\.w_up\.bias": r"transformer.h.\1.mlp.c_fc.bias",
        at + r"feedforward\.w_down\.weight": transposed("transformer.h.{}.mlp.c_proj.weight"),
        at + r"feedforward\.w_down\.bias": r"transformer.h.\1.mlp.c_proj.bias",
        r"stack\.norm\.(weight|bias)": r"transformer.ln_f.\1",
    }
    return ours, theirs, table


def llama31():
    scaling = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0)
    ours = ModelConfig(
        n_kv_heads=2,
        position="rope",
        rope_base=500.0,
        rope_scaling="llama3",
        rope_factor=4.0,
        rope_n_trained=32,
        norm="rmsnorm",
        feedforward="swiglu",
        **SIZES,
    )
    rope = scaling | dict(original_max_position_embeddings=32, rope_theta=500.0)
    config = transformers.LlamaConfig(num_key_value_heads=2, rms_norm_eps=1e-5, rope_parameters=rope, **THEIR_SIZES)
    return ours, transformers.LlamaForCausalLM(config), llama_like()


def qwen2():
    ours = ModelConfig(
        n_kv_heads=2, position="rope", norm="rmsnorm", feedforward="swiglu", attention_bias=True, **SIZES
    )
    rope = dict(rope_type="default", rope_theta=10000.0)
    config = transformers.Qwen2Config(num_key_value_heads=2, rms_norm_eps=1e-5, rope_parameters=rope, **THEIR_SIZES)
    return ours, transformers.Qwen2ForCausalLM(config), llama_like()


def mixtral():
    ours = ModelConfig(
        n_kv_heads=2,
        position="rope",
        norm="rmsnorm",
        feedforward="swiglu",
        window=4,
        n_experts=3,
        n_experts_per_token=2,
        **SIZES,
    )
    config = transformers.MixtralConfig(
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        sliding_window=4,
        num_local_experts=3,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        **THEIR_SIZES,
    )
    at, theirs = r"stack\.blocks\.(\d+)\.feedforward\.", r"model.layers.\1.mlp."
    experts = {
        at + r"router\.w_router\.weight": theirs + "gate.weight",
        at + r"experts\.w_up": theirs + "experts.gate_up_proj",
        at + r"experts\.w_down": theirs + "experts.down_proj",
    }
    return ours, transformers.MixtralForCausalLM(config), llama_like(**experts)


def gemma2():
    ours = ModelConfig(
        n_kv_heads=2,
        d_head=10,
        position="rope",
        norm="unit_offset_rmsnorm",
        norm_eps=1e-6,
        norm_placement="sandwich",
        feedforward="geglu_tanh",
        tie_embeddings=True,
        scale_embeddings=True,
        attention_scale=5**-0.5,
        attention_soft_cap=0.8,
        logit_soft_cap=0.9,
        window=4,
        global_every=2,
        **SIZES,
    )
    config = transformers.Gemma2Config(
        num_key_value_heads=2,
        head_dim=10,
        query_pre_attn_scalar=5,
        attn_logit_softcapping=0.8,
        final_logit_softcapping=0.9,
        sliding_window=4,
        **THEIR_SIZES,
    )
    at, theirs = r"stack\.blocks\.(\d+)\.", r"model.layers.\1."
    norms = {
        r"(?:un)?embedding\.(?:embedding\.)?weight": "model.embed_tokens.weight",
        at + r"around_attention\.norm_in\.weight": theirs + "input_layernorm.weight",
        at + r"around_attention\.norm_out\.weight": theirs + "post_attention_layernorm.weight",
        at + r"around_feedforward\.norm_in\.weight": theirs + "pre_feedforward_layernorm.weight",
        at + r"around_feedforward\.norm_out\.weight": theirs + "post_feedforward_layernorm.weight",
    }
    table = {pattern: target for pattern, target in llama_like().items() if "embedding" not in pattern}
    return ours, transformers.Gemma2ForCausalLM(config), table | norms


def opt():
    ours = ModelConfig(
        n_ctx=40, position="learned", position_offset=2, feedforward="relu", tie_embeddings=True, **SIZES, **BIASES
    )
    config = transformers.OPTConfig(
        vocab_size=VOCAB,
        hidden_size=24,
        word_embed_proj_dim=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=36,
        max_position_embeddings=40,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    at, theirs = r"stack\.blocks\.(\d+)\.", r"model.decoder.layers.\1."
    table = {
        r"(?:un)?embedding\.(?:embedding\.)?weight": "model.decoder.embed_tokens.weight",
        r"position\.\w+": "model.decoder.embed_positions.weight",
        at + r"attention\.w_query\.(weight|bias)": theirs + r"self_attn.q_proj.\2",
        at + r"attention\.w_key\.(weight|bias)": theirs + r"self_attn.k_proj.\2",
        at + r"attention\.w_value\.(weight|bias)": theirs + r"self_attn.v_proj.\2",
        at + r"attention\.w_output\.(weight|bias)": theirs + r"self_attn.out_proj.\2",
        at + r"around_attention\.norm\.(weight|bias)": theirs + r"self_attn_layer_norm.\2",
        at + r"around_feedforward\.norm\.(weight|bias)": theirs + r"final_layer_norm.\2",
        at + r"feedforward\.w_up\.(weight|bias)": theirs + r"fc1.\2",
        at + r"feedforward\.w_down\.(weight|bias)": theirs + r"fc2.\2",
        r"stack\.norm\.(weight|bias)": r"model.decoder.final_layer_norm.\1",
    }
    return ours, transformers.OPTForCausalLM(config), table


def gpt_neox():
    ours = ModelConfig(
        position="rope",
        rope_fraction=0.5,
        parallel_block=True,
        n_parallel_norms=2,
        feedforward="gelu",
        **SIZES | dict(d_model=32),
        **BIASES,
    )
    config = transformers.GPTNeoXConfig(
        rotary_pct=0.5,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5),
        **THEIR_SIZES | dict(hidden_size=32),
    )
    at, qkv = r"stack\.blocks\.(\d+)\.", "gpt_neox.layers.{}.attention.query_key_value.{}"
    table = {
        r"embedding\.weight": "gpt_neox.embed_in.weight",
        r"unembedding\.embedding\.weight": "lm_head.weight",
        at + r"attention\.w_query\.(weight|bias)": interleaved_third(qkv, 0, 4),
        at + r"attention\.w_key\.(weight|bias)": interleaved_third(qkv, 1, 4),
        at + r"attention\.w_value\.(weight|bias)": interleaved_third(qkv, 2, 4),
        at + r"attention\.w_output\.(weight|bias)": r"gpt_neox.layers.\1.attention.dense.\2",
        at + r"attention_norm\.(weight|bias)": r"gpt_neox.layers.\1.input_layernorm.\2",
        at + r"feedforward_norm\.(weight|bias)": r"gpt_neox.layers.\1.post_attention_layernorm.\2",
        at + r"feedforward\.w_up\.(weight|bias)": r"gpt_neox.layers.\1.mlp.dense_h_to_4h.\2",
        at + r"feedforward\.w_down\.(weight|bias)": r"gpt_neox.layers.\1.mlp.dense_4h_to_h.\2",
        r"stack\.norm\.(weight|bias)": r"gpt_neox.final_layer_norm.\1",
    }
    return ours, transformers.GPTNeoXForCausalLM(config), table


def bloom():
    ours = ModelConfig(
        position="alibi",
        embedding_norm=True,
        feedforward="gelu_tanh",
        tie_embeddings=True,
        **SIZES | dict(d_ff=96),
        **BIASES,
    )
    config = transformers.BloomConfig(
        vocab_size=VOCAB, hidden_size=24, n_layer=2, n_head=4, pad_token_id=None, bos_token_id=None, eos_token_id=None
    )
    at, qkv = r"stack\.blocks\.(\d+)\.", "transformer.h.{}.self_attention.query_key_value.{}"
    table = {
        r"(?:un)?embedding\.(?:embedding\.)?weight": "transformer.word_embeddings.weight",
        r"embedding_norm\.(weight|bias)": r"transformer.word_embeddings_layernorm.\1",
        at + r"attention\.w_query\.(weight|bias)": interleaved_third(qkv, 0, 4),
        at + r"attention\.w_key\.(weight|bias)": interleaved_third(qkv, 1, 4),
        at + r"attention\.w_value\.(weight|bias)": interleaved_third(qkv, 2, 4),
        at + r"attention\.w_output\.(weight|bias)": r"transformer.h.\1.self_attention.dense.\2",
        at + r"around_attention\.norm\.(weight|bias)": r"transformer.h.\1.input_layernorm.\2",
        at + r"around_feedforward\.norm\.(weight|bias)": r"transformer.h.\1.post_attention_layernorm.\2",
        at + r"feedforward\.w_up\.(weight|bias)": r"transformer.h.\1.mlp.dense_h_to_4h.\2",
        at + r"feedforward\.w_down\.(weight|bias)": r"transformer.h.\1.mlp.dense_4h_to_h.\2",
        r"stack\.norm\.(weight|bias)": r"transformer.ln_f.\1",
    }
    return ours, transformers.BloomForCausalLM(config), table


def bert():
    ours = ModelConfig(
        kind="encoder",
        n_ctx=40,
        position="learned",
        norm_placement="post",
        norm_eps=1e-12,
        feedforward="gelu",
        tie_embeddings=True,
        embedding_norm=True,
        n_segments=2,
        token_head=True,
        unembedding_bias=True,
        **SIZES,
        **BIASES,
    )
    config = transformers.BertConfig(max_position_embeddings=40, **THEIR_SIZES)
    at, theirs = r"stack\.blocks\.(\d+)\.", r"bert.encoder.layer.\1."
    table = {
        r"(?:un)?embedding\.(?:embedding\.)?weight": "bert.embeddings.word_embeddings.weight",
        r"position\.\w+": "bert.embeddings.position_embeddings.weight",
        r"segment_embedding\.weight": "bert.embeddings.token_type_embeddings.weight",
        r"embedding_norm\.(weight|bias)": r"bert.embeddings.LayerNorm.\1",
        at + r"attention\.w_(query|key|value)\.(weight|bias)": theirs + r"attention.self.\2.\3",
        at + r"attention\.w_output\.(weight|bias)": theirs + r"attention.output.dense.\2",
        at + r"around_attention\.norm\.(weight|bias)": theirs + r"attention.output.LayerNorm.\2",
        at + r"around_feedforward\.norm\.(weight|bias)": theirs + r"output.LayerNorm.\2",
        at + r"feedforward\.w_up\.(weight|bias)": theirs + r"intermediate.dense.\2",
        at + r"feedforward\.w_down\.(weight|bias)": theirs + r"output.dense.\2",
        r"token_head\.0\.(weight|bias)": r"cls.predictions.transform.dense.\1",
        r"token_head\.2\.(weight|bias)": r"cls.predictions.transform.LayerNorm.\1",
        r"unembedding\.bias": "cls.predictions.bias",
    }
    return ours, transformers.BertForMaskedLM(config), table


def deepseek_v2():
    ours = ModelConfig(
        attention="latent",
        d_head=6,
        d_value=5,
        d_latent=8,
        d_rotary=4,
        position="rope",
        rope_pairing="neighbours",
        norm="rmsnorm",
        norm_eps=1e-6,
        feedforward="swiglu",
        n_experts=4,
        n_experts_per_token=2,
        d_expert=12,
        n_shared_experts=2,
        n_dense_layers=1,
        router="top_k_of_softmax",
        expert_scale=1.5,
        **SIZES,
    )
    config = transformers.DeepseekV2Config(
        num_key_value_heads=4,
        q_lora_rank=None,
        kv_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=6,
        v_head_dim=5,
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=12,
        n_shared_experts=2,
        first_k_dense_replace=1,
        routed_scaling_factor=1.5,
        topk_method="greedy",
        norm_topk_prob=False,
        **THEIR_SIZES,
    )
    at, theirs = r"stack\.blocks\.(\d+)\.", r"model.layers.\1."

    def up(part):
        def pick(state, layer):
            both = state[f"model.layers.{layer}.self_attn.kv_b_proj.weight"].unflatten(0, (4, 6 + 5))
            return both.split((6, 5), 1)[part].flatten(0, 1)

        return pick

    more = {
        at + r"attention\.w_down\.weight": theirs + "self_attn.kv_a_proj_with_mqa.weight",
        at + r"attention\.latent_norm\.weight": theirs + "self_attn.kv_a_layernorm.weight",
        at + r"attention\.w_up_key\.weight": up(0),
        at + r"attention\.w_up_value\.weight": up(1),
        at + r"feedforward\.router\.w_router\.weight": theirs + "mlp.gate.weight",
        at + r"feedforward\.experts\.w_up": theirs + "mlp.experts.gate_up_proj",
        at + r"feedforward\.experts\.w_down": theirs + "mlp.experts.down_proj",
        at + r"feedforward\.shared\.w_gate_up\.weight": joined(
            "model.layers.{}.mlp.shared_experts.gate_proj.weight", "model.layers.{}.mlp.shared_experts.up_proj.weight"
        ),
        at + r"feedforward\.shared\.w_down\.weight": theirs + "mlp.shared_experts.down_proj.weight",
    }
    return ours, transformers.DeepseekV2ForCausalLM(config), llama_like(**more)


FAMILIES = [gpt2, opt, llama31, qwen2, mixtral, gemma2, gpt_neox, bloom, bert, deepseek_v2]


@pytest.mark.syllabus("UCL-24", "UCL-26", "UCL-28", "IITD-42", "IITD-43", "GT-11", "GT-43", "GT-44", "CMU-34")
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_logits_equal_hugging_faces(family):
    config, theirs, table = family()
    theirs = randomize(theirs).float().eval()
    ours = fill(Transformer(config), theirs, table)
    tokens = ids()
    expected = theirs(input_ids=tokens).logits
    torch.testing.assert_close(ours(tokens), expected, rtol=1e-4, atol=1e-4)
    is_token = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    is_token[0, :4] = is_token[2, :1] = False
    positions = {} if family in (bert, bloom, opt) else dict(position_ids=(is_token.cumsum(1) - 1).clamp(min=0))
    expected = theirs(input_ids=tokens, attention_mask=is_token.long(), **positions).logits
    if family is not bert:  # whose positions count padding; ours never do
        torch.testing.assert_close(ours(tokens, is_token=is_token)[is_token], expected[is_token], rtol=1e-4, atol=1e-4)


@pytest.mark.syllabus("UCL-31", "IITD-44", "IITD-45", "GT-12")
@pytest.mark.parametrize("gated", [False, True])
def test_an_encoder_decoder_equals_t5(gated):
    feedforward = "geglu_tanh" if gated else "relu"
    sizes = dict(d_model=24, n_layers=3, n_encoder_layers=2, n_heads=4, d_head=5, d_ff=36, n_vocab=VOCAB)
    config = ModelConfig(
        kind="encoder-decoder",
        position="t5",
        n_buckets=8,
        max_distance=20,
        norm="rmsnorm",
        norm_eps=1e-6,
        feedforward=feedforward,
        tie_embeddings=True,
        scale_logits=True,
        **sizes,
    )
    theirs = transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=VOCAB,
            d_model=24,
            d_kv=5,
            d_ff=36,
            num_layers=2,
            num_decoder_layers=3,
            num_heads=4,
            relative_attention_num_buckets=8,
            relative_attention_max_distance=20,
            feed_forward_proj="gated-gelu" if gated else "relu",
        )
    )
    theirs = randomize(theirs).float().eval()
    encoder, decoder = r"encoder\.blocks\.(\d+)\.", r"stack\.blocks\.(\d+)\."
    letter = {"query": "q", "key": "k", "value": "v", "output": "o"}
    table = {r"(?:un)?embedding\.(?:embedding\.)?weight": "shared.weight"}
    for ours_at, stack, last in ((encoder, "encoder", 1), (decoder, "decoder", 2)):
        layer = stack + ".block.{}.layer."

        def projection(attention, i, layer=layer):
            return lambda state, n, kind: state[f"{layer.format(n)}{i}.{attention}.{letter[kind]}.weight"]

        table |= {
            ours_at + r"attention\.w_(\w+)\.weight": projection("SelfAttention", 0),
            ours_at + r"source_attention\.w_(\w+)\.weight": projection("EncDecAttention", 1),
            ours_at + r"attention\.position\.\w+": lambda state, n, stack=stack: state[
                f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            ],
            ours_at + r"around_attention\.norm\.weight": stack + r".block.\1.layer.0.layer_norm.weight",
            ours_at + r"around_source_attention\.norm\.weight": stack + r".block.\1.layer.1.layer_norm.weight",
            ours_at + r"around_feedforward\.norm\.weight": stack + rf".block.\1.layer.{last}.layer_norm.weight",
            ours_at + r"feedforward\.w_up\.weight": stack + rf".block.\1.layer.{last}.DenseReluDense.wi.weight",
            ours_at + r"feedforward\.w_gate_up\.weight": joined(
                f"{layer}{last}.DenseReluDense.wi_0.weight", f"{layer}{last}.DenseReluDense.wi_1.weight"
            ),
            ours_at + r"feedforward\.w_down\.weight": stack + rf".block.\1.layer.{last}.DenseReluDense.wo.weight",
            (r"encoder" if stack == "encoder" else r"stack") + r"\.norm\.weight": stack + ".final_layer_norm.weight",
        }
    ours = fill(Transformer(config), theirs, table)
    source, target = ids(2, tokens=13), ids(3)
    is_token = torch.ones(BATCH, 13, dtype=torch.bool)
    is_token[1, 9:] = False
    expected = theirs(input_ids=source, attention_mask=is_token.long(), decoder_input_ids=target).logits
    found = ours(target, source=ours.encode(source, is_token))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    expected = theirs(input_ids=source, decoder_input_ids=target).logits
    torch.testing.assert_close(ours(target, source=source), expected, rtol=1e-4, atol=1e-4)


# --- Properties of every model ---

LATENT = dict(attention="latent", d_latent=8, d_rotary=4, d_value=5)
VARIETIES = {
    "plain": {},
    "learned": dict(position="learned", n_ctx=40, position_offset=2, **BIASES),
    "sinusoidal, scaled": dict(position="sinusoidal", scale_embeddings=True, norm_placement="post"),
    "rope, parallel": dict(position="rope", parallel_block=True, n_parallel_norms=2, n_kv_heads=2),
    "rope, qk-norm": dict(
        position="rope", qk_norm="across_heads", n_kv_heads=2, norm_placement="post_sublayer", norm="rmsnorm"
    ),
    "alibi": dict(position="alibi", embedding_norm=True, tie_embeddings=True),
    "t5": dict(position="t5", norm="rmsnorm", scale_logits=True),
    "shaw": dict(position="shaw", max_distance=3, norm_placement="rezero"),
    "transformer-xl": dict(position="transformer_xl"),
    "tupe": dict(position="tupe", n_ctx=40),
    "window": dict(position="rope", window=4, global_every=2, attention_soft_cap=2.0, logit_soft_cap=3.0),
    "latent": dict(position="rope", **LATENT),
    "latent, query latent": dict(position="rope", d_query_latent=9, **LATENT),
    "experts": dict(feedforward="swiglu", n_experts=4, n_experts_per_token=2, n_shared_experts=1, n_dense_layers=1),
    "trained activation": dict(feedforward="squared_relu", norm_placement="sandwich", norm="unit_offset_rmsnorm"),
}


def build(name, **more):
    return randomize(Transformer(ModelConfig(**SIZES | VARIETIES[name] | more))).eval()


@pytest.mark.syllabus("UCL-27", "IITD-44")
@pytest.mark.parametrize("name", VARIETIES)
def test_the_future_has_no_influence_on_a_decoder(name):
    model, tokens = build(name), ids()
    changed = tokens.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % VOCAB
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(after[:, :6], before[:, :6], rtol=1e-9, atol=1e-9)
    assert not torch.allclose(after[:, 6:], before[:, 6:])


@pytest.mark.syllabus("CMU-10")
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", VARIETIES)
def test_cached_equals_uncached(name, padded):
    model, tokens = build(name), ids()
    is_token = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    if padded:
        is_token[0, :3] = is_token[2, :1] = False
    expected = model(tokens, is_token=is_token if padded else None)
    cache = model.new_cache(BATCH, TOKENS)
    with torch.inference_mode():
        found = [model(tokens[:, :5], is_token=is_token[:, :5] if padded else None, cache=cache)]
        found += [model(token, cache=cache) for token in tokens[:, 5:].split(1, 1)]
    torch.testing.assert_close(torch.cat(found, 1)[is_token], expected[is_token], rtol=1e-8, atol=1e-8)
    assert cache.length == TOKENS


@pytest.mark.parametrize("name", ["learned", "rope, parallel", "t5", "window", "latent"])
def test_a_padded_text_may_be_read_in_parts(name):
    """Padding in the first part and in the last, whose rows go on from where they stand."""
    model, tokens = build(name), ids()
    is_token = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    is_token[0, :5] = is_token[1, 9:] = is_token[2, :1] = False
    cache = model.new_cache(BATCH, TOKENS)
    with torch.inference_mode():
        parts = zip(tokens.split([4, 3, 4], 1), is_token.split([4, 3, 4], 1), strict=True)
        found = [model(part, is_token=real, cache=cache) for part, real in parts]
    expected = model(tokens, is_token=is_token)
    torch.testing.assert_close(torch.cat(found, 1)[is_token], expected[is_token], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", VARIETIES)
def test_padding_on_the_left_changes_nothing(name):
    model, tokens = build(name), ids(batch=2)
    is_token = torch.ones(2, TOKENS, dtype=torch.bool)
    is_token[1, :4] = False
    together = model(tokens, is_token=is_token)
    alone = model(tokens[1:, 4:])
    torch.testing.assert_close(together[1:, 4:], alone, rtol=1e-8, atol=1e-8)


@pytest.mark.syllabus("GT-12")
@pytest.mark.parametrize("name", [name for name in VARIETIES if name != "window"])
def test_an_encoder_sees_both_sides_and_no_padding_on_either(name):
    model, tokens = build(name, kind="encoder"), ids(batch=2)
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % VOCAB
    assert (model(changed) - model(tokens))[:, 0].abs().max() > 1e-6
    is_token = torch.ones(2, TOKENS, dtype=torch.bool)
    is_token[0, -3:] = False
    torch.testing.assert_close(model(tokens, is_token=is_token)[:1, :-3], model(tokens[:1, :-3]), rtol=1e-8, atol=1e-8)
    with pytest.raises(ValueError, match="cache must be None for an encoder"):
        model(tokens, cache=model.new_cache(2, TOKENS))


@pytest.mark.syllabus("UCL-31", "IITD-45")
@pytest.mark.parametrize("name", ["plain", "sinusoidal, scaled", "t5", "rope, qk-norm"])
def test_an_encoder_decoder_with_caches_and_padded_source(name):
    model = build(name, kind="encoder-decoder", n_encoder_layers=3)
    tokens, source = ids(), ids(5, tokens=8)
    is_token = torch.ones(BATCH, 8, dtype=torch.bool)
    is_token[1, 5:] = False
    read = model.encode(source, is_token)
    expected = model(tokens, source=read)
    cache = model.new_cache(BATCH, TOKENS, n_source=8)
    with torch.inference_mode():
        found = [model(part, source=read, cache=cache) for part in tokens.split([4, 1, 6], 1)]
    torch.testing.assert_close(torch.cat(found, 1), expected, rtol=1e-8, atol=1e-8)
    alone = model(tokens[1:2], source=source[1:2, :5])
    torch.testing.assert_close(expected[1:2], alone, rtol=1e-8, atol=1e-8)
    _, records = model(tokens, source=source, return_records=True)
    assert records[1].source_weights.shape == (BATCH, 4, TOKENS, 8) and len(records) == 2


@pytest.mark.parametrize("name", VARIETIES)
def test_weights_on_request_and_the_same_logits(name):
    model, tokens = build(name), ids()
    logits, records = model(tokens, return_records=True)
    torch.testing.assert_close(logits, model(tokens), rtol=1e-8, atol=1e-8)
    assert len(records) == 2
    for record in records:
        assert record.weights.shape == (BATCH, 4, TOKENS, TOKENS)
        torch.testing.assert_close(record.weights.sum(-1), torch.ones(BATCH, 4, TOKENS, dtype=torch.float64))
    assert [record.routing is not None for record in records] == [False, name == "experts"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", VARIETIES)
def test_gradients_reach_every_parameter_and_state_goes_round(name, device):
    model, tokens = build(name).to(device), ids().to(device)
    model(tokens).square().mean().backward()
    unreached = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # shares of a softmax: a bias of all keys alike moves nothing; distances that this text does not have
    assert not [n for n in unreached if not re.search(r"w_key\.bias|selection_bias", n)]
    twin = Transformer(model.config).to(device).double()
    twin.load_state_dict(model.state_dict())
    torch.testing.assert_close(twin(tokens), model(tokens))


def test_tied_embeddings_are_one_table():
    tied, untied = build("alibi"), build("alibi", tie_embeddings=False)
    assert tied.unembedding.embedding is tied.embedding
    count = [sum(p.numel() for p in model.parameters()) for model in (tied, untied)]
    assert count[1] - count[0] == VOCAB * 24


def test_schemes_are_shared_or_not_as_the_papers_have_them():
    t5, xl = build("t5"), build("transformer-xl")
    assert t5.stack.blocks[0].attention.position is t5.stack.blocks[1].attention.position
    assert xl.stack.blocks[0].attention.position is not xl.stack.blocks[1].attention.position


def test_misuse_is_refused_before_any_work():
    model, tokens = build("learned"), ids(tokens=41)
    with pytest.raises(ValueError, match="41 tokens are more than n_ctx=40"):
        model(tokens)
    with pytest.raises(ValueError, match="41 tokens are more than n_ctx=40"):
        model.new_cache(BATCH, 41)
    with pytest.raises(ValueError, match="source must be given for an encoder-decoder, and only then"):
        model(ids(), source=ids())
    with pytest.raises(ValueError, match="kind='decoder' has no encoder"):
        model.encode(ids())
    with pytest.raises(ValueError, match="n_source=5 must be given for an encoder-decoder, and only then"):
        model.new_cache(BATCH, 8, n_source=5)
    with pytest.raises(ValueError, match="ids hold 101; they must be 0 to n_vocab - 1 = 100"):
        model(torch.full((1, 3), 101))


def test_compiles_whole(run_without_shape_checks):
    run_without_shape_checks("""
import torch
from llm_anatomy.config import ModelConfig
from llm_anatomy.models.transformer import Transformer
for more in (dict(position="rope", norm="rmsnorm"), dict(position="t5"), dict(position="learned", n_ctx=20)):
    model = Transformer(ModelConfig(d_model=24, n_layers=2, n_heads=4, d_ff=36, n_vocab=101, **more)).eval()
    ids = torch.randint(0, 101, (3, 7))
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="eager")(ids), model(ids))
""")
