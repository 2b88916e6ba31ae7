"""The families, one file each. A file here is found by its name alone; adding one touches nothing else.

A family is a table called ``FAMILY``::

    FAMILY = Family(
        name="llama",                                  # the name of the file
        architectures=("LlamaForCausalLM",),           # "architectures" of config.json; the first is written
        model_type="llama",
        fields=(                                       # config.json and ModelConfig, both ways
            Field("hidden_size", "d_model"),           # Hugging Face's name, ours
            Field("hidden_act", "feedforward", {"silu": "swiglu"}),     # with the values that there are
            Field("rms_norm_eps", "norm_eps", default=1e-6),            # what their class takes if it is missing
            Must("mlp_bias", False),                   # a value that must hold, their default
            Rope(),                                    # several fields at once: names, from_hf, to_hf
        ),
        fixed=dict(position="rope", norm="rmsnorm"),   # ours, in every model of the family
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

- Our names are those of ``Transformer(config).named_parameters()`` and persistent buffers, each tensor once. Every one
  needs exactly one rule; rules for tensors that a model does not have say nothing, so optional biases, tied heads and
  gates need no ``if``. Holes: ``{layer}``, ``{kind}`` (weight or bias); ``{expert}`` in their names, with ``Stacked``.
- Their names are those of released files, which need not be those of ``state_dict()``: look at what ``save_pretrained``
  writes. ``prefix``, ``renamed``, ``ignored`` and ``copies`` say where older files differ.
- A change is a bijection: ``to_hf`` of ``from_hf`` is the same to the last bit. Write a new one only if ``Same``,
  ``Transpose``, ``Split``, ``Reversed``, ``Then`` and ``Stacked`` cannot say it.
- Every field of their configuration class is a ``Field``, a ``Must`` with its default first, or in ``harmless``. What
  is none of them is refused when it is met.
- What no plain entry can say is a small class with ``names``, ``from_hf`` and ``to_hf`` in the family's file. Saving
  reads what it has written again, and refuses a config that would come back as another.
- In ``tests/models/checkpoints/cases.py`` a family needs one entry in ``CASES``: a tiny configuration with no option at
  its default, faults that the test must see, and changes of ``config.json`` that must be refused; and in ``RELEASED``,
  where the lectures have a preset, the fields of the released ``config.json``.
"""

import importlib
import pkgutil
from functools import cache

from llm_anatomy.models.checkpoints.family import Family


@cache
def families() -> dict[str, Family]:
    """All families by name, from the files of this folder.

    Source: GT-43, GT-44.

    >>> families()["gpt2"].architectures
    ('GPT2LMHeadModel',)
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").FAMILY for name in names}
