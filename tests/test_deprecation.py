"""Former names work and warn."""

from dataclasses import replace

import pytest

from llm_anatomy.__main__ import main
from llm_anatomy.config import ModelConfig
from llm_anatomy.data_generation.local_model import LocalModel
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.models.checkpoints import Checkpoint
from llm_anatomy.models.costs import costs
from llm_anatomy.models.inference import (
    InferenceTransformer,
    fastest_form,
    fastest_inference_model,
    for_inference,
    no_inference_form,
)
from llm_anatomy.models.transformer import Transformer

CONFIG = ModelConfig(d_model=32, n_layers=1, n_heads=2, d_ff=64, n_vocab=32)


@pytest.mark.parametrize("make", [for_inference, fastest_inference_model, InferenceTransformer])
def test_weights_are_called_quantize(make):
    with pytest.warns(DeprecationWarning, match="weights is now called quantize"):
        optimized = make(Transformer(CONFIG), weights="int8")
    assert optimized.quantize == "int8"
    with pytest.warns(DeprecationWarning, match="weights is now called quantize"):
        assert optimized.weights == "int8"


def test_former_functions_call_the_present_ones():
    encoder = Transformer(replace(CONFIG, kind="encoder"))
    with pytest.warns(DeprecationWarning, match="fastest_form is now called fastest_inference_model"):
        assert fastest_form(Transformer(CONFIG), quantize="int8").quantize == "int8"
    with pytest.warns(DeprecationWarning, match="no_inference_form is now called inference_obstacle"):
        assert "an encoder generates nothing" in no_inference_form(encoder)


def test_former_attributes_and_arguments_read_the_present_ones():
    model, part = Transformer(CONFIG), costs(CONFIG, n_tokens=3)["feed-forward"]
    with pytest.warns(DeprecationWarning, match="extra_config"):
        checkpoint = Checkpoint(model=model, more={"a": 1})
    for one, former, present in (
        (checkpoint, "more", "extra_config"),
        (checkpoint, "sentence_vectors", "embed"),
        (part, "n_kept", "n_activations"),
        (part, "n_read", "n_weights_read"),
        (model, "reads_alike", "cache_stays_valid"),
        (PositionScheme(), "reads_alike", "cache_stays_valid"),
    ):
        with pytest.warns(DeprecationWarning, match=f"{former} is now called {present}"):
            assert getattr(one, former) == getattr(one, present)
    with pytest.warns(DeprecationWarning, match="quantize"):
        assert LocalModel.open("story_rope", weights="bfloat16").model.quantize == "bfloat16"
    with pytest.warns(DeprecationWarning, match="--weights is now called --quantize"):
        assert main(["generate", "story_rope", "The", "--max-new-tokens", "1", "--weights", "bfloat16"]) == 0
