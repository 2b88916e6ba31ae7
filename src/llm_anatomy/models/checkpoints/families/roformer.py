"""RoFormer: BERT with interleaved RoPE instead of learned positions, as an encoder or as a decoder."""

from functools import partial
from typing import Any

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.families import bert
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must, WidthOfEmbeddings

ARCHITECTURES = {"encoder": "RoFormerForMaskedLM", "decoder": "RoFormerForCausalLM"}


class Direction(Field):
    """Whether the model is causal, for which another class with the same tensors is written.

    Source: Su et al. (2021), "RoFormer", section 4, in the layout of Hugging Face; IITD-32.

    >>> from llm_anatomy.files import Record
    >>> direction = Direction("is_decoder", "kind", {False: "encoder", True: "decoder"}, default=False)
    >>> direction.from_hf(Record("config.json", {"is_decoder": True}))
    {'kind': 'decoder'}
    """

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        architecture = ARCHITECTURES.get(config.kind)
        of_head = {"architectures": [architecture]} if architecture and config.unembedding else {}
        return super().to_hf(config) | of_head


FAMILY = Family(
    name="roformer",
    architectures=tuple(ARCHITECTURES.values()),
    model_type="roformer",
    fields=(
        *bert.FIELDS,
        Field("max_position_embeddings", "n_ctx", default=1536),
        Direction("is_decoder", "kind", {False: "encoder", True: "decoder"}, default=False),
        WidthOfEmbeddings("embedding_size"),
        Must("rotary_value", False),
    ),
    fixed=bert.FIXED | {"position": "rope", "rope.pairing": "interleaved"},
    harmless=bert.HARMLESS,
    rules=partial(bert.rules, model="roformer"),
    prefix="roformer.",
    renamed=bert.RENAMED,
    # RoPE's table of sines and cosines is not a weight, though files hold it
    ignored=("roformer.encoder.embed_positions.weight", "roformer.pooler.dense.{kind}", *bert.OTHER_HEADS),
    copies={
        "cls.predictions.decoder.weight": "roformer.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)
