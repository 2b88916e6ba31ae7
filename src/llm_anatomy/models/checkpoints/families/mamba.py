"""Mamba: selective state spaces in place of attention and feed-forward layers."""

from typing import Any

from llm_anatomy.files import Record
from llm_anatomy.models.before_transformers import MambaConfig, MambaLM
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must, given
from llm_anatomy.models.checkpoints.rules import Rule

AT, HF = "blocks.{layer}.", "backbone.layers.{layer}.mixer."


def rules(config: MambaConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: Gu and Dao (2023), "Mamba", section 3.4 and its code, in the layout of Hugging Face; UCL-16.

    >>> rules(MambaConfig(n_vocab=5, d_model=8, n_layers=1))[0].hf
    ('backbone.embeddings.weight',)
    """
    same = ("in_proj.weight", "conv1d.{kind}", "x_proj.weight", "dt_proj.{kind}", "A_log", "D", "out_proj.weight")
    return [
        Rule("backbone.embeddings.weight", "embedding.weight"),
        *(Rule(HF + name, AT + name) for name in same),
        Rule("backbone.layers.{layer}.norm.weight", "block_residuals.{layer}.norm.weight"),
        Rule("backbone.norm_f.weight", "norm.weight"),
        Rule("lm_head.weight", "unembedding.embedding.weight"),
    ]


class Channels:
    """The inner width of the blocks, which Hugging Face derives from ``expand`` alone.

    Raises:
        ValueError: from ``from_hf``, if ``intermediate_size`` or ``d_inner`` differs from it, and for an ``expand``
            that is not a whole number above 0.

    Source: Gu and Dao (2023), "Mamba", section 3.4, in the layout of Hugging Face.

    >>> Channels().from_hf(Record("config.json", {"hidden_size": 24, "expand": 3}))
    {'d_inner': 72}
    """

    names = ("expand", "intermediate_size", "d_inner")

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        d_model = Field(("hidden_size", "d_model"), "d_model").from_hf(record)["d_model"]
        _, expand = given(record, ("expand",), 2)
        if isinstance(expand, bool) or not isinstance(expand, int | float) or not 1 <= expand < 1e6 or expand % 1:
            record.refuse("expand", f"{expand!r:.60} must be a whole number above 0")
        d_inner = round(expand) * d_model
        for name in ("intermediate_size", "d_inner"):
            _, said = given(record, (name,), d_inner)
            if said != d_inner:
                record.refuse(name, f"{said!r:.60} must be expand * hidden_size = {d_inner}")
        return {"d_inner": d_inner}

    def to_hf(self, config: MambaConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields. A width that is not a multiple of ``d_model`` is found to differ
        when the result is read again."""
        expand = max(1, config.get("d_inner") // config.d_model)
        return {"expand": expand, "intermediate_size": expand * config.d_model}


class StepRank:
    """The rank of the step sizes, a number or ``"auto"``.

    Source: Gu and Dao (2023), "Mamba", section 3.6, in the layout of Hugging Face.

    >>> StepRank().from_hf(Record("config.json", {"time_step_rank": "auto"}))
    {'dt_rank': None}
    """

    names = ("time_step_rank",)

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        name, rank = given(record, self.names, "auto")
        if rank != "auto" and (isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank < 2**31):
            record.refuse(name, f"{rank!r:.60} must be a number without fraction, from 1, or 'auto'")
        return {"dt_rank": None if rank == "auto" else rank}

    def to_hf(self, config: MambaConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        return {"time_step_rank": config.dt_rank}


FAMILY = Family(
    name="mamba",
    architectures=("MambaForCausalLM",),
    model_type="mamba",
    fields=(
        Field("vocab_size", "n_vocab"),
        Field(("hidden_size", "d_model"), "d_model"),
        Field(("num_hidden_layers", "n_layer"), "n_layers"),
        Field("state_size", "d_state", default=16),
        Field("conv_kernel", "d_conv", default=4),
        Field("layer_norm_epsilon", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=True),
        Channels(),
        StepRank(),
        Must("hidden_act", "silu"),
        Must("use_bias", False),
        Must("use_conv_bias", True),
        Must("rms_norm", True),
        Must("ssm_cfg", {}),
    ),
    fixed={},
    rules=rules,
    harmless="""time_step_scale time_step_min time_step_max time_step_init_scheme time_step_floor residual_in_fp32
        rescale_prenorm_residual use_mambapy use_associative_scan fused_add_norm pad_vocab_size_multiple""",
    prefix="backbone.",
    renamed={"backbone.embedding.": "backbone.embeddings."},
    copies={"lm_head.weight": "backbone.embeddings.weight"},
    config_class=MambaConfig,
    build=MambaLM.of,
)
