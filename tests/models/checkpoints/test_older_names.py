"""Files of older versions of their library, which name some tensors otherwise, are read as those of today."""

import json

import pytest
import torch
from models.checkpoints.cases import CASES, deberta, deberta_v2
from models.checkpoints.parity import difference
from models.checkpoints.test_parity import BOUND
from randomness import randomize
from safetensors.torch import load_file, save_file

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints import Checkpoint, load, save
from llm_anatomy.models.transformer import Transformer


@pytest.mark.parametrize("make", [deberta, deberta_v2])
def test_the_older_head_of_deberta(make, tmp_path):
    hf = randomize(make(legacy=True)).eval()
    hf.save_pretrained(tmp_path)
    assert "cls.predictions.bias" in load_file(tmp_path / "model.safetensors")
    assert difference(load(tmp_path).model, hf) <= BOUND


@pytest.mark.parametrize(
    ("name", "renamed"),
    [
        ("mamba", {"backbone.embeddings.weight": "backbone.embedding.weight"}),
        ("deberta", {"lm_predictions.lm_head.bias": "cls.predictions.bias"}),
    ],
)
def test_older_names(name, renamed, tmp_path):
    hf = randomize(CASES[name].hf()).eval()
    hf.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = {renamed.get(key, key): tensor for key, tensor in load_file(file).items()}
    assert set(renamed.values()) <= tensors.keys()
    if name == "deberta":  # tensors of a second pass, and of another task
        tensors["deberta.embeddings.position_embeddings.weight"] = torch.ones(48, 24)
        tensors["mask_predictions.dense.bias"] = torch.ones(24)
    save_file(tensors, file)
    assert difference(load(tmp_path).model, hf) <= BOUND


def test_a_released_deberta_says_nothing_of_its_head(tmp_path):
    deberta().save_pretrained(tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text())
    del fields["legacy"], fields["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(fields | dict(pos_att_type="p2c|c2p")))
    assert load(tmp_path).family == "deberta"


def test_biases_of_keys_cannot_be_said_in_version_1_of_deberta(tmp_path):
    deberta().save_pretrained(tmp_path / "theirs")
    checkpoint = load(tmp_path / "theirs")
    with torch.no_grad():
        checkpoint.model.stack.blocks[1].attention.w_key.bias[3] = 0.5
    with pytest.raises(ValueError, match="the family deberta cannot represent biases of keys"):
        save(checkpoint, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize("family", ["deepseek_v2", "deepseek_v3", "deberta", "deberta_v2"])
def test_a_config_of_another_kind_cannot_be_said(family, tmp_path):
    model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))
    with pytest.raises(ValueError, match=f"the family {family} cannot represent"):
        save(Checkpoint(model=model, family=family), tmp_path / "ours")
