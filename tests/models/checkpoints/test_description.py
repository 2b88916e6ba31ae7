"""The command ``models show FOLDER``: what is in a folder, of ours or of Hugging Face's, and what is wrong with it."""

import json

import pytest
from models.checkpoints.test_engine import CONFIG, a_model, change_config
from models.checkpoints.test_pooling import write_modules

from llm_anatomy.__main__ import main
from llm_anatomy.config import ModelConfig
from llm_anatomy.models.before_transformers import MegaByte
from llm_anatomy.models.checkpoints import Checkpoint, engine, save
from llm_anatomy.tokenizers.simple import ByteTokenizer


@pytest.fixture
def show(capsys, monkeypatch):
    """Exit code, output and errors of the command, which reads no tensor."""
    monkeypatch.setattr(engine.storage, "read", lambda *_: pytest.fail("a tensor was read"))

    def run(*words):
        code = main(["models", "show", *map(str, words)])
        return code, *capsys.readouterr()

    return run


def test_a_folder_of_hugging_faces_is_described(show, tmp_path):
    model = a_model().bfloat16()
    save(Checkpoint(model=model, family="llama"), tmp_path / "llama", shard=20_000)
    code, out, err = show(tmp_path / "llama")
    said = dict(line.split(":", 1) for line in out.split("\n\n")[0].splitlines())
    n = sum(p.numel() for p in model.parameters())
    assert code == 0 and not err and said["family"].strip() == "llama (LlamaForCausalLM)"
    assert said["parameters"].strip() == f"{n:,}" and said["stored as"].strip() == f"{n:,} BF16"
    assert said["files"].strip().startswith("3, 0.0 MB")
    assert said["tokenizer"].strip() == "none: there is no tokenizer beside the weights"
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.split()}
    assert rows["stack"] == ["Stack,", "2", "×", "Block", f"{sum(p.numel() for p in model.stack.parameters()):,}"]
    assert rows["embedding"] == rows["unembedding"][:0] + ["TokenEmbedding", f"{260 * 24:,}"]
    assert rows["d_model"] == ["24"] and rows["position"] == ["rope"] and "norm_placement" not in rows


def test_a_folder_of_ours_is_described_as_json(show, tmp_path):
    save(a_model(tie_embeddings=True), tmp_path / "ours", tokenizer=ByteTokenizer(["<|end|>"]))
    code, out, _ = show(tmp_path / "ours", "--json")
    said = json.loads(out)
    assert code == 0 and (said["family"], said["model"], said["architecture"]) == ("llm_anatomy", "Transformer", None)
    assert said["tokenizer"] == {"kind": "ByteTokenizer", "n_vocab": 257}
    assert ModelConfig.of(said["config"]) == a_model(tie_embeddings=True).config
    n = sum(p.numel() for p in a_model(tie_embeddings=True).parameters())
    assert said["parameters"] == n == sum(said["dtypes"].values()) == sum(part["parameters"] for part in said["parts"])
    assert said["files"] == {"model.safetensors": (tmp_path / "ours" / "model.safetensors").stat().st_size}


def test_two_configs_stand_under_their_names(show, tmp_path):
    level = dict(n_layers=1, n_heads=2, d_ff=9, n_vocab=256)
    wide, narrow = ModelConfig(d_model=24, n_ctx=64, **level), ModelConfig(d_model=8, position="rope", **level)
    save(MegaByte(wide, narrow, 4), tmp_path / "bytes")
    rows = dict(line.split()[:2] for line in show(tmp_path / "bytes")[1].splitlines() if len(line.split()) == 2)
    assert (rows["global_config.d_model"], rows["local_config.d_model"], rows["patch_size"]) == ("24", "8", "4")
    assert rows["local_config.position"] == "rope" and "global_config.position" not in rows


def test_a_pooling_is_described_too(show, tmp_path):
    save(a_model(), tmp_path / "ours")
    write_modules(tmp_path / "ours")
    assert "pooling:    mean_tokens, then Normalize\n" in show(tmp_path / "ours")[1]
    write_modules(tmp_path / "ours", {"pooling_mode": "median"})
    out = show(tmp_path / "ours")[1]
    assert "pooling:    none: 1_Pooling/config.json, key 'pooling_mode': ['median'] is not supported" in out


def test_what_is_wrong_is_one_sentence(show, tmp_path):
    save(a_model(), tmp_path / "ours")
    change_config(tmp_path / "ours", model="BigramNetwork", config=dict(n_vocab=1, d_hidden=1))
    for folder, sentence in [(tmp_path / "ours", "do not fit its config.json"), (tmp_path, "holds no config.json")]:
        code, out, err = show(folder)
        assert code == 2 and not out and sentence in err and len(err.splitlines()) == 1


def test_a_name_from_the_list_comes_before_a_folder(show, tmp_path, monkeypatch):
    save(a_model(**dict(CONFIG)), tmp_path / "gpt-2")
    monkeypatch.chdir(tmp_path)
    assert show("gpt-2")[1].startswith("GPT-2 small (gpt-2), 2019") and "llm_anatomy" in show("./gpt-2")[1]
