"""Folders whose weights are PyTorch's older files: read as tensors, and as nothing else."""

import json
import pickle
import zipfile

import pytest
import torch
from models.checkpoints.cases import CASES
from models.checkpoints.test_engine import change_config
from models.checkpoints.test_messages import refusal
from safetensors.torch import load_file

from llm_anatomy.models.checkpoints import families, load, storage

NAMES = ["gpt2", "llama", "bert", "t5", "opt"]


def pickled(name, folder, *, shards=1, zipped=True, tied=True):
    """The folder of a model with pickles in place of its safetensors, and the weights as we read the latter."""
    CASES[name].hf().save_pretrained(folder)
    expected = load(folder).model.state_dict()
    tensors = load_file(folder / "model.safetensors")
    if tied and name in ("gpt2", "opt"):  # old files hold both names of one tensor
        copy, original = next(iter(families()[name].copies.items()))
        tensors[copy] = tensors[original]
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    if shards == 1:
        torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
        return expected
    file_of = {}
    for i in range(shards):
        file = f"pytorch_model-{i + 1:05d}-of-{shards:05d}.bin"
        part = {name: torch.nn.Parameter(tensors[name]) for name in names[i::shards]}
        torch.save(part, folder / file, _use_new_zipfile_serialization=zipped)
        file_of |= dict.fromkeys(part, file)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": file_of}))
    return expected


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_pickled_weights_are_the_same_weights(name, shards, zipped, tmp_path):
    expected = pickled(name, tmp_path, shards=shards, zipped=zipped)
    found = load(tmp_path).model.state_dict()
    assert found.keys() == expected.keys() and all(torch.equal(found[key], expected[key]) for key in found)
    assert not any(tensor.requires_grad and tensor.grad_fn for tensor in load(tmp_path).model.parameters())


def test_the_model_owns_its_memory(tmp_path):
    expected = pickled("llama", tmp_path)
    model = load(tmp_path).model
    path = tmp_path / "pytorch_model.bin"
    with open(path, "r+b") as file:
        file.write(bytes(path.stat().st_size))
    assert all(torch.equal(tensor, expected[name]) for name, tensor in model.state_dict().items())


def test_newer_files_come_first(tmp_path):
    CASES["llama"].hf().save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"never read")
    assert load(tmp_path).family == "llama"


class Runs:
    """An object whose unpickling would write a file."""

    def __reduce__(self):
        return eval, ("open('was-run', 'w')",)


DAMAGE = {
    "code": (lambda p: torch.save({"a": Runs()}, p), "holds more than tensors: reading it would run its code"),
    "code, unzipped": (
        lambda p: torch.save({"a": Runs()}, p, _use_new_zipfile_serialization=False),
        "holds more than tensors: reading it would run its code",
    ),
    "a whole model": (lambda p: torch.save(torch.nn.Linear(2, 3), p), "holds more than tensors: reading it would run"),
    "code in a plain pickle": (
        lambda p: p.write_bytes(pickle.dumps(Runs(), protocol=2)),
        "(holds more than|truncated or no file)",
    ),
    "a dict of dicts": (lambda p: torch.save({"model": {"a": torch.ones(2)}}, p), "must hold plain tensors by their n"),
    "a list": (lambda p: torch.save([torch.ones(2)], p), "must hold plain tensors by their names, and nothing else"),
    "a number": (lambda p: torch.save({"a": torch.ones(2), "step": 3}, p), "must hold plain tensors by their names"),
    "numbers for names": (lambda p: torch.save({1: torch.ones(2)}, p), "must hold plain tensors by their names"),
    "sparse": (lambda p: torch.save({"a": torch.eye(3).to_sparse()}, p), "must hold plain tensors by their names"),
    "without numbers": (lambda p: torch.save({"a": torch.ones(3, device="meta")}, p), "must hold plain tensors"),
    "a name of two lines": (lambda p: torch.save({"a\nb": torch.ones(2)}, p), r"holds 'a\\nb', which is no name of"),
    "empty": (lambda p: p.write_bytes(b""), "is truncated or no file of tensors"),
    "no pickle": (lambda p: p.write_bytes(b"\xff" * 5000), "truncated or no file of tensors|holds more than tensors"),
    "cut": (lambda p: p.write_bytes(p.read_bytes()[:-100]), "is truncated or no file of tensors|holds more than"),
    "another zip": (lambda p: zipfile.ZipFile(p, "w").writestr("a", "b"), "is truncated or no file of tensors"),
    "other tensors": (lambda p: torch.save({"a": torch.ones(2)}, p), "21 missing .* 1 unexpected .a .2,.."),
    "integers": (
        lambda p: torch.save({n: t.int() for n, t in torch.load(p).items()}, p),
        r"21 of another type \(model.embed_tokens.weight is torch.int32; ",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_no_file_of_tensors_is_refused_in_a_sentence(name, tmp_path, monkeypatch):
    damage, sentence = DAMAGE[name]
    pickled("llama", tmp_path)
    damage(tmp_path / "pytorch_model.bin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(storage, "read", None)  # nothing is read before everything is checked
    with pytest.raises(ValueError, match=sentence):
        load(tmp_path)
    refusal(tmp_path)
    assert not (tmp_path / "was-run").exists()


def test_shapes_are_checked_before_a_tensor_is_read(tmp_path, monkeypatch):
    pickled("llama", tmp_path, shards=3)
    change_config(tmp_path, vocab_size=102)
    monkeypatch.setattr(storage, "read", None)
    assert "2 of another shape (model.embed_tokens.weight is (101, 24), not (102, 24); " in refusal(tmp_path)


def test_a_missing_shard_is_named(tmp_path):
    pickled("llama", tmp_path, shards=3)
    (tmp_path / "pytorch_model-00002-of-00003.bin").unlink()
    message = refusal(tmp_path)
    assert (
        "pytorch_model.bin.index.json" in message and "pytorch_model-00002-of-00003.bin', which is missing" in message
    )
