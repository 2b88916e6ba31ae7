"""What the text of chapter 4 states, tried with the chapter's own functions on other seeds, sizes and starting weights,
or counted again on the presets."""

import base64
import json
import math
import re
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from chapter_imports import imported

from bookbinder import ROOT, notebooks
from llm_anatomy.config import ModelConfig
from llm_anatomy.data import table
from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.feedforward import GATES
from llm_anatomy.layers.masks import CausalMask
from llm_anatomy.models.costs import costs
from llm_anatomy.models.presets import preset, presets
from llm_anatomy.models.transformer import Transformer

KINDS = {"neither": (False, False), "norm": (False, True), "skip": (True, False), "both": (True, True)}


@cache
def page():
    [found] = [page for page in notebooks.pages(ROOT) if page.docname == "book/transformer/transformer"]
    return found


def cell(opening):
    """The source of the chapter's cell that contains this line."""
    return next(cell.source for cell in page().code if opening in cell.source)


def text():
    """The words of the chapter, with one space between any two."""
    return " ".join(" ".join(cell.source for cell in page().cells if cell.cell_type == "markdown").split())


def stacks(*, width=16, seed=0, variance=1 / 3, dtype=torch.float32):
    """The chapter's functions on deep stacks, with other sizes, other draws and other variances, times 1/d."""
    source = cell("def first_gradient(") + "\n\n\n" + re.split(r"\n\n\n(?!def )", cell("def fit("))[0]
    source = source.replace("width, n_seeds = 16, 5", f"width, n_seeds = {width}, 5")
    source = source.replace("manual_seed(1)", f"manual_seed({seed + 1})")
    source = source.replace("manual_seed(0)", f"manual_seed({seed})")
    names = imported("transformer/transformer")
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        exec(source, names)
    finally:
        torch.set_default_dtype(default)
    draw = names["weights_of"]
    factor = math.sqrt(3 * variance)
    names["weights_of"] = lambda depth: (draw(depth).detach() * factor).to(dtype).requires_grad_()
    return names


def fitted(names, depth, skip, norm, *, steps=60, max_lr=0.01):
    """The error after training, by the chapter's ``errors``, with a learning rate of one's own."""
    weights = names["weights_of"](depth)
    optimizer = torch.optim.AdamW([weights], lr=max_lr, weight_decay=0)
    for _ in range(steps):
        optimizer.zero_grad()
        names["errors"](weights, skip, norm).sum().backward()
        optimizer.step()
    return names["errors"](weights, skip, norm).detach()


# --- The first layer's gradient ---


@pytest.mark.syllabus("IITD-33")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("width", "seed"), [(16, 0), (24, 3), pytest.param(64, 4, marks=pytest.mark.slow)])
def test_the_gradient_of_64_layers_is_tiny_and_not_zero(width, seed, dtype):
    names = stacks(width=width, seed=seed, dtype=dtype)
    weights = names["weights_of"](64)
    assert weights.dtype == dtype
    (gradient,) = torch.autograd.grad(names["errors"](weights, False, False).sum(), weights)
    assert (gradient[0].flatten(1).abs().amax(1) > 0).all()
    norms = gradient[0].double().flatten(1).norm(dim=1)
    assert norms.min() > 0 and norms.max() < 1e-20  # of the choices of the prediction, one is right
    torch.testing.assert_close(names["first_gradient"](64, False, False), norms, rtol=1e-4, atol=0)
    if dtype == torch.float32:  # what the explanation says of the norm
        assert (gradient[0].flatten(1).norm(dim=1) == 0).all()


@pytest.mark.syllabus("IITD-33")
def test_the_choices_of_the_prediction_leave_no_gap_and_the_key_is_the_third():
    said = {}

    def prediction(question, choices, answer, explanation):
        said.update(choices=choices, answer=answer, explanation=explanation)

    nb = SimpleNamespace(Prediction=prediction)
    for left, expected in ((1.0, 0), (2e-9, 0), (5e-10, 1), (2e-20, 1), (5e-21, 2), (1e-300, 2), (0.0, 3)):
        value = torch.tensor([left], dtype=torch.float64)
        exec(cell("how large is the norm"), {"nb": nb, "first_gradient": lambda *_, v=value, **__: v})
        assert said["answer"] == expected
    assert [choice.split()[0] for choice in said["choices"]] == ["above", "between", "below", "exactly"]
    exec(cell("how large is the norm"), stacks() | {"nb": nb})
    assert said["answer"] == 2
    explanation = json.loads(base64.b64decode(said["explanation"].removeprefix("base64:")))
    assert "two fifths" in explanation and "10⁻²⁷" in explanation
    norms = [stacks()["first_gradient"](depth, False, False).log10().mean().item() for depth in (16, 64)]
    assert 0.35 < 10 ** ((norms[1] - norms[0]) / 48) < 0.45 and -28 < norms[1] < -26


@pytest.mark.syllabus("UCL-24")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_without_a_norm_gradients_grow_with_a_skip_and_vanish_without(seed):
    names = stacks(seed=seed)
    gradient = names["first_gradient"]
    grown = {kind: gradient(64, *KINDS[kind]) / gradient(4, *KINDS[kind]) for kind in ("skip", "neither")}
    assert grown["skip"].min() > 100 and grown["neither"].max() < 1e-15
    assert "without a norm they grew if there was a skip, and vanished if there was none" in text()


# --- What deep stacks learn ---


@pytest.mark.syllabus("IITD-33")
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_the_norm_alone_gives_nearly_the_same_output_for_every_input(seed):
    names, shares = stacks(seed=seed), {}
    for kind, (skip, norm) in KINDS.items():
        x = names["outputs"](names["weights_of"](64), skip, norm).detach().double()
        shares[kind] = (x - x.mean(1, keepdim=True)).square().sum((1, 2)) / x.square().sum((1, 2))
    assert shares["norm"].max() < 0.1 < 0.15 < min(shares["both"].min(), shares["skip"].min())
    assert seed or shares["norm"].max() < 0.015  # what the cell prints, with a margin
    assert names["errors"](names["weights_of"](64), *KINDS["skip"]).min() > 100


@pytest.mark.syllabus("IITD-33")
def test_with_three_times_the_variance_skip_and_norm_are_behind_the_norm_alone_after_60_steps():
    names = stacks(variance=1)
    both, norm = (fitted(names, 64, *KINDS[kind]) for kind in ("both", "norm"))
    assert (both > 0.9).all() and both.mean() > norm.mean() + 0.05
    assert "with $1/d$ or $2/d$ none of the four learns in 60 steps" in text().lower()
    assert "the order at 64 layers is the same" not in text()


@pytest.mark.slow
@pytest.mark.syllabus("IITD-33")
@pytest.mark.parametrize("variance", [1, 2])
def test_with_larger_starting_weights_none_of_the_four_learns_in_60_steps_and_one_in_300(variance):
    names = stacks(variance=variance)
    for skip, norm in KINDS.values():
        assert (fitted(names, 64, skip, norm) > 0.9).all()
    assert (fitted(names, 64, *KINDS["both"], steps=300) < 0.8).all()


@pytest.mark.syllabus("IITD-33")
def test_with_smaller_starting_weights_the_skip_alone_learns_too():
    names = stacks(variance=1 / 3 / 64)
    assert (fitted(names, 64, *KINDS["skip"], max_lr=0.003) < 0.8).all()
    assert "divided by the 64 layers, the stack with a skip alone learns too, at a rate of 0.003" in text()


@pytest.mark.slow
@pytest.mark.syllabus("IITD-33")
@pytest.mark.parametrize("max_lr", [0.01, 0.003, 0.001, 0.0003])
@pytest.mark.parametrize("kind", ["norm", "skip"])
def test_one_of_the_two_does_not_learn_at_any_rate_in_300_steps(kind, max_lr):
    assert (fitted(stacks(), 64, *KINDS[kind], steps=300, max_lr=max_lr) > 0.9).all()


# --- Parameters ---


def share_of_feedforward(name):
    """The feed-forward layers' part of the parameters of the blocks."""
    parts = costs(preset(name), 1)
    inner = parts["feed-forward"].n_parameters
    return inner / (inner + parts["attention projections"].n_parameters)


@pytest.mark.syllabus("IITD-43", "UCL-26")
def test_gated_feed_forward_layers_are_two_thirds_of_a_block_in_some_models_and_more_in_others():
    for name in ("gpt-3", "llama-2-7b", "llama-65b", "qwen-14b"):
        assert share_of_feedforward(name) == pytest.approx(2 / 3, abs=0.005), name
    for name in ("llama-2-70b", "gemma-7b"):
        assert share_of_feedforward(name) > 0.8, name
    assert preset("llama-2-7b").feedforward in GATES and preset("gpt-3").feedforward not in GATES
    assert preset("llama-2-70b").n_kv_heads < preset("llama-2-70b").n_heads
    gemma = preset("gemma-7b")
    assert gemma.n_kv_heads == gemma.n_heads and gemma.d_ff / gemma.d_model > 2 * 8 / 3
    assert "more in gated ones" not in text()


@pytest.mark.syllabus("IITD-43")
def test_twelve_gated_decoders_with_as_many_key_heads_as_query_heads_are_at_two_thirds():
    """By formula: three matrices of d by d_ff, and four of attention."""
    at_two_thirds = set()
    for name, record in presets().items():
        values = record.values
        if record.unknown or values.get("kind") != "decoder" or values.get("feedforward") not in GATES:
            continue
        c = preset(name)
        if c.moe is None and c.latent is None:
            attention = 2 * (c.n_heads + c.n_kv_heads) * c.d_head
            if abs(3 * c.d_ff / (3 * c.d_ff + attention) - 2 / 3) < 0.01:
                at_two_thirds.add(name)
                assert c.n_kv_heads == c.n_heads
    of_the_lectures = {"llama-7b", "llama-13b", "llama-33b", "llama-65b", "llama-2-7b", "llama-2-13b", "qwen-14b"}
    assert of_the_lectures <= at_two_thirds and len(at_two_thirds) == 12


def n_position_parameters(position, n_ctx):
    sizes = dict(d_model=24, n_layers=1, n_heads=3, d_ff=40, n_vocab=31, n_ctx=n_ctx)
    with_positions = Transformer(ModelConfig(**sizes, position=position))
    without = Transformer(ModelConfig(**sizes, position="none"))
    return sum(p.numel() for p in with_positions.parameters()) - sum(p.numel() for p in without.parameters())


@pytest.mark.syllabus("UCL-29")
def test_some_position_schemes_have_parameters_and_some_have_none():
    for scheme in ("sinusoidal", "rope", "alibi"):
        assert n_position_parameters(scheme, 10) == 0
    assert n_position_parameters("learned", 10) == 10 * 24
    for scheme in ("t5", "shaw", "transformer_xl", "deberta", "tupe"):
        assert n_position_parameters(scheme, 10) > 0, scheme
    assert "other schemes add nothing" not in text()


# --- Translation ---


@pytest.mark.syllabus("UCL-30")
def test_attention_closes_most_of_the_gap_between_lstm_and_transformer_and_not_all():
    exact = {}
    for row in table("translation_scores"):
        exact.setdefault(row["model"], []).append(row["exact"])
    worst, best = {m: min(x) for m, x in exact.items()}, {m: max(x) for m, x in exact.items()}
    assert len(exact["lstm_attention"]) == 3
    assert best["lstm"] < 0.1 and best["lstm_attention"] < worst["transformer"] - 0.1
    mean = {model: sum(x) / len(x) for model, x in exact.items()}
    assert mean["lstm_attention"] > 0.5
    assert 0.5 < (mean["lstm_attention"] - mean["lstm"]) / (mean["transformer"] - mean["lstm"]) < 0.8
    assert "comes close to the Transformer" not in text()


# --- Memory ---


@pytest.mark.syllabus("UCL-29")
def test_the_printed_memory_holds_for_a_fused_kernel_and_more_than_doubles_with_scores_and_weights(capsys):
    gpt2 = preset("gpt-2")
    exec(cell('"activations": training'), imported("transformer/transformer") | {"gpt2": gpt2})
    printed = [float(number) for number in re.findall(r"([\d.]+) GB", capsys.readouterr().out)]
    fused, kept = printed[3], printed[5]
    assert fused == pytest.approx(costs(gpt2, n_tokens=1024, batch=8).activation_bytes / 1e9, abs=0.05)
    one_map = 8 * 1024**2 * 4  # bytes of the scores of one head in one layer, for 8 texts
    assert kept - fused == pytest.approx(2 * 12 * 12 * one_map / 1e9, abs=0.1)
    assert kept > 2 * fused and "in a fused kernel, which never stores the scores" in text()


@pytest.mark.syllabus("UCL-29")
def test_the_explicit_path_keeps_scores_and_weights_and_the_fused_one_keeps_neither():
    n, heads = 128, 4

    def kept(**options):
        sizes = {}

        def keep(tensor):
            sizes[tensor.untyped_storage().data_ptr(), tensor.numel()] = tensor.numel()
            return tensor

        layer, x = SelfAttention(16, heads), torch.randn(1, n, 16, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            layer(x, mask=CausalMask(), **options)
        return list(sizes.values())

    assert kept(return_weights=True).count(heads * n**2) == 2
    assert kept().count(heads * n**2) == 0
