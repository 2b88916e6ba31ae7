"""The families, one file each. Families are found by the names of their files, so adding one changes nothing else.

A family is a table called ``FAMILY``::

    FAMILY = Family(
        name="llama",                                  # the name of the file
        architectures=("LlamaForCausalLM",),           # "architectures" of config.json; the first is written
        model_type="llama",
        fields=(                                       # between config.json and ModelConfig
            Field("hidden_size", "d_model"),           # Hugging Face's name, ours
            Field("hidden_act", "feedforward", {"silu": "swiglu"}),     # with all values
            Field("rms_norm_eps", "norm_eps", default=1e-6),            # the default of their class
            Must("mlp_bias", False),                   # one supported value, their default
            Rope(),                                    # several fields at once
        ),
        fixed=dict(position="rope", norm="rmsnorm"),   # our fields, the same in every model
        rules=rules,                                   # a function of our config
    )

    def rules(config):
        at, hf = "stack.blocks.{layer}.", "model.layers.{layer}."
        return [
            Rule("model.embed_tokens.weight", "embedding.weight"),
            Rule(hf + "self_attn.q_proj.{kind}", at + "attention.w_query.{kind}"),
            Rule((hf + "mlp.gate_proj.{kind}", hf + "mlp.up_proj.{kind}"), at + "feedforward.w_gate_up.{kind}",
                 Reversed(Split((config.d_ff, config.d_ff)))),
        ]

What to know when writing one:

- Our names are those of ``Transformer(config).named_parameters()`` and persistent buffers. Each tensor needs exactly
  one rule. Rules for tensors that a model lacks have no effect, so optional biases, tied heads and gates need no
  ``if``. Placeholders are ``{layer}``, ``{kind}`` (weight or bias) and, in Hugging Face's names with ``Stacked``,
  ``{expert}``.
- Hugging Face's names are those of released files, which may differ from those of ``state_dict()``: look at what
  ``save_pretrained`` writes. ``prefix``, ``renamed``, ``ignored`` and ``copies`` describe how older files differ.
- A change is a bijection: ``to_hf`` is the exact inverse of ``from_hf``. Write a new one only if ``Same``,
  ``Transpose``, ``Split``, ``Reversed``, ``Then`` and ``Stacked`` do not suffice.
- Every field of Hugging Face's configuration class is a ``Field``, a ``Must`` with its default first, or ``harmless``.
  ``HARMLESS`` and ``NEUTRAL`` in ``fields.py`` hold those that mean nothing in any family. Any other field is refused.
- Null is read as a missing field. Where their class reads it otherwise, write ``OrNull`` or ``NotNull``.
- Models without a head, such as ``BertModel``, need no entry: their family is derived from this one, without the fields
  and tensors of the head, by the prefix of the names (``Family.without_head``).
- Where these entries do not suffice, write a small class with ``names``, ``from_hf`` and ``to_hf`` in the family's
  file. Saving reads its own output, and refuses a config that would be read as another one.
- In ``tests/models/checkpoints/cases.py`` a family needs one entry in ``CASES``: a tiny configuration with no option at
  its default, faults that the test must detect, and changes of ``config.json`` that must be refused; and in
  ``RELEASED``, if the lectures have a preset, the fields of the released ``config.json``. In ``generated.py`` it needs
  a function that draws all options.
"""

import importlib
import pkgutil
from functools import cache

from llm_anatomy.models.checkpoints.family import Family


@cache
def families() -> dict[str, Family]:
    """Import all families from the files of this folder, by name.

    Source: GT-43, GT-44.

    >>> families()["gpt2"].architectures
    ('GPT2LMHeadModel',)
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").FAMILY for name in names}
