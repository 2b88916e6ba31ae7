"""Files as they were released: older names, heads and tables that the model does not need."""

import pytest
import torch
from models.checkpoints.cases import CASES
from safetensors.torch import load_file, save_file

from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints import engine, families, load, save
from llm_anatomy.models.parts import rotary_width

MORE = {
    "bert": {
        "bert.pooler.dense.weight": torch.randn(24, 24),
        "bert.pooler.dense.bias": torch.randn(24),
        "bert.embeddings.position_ids": torch.arange(40)[None],
        "cls.seq_relationship.weight": torch.randn(2, 24),
        "cls.seq_relationship.bias": torch.randn(2),
    },
    "gptj": {
        "transformer.h.0.attn.bias": torch.ones(1, 1, 40, 40, dtype=torch.bool),
        "transformer.h.1.attn.masked_bias": torch.tensor(-1e9),
    },
    "olmo": {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(3)},
    "opt": {},
    "roformer": {"roformer.encoder.embed_positions.weight": torch.randn(40, 6)},
}
COPIES = {
    "bert": {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    "opt": {"lm_head.weight": "model.decoder.embed_tokens.weight"},
}
COPIES["roformer"] = COPIES["bert"] | {"cls.predictions.decoder.weight": "roformer.embeddings.word_embeddings.weight"}
OLD = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


def ours(name):
    hf = CASES[name].hf()
    fields = hf.config.to_dict()
    family = families()[name]
    torch.manual_seed(0)
    return family.build(family.config(Record("config.json", fields))).eval()


@pytest.mark.parametrize("name", MORE)
def test_older_files_hold_the_same_model(name, tmp_path):
    model = ours(name)
    save(engine.Checkpoint(model=model, family=name), tmp_path / "new")
    file = tmp_path / "new" / "model.safetensors"
    tensors = load_file(file) | MORE[name]
    tensors |= {copy: tensors[original].clone() for copy, original in COPIES.get(name, {}).items()}
    for new, old in OLD.items():
        tensors = {key.replace(new, old): tensor for key, tensor in tensors.items()}
    if name == "opt":
        tensors = {key.removeprefix("model."): tensor for key, tensor in tensors.items()}
    save_file(tensors, file)
    found = load(tmp_path / "new").model
    for (key, expected), tensor in zip(model.named_parameters(), found.parameters(), strict=True):
        assert torch.equal(tensor, expected), key


def test_a_head_of_berts_own_is_refused(tmp_path):
    save(engine.Checkpoint(model=ours("bert"), family="bert"), tmp_path / "bert")
    file = tmp_path / "bert" / "model.safetensors"
    tensors = load_file(file)
    save_file(tensors | {"cls.predictions.decoder.bias": tensors["cls.predictions.bias"] + 1}, file)
    with pytest.raises(ValueError, match="decoder.bias, which must repeat cls.predictions.bias and does not"):
        load(tmp_path / "bert")


def test_gptj_turns_as_many_entries_as_it_says():
    family = families()["gptj"]
    for d_head in range(2, 161):
        for turned in range(2, d_head + 1, 2):
            fields = dict(vocab_size=5, n_embd=d_head, n_layer=1, n_head=1)
            entry = next(entry for entry in family.fields if entry.names == ("rotary_dim",))
            fraction = entry.from_hf(Record("config.json", fields | dict(rotary_dim=turned)))["rope.fraction"]
            assert 2 * int(d_head * fraction / 2) == turned and fraction <= 1
    config = family.config(Record("config.json", dict(vocab_size=5, n_embd=98, n_layer=1, n_head=1, rotary_dim=2)))
    assert rotary_width(config) == 2 and family.hf_config(config)["rotary_dim"] == 2


def test_a_roformer_is_written_under_the_class_of_its_direction():
    family = families()["roformer"]
    fields = dict(vocab_size=5, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=9)
    for is_decoder, name in ((False, "RoFormerForMaskedLM"), (True, "RoFormerForCausalLM")):
        config = family.config(Record("config.json", fields | dict(is_decoder=is_decoder)))
        assert family.hf_config(config)["architectures"] == [name]
