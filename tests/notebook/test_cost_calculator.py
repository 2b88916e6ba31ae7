"""The cost calculator: its formulas against the counts of ``costs()``, its units, and models to start from."""

import dataclasses

import pytest
import torch
import traitlets

from llm_anatomy.models.costs import costs, crossover
from llm_anatomy.models.presets import presets
from llm_anatomy.notebook import CostCalculator
from llm_anatomy.notebook.widgets.cost_calculator import PARTS, SIZES, decoder_costs

GATES = ("swiglu", "geglu", "geglu_tanh")
GPT2 = dict(d_model=768, n_layers=12, n_heads=12, n_kv_heads=12, d_ff=3072, gated=False, n_vocab=50257, tied=True)
GPT2 |= dict(n_ctx=1024)
LLAMA = dict(d_model=4096, n_layers=32, n_heads=32, n_kv_heads=8, d_ff=14336, gated=True, n_vocab=128256, tied=False)
LLAMA |= dict(n_ctx=8192)


def counted_by_formulas():
    """The decoders among the presets whose parts the formulas describe: heads as wide as the model, blocks in a row."""
    for name, record in presets().items():
        if not record.known or record.config().kind != "decoder":
            continue
        config = record.config()
        plain = (config.attention, config.moe, config.window, config.attn_logit_softcapping) == (
            "multi_head",
            None,
            None,
            None,
        )
        one_norm = config.norm_placement == "pre" and not config.parallel_block and config.qk_norm is None
        as_wide = config.n_heads * config.d_head == config.d_model and config.d_value == config.d_head
        few = config.position in ("learned", "rope", "none") and not config.embedding_norm
        if plain and one_norm and as_wide and few and config.feedforward in (*GATES, "gelu", "gelu_tanh"):
            yield name, config


FOUND = dict(counted_by_formulas())


def sizes_of(config):
    gated = int(config.feedforward in GATES)
    given = {
        name: getattr(config, name) for name in ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "n_vocab")
    }
    return given | {"gated": gated, "tied": int(config.tie_embeddings)}


def test_there_are_many_presets_of_every_kind():
    configs = FOUND.values()
    assert len(FOUND) > 15
    assert {config.feedforward in GATES for config in configs} == {True, False}
    assert {config.tie_embeddings for config in configs} == {True, False}
    assert {config.n_kv_heads == config.n_heads for config in configs} == {True, False}


@pytest.mark.syllabus("UCL-29")
@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("training, bytes_per_number", [(1, 2), (0, 2), (1, 4)])
def test_the_formulas_give_the_counts_of_costs_exactly(name, training, bytes_per_number):
    config, batch, n_ctx = FOUND[name], 3, 512
    config = dataclasses.replace(config, attention_bias=False, output_bias=False, ff_bias=False, unembedding_bias=False)
    found = decoder_costs(
        **sizes_of(config), n_ctx=n_ctx, batch=batch, bytes_per_number=bytes_per_number, training=training
    )
    n_tokens, n_cached = (n_ctx, 0) if training else (1, n_ctx - 1)
    counted = costs(config, n_tokens, n_cached=n_cached, batch=batch, bytes_per_number=bytes_per_number)
    there = {part.name: part for part in counted.parts}
    for part, parameters, flops in zip(PARTS, found["parameters"], found["flops"], strict=True):
        assert parameters == there[part].n_parameters, part
        assert flops * batch * n_tokens == there[part].flops, part
    left_out = sum(there[part].n_parameters for part in ("norms", "positions") if part in there)
    n_parameters = counted.total.n_parameters - left_out
    passes = counted.total.flops + training * counted.total.flops_backward
    weights, gradients, optimizer, activations, cache = found["memory"]
    assert found["step_flops"] == passes
    assert weights == counted.weight_bytes - bytes_per_number * left_out == bytes_per_number * n_parameters
    assert gradients == training * weights
    assert optimizer * counted.total.n_parameters == training * counted.optimizer_bytes * n_parameters
    assert activations == training * counted.activation_bytes
    assert found["crossover"] == crossover(config)
    n_read = sum(there[name].n_weights_read for name in ("norms", "positions") if name in there)
    read = bytes_per_number * n_read
    if not training:
        assert cache == counted.cache_bytes
        assert found["step_bytes"] == counted.bytes_moved - read


@pytest.mark.syllabus("UCL-29")
def test_the_widget_shows_what_the_formulas_give():
    widget = CostCalculator({"GPT-2": GPT2, "Llama 3 8B": LLAMA})
    widget.model = "Llama 3 8B"
    assert {name: getattr(widget, name) for name in SIZES} == LLAMA
    shown = widget.outputs()
    found = decoder_costs(**LLAMA, batch=8, bytes_per_number=2, training=1)
    assert shown["total"] * 1000 ** shown["total_unit"] == pytest.approx(sum(found["parameters"]), rel=1e-6)
    assert shown["each"] * 1000 ** shown["each_unit"] == pytest.approx(sum(found["flops"]), rel=1e-6)
    assert shown["held"] * 1000 ** shown["held_unit"] == pytest.approx(sum(found["memory"]), rel=1e-6)
    assert shown["crossover"] == crossover(presets()["llama-3-8b"].config())
    seconds = found["step_flops"] / (0.4 * 312e12)  # the A100, whose peak 40 % are used
    assert shown["time"] * 1000 ** shown["time_unit"] / 1e6 == pytest.approx(seconds, rel=1e-5)
    widget.task, widget.batch = "generation", 1
    step = decoder_costs(**LLAMA, batch=1, bytes_per_number=2, training=0)
    shown = widget.outputs()
    assert shown["time"] * 1000 ** shown["time_unit"] / 1e6 == pytest.approx(step["step_bytes"] / 2039e9, rel=1e-5)


def test_the_reader_moves_on_from_a_model_and_keys_have_no_more_heads_than_queries():
    widget = CostCalculator({"GPT-2": GPT2, "Llama 3 8B": LLAMA})
    widget.n_heads = 8  # fewer than the 12 of the keys: all have their own keys
    assert widget.outputs()["total_parts"] == CostCalculator({"GPT-2": GPT2}).outputs()["total_parts"]
    widget.n_heads, widget.n_kv_heads = 12, 4
    assert widget.outputs()["total_parts"][1] < 28
    with pytest.raises(traitlets.TraitError, match="d_model=700; it must be one of 64, 128"):
        widget.d_model = 700


def test_a_large_number_is_written_as_in_the_page():
    widget = CostCalculator({"GPT-2": GPT2})
    widget.n_ctx = 2**20
    assert "a context of 1048576 tokens" in repr(widget)


@pytest.mark.parametrize(
    "models, sentence",
    [
        ({}, "it must give the sizes of at least one model"),
        ({"GPT-2": {"d_model": 768}}, "'GPT-2' has the fields .*; they must be d_model, n_layers"),
    ],
)
def test_models_without_sizes_are_refused(models, sentence):
    with pytest.raises(ValueError, match=sentence):
        CostCalculator(models)


def test_optimizer_states_are_those_of_pytorch():
    model = torch.nn.Linear(7, 5)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 7)).sum().backward()
    optimizer.step()
    held = sum(state[name].nbytes for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq"))
    n = sum(parameter.numel() for parameter in model.parameters())
    config = presets()["gpt-2"].config()
    assert costs(config, 1).optimizer_bytes / costs(config, 1).total.n_parameters == held / n == 8
    assert costs(config, 1, bytes_per_number=2).optimizer_bytes == 12 * costs(config, 1).total.n_parameters
