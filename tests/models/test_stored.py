"""Stored models: what comes back is within the error of 8 bits, and a file that is not as it was written is refused."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.before_transformers import RecurrentConfig
from llm_anatomy.models.checkpoints.own_format import FAMILY
from llm_anatomy.models.stored import store, stored
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.bpe import BPE
from llm_anatomy.tokenizers.simple import ByteTokenizer

SIZES = dict(
    d_model=12, n_layers=2, n_heads=3, d_ff=20, n_vocab=270, norm="layernorm", attention_bias=True, ff_bias=True
)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "small.safetensors"


def model(**changes):
    torch.manual_seed(0)
    made = Transformer(ModelConfig.of(SIZES | changes))
    for parameter in made.parameters():
        nn.init.normal_(parameter)
    return made


@pytest.mark.parametrize(
    "changes",
    [
        {"tie_embeddings": True, "position": "learned", "n_ctx": 7},
        {"position": "rope"},
        {"kind": "encoder-decoder", "position": "sinusoidal"},
    ],
    ids=["learned, tied", "rope", "encoder-decoder"],
)
def test_weights_come_back_within_half_a_step(file, changes):
    before = model(**changes)
    store(before, file)
    after, _ = stored(file)
    assert after.config == before.config and not after.training
    named = dict(after.named_parameters())
    assert named.keys() == dict(before.named_parameters()).keys()
    for name, parameter in before.named_parameters():
        if parameter.ndim == 2:
            half_a_step = parameter.abs().amax(-1, keepdim=True) / 254
            assert ((named[name] - parameter).abs() <= 1.001 * half_a_step).all()
            assert not torch.equal(named[name], parameter)
        else:
            assert torch.equal(named[name], parameter)
    if changes.get("tie_embeddings"):
        assert after.unembedding.embedding is after.embedding


def test_what_was_stored_can_be_stored_again_without_loss(file, tmp_path):
    store(model(), file, seed=1)
    once, _ = stored(file)
    store(once, tmp_path / "again.safetensors", seed=1)
    twice, _ = stored(tmp_path / "again.safetensors")
    ids = torch.arange(5)[None]
    torch.testing.assert_close(twice(ids), once(ids), rtol=1e-5, atol=1e-5)


def test_the_same_model_gives_the_same_file(file, tmp_path):
    for path in (file, tmp_path / "other.safetensors"):
        store(model(), path, seed=1, command="train", note="é")
    assert file.read_bytes() == (tmp_path / "other.safetensors").read_bytes()


def test_a_matrix_takes_a_byte_a_number(file):
    store(model(n_vocab=5000), file)
    n_parameters = sum(p.numel() for p in model(n_vocab=5000).parameters())
    assert file.stat().st_size < 1.5 * n_parameters


def test_metadata_comes_back_with_its_tokenizers(file):
    tokenizer = BPE.train(["low lower lowest é"] * 3, 264)
    store(model(), file, tokenizer=tokenizer, source=ByteTokenizer(), seed=3, steps=[1, 2.5, None])
    _, metadata = stored(str(file))
    assert metadata["tokenizer"].encode("lower é") == tokenizer.encode("lower é")
    assert metadata["source"].encode("é") == ByteTokenizer().encode("é")
    assert metadata["seed"] == 3 and metadata["steps"] == [1, 2.5, None]
    assert len(metadata["sha256"]) == 64


def test_other_models_of_the_package_can_be_stored(file):
    config = RecurrentConfig(n_vocab=9, d_embed=6, d_hidden=7, cell="LSTMCell")
    before = FAMILY.build(config).eval()
    store(before, file)
    after, _ = stored(file)
    ids = torch.arange(8)[None]
    torch.testing.assert_close(after(ids), before(ids), rtol=0.1, atol=0.02)


def test_weights_of_a_small_type_are_read_as_float32(file):
    store(model().bfloat16(), file)
    assert {p.dtype for p in stored(file)[0].parameters()} == {torch.float32}


def with_nan():
    broken = model()
    with torch.no_grad():
        broken.stack.blocks[1].attention.w_query.weight[0, 0] = torch.nan
    return broken


def with_another_layer():
    other = model()
    other.embedding_norm = nn.LayerNorm(12)
    return other


def of_integers():
    whole = model()
    whole.stack.norm.weight = nn.Parameter(torch.ones(12, dtype=torch.int64), requires_grad=False)
    return whole


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: nn.Linear(2, 3), "of type Linear has no config"),
        (with_nan, "w_query.weight holds numbers that are not finite"),
        (with_another_layer, "other tensors than its config describes, such as embedding_norm"),
        (of_integers, "stack.norm.weight is torch.int64; a stored model has floating-point"),
    ],
    ids=["no config", "not finite", "other tensors", "not floating-point"],
)
def test_a_model_that_cannot_be_stored_is_refused(file, make, says):
    with pytest.raises(ValueError, match=says):
        store(make(), file)
    assert not file.exists()


@pytest.mark.parametrize("value", [object(), float("nan"), torch.ones(2)])
def test_metadata_is_plain(file, value):
    with pytest.raises(ValueError, match="metadata must be JSON values or tokenizers"):
        store(model(), file, value=value)


def header(file):
    with safe_open(file, "pt") as opened:
        return json.loads(opened.metadata()["llm_anatomy"])


def rewrite(file, tensors=None, **fields):
    """Write the file anew with other tensors or fields, and a checksum that fits them."""
    from llm_anatomy.models.stored import _checksum

    tensors = load_file(file) if tensors is None else tensors
    of = header(file) | fields
    of["sha256"] = _checksum({"model": of["model"], "metadata": of["metadata"]}, tensors)
    save_file(tensors, file, {"llm_anatomy": json.dumps(of)})


def test_one_changed_number_is_noticed(file):
    store(model(), file)
    tensors, of = load_file(file), header(file)
    tensors["embedding.weight"][3, 4] += 1
    save_file(tensors, file, {"llm_anatomy": json.dumps(of)})
    with pytest.raises(ValueError, match=r"small\.safetensors was changed after it was written"):
        stored(file)


def test_changed_metadata_is_noticed(file):
    store(model(), file, seed=3)
    of = header(file)
    of["metadata"]["seed"] = 4
    save_file(load_file(file), file, {"llm_anatomy": json.dumps(of)})
    with pytest.raises(ValueError, match="was changed after it was written"):
        stored(file)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "no safetensors file"), (b"\x08" + b"\0" * 7 + b"{}      ", "was not written by"), (b"no" * 99, "no safe")],
)
def test_a_file_that_is_none_is_refused(file, content, says):
    file.write_bytes(content)
    with pytest.raises(ValueError, match=says) as refused:
        stored(file)
    assert "\n" not in str(refused.value)


def test_a_truncated_file_is_refused(file):
    store(model(), file)
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(ValueError, match="damaged"):
        stored(file)


@pytest.mark.parametrize("text", ["[]", '"a"', "{}", '{"model": {}}', '{"model": {}, "metadata": {}, "sha256": 3}'])
def test_a_header_that_is_none_is_refused(file, text):
    save_file({"a": torch.ones(2)}, file, {"llm_anatomy": text})
    with pytest.raises(ValueError, match=r"small\.safetensors") as refused:
        stored(file)
    assert "\n" not in str(refused.value)


def test_tensors_that_do_not_fit_the_config_are_refused(file):
    store(model(), file)
    whole = load_file(file)
    for change, says in [
        ({"more": torch.ones(1)}, r"tensor 'more' is float32 \(1,\); its config says absent"),
        ({"embedding.weight": torch.ones(270, 12)}, r"'embedding.weight' is float32 \(270, 12\); .* int8 \(270, 12\)"),
        ({"embedding.weight.scales": torch.ones(3)}, r"'embedding.weight.scales' is float32 \(3,\); .* \(270,\)"),
        ({"stack.norm.weight": None}, r"'stack.norm.weight' is absent; its config says float32 \(12,\)"),
    ]:
        rewrite(file, {name: tensor for name, tensor in (whole | change).items() if tensor is not None})
        with pytest.raises(ValueError, match=says):
            stored(file)


def test_a_config_that_is_none_is_refused(file):
    store(model(), file)
    of = header(file)["model"]
    rewrite(file, model=of | {"config": of["config"] | {"n_heads": 0}})
    with pytest.raises(ValueError, match=r"small\.safetensors, key 'config': .*n_heads"):
        stored(file)


def test_a_name_that_is_none_lists_the_names():
    with pytest.raises(ValueError, match=r"must be a path that ends in .safetensors, or one of the stored models"):
        stored("small")
