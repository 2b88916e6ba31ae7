"""What load says of a folder that it refuses: short, however many tensors are wrong and however long names are."""

import json
import random

import pytest
import torch
from models.checkpoints.cases import CASES
from models.checkpoints.test_engine import change_config, change_tensors
from safetensors.torch import load_file

from llm_anatomy.models.checkpoints import load

LONGEST = 3 * 240
"""Characters, which are three lines of a wide terminal."""


@pytest.fixture
def folder(tmp_path):
    return saved("llama", tmp_path)


def saved(name, path):
    CASES[name].hf().save_pretrained(path)
    return path


def rename(folder, change):
    def renamed(tensors):
        for name in list(tensors):
            tensors[change(name)] = tensors.pop(name)

    change_tensors(folder, renamed)


def refusal(folder):
    with pytest.raises(ValueError) as caught:
        load(folder)
    message = str(caught.value)
    assert len(message) <= LONGEST and len(message.splitlines()) == 1, f"{len(message)} characters: {message}"
    return message


@pytest.mark.parametrize("name", ["llama", "gpt2", "gptneox", "bert", "t5", "opt", "mamba", "mixtral", "deberta_v2"])
@pytest.mark.parametrize("prefix", ["model.", "module.", "_orig_mod.", "base_model.model."])
def test_a_wrong_prefix_is_named(name, prefix, tmp_path):
    rename(saved(name, tmp_path), lambda tensor: prefix + tensor)
    message = refusal(tmp_path)
    assert f"all names begin with '{prefix}'; expected without it" in message, message
    assert len(message) < 240


def test_a_prefix_is_not_to_blame_for_everything(folder):
    rename(folder, lambda tensor: "module." + tensor.replace("q_proj", "query"))
    message = refusal(folder)
    assert "begin with" not in message and "unexpected" in message


def test_three_of_many_tensors_are_named_and_the_others_counted(folder):
    rename(folder, lambda tensor: tensor.replace("layers", "blocks"))
    assert len(load_file(folder / "model.safetensors")) == 21
    message = refusal(folder)
    assert "18 missing (model.layers.0." in message and "18 unexpected (model.blocks.0." in message
    assert message.count("; and 15 more)") == 2 and message.count(";") == 6


def hostile_word(rng):
    return "".join(rng.choice(["a", "é", "'", '"', "\\", ".", "🙂"]) for _ in range(rng.choice([3, 500, 5000])))


def long_key(folder, rng):
    change_config(folder, **{hostile_word(rng): 1})


def long_value(folder, rng):
    fields = json.loads((folder / "config.json").read_text())
    change_config(
        folder, **{rng.choice(sorted(fields)): rng.choice([hostile_word(rng), [1] * 999, {"a": [2] * 999}, 1e9])}
    )


def long_tensors(folder, rng):
    n, word = rng.choice([1, 4, 300]), hostile_word(rng)
    change_tensors(
        folder, lambda t: t.update({f"{word}{i}.": torch.ones((1,) * rng.choice([0, 2, 60])) for i in range(n)})
    )


def other_shapes(folder, rng):
    def change(tensors):
        for name in rng.sample(sorted(tensors), rng.randint(1, len(tensors))):
            if rng.random() < 0.5:
                tensors[name] = torch.ones((1,) * rng.choice([1, 60]), dtype=rng.choice([torch.int8, torch.float32]))
            else:
                del tensors[name]

    change_tensors(folder, change)


def long_index(folder, rng):
    (folder / "model.safetensors").unlink()
    name, file = hostile_word(rng), rng.choice([hostile_word(rng), "../model.safetensors", 5])
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {name: file}}))


def twice(folder, rng):
    word = json.dumps(hostile_word(rng))
    (folder / "config.json").write_text(f"{{{word}: 1, {word}: 2}}")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("damage", [long_key, long_value, long_tensors, other_shapes, long_index, twice])
def test_no_message_is_long(damage, seed, folder):
    damage(folder, random.Random(seed))
    try:
        load(folder)
    except ValueError:
        refusal(folder)
    else:
        assert damage is long_value  # of a field without meaning


@pytest.mark.parametrize("name", ["a" * 5000, "a/" * 3000, "a\0b", "é" * 300 + "/" + "b" * 300])
def test_nor_is_that_of_a_folder_or_of_an_argument(name, folder):
    for arguments in ((name,), (folder, name)):
        with pytest.raises(ValueError) as caught:
            load(arguments[0], **({"ignore": (name,)} if arguments[1:] else {}))
        assert len(str(caught.value)) <= LONGEST
    for word in ("device", "dtype"):
        with pytest.raises(ValueError) as caught:
            load(folder, **{word: name})
        assert len(str(caught.value)) <= LONGEST
