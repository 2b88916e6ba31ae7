"""The engine on whole, sharded, damaged and dangerous checkpoints; rules, texts, the hub and the command."""

import io
import json
import pickle
import re
import shutil
import subprocess
import sys
import types

import pytest
import sentencepiece
import torch
from models.checkpoints.cases import CASES
from safetensors.torch import load_file, save_file
from transformers import T5Tokenizer

from llm_anatomy.__main__ import main
from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints import Checkpoint, engine, families, hub, load, save
from llm_anatomy.models.checkpoints.rules import Change, Reversed, Rule, Same, Split, Stacked, Then, Transpose, moves
from llm_anatomy.models.inference import for_inference
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.files import _protobuf_fields, gpt2_visible

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
CONFIG = dict(d_model=24, n_layers=2, n_heads=4, d_ff=36, n_vocab=260, n_ctx=64, position="rope", norm="rmsnorm")
CONFIG |= dict(n_kv_heads=2, feedforward="swiglu", norm_eps=1e-6)


def a_model(seed=0, **more):
    torch.manual_seed(seed)
    return Transformer(ModelConfig(**CONFIG | more)).eval()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with a small Llama."""
    folder = tmp_path_factory.mktemp("whole") / "llama"
    save(Checkpoint(model=a_model(), family="llama", extra_config={"eos_token_id": 256}), folder)
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "copy")


def change_config(folder, **changes):
    fields = json.loads((folder / "config.json").read_text()) | changes
    kept = {key: value for key, value in fields.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(kept))


def change_tensors(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


# --- Rules ---

CHANGES = {
    "same": (Same(), [(3, 5)]),
    "transpose": (Transpose(), [(3, 5)]),
    "transpose of a vector": (Transpose(), [(5,)]),
    "split": (Split((2, 3, 4)), [(9, 5)]),
    "split by heads": (Split((2, 3), n_groups=4), [(20, 5)]),
    "split by heads, of a vector": (Split((2, 3), n_groups=4), [(20,)]),
    "join": (Reversed(Split((2, 3))), [(2, 5), (3, 5)]),
    "then": (Then(Transpose(), Split((2, 3), 2)), [(5, 10)]),
    "stacked": (Stacked(3, Reversed(Split((2, 3)))), [(2, 5), (3, 5)] * 3),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_undone_to_the_last_bit(name):
    change, shapes = CHANGES[name]
    hf = [torch.randn(shape) for shape in shapes]
    ours = change.from_hf(*hf)
    back = change.to_hf(*ours)
    assert len(back) == len(hf) and all(map(torch.equal, back, hf))
    assert sum(t.numel() for t in ours) == sum(t.numel() for t in hf)
    assert all(map(torch.equal, change.from_hf(*change.to_hf(*ours)), ours))


def test_rules_count_layers_kinds_and_experts():
    rules = [
        Rule("h.{layer}.fc.{kind}", "blocks.{layer}.up.{kind}"),
        Rule(("h.{layer}.e.{expert}.a", "h.{layer}.e.{expert}.b"), "blocks.{layer}.experts"),
        Rule("not there", "nor here"),
    ]
    found = moves(rules, ["blocks.10.up.bias", "blocks.10.up.weight", "blocks.10.experts"], n_experts=2)
    assert {move.ours: move.hf for move in found} == {
        ("blocks.10.up.bias",): ("h.10.fc.bias",),
        ("blocks.10.up.weight",): ("h.10.fc.weight",),
        ("blocks.10.experts",): ("h.10.e.0.a", "h.10.e.0.b", "h.10.e.1.a", "h.10.e.1.b"),
    }
    with pytest.raises(LookupError, match="x has 0 rules; it must have one"):
        moves(rules, ["x"])
    with pytest.raises(LookupError, match="blocks.1.up.bias has 2 rules"):
        moves([*rules, rules[0]], ["blocks.1.up.bias"])


def test_the_plain_change_is_called_same():
    assert Same is Change


# --- Whole checkpoints ---


@pytest.mark.parametrize("shard", [1, 7000, 40_000, 10**9])
def test_shards_hold_the_same_model(shard, tmp_path):
    model = a_model()
    save(Checkpoint(model=model, family="llama"), tmp_path / "out", shard=shard)
    files = sorted(path.name for path in (tmp_path / "out").glob("*.safetensors"))
    if shard == 10**9:
        assert files == ["model.safetensors"]
    else:
        index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
        assert sorted(set(index["weight_map"].values())) == files and len(files) > 2
        assert index["metadata"]["total_size"] == sum(p.numel() * 4 for p in model.parameters())
        assert all(f"-of-{len(files):05d}" in file for file in files)
        sizes = [sum(t.numel() * 4 for t in load_file(tmp_path / "out" / file).values()) for file in files]
        assert shard == 1 or max(sizes) <= max(shard, 260 * 24 * 4)
    again = load(tmp_path / "out").model
    for (name, ours), (same, hf) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert name == same and torch.equal(ours, hf)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16, torch.float64, "bfloat16", "torch.float16"])
def test_type_and_device_are_chosen_at_load(dtype, device, whole):
    model = load(whole, dtype=dtype, device=device).model
    named = {"bfloat16": torch.bfloat16, "torch.float16": torch.float16}
    expected = a_model().to(dtype=named.get(dtype, dtype or torch.float32), device=device)
    assert not model.training and all(p.requires_grad and p.is_leaf for p in model.parameters())
    for (name, ours), (_, hf) in zip(model.named_parameters(), expected.named_parameters(), strict=True):
        assert ours.device.type == device and torch.equal(ours, hf), name
    buffers = zip(model.buffers(), expected.buffers(), strict=True)
    assert all(ours.dtype == hf.dtype and torch.equal(ours, hf) for ours, hf in buffers)
    ids = torch.tensor([[1, 2, 3]], device=device)
    torch.testing.assert_close(model(ids), expected(ids))


def test_the_type_is_that_of_most_weights(copy):
    def narrow(tensors):
        for name, tensor in tensors.items():
            if "norm" not in name:
                tensors[name] = tensor.bfloat16()

    change_tensors(copy, narrow)
    assert {p.dtype for p in load(copy).model.parameters()} == {torch.bfloat16}


def test_a_model_owns_its_memory(copy):
    model = load(copy).model
    before = {name: p.clone() for name, p in model.named_parameters()}
    with open(copy / "model.safetensors", "r+b") as file:
        file.seek(5000)
        file.write(bytes(20_000))
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_tied_tables_are_one_after_loading(tmp_path):
    save(Checkpoint(model=a_model(tie_embeddings=True), family="llama"), tmp_path / "tied")
    assert "lm_head.weight" not in load_file(tmp_path / "tied" / "model.safetensors")
    model = load(tmp_path / "tied").model
    assert model.unembedding.embedding.weight is model.embedding.weight
    change_tensors(tmp_path / "tied", lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()}))
    assert load(tmp_path / "tied").config.tie_embeddings  # a copy changes nothing
    change_tensors(tmp_path / "tied", lambda t: t.update({"lm_head.weight": t["lm_head.weight"] + 1}))
    model = load(tmp_path / "tied").model  # weights speak louder than the config, as in Hugging Face's library
    assert torch.equal(model.unembedding.embedding.weight, model.embedding.weight + 1)
    change_tensors(tmp_path / "tied", lambda t: t.pop("model.embed_tokens.weight"))
    model = load(tmp_path / "tied").model
    assert model.unembedding.embedding is model.embedding


def test_a_bare_model_needs_no_prefix(tmp_path):
    sizes = dict(d_model=24, n_layers=1, n_heads=4, d_ff=36, n_vocab=50, n_ctx=16)
    biases = dict(attention_bias=True, output_bias=True, ff_bias=True)
    config = ModelConfig(position="learned", tie_embeddings=True, feedforward="gelu_tanh", **sizes, **biases)
    model = Transformer(config)
    save(Checkpoint(model=model, family="gpt2"), tmp_path / "gpt2")

    def as_first_released(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        tensors["h.0.attn.bias"] = torch.ones(1, 1, 16, 16).tril()

    change_tensors(tmp_path / "gpt2", as_first_released)
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(load(tmp_path / "gpt2").model(ids), model(ids))


def test_saving_is_whole_or_not_at_all(whole, tmp_path, monkeypatch):
    checkpoint = load(whole)
    with pytest.raises(ValueError, match=r"folder='.*' must not exist, be an empty folder, or hold a model that"):
        save(checkpoint, whole)
    with pytest.raises(ValueError, match="shard=0 must be at least 1"):
        save(checkpoint, tmp_path / "out", shard=0)
    with pytest.raises(ValueError, match="family='lama' must be one of .*bloom, .*llama"):
        save(Checkpoint(model=checkpoint.model, family="lama"), tmp_path / "out")
    with pytest.raises(ValueError, match="the family gpt2 cannot represent"):
        save(Checkpoint(model=checkpoint.model, family="gpt2"), tmp_path / "out")

    def full_disk(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(engine.storage, "save_file", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save(checkpoint, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    save(checkpoint, tmp_path / "deep" / "out")
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["out"]
    assert json.loads((tmp_path / "deep" / "out" / "config.json").read_text())["eos_token_id"] == 256


# --- Damaged and dangerous ---


def cut(folder, keep):
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: keep(len(data))])


def pickled(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"a": 1}, protocol=2))


def sharded(folder):
    model = load(folder).model
    shutil.rmtree(folder)
    save(Checkpoint(model=model, family="llama"), folder, shard=30_000)


def change_index(folder, change):
    sharded(folder)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index["weight_map"])
    path.write_text(json.dumps(index))


def no_shard(folder):
    sharded(folder)
    (folder / "model-00002-of-00003.safetensors").unlink()


def several(tensors):
    del tensors["model.norm.weight"], tensors["model.layers.1.mlp.up_proj.weight"]
    tensors["model.layers.2.extra.weight"] = torch.ones(2, 3)
    tensors["lm_head.weight"] = torch.ones(24, 260)
    tensors["model.layers.0.input_layernorm.weight"] = torch.ones(24, dtype=torch.int64)


FIT = "the tensors in '.*' do not fit its config.json: "
DAMAGE = {
    "no config": (lambda f: (f / "config.json").unlink(), "folder '.*' holds no config.json"),
    "config cut off": (
        lambda f: (f / "config.json").write_text((f / "config.json").read_text()[:90]),
        r"config.json, line \d+, column \d+: ",
    ),
    "config is a list": (
        lambda f: (f / "config.json").write_text("[]"),
        "config.json, line 1: the file must hold a JSON object",
    ),
    "unknown architecture": (
        lambda f: change_config(f, architectures=["LamaForCausalLM"]),
        "config.json, key 'architectures': 'LamaForCausalLM' is not supported; it must be one of .*Bloom.*, Llama",
    ),
    "architectures no list": (lambda f: change_config(f, architectures="Llama"), "must be a list of names"),
    "no architecture": (
        lambda f: change_config(f, architectures=..., model_type=...),
        "config.json: key 'model_type' is missing",
    ),
    "unknown model type": (
        lambda f: change_config(f, architectures=..., model_type="lama"),
        "config.json, key 'model_type': 'lama' is not supported; it must be one of .*bloom, ",
    ),
    "a size is missing": (lambda f: change_config(f, hidden_size=...), "config.json, key 'hidden_size': it is missing"),
    "a size is text": (
        lambda f: change_config(f, hidden_size="24"),
        "config.json, key 'hidden_size': '24' must be a number without fraction",
    ),
    "sizes disagree": (
        lambda f: change_config(f, num_key_value_heads=3),
        "config.json: n_kv_heads=3 must divide n_heads=4",
    ),
    "a size is true": (lambda f: change_config(f, vocab_size=True), "key 'vocab_size': True must be a number without"),
    "the base is text": (
        lambda f: change_config(f, rope_parameters={"rope_theta": "1e4"}),
        "config.json, key 'rope_parameters': rope_theta='1e4' must be a number",
    ),
    "narrow heads": (
        lambda f: change_config(f, head_dim=1),
        "config.json: RoPE would rotate 1 of the 1 entries of a head; it must",
    ),
    "an unknown option": (
        lambda f: change_config(f, alibi=True),
        "config.json, key 'alibi': True is unknown in the family llama, and might change what the model computes",
    ),
    "pickled": (pickled, "pytorch_model.bin is truncated or no file of tensors: "),
    "no weights": (
        lambda f: (f / "model.safetensors").unlink(),
        "holds neither model.safetensors nor pytorch_model.bin, and no index of either",
    ),
    "cut by one byte": (lambda f: cut(f, lambda n: n - 1), "model.safetensors is truncated or no safetensors file: "),
    "cut in the header": (lambda f: cut(f, lambda n: 100), "model.safetensors is truncated or no safetensors file: "),
    "empty": (lambda f: cut(f, lambda n: 0), "model.safetensors is truncated or no safetensors file: "),
    "not safetensors": (
        lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 5000),
        "model.safetensors is truncated or no safetensors file: ",
    ),
    "a tensor is missing": (
        lambda f: change_tensors(f, lambda t: t.pop("model.norm.weight")),
        FIT + r"1 missing \(model.norm.weight \(24,\)\)$",
    ),
    "all that is wrong at once": (
        lambda f: change_tensors(f, several),
        FIT + r"2 missing \(model.layers.1.mlp.up_proj.weight \(36, 24\); model.norm.weight \(24,\)\), "
        r"1 unexpected \(model.layers.2.extra.weight \(2, 3\)\), "
        r"1 of another shape \(lm_head.weight is \(24, 260\), not \(260, 24\)\), "
        r"1 of another type \(model.layers.0.input_layernorm.weight is I64\)$",
    ),
    "other vocabulary": (
        lambda f: change_config(f, vocab_size=261),
        r"2 of another shape \(model.embed_tokens.weight is",
    ),
    "more layers": (lambda f: change_config(f, num_hidden_layers=3), "9 missing"),
    "fewer layers": (lambda f: change_config(f, num_hidden_layers=1), "9 unexpected"),
    "a shard is missing": (no_shard, r"model.safetensors.index.json, key 'weight_map': .* is in .*, which is missing"),
    "a shard elsewhere": (
        lambda f: change_index(f, lambda m: m.update({"model.norm.weight": "../../secret.safetensors"})),
        "model.norm.weight is in '../../secret.safetensors', which is no name of a file beside it",
    ),
    "index forgets a tensor": (
        lambda f: change_index(f, lambda m: m.pop("model.norm.weight")),
        "holds model.norm.weight, but the index says None",
    ),
    "index invents a tensor": (
        lambda f: change_index(f, lambda m: m.update(x=m["model.norm.weight"])),
        "does not hold x",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_refused_in_a_sentence_before_any_tensor_is_read(name, copy, monkeypatch):
    damage, sentence = DAMAGE[name]
    damage(copy)

    def read(*_):
        raise AssertionError("a tensor is read")

    monkeypatch.setattr(engine.storage, "read", read)
    with pytest.raises(ValueError, match=f"(?s){sentence}") as caught:
        load(copy)
    assert len(str(caught.value).splitlines()) == 1


def test_a_copy_that_is_none_is_refused(tmp_path):
    hf = CASES["t5"].hf()
    hf.save_pretrained(tmp_path)
    change_tensors(tmp_path, lambda t: t.update({"encoder.embed_tokens.weight": t["shared.weight"] + 1}))
    with pytest.raises(ValueError, match="holds encoder.embed_tokens.weight, which must repeat shared.weight and does"):
        load(tmp_path)


def test_two_names_of_one_tensor_are_refused(tmp_path):
    CASES["gptneox"].hf().save_pretrained(tmp_path)
    change_tensors(tmp_path, lambda t: t.update({"lm_head.weight": t["embed_out.weight"].clone()}))
    with pytest.raises(ValueError, match="holds lm_head.weight and embed_out.weight, which are one tensor"):
        load(tmp_path)


def test_arguments_are_refused_by_name(whole):
    for dtype in (torch.int8, "int8", "bloat16", "save"):
        with pytest.raises(ValueError, match=f"dtype={dtype!r} must be one of float64, float32, float16, bfloat16$"):
            load(whole, dtype=dtype)
    with pytest.raises(ValueError, match="device='nowhere' is not there"):
        load(whole, device="nowhere")
    with pytest.raises(ValueError, match="device='meta' holds no numbers"):
        load(whole, device="meta")
    with pytest.raises(ValueError, match="name_or_folder='lake' is no folder"):
        load("lake")


# --- Memory ---


def test_what_does_not_fit_is_refused_with_the_numbers(whole, monkeypatch):
    n = sum(p.numel() for p in a_model().parameters())
    monkeypatch.setattr(engine, "free_bytes", lambda device: 4 * n - 1)
    with pytest.raises(ValueError, match=r"the weights need 0.00 GB as float32, and cpu has 0.00 GB free"):
        load(whole)
    load(whole, dtype=torch.bfloat16)
    monkeypatch.setattr(engine, "free_bytes", lambda device: 4 * n)
    load(whole)


def test_free_memory_is_known_here():
    free = engine.free_bytes(torch.device("cpu"))
    assert free is None or 10**7 < free < 10**14


MEASURE = """
import sys
from llm_anatomy.models.checkpoints import load
def status(key):
    return int(next(line for line in open("/proc/self/status") if line.startswith(key)).split()[1]) * 1024
load(sys.argv[2])  # what libraries keep for themselves is not the weights'
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
model = load(sys.argv[1]).model
print((status("VmHWM") - before) / sum(p.numel() * 4 for p in model.parameters()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from Linux's /proc")
def test_peak_memory_is_at_most_one_and_a_fifth_of_the_weights(whole, tmp_path):
    sizes = dict(d_model=768, n_layers=7, n_heads=12, d_ff=2048, n_vocab=8000, position="rope", norm="rmsnorm")
    with torch.device("meta"):
        large = Transformer(ModelConfig(**sizes, feedforward="swiglu"))
    save(Checkpoint(model=large.to_empty(device="cpu"), family="llama"), tmp_path / "large")
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "large"), str(whole)]
    ratio = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert 0.9 < ratio <= 1.2


# --- Texts ---


def byte_level(folder, post_processor=None):
    """A tokenizer.json whose ids are bytes, a stop token and a start token."""
    rules = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    added = [dict(id=256 + i, content=text, **rules) for i, text in enumerate(("<|end|>", "<|begin|>"))]
    step = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    (folder / "tokenizer.json").write_text(
        json.dumps(
            dict(
                added_tokens=added,
                normalizer=None,
                pre_tokenizer=step,
                decoder=step,
                post_processor=post_processor,
                model=dict(type="BPE", vocab={gpt2_visible(bytes([byte])): byte for byte in range(256)}, merges=[]),
            )
        )
    )


BYTE_LEVEL = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [
        {"SpecialToken": {"id": "<|begin|>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "<|end|>", "type_id": 0}},
    ],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {
        "<|begin|>": {"id": "<|begin|>", "ids": [257], "tokens": ["<|begin|>"]},
        "<|end|>": {"id": "<|end|>", "ids": [256], "tokens": ["<|end|>"]},
    },
}


def test_a_tokenizer_comes_along_with_what_stands_around_a_text(copy, tmp_path):
    assert load(copy).tokenizer is None and load(copy).tokenizer_note == "there is no tokenizer beside the weights"
    byte_level(copy, {"type": "Sequence", "processors": [BYTE_LEVEL, TEMPLATE]})
    checkpoint = load(copy)
    assert checkpoint.texts.encode("hi") == [257, 104, 105, 256] and checkpoint.texts.encode("hi", False)[-1] == 105
    assert checkpoint.texts.stop == (256,) and checkpoint.tokenizer_note == ""
    (copy / "generation_config.json").write_text('{"eos_token_id": [256, 7]}')
    assert load(copy).texts.stop == (256, 7)
    save(load(copy), tmp_path / "again")
    assert load(tmp_path / "again").texts.encode("hi") == [257, 104, 105, 256]
    assert load(tmp_path / "again").texts.stop == (256, 7)


def test_a_tokenizer_that_cannot_be_read_leaves_a_note(copy):
    byte_level(copy)
    fields = json.loads((copy / "tokenizer.json").read_text())
    fields["model"]["type"] = "Magic"
    (copy / "tokenizer.json").write_text(json.dumps(fields))
    checkpoint = load(copy)
    assert checkpoint.tokenizer is None and "tokenizer.json: Hugging Face's library says" in checkpoint.tokenizer_note
    with pytest.raises(ValueError, match="a text cannot be read: tokenizer.json"):
        checkpoint.texts.encode("a")


def test_characters_of_several_bytes_are_written_whole(copy):
    byte_level(copy)
    texts, model = load(copy).texts, a_model()
    wanted = iter([*"aé€🙂".encode(), 256, 98])

    def sampler(logits, seen):
        return torch.tensor([next(wanted)])

    pieces = list(texts.write(model, "x", max_new_tokens=20, sampler=sampler))
    assert pieces == ["a", "é", "€", "🙂"]


# --- The command ---


def run(capsys, *words):
    code = main(["generate", *map(str, words)])
    return code, *capsys.readouterr()


def test_the_command_writes_text(copy, capsys):
    byte_level(copy)
    code, out, err = run(capsys, copy, "hello", "--max-new-tokens", 8, "--seed", 3, "--top-k", 50, "--top-p", 0.9)
    assert code == 0 and not err and out.endswith("\n") and len(out) > 2
    assert run(capsys, copy, "hello", "--max-new-tokens", 8, "--seed", 3, "--top-k", 50, "--top-p", 0.9)[1] == out
    assert run(capsys, copy, "hello", "--max-new-tokens", 8, "--seed", 4)[1] != out
    greedily = run(capsys, copy, "hello", "--max-new-tokens", 8, "--temperature", 0, "--dtype", "float64")[1]
    assert greedily == run(capsys, copy, "hello", "--max-new-tokens", 8, "--temperature", 0)[1]


def test_the_command_writes_with_fewer_bits_and_says_how_fast(copy, capsys, monkeypatch):
    byte_level(copy)
    words = [copy, "hello", "--max-new-tokens", 8, "--temperature", 0, "--quantize", "bfloat16"]
    checkpoint = load(copy)
    form = for_inference(checkpoint.model, quantize="bfloat16")
    expected = "".join(checkpoint.texts.write(form, "hello", max_new_tokens=8)) + "\n"
    assert run(capsys, *words) == (0, expected, "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    code, out, err = run(capsys, *words)
    assert (code, out) == (0, expected)
    assert re.fullmatch(r"\(8 tokens, [0-9,]+\.[0-9] tokens per second\)\n", err)
    words[3] = 1
    assert run(capsys, *words)[2] == "(1 token)\n"  # before the first token, the prompt is read


def test_the_command_writes_with_an_encoder_decoder(tmp_path, capsys):
    sizes = dict(d_model=24, n_layers=2, n_encoder_layers=3, n_heads=4, d_ff=36, n_vocab=260)
    more = dict(kind="encoder-decoder", position="t5", norm="rmsnorm", norm_eps=1e-6, feedforward="relu")
    model = Transformer(ModelConfig(**sizes, **more, tie_embeddings=True, scale_logits=True))
    ids = dict(pad_token_id=258, eos_token_id=256)
    save(Checkpoint(model=model, family="t5", extra_config=ids), tmp_path / "t5")
    byte_level(tmp_path / "t5", TEMPLATE)
    assert load(tmp_path / "t5").texts.start == 258
    code, out, err = run(capsys, tmp_path / "t5", "hello", "--max-new-tokens", 8, "--seed", 1)
    assert code == 0 and not err and out


@pytest.mark.syllabus("GT-40")
@pytest.mark.parametrize("beside", ["tokenizer.json", "spiece.model"])
def test_the_command_writes_with_a_t5_and_its_own_tokenizer(beside, tmp_path, capsys):
    data = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["translate English to German: the house is wonderful.", "ein Haus im Wald"] * 9),
        model_writer=data,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
        **dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1),  # and nmt_nfkc, the default
    )
    hf = sentencepiece.SentencePieceProcessor(model_proto=data.getvalue())
    sizes = dict(d_model=24, n_layers=2, n_encoder_layers=3, n_heads=4, d_ff=36, n_vocab=hf.vocab_size() + 4)
    more = dict(kind="encoder-decoder", position="t5", norm="rmsnorm", norm_eps=1e-6, feedforward="relu")
    torch.manual_seed(0)
    model = Transformer(ModelConfig(**sizes, **more, tie_embeddings=True, scale_logits=True))
    save(Checkpoint(model=model, family="t5", extra_config=dict(pad_token_id=0, eos_token_id=1)), tmp_path / "t5")
    if beside == "spiece.model":
        (tmp_path / "t5" / beside).write_bytes(data.getvalue())
        (tmp_path / "t5" / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer", "extra_ids": 4}')
    else:
        (spec,) = (value for number, value, _ in _protobuf_fields(data.getvalue(), "t.model") if number == 3)
        rules = next(value for number, value, _ in _protobuf_fields(spec, "t.model") if number == 2)
        vocab = [(hf.id_to_piece(i), hf.get_score(i)) for i in range(hf.vocab_size())]
        vocab += [(f"<extra_id_{i}>", 0.0) for i in (3, 2, 1, 0)]
        T5Tokenizer(vocab, extra_ids=4, _spm_precompiled_charsmap=rules).save_pretrained(tmp_path / "t5")
    texts = load(tmp_path / "t5").texts
    assert texts.encode("  ｔｈｅ   house ") == [*hf.encode("the house"), 1]
    assert texts.start == 0 and texts.stop == (1,)
    assert list(texts.tokenizer.special_tokens)[-4:] == [f"<extra_id_{i}>" for i in (3, 2, 1, 0)]
    words = ["--max-new-tokens", 12, "--seed", 1, "--temperature", 5]
    code, out, err = run(capsys, tmp_path / "t5", "translate  English to German: the house", *words)
    assert code == 0 and not err and out.strip()
    assert out == run(capsys, tmp_path / "t5", "translate English to\tGerman: the house ", *words)[1]


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["no such folder", "a"], "name_or_path='no such folder' cannot be loaded"),
        (["FOLDER", "a"], "a text cannot be read: there is no tokenizer beside the weights"),
        (["FOLDER", "a", "--device", "nowhere"], "device='nowhere' is not there"),
        (["FOLDER", "a", "--seed", "-1"], "seed=-1 must be from 0 to below 2**63"),
        (["FOLDER", "a", "--max-new-tokens", "0"], "max_new_tokens=0 must be at least 1"),
        (["FOLDER", "a", "--top-k", "0"], "k=0 must be at least 1"),
        (["FOLDER", "a", "--temperature", "-1"], "temperature=-1.0 must be at least 0"),
    ],
)
def test_the_command_refuses_in_a_sentence(words, sentence, whole, capsys):
    code, out, err = run(capsys, *(whole if word == "FOLDER" else word for word in words))
    assert code == 2 and not out and sentence in err and len(err.splitlines()) == 1


# --- The hub ---


def test_a_name_is_fetched_from_the_hub_and_a_folder_comes_first(whole, monkeypatch, tmp_path):
    asked = []

    def snapshot_download(name, allow_patterns):
        asked.append((name, allow_patterns))
        return str(whole)

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(snapshot_download=snapshot_download))
    assert hub.locate("owner/model") == whole
    ((name, patterns),) = asked
    assert name == "owner/model" and not any("bin" in p or "*.*" in p or p == "*" for p in patterns)
    (tmp_path / "owner" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert str(hub.locate("owner/model")) == "owner/model" and len(asked) == 1
    whole = tmp_path / "owner"  # without safetensors
    assert hub.locate("owner/other") == whole
    assert asked[2] == ("owner/other", ["pytorch_model*.bin", "pytorch_model.bin.index.json"])


def test_without_the_hub_or_without_the_network_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match=r"install huggingface_hub \(pip install 'llm_anatomy\[checkpoints\]'\)"):
        hub.locate("owner/model")

    def snapshot_download(name, allow_patterns):
        raise OSError("no network\nand much more")

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(snapshot_download=snapshot_download))
    with pytest.raises(ValueError, match=r"'owner/model' is no folder and could not be fetched: no network$"):
        hub.locate("owner/model")


# --- The tables ---


@pytest.mark.parametrize("name", families())
def test_a_family_is_complete_and_bears_the_name_of_its_file(name):
    family = families()[name]
    assert family.name == name and family.architectures and family.model_type
    names = [field for entry in family.fields for field in entry.names]
    assert len(names) == len(set(names)), "a field is read twice"
    assert not set(names) & set(family.harmless.split()), "a field is read and harmless"


def test_no_two_families_claim_one_architecture():
    claimed = [architecture for family in families().values() for architecture in family.architectures]
    assert len(claimed) == len(set(claimed))
