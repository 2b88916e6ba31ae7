"""GPT-J: parallel blocks with one norm, and interleaved RoPE on a part of each head."""

import math
from typing import Any

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import NEEDED, Field, Must, given
from llm_anatomy.models.checkpoints.rules import Rule
from llm_anatomy.models.parts import rotary_width

AT, HF = "stack.blocks.{layer}.", "transformer.h.{layer}."
WIDTH, HEADS = ("n_embd", "hidden_size"), ("n_head", "num_attention_heads")


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: Wang and Komatsuzaki (2021), GPT-J, in the layout of Hugging Face; GT-43.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[0].hf
    ('transformer.wte.weight',)
    """
    return [
        Rule("transformer.wte.weight", "embedding.weight"),
        Rule(HF + "attn.q_proj.{kind}", AT + "attention.w_query.{kind}"),
        Rule(HF + "attn.k_proj.{kind}", AT + "attention.w_key.{kind}"),
        Rule(HF + "attn.v_proj.{kind}", AT + "attention.w_value.{kind}"),
        Rule(HF + "attn.out_proj.{kind}", AT + "attention.w_output.{kind}"),
        Rule(HF + "ln_1.{kind}", AT + "attention_norm.{kind}"),
        Rule(HF + "mlp.fc_in.{kind}", AT + "feedforward.w_up.{kind}"),
        Rule(HF + "mlp.fc_out.{kind}", AT + "feedforward.w_down.{kind}"),
        Rule("transformer.ln_f.{kind}", "stack.norm.{kind}"),
        Rule("lm_head.weight", "unembedding.embedding.weight"),
        Rule("lm_head.bias", "unembedding.bias"),
    ]


class RotaryDim:
    """The number of entries of a head that RoPE rotates; in our config it is a fraction.

    Raises:
        ValueError: from ``from_hf``, for a number that is odd or larger than the head, and for null.

    Source: Wang and Komatsuzaki (2021), the released code; IITD-26.

    >>> from llm_anatomy.files import Record
    >>> RotaryDim().from_hf(Record("config.json", {"n_embd": 4096, "n_head": 16, "rotary_dim": 64}))
    {'rope.fraction': 0.25}
    """

    names = ("rotary_dim",)

    def from_hf(self, record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        turned = record.fields.get("rotary_dim", 64)
        d_head = given(record, WIDTH, NEEDED)[1] // max(1, given(record, HEADS, NEEDED)[1])
        if type(turned) is not int or turned not in range(2, d_head + 1, 2):
            record.refuse("rotary_dim", f"{turned!r:.60} is not supported; it must be even, from 2 to {d_head}")
        fraction = turned / d_head
        if d_head * fraction < turned:  # rounded down, it would lose a pair
            fraction = math.nextafter(fraction, 1)
        return {"rope.fraction": fraction}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        return {"rotary_dim": rotary_width(config)}


FAMILY = Family(
    name="gptj",
    architectures=("GPTJForCausalLM",),
    model_type="gptj",
    fields=(
        Field("vocab_size", "n_vocab"),
        Field(WIDTH, "d_model"),
        Field(("n_layer", "num_hidden_layers"), "n_layers"),
        Field(HEADS, "n_heads"),
        Field(("n_positions", "max_position_embeddings"), "n_ctx", default=2048),
        Field("n_inner", "d_ff", default=lambda hf: 4 * hf.get("n_embd", hf.get("hidden_size", 0))),
        RotaryDim(),
        Field(
            "activation_function",
            "feedforward",
            {"gelu_new": "gelu_tanh", "gelu": "gelu", "relu": "relu"},
            default="gelu_new",
        ),
        Field("layer_norm_epsilon", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Must("rotary", True),
        Must("scale_attn_weights", True),
    ),
    fixed={
        "position": "rope",
        "rope.pairing": "interleaved",
        "parallel_block": True,
        "ff_bias": True,
        "unembedding_bias": True,
    },
    rules=rules,
    harmless="n_ctx",
    prefix="transformer.",
    ignored=("transformer.h.{layer}.attn.bias", "transformer.h.{layer}.attn.embed_positions"),
    copies={"lm_head.weight": "transformer.wte.weight"},
)
