"""Models without a head: the bare class of every family, its files, and files of whole models read as bare ones."""

import json

import pytest
import torch
import transformers
from models.checkpoints.cases import CASES, first_or_slow
from models.checkpoints.parity import difference
from models.checkpoints.test_engine import a_model, change_config
from randomness import randomize
from safetensors.torch import load_file

from llm_anatomy.config import OF_THE_HEAD
from llm_anatomy.files import Record
from llm_anatomy.models.before_transformers import MambaConfig, MambaLM
from llm_anatomy.models.checkpoints import Checkpoint, families, load, save
from llm_anatomy.models.checkpoints.fields import Field
from llm_anatomy.models.generation import generate

ALL = pytest.mark.parametrize(
    "name", first_or_slow(name for name in CASES if not CASES[name].family.endswith("encoder"))
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Their bare model of a case and its folder; and the folder of the whole model, read as the bare one."""
    kept = {}

    def of(name):
        if name not in kept:
            whole, folder = randomize(CASES[name].hf()).eval(), tmp_path_factory.mktemp("theirs")
            architecture = families()[CASES[name].family].bare_architecture
            bare = getattr(transformers, architecture)(whole.config)
            table = {key: value.clone() for key, value in bare.state_dict().items() if "embed_positions" in key}
            randomize(bare).eval()
            if "roformer" in name:  # RoPE's sines and cosines, which are no weights
                bare.load_state_dict(table, strict=False)
            bare.save_pretrained(folder / "bare")
            whole.save_pretrained(folder / "whole")
            change_config(folder / "whole", architectures=[architecture])
            kept[name] = bare, folder
        return kept[name]

    return of


@pytest.mark.syllabus("UCL-24", "GT-43", "GT-44")
@ALL
def test_hidden_states_equal_theirs(name, made):
    bare, folder = made(name)
    ours = load(folder / "bare")
    assert ours.family == CASES[name].family and not ours.config.unembedding and ours.model.unembedding is None
    assert difference(ours.model, bare) <= 1e-4
    with pytest.raises(ValueError, match="unembedding=False: this model has hidden states and no logits"):
        ours.model.logits(torch.zeros(1, 2, ours.config.d_model))


@ALL
def test_a_head_in_the_file_is_not_read(name, made):
    _, folder = made(name)
    hf = getattr(transformers, families()[CASES[name].family].bare_architecture).from_pretrained(folder / "whole")
    ours = load(folder / "whole").model
    assert difference(ours, hf.eval()) <= 1e-4
    assert not any(part.startswith(("unembedding", "token_head")) for part, _ in ours.named_parameters())


@ALL
def test_it_is_written_as_the_bare_class_names_it(name, made, tmp_path):
    bare, folder = made(name)
    save(load(folder / "bare"), tmp_path / "ours")
    before, after = load_file(folder / "bare" / "model.safetensors"), load_file(tmp_path / "ours" / "model.safetensors")
    left_out = {key for key in before if "pooler" in key or "encoder.embed_positions" in key}  # no part of our models
    assert before.keys() - left_out == after.keys()
    assert all(torch.equal(before[key], tensor) for key, tensor in after.items())
    fields = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert fields["architectures"] == [type(bare).__name__]
    assert difference(load(tmp_path / "ours").model, type(bare).from_pretrained(tmp_path / "ours").eval()) <= 1e-4


def test_the_bare_class_exists_and_has_no_option_of_a_head():
    for name, whole in families().items():
        family = whole.without_head()
        assert hasattr(transformers, family.architectures[0]), name
        assert not {entry.ours for entry in family.fields if isinstance(entry, Field)} & {*OF_THE_HEAD}, name
        assert not family.fixed["unembedding"] and family.without_head().architectures == family.architectures, name
        names = [field for entry in family.fields for field in entry.names]
        assert not set(names) & set(family.harmless.split()), name


@pytest.mark.parametrize(
    "architecture", ["BertForSequenceClassification", "LlamaForSequenceClassification", "GPT2DoubleHeadsModel", "Model"]
)
def test_another_head_is_refused(architecture, tmp_path):
    save(Checkpoint(model=a_model(), family="llama"), tmp_path / "llama")
    change_config(tmp_path / "llama", architectures=[architecture])
    sentence = f"'{architecture}' is not supported; it must be one of .*, or one of these models without its head"
    with pytest.raises(ValueError, match=sentence):
        load(tmp_path / "llama")


def test_a_foreign_tensor_beside_a_bare_model_is_refused(tmp_path, made):
    _, folder = made("bert")
    hf = transformers.BertForSequenceClassification(
        transformers.BertConfig(**json.loads((folder / "bare" / "config.json").read_text()))
    )
    hf.save_pretrained(tmp_path / "labels")
    change_config(tmp_path / "labels", architectures=["BertModel"])
    with pytest.raises(ValueError, match=r"2 unexpected \(classifier.bias"):
        load(tmp_path / "labels")


def test_a_model_without_head_says_what_it_cannot_do():
    model = a_model(unembedding=False)
    with pytest.raises(ValueError, match="unembedding=False: this model has hidden states and no logits"):
        generate(model, [[1, 2]], max_new_tokens=1)
    x, records = model(torch.tensor([[1, 2]]), return_records=True)
    assert x.shape == (1, 2, 24) and len(records) == 2
    torch.testing.assert_close(x, model.hidden_states(torch.tensor([[1, 2]]))[0])
    for option in dict(tie_embeddings=True, unembedding_bias=True, token_head=True, scale_logits=True).items():
        with pytest.raises(ValueError, match=f"{option[0]}=True must be left out with unembedding=False"):
            a_model(unembedding=False, **dict([option]))
    with pytest.raises(ValueError, match="final_logit_softcapping=3.0 must be left out with unembedding=False"):
        a_model(unembedding=False, final_logit_softcapping=3.0)


def test_a_mamba_without_head_ends_with_its_norm():
    with pytest.raises(ValueError, match="tie_embeddings=True must be False with unembedding=False"):
        MambaConfig(n_vocab=5, d_model=8, n_layers=1, unembedding=False)
    whole = MambaLM(5, 8, 2, tie_embeddings=False)
    bare = MambaLM(5, 8, 2, tie_embeddings=False, unembedding=False)
    bare.load_state_dict({name: value for name, value in whole.state_dict().items() if "unembedding" not in name})
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(whole.unembedding(bare(ids)), whole(ids))
    with pytest.raises(ValueError, match="no logits"):
        bare.logits(bare(ids))


def test_fields_of_the_head_are_kept_as_they_were(tmp_path, made):
    _, folder = made("gemma2")
    fields = json.loads((folder / "bare" / "config.json").read_text())
    assert fields["final_logit_softcapping"] and not load(folder / "bare").config.final_logit_softcapping
    save(load(folder / "bare"), tmp_path / "ours")
    again = Record.read(tmp_path / "ours" / "config.json").fields
    assert again["final_logit_softcapping"] == fields["final_logit_softcapping"]
