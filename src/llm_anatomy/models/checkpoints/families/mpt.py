"""MPT: ALiBi, one fused projection of queries, keys and values, which may be clipped, and no biases anywhere."""

from typing import Any, NoReturn

from llm_anatomy.config import ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import HARMLESS, NEEDED, Field, Must, given, one_of
from llm_anatomy.models.checkpoints.rules import Rule, Split

AT, HF = "stack.blocks.{layer}.", "transformer.blocks.{layer}."
WIDTH = ("d_model", "hidden_size")


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: MosaicML (2023), "MPT-7B", in the layout of Hugging Face; GT-43.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[0].hf
    ('transformer.wte.weight',)
    """
    projections = tuple(f"{AT}attention.w_{name}.{{kind}}" for name in ("query", "key", "value"))
    return [
        Rule("transformer.wte.weight", "embedding.weight"),
        Rule(HF + "attn.Wqkv.{kind}", projections, Split((config.d_model,) * 3)),
        Rule(HF + "attn.out_proj.{kind}", AT + "attention.w_output.{kind}"),
        Rule(HF + "norm_1.{kind}", AT + "attention_residual.norm.{kind}"),
        Rule(HF + "norm_2.{kind}", AT + "feedforward_residual.norm.{kind}"),
        Rule(HF + "ffn.up_proj.{kind}", AT + "feedforward.w_up.{kind}"),
        Rule(HF + "ffn.down_proj.{kind}", AT + "feedforward.w_down.{kind}"),
        Rule("transformer.norm_f.{kind}", "stack.norm.{kind}"),
        Rule("lm_head.weight", "unembedding.embedding.weight"),
    ]


class _Inner(Record):
    """An object inside of a file, whose errors name the field of the file that holds it."""

    def __init__(self, outer: Record, key: str, fields: dict[str, Any]):
        super().__init__(outer.name, fields)
        self.outer, self.key = outer, key

    def refuse(self, key: str, problem: str) -> NoReturn:
        self.outer.refuse(self.key, f"{key}: {problem}")


class AttentionConfig:
    """The options of attention, which are an object of their own.

    Hugging Face's class computes attention of many heads with ALiBi and nothing else, whatever this object says, so
    that the switches for the rest must be off.

    Raises:
        ValueError: from ``from_hf``, for another kind of attention, and for unknown options.

    Source: MosaicML (2023), "MPT-7B", the released code; Press et al. (2022), section 3.

    >>> AttentionConfig().from_hf(Record("config.json", {"attn_config": {"clip_qkv": 6, "alibi_bias_max": 16}}))
    {'clip_qkv': 6.0, 'attention_scale': None, 'alibi.bias_max': 16}
    >>> AttentionConfig().from_hf(Record("config.json", {"attn_config": {"qk_ln": True}}))
    Traceback (most recent call last):
    ValueError: config.json, key 'attn_config': qk_ln: True is not supported; it must be False
    """

    names = ("attn_config",)
    entries = (
        Field("clip_qkv", "clip_qkv", default=None),
        Field("softmax_scale", "attention_scale", default=None),
        Field("alibi_bias_max", "alibi.bias_max", default=8),
        Must("alibi", True),
        Must("attn_type", "multihead_attention"),
        Must("qk_ln", False),
        Must("prefix_lm", False),
        Must("attn_uses_sequence_id", False),
    )
    harmless = {*HARMLESS.split(), "attn_pdrop", "attn_impl"}

    def from_hf(self, record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        options, found = record.fields.get("attn_config") or {}, {}
        if not isinstance(options, dict):
            record.refuse("attn_config", f"{options!r:.60} must be an object")
        inner = _Inner(record, "attn_config", options)
        known = self.harmless.union(*(entry.names for entry in self.entries))
        for name in sorted(name for name in options.keys() - known if options[name] is not None):
            inner.refuse(f"{name:.60}", f"{options[name]!r:.60} is unknown, and might change what the model computes")
        for entry in self.entries:
            found |= entry.from_hf(inner)
        return found

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        return {"attn_config": {name: value for entry in self.entries for name, value in entry.to_hf(config).items()}}


class FourTimesTheWidth:
    """The inner width of the feed-forward layer, which Hugging Face's class makes four times ``d_model``.

    Raises:
        ValueError: from ``from_hf``, for another ratio.

    Source: MosaicML (2023), "MPT-7B", in the layout of Hugging Face.

    >>> FourTimesTheWidth().from_hf(Record("config.json", {"d_model": 8, "expansion_ratio": 4}))
    {'d_ff': 32}
    """

    names = ("expansion_ratio",)

    def from_hf(self, record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        one_of(record, *given(record, self.names, 4), (4,))
        width = given(record, WIDTH, NEEDED)[1]
        return {"d_ff": 4 * width if isinstance(width, int) else 0}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Write the ratio; if the inner width is another one, that is found when the result is read again."""
        return {"expansion_ratio": 4}


FAMILY = Family(
    name="mpt",
    architectures=("MptForCausalLM", "MPTForCausalLM"),
    model_type="mpt",
    fields=(
        Field("vocab_size", "n_vocab"),
        Field(WIDTH, "d_model"),
        Field(("n_layers", "num_hidden_layers"), "n_layers"),
        Field(("n_heads", "num_attention_heads"), "n_heads"),
        Field("max_seq_len", "n_ctx", default=2048),
        FourTimesTheWidth(),
        AttentionConfig(),
        Field("layer_norm_epsilon", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=True),
        # their class has neither biases nor another factor nor another norm, whatever these say
        Must("no_bias", True),
        Must("logit_scale", None),
        Must("norm_type", "low_precision_layernorm", "layernorm"),
    ),
    fixed={"position": "alibi", "layernorm.bias": False},
    rules=rules,
    # ALiBi takes the place of learned positions; of the fraction, only gradients depend; the others are of training
    harmless="learned_pos_emb embedding_fraction emb_pdrop init_device init_config tokenizer_name verbose",
    prefix="transformer.",
    copies={"lm_head.weight": "transformer.wte.weight"},
)
