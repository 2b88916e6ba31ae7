"""Falcon: one key-value head or a few, fused with the queries that read them, in parallel blocks; and Falcon-RW, with
ALiBi and one sublayer after the other."""

from typing import Any

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import (
    NEEDED,
    Field,
    Must,
    Rope,
    Shared,
    given,
    of_right_type,
    one_of,
    refuse_null,
)
from llm_anatomy.models.checkpoints.rules import Rule, Split

AT, HF = "stack.blocks.{layer}.", "transformer.h.{layer}."


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors. Each key-value head comes after the queries that read it, whether it is one for all of
    them, one for some or one for each.

    Args:
        config: of the model.

    Source: Almazrouei et al. (2023), "The Falcon Series of Open Language Models", in the layout of Hugging Face; GT-43.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=4, n_kv_heads=2, d_ff=9, n_vocab=5))[1].change
    Split(sizes=(4, 2, 2), n_groups=2)
    """
    projections = tuple(f"{AT}attention.w_{name}.{{kind}}" for name in ("query", "key", "value"))
    d_head, n_groups = config.d_head, config.n_kv_heads
    fused = Split((config.n_heads // n_groups * d_head, d_head, d_head), n_groups)
    return [
        Rule("transformer.word_embeddings.weight", "embedding.weight"),
        Rule(HF + "self_attention.query_key_value.{kind}", projections, fused),
        Rule(HF + "self_attention.dense.{kind}", AT + "attention.w_output.{kind}"),
        Rule(HF + "mlp.dense_h_to_4h.{kind}", AT + "feedforward.w_up.{kind}"),
        Rule(HF + "mlp.dense_4h_to_h.{kind}", AT + "feedforward.w_down.{kind}"),
        Rule(HF + "input_layernorm.{kind}", AT + "attention_residual.norm.{kind}"),
        Rule(HF + "post_attention_layernorm.{kind}", AT + "feedforward_residual.norm.{kind}"),
        Rule(
            HF + ("ln_attn.{kind}" if config.n_parallel_norms == 2 else "input_layernorm.{kind}"),
            AT + "attention_norm.{kind}",
        ),
        Rule(HF + "ln_mlp.{kind}", AT + "feedforward_norm.{kind}"),
        Rule("transformer.ln_f.{kind}", "stack.norm.{kind}"),
        Rule("lm_head.weight", "unembedding.embedding.weight"),
    ]


class Design:
    """The two generations of Falcon, which say in different fields how many key-value heads and norms there are.

    The first has one key-value head or as many as query heads, and one norm in a parallel block. The second, from
    Falcon-40B on, has any number of key-value heads, parallel blocks, and two norms or one.

    Raises:
        ValueError: from ``from_hf``, for what the code of neither generation can compute, and for null.

    Source: Almazrouei et al. (2023), section 4.

    >>> from llm_anatomy.files import Record
    >>> Design().from_hf(Record("config.json", {"num_attention_heads": 71}))
    {'parallel_block': True, 'n_parallel_norms': 1, 'n_kv_heads': 1}
    """

    names = ("new_decoder_architecture", "multi_query", "parallel_attn", "num_ln_in_parallel_attn", "num_kv_heads")

    def from_hf(self, record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        is_new = _flag(record, "new_decoder_architecture", False)
        multi_query, parallel = _flag(record, "multi_query", True), _flag(record, "parallel_attn", True)
        n_heads = given(record, ("num_attention_heads",), NEEDED)[1]
        name, n_kv_heads = given(record, ("num_kv_heads",), n_heads)
        n_kv_heads = of_right_type(record, name, "n_kv_heads", n_kv_heads)
        norms, n_norms = given(record, ("num_ln_in_parallel_attn",), 1 + is_new)
        one_of(record, norms, n_norms, (1, 2) if is_new else (1,))
        if is_new:
            one_of(record, "parallel_attn", parallel, (True,))
        elif multi_query:  # what num_kv_heads says is not read
            n_kv_heads = 1
        else:
            one_of(record, name, n_kv_heads, (n_heads,))
        return {"parallel_block": parallel, "n_parallel_norms": n_norms, "n_kv_heads": n_kv_heads}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields, in the terms of the first generation where these suffice."""
        parallel, n_norms, n_heads, n_kv_heads = (
            config.get(name) for name in ("parallel_block", "n_parallel_norms", "n_heads", "n_kv_heads")
        )
        if parallel and (n_norms == 2 or n_kv_heads not in (1, n_heads)):
            found = {"new_decoder_architecture": True, "num_ln_in_parallel_attn": n_norms, "multi_query": True}
            return found | {"num_kv_heads": n_kv_heads, "parallel_attn": True}
        found = {"new_decoder_architecture": False, "multi_query": n_kv_heads == 1, "num_kv_heads": n_heads}
        return found | {"parallel_attn": parallel}


def _flag(record, name: str, default: bool) -> bool:
    refuse_null(record, name)  # false, while a missing field may be true
    return of_right_type(record, name, "parallel_block", given(record, (name,), default)[1])


class Positions:
    """RoPE, or ALiBi in its place.

    Source: Almazrouei et al. (2023), section 4; Penedo et al. (2023), "The RefinedWeb Dataset for Falcon LLM".

    >>> from llm_anatomy.files import Record
    >>> Positions().from_hf(Record("config.json", {"alibi": True}))
    {'position': 'falcon_alibi'}
    """

    rope = Rope()
    names = ("alibi", *rope.names)

    def from_hf(self, record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours. With ALiBi, those of RoPE are read there too, and have no effect."""
        alibi = of_right_type(record, "alibi", "parallel_block", given(record, ("alibi",), False)[1])
        rope = self.rope.from_hf(record)
        return {"position": "falcon_alibi"} if alibi else {"position": "rope"} | rope

    def to_hf(self, config) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        return {"alibi": True} if config.position == "falcon_alibi" else {"alibi": False} | self.rope.to_hf(config)


FAMILY = Family(
    name="falcon",
    architectures=("FalconForCausalLM",),
    model_type="falcon",
    fields=(
        Field("vocab_size", "n_vocab"),
        Field(("hidden_size", "n_embed"), "d_model"),
        Field("num_hidden_layers", "n_layers"),
        Field("num_attention_heads", "n_heads"),
        Field("max_position_embeddings", "n_ctx", default=None),
        Field("ffn_hidden_size", "d_ff", default=lambda hf: 4 * (hf.get("hidden_size") or hf.get("n_embed") or 0)),
        Field("activation", "feedforward", {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu"}, default="gelu"),
        Field("layer_norm_epsilon", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=True),
        Shared("bias", ("attention_bias", "output_bias", "ff_bias"), default=False),
        Design(),
        Positions(),
        Must("apply_residual_connection_post_layernorm", False),  # of the first files; no class reads it
    ),
    fixed={},
    rules=rules,
    prefix="transformer.",
    copies={"lm_head.weight": "transformer.word_embeddings.weight"},
)
