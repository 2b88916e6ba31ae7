"""Parts of a user's own, added to the registry as CONTRIBUTING says, are built, trained, cached, counted and drawn."""

import math

import pytest
import torch
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.layers.residual import PreNorm
from llm_anatomy.models.costs import costs
from llm_anatomy.models.generation import generate
from llm_anatomy.models.inference import for_inference
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.notebook.block_diagrams import block_diagram
from llm_anatomy.registry import PARTS
from llm_anatomy.training.optimizers import parameter_groups

SIZES = dict(d_model=12, n_layers=2, n_heads=3, d_ff=10, n_vocab=17)


class Fading(PositionScheme):
    """A trained rate of decay for each head, which acts on the distance."""

    label = "fading positions"

    def __init__(self, n_heads):
        super().__init__()
        self.rates = nn.Parameter(torch.rand(n_heads))

    def bias(self, query, key, context):
        return -self.rates[:, None, None] * context.offsets.abs()[:, None].sqrt()

    def costs(self, sizes, *, batch, n_positions, n_queries, n_keys):
        return {"n_activations": 7 * sizes.n_heads * n_queries * n_keys}


class OfEachLayer(Fading):
    is_shared = False
    needs_n_ctx = True
    not_cacheable = "its rates are drawn anew at each step"

    def __init__(self, n_ctx, n_heads, d_head, max_distance):
        super().__init__(n_heads)
        self.sizes = n_ctx, n_heads, d_head, max_distance

    options = "clipping"


class Ramp(PositionScheme):
    """A direction that is added to the embeddings, the further on the longer."""

    at_input = True

    def __init__(self, d_model, d_value):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(d_model))

    def embed(self, x, positions):
        return x + positions[..., None] * self.direction


@pytest.fixture
def register(monkeypatch):
    return lambda field, name, part: monkeypatch.setitem(PARTS[field], name, part)


def model(**fields):
    torch.manual_seed(0)
    return Transformer(ModelConfig.of(SIZES | fields))


def ids(n):
    return torch.randint(0, 17, (2, n), generator=torch.Generator().manual_seed(1))


def test_a_scheme_of_attention_is_built_trained_cached_counted_and_drawn(register):
    with pytest.raises(ValueError, match="position='fading' must be one of"):
        model(position="fading")
    register("position", "fading", Fading)
    fading = model(position="fading")
    first, second = (block.attention.position for block in fading.stack.blocks)
    assert type(first) is Fading and first is second and first.rates.shape == (3,)
    assert not torch.allclose(fading(ids(6)), model()(ids(6)), atol=1e-3)
    fading(ids(6)).square().mean().backward()
    assert first.rates.grad.abs().min() > 0
    torch.optim.AdamW(parameter_groups(fading, 0.1), lr=0.01).step()
    assert generate(fading, ids(5), max_new_tokens=4).ids == _without_cache(fading, ids(5), 4)
    ready = for_inference(fading)
    assert generate(ready, ids(5), max_new_tokens=4).ids == _without_cache(fading, ids(5), 4)
    found = costs(fading.config, n_tokens=6)
    assert found["positions"].n_parameters == 3 and found["positions"].n_activations == 2 * 7 * 3 * 6 * 6
    assert "positions: fading positions" in repr(block_diagram(fading.config))
    assert ModelConfig.of(fading.config.changed()) == fading.config


def _without_cache(model, prompt, n):
    with torch.inference_mode():
        for _ in range(n):
            prompt = torch.cat((prompt, model(prompt)[:, -1:].argmax(-1)), 1)
    return prompt[:, -n:].tolist()


def test_a_scheme_states_its_options_and_that_it_cannot_be_cached(register):
    register("position", "of_each_layer", OfEachLayer)
    with pytest.raises(ValueError, match="n_ctx=None must be given with position='of_each_layer'"):
        model(position="of_each_layer")
    with pytest.raises(ValueError, match="rope.base=5.0 must be left out with position='of_each_layer'"):
        model(position="of_each_layer", n_ctx=9, **{"rope.base": 5.0})
    for changed, distance in ({}, 128), ({"clipping.max_distance": 5}, 5):
        made = model(position="of_each_layer", n_ctx=9, **changed)
        first, second = (block.attention.position for block in made.stack.blocks)
        assert first is not second and first.sizes == second.sizes == (9, 3, 4, distance)
    with pytest.raises(ValueError, match="OfEachLayer cannot be cached: its rates are drawn anew"):
        generate(made, ids(3), max_new_tokens=2)
    PARTS["position"]["of_each_layer"] = Fading
    with pytest.raises(ValueError, match="clipping.max_distance=5 must be left out with position='of_each_layer'"):
        model(position="of_each_layer", **{"clipping.max_distance": 5})


def test_a_scheme_of_the_input_is_built_once(register):
    register("position", "ramp", Ramp)
    ramp = model(position="ramp")
    assert type(ramp.position) is Ramp
    assert {type(block.attention.position) for block in ramp.stack.blocks} == {PositionScheme}
    same = torch.full((1, 4), 5)  # without positions, all tokens would have the same logits
    assert not torch.allclose(*ramp(same)[0, [0, 3]], atol=1e-3) and torch.allclose(*model()(same)[0, [0, 3]])
    assert generate(ramp, ids(5), max_new_tokens=4).ids == _without_cache(ramp, ids(5), 4)
    assert "positions: ramp, added to the embeddings" in repr(block_diagram(ramp.config))


def test_a_scheme_that_asks_for_something_else_is_refused(register):
    class Curious(PositionScheme):
        def __init__(self, n_heads, temperature):
            super().__init__()

    register("position", "curious", Curious)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'temperature'"):
        model(position="curious")

    class TooFew(PositionScheme):
        @classmethod
        def for_model(cls, sizes, **options):
            return [cls()]

    register("position", "too_few", TooFew)
    with pytest.raises(ValueError, match="TooFew.for_model returned 1 schemes for 2 layers"):
        model(position="too_few")


class Doubled(SelfAttention):
    def forward(self, *args, **kwargs):
        return 2 * super().forward(*args, **kwargs)


class Centred(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return x - x.mean(-1, keepdim=True) + self.shift


class Halved(PreNorm):
    def after_sublayer(self, x, branch):
        return super().after_sublayer(x, branch / 2)


class Bare(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_up, self.w_down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.w_down(self.w_up(x).sin())


@pytest.mark.parametrize(
    ("field", "part"),
    [("attention", Doubled), ("norm", Centred), ("norm_placement", Halved), ("feedforward", Bare)],
)
def test_another_part_is_built_counted_and_drawn(register, field, part):
    register(field, "mine", part)
    mine = model(**{field: "mine"})
    assert any(type(module) is part for module in mine.modules())
    logits = mine(ids(6))
    assert logits.isfinite().all() and not torch.allclose(logits, model()(ids(6)), atol=1e-3)
    logits.square().mean().backward()
    assert costs(mine.config, n_tokens=6).total.n_parameters == sum(p.numel() for p in mine.parameters())
    assert generate(mine, ids(5), max_new_tokens=3).ids == _without_cache(mine, ids(5), 3)
    assert "Block diagram" in repr(block_diagram(mine.config))
    if field == "feedforward":
        with pytest.raises(ValueError, match="moe must be None with feedforward='mine'"):
            model(feedforward="mine", moe=dict(n_experts=2, n_experts_per_token=1))


def test_a_scaling_of_ones_own_takes_what_its_constructor_names(register):
    from dataclasses import dataclass

    from llm_anatomy.layers.positions.rotary_scaling import Frequencies

    @dataclass(frozen=True)
    class Squeezed(Frequencies):
        factor: float
        beta_slow: float = 3.0

        def __call__(self, d_rotary, base):
            return super().__call__(d_rotary, base) / (self.factor * self.beta_slow)

    register("rope.scaling.type", "squeezed", Squeezed)
    scaling = {"rope.scaling.type": "squeezed", "rope.scaling.factor": 2.0}
    for changed, slow in ({}, 3.0), ({"rope.scaling.beta_slow": 5.0}, 5.0):
        position = model(position="rope", **scaling, **changed).stack.blocks[0].attention.position
        assert math.isclose(position.frequencies[0], 1 / (2 * slow), rel_tol=1e-6)
    with pytest.raises(ValueError, match="rope.scaling.beta_fast=9.0 must be left out"):
        model(position="rope", **scaling, **{"rope.scaling.beta_fast": 9.0})


def test_the_bias_of_a_scheme_has_four_axes(run_without_shape_checks):
    run_without_shape_checks("""
import torch
from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.positions.base import PositionScheme

class Distance(PositionScheme):
    def bias(self, query, key, context):
        return -context.offsets.abs() / 10  # the heads are missing, which one text would not show

try:
    SelfAttention(12, 3, position=Distance())(torch.randn(1, 5, 12))
except ValueError as error:
    assert "(1, 5, 5), must be (batch, heads, queries, keys)" in str(error), error
else:
    raise AssertionError("it was accepted")
""")
