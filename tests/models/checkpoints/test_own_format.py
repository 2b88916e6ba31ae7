"""Our own format: every model goes round bit for bit, an interrupted save harms nothing, what is hostile is refused."""

import json
import random
import subprocess
import sys
import textwrap
from dataclasses import fields, replace

import pytest
import torch
from models.checkpoints.test_engine import CONFIG, a_model, change_config, change_tensors
from models.test_before_transformers import MAKERS
from models.test_costs import CONFIGS
from randomness import randomize
from torch import nn

from llm_anatomy.config import ALLOWED, ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.layers.recurrent import Cell, GRUCell
from llm_anatomy.models.before_transformers import BigramNetwork, RecurrentEncoderDecoder, RecurrentLM
from llm_anatomy.models.checkpoints import Checkpoint, engine, load, own_format, save
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.presets import preset, presets, tiny
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.bpe import BPE
from llm_anatomy.tokenizers.simple import ByteTokenizer, CharacterTokenizer, WordTokenizer
from llm_anatomy.tokenizers.unigram import Unigram

BEFORE = MAKERS | {"two recurrent networks": lambda: RecurrentEncoderDecoder(9, 7, 3, 4, 2, cell=GRUCell)}


def drawn(seed):
    """A config of options drawn at random; one that is not allowed is drawn again."""
    draw = random.Random(seed)
    while True:
        given = dict(d_model=24, n_layers=2, n_heads=4, d_ff=20, n_vocab=11, n_ctx=16)
        for field in fields(ModelConfig):
            if field.name in ALLOWED and draw.random() < 0.5:
                given[field.name] = draw.choice(ALLOWED[field.name])
            elif field.type is bool and draw.random() < 0.3:
                given[field.name] = not field.default
        given |= dict(n_kv_heads=draw.choice((0, 1, 2)), window=draw.choice((None, 3)), d_value=draw.choice((0, 5)))
        if draw.random() < 0.2:
            given["moe"] = {"n_experts": 3, "n_experts_per_token": 2}
        if given.get("attention") == "latent":
            given["latent"] = {"d_latent": 7, "d_rotary": 4 if given.get("position") == "rope" else None}
        try:
            return ModelConfig.of(given)
        except ValueError:
            continue


def with_buffers(model):
    """Any values, also in the buffers that are saved."""
    randomize(model)
    parameters = {name for name, _ in model.named_parameters()}
    for name, tensor in model.state_dict().items():
        if name not in parameters:
            tensor.copy_(torch.randn(tensor.shape))
    return model.eval()


def assert_same(found, model):
    assert found.config == model.config and type(found) is type(model) and not found.training
    ours, theirs = model.state_dict(), found.state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.dtype == theirs[name].dtype and torch.equal(tensor, theirs[name]), name
    assert [n for n, _ in model.named_parameters()] == [n for n, _ in found.named_parameters()]  # tied as before


def outputs(model):
    ids = torch.tensor([[1, 3, 2, 4, 1, 0, 2]])
    more = {"source": ids.flip(1)} if getattr(model.config, "kind", "") == "encoder-decoder" else {}
    if hasattr(model, "source_embedding"):
        more = {"source": ids.flip(1)}
    with torch.no_grad():
        return model(ids, **more)


def goes_round(model, folder, **options):
    save(model, folder, **options)
    found = load(folder)
    assert found.family == "llm_anatomy"
    assert_same(found.model, model)
    torch.testing.assert_close(outputs(found.model), outputs(model))


def test_every_config_goes_round():
    known = [name for name, record in presets().items() if record.known]
    for config in (*map(preset, known), *map(tiny, known), *CONFIGS.values(), *map(drawn, range(200))):
        written = json.loads(json.dumps(own_format.FAMILY.hf_config(config)))
        assert own_format.FAMILY.config(Record("config.json", written)) == config


OTHER_TENSORS = {"plain", "tied", "no head", "sinks", "windows", "position tupe", "position deberta", "encoder"}
OTHER_TENSORS |= {"norm without anything", "parallel, two norms", "experts, gated and shared", "some layers dense"}
OTHER_TENSORS |= {"experts, clamped, biases", "experts, sigmoid in groups", "latent, queries too, biases"}
OTHER_TENSORS |= {"encoder-decoder, experts", "encoder-decoder shaw", "position t5", "placement rezero", "two ropes"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in OTHER_TENSORS)) for name in CONFIGS]
)
def test_every_option_goes_round(name, tmp_path):
    goes_round(with_buffers(Transformer(CONFIGS[name])), tmp_path / "model")


@pytest.mark.parametrize("make", BEFORE.values(), ids=BEFORE)
def test_models_before_transformers_go_round(make, tmp_path):
    goes_round(with_buffers(make()), tmp_path / "model")


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.slow] * (n > 5)) for n in range(40)])
def test_options_drawn_at_random_go_round(seed, tmp_path):
    try:
        model = Transformer(drawn(seed))
    except ValueError:  # refused by a layer: there is no such model
        return
    goes_round(with_buffers(model), tmp_path / "model")


@pytest.mark.parametrize("shard", [1, 7000, 10**9])
def test_types_and_shards_go_round(shard, tmp_path):
    model = with_buffers(Transformer(CONFIGS["experts, sigmoid"])).bfloat16()
    for block in model.stack.blocks:
        block.attention_residual.float()
    model.embedding.double()
    save(model, tmp_path / "model", shard=shard)
    assert_same(load(tmp_path / "model").model, model)
    assert (len(list((tmp_path / "model").glob("*.safetensors"))) > 1) == (shard < 10**9)
    assert {p.dtype for p in load(tmp_path / "model", dtype=torch.float16).model.parameters()} == {torch.float16}


def test_the_config_holds_all_of_its_fields(tmp_path):
    save(a_model(), tmp_path / "model")
    said = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (said["llm_anatomy model"], said["model"], said["dtype"]) == (1, "Transformer", "float32")
    assert list(said["config"]) == [field.name for field in fields(ModelConfig)]
    assert said["config"]["norm_placement"] == "pre" and said["config"]["rope"]["base"] == 10000.0


def test_ids_of_special_tokens_are_kept(tmp_path):
    save(Checkpoint(model=a_model(), extra_config={"eos_token_id": 256}), tmp_path / "model")
    assert load(tmp_path / "model").extra_config["eos_token_id"] == 256
    with pytest.raises(ValueError, match="more holds 'alibi', which the family llm_anatomy cannot keep"):
        save(Checkpoint(model=a_model(), extra_config={"alibi": True}), tmp_path / "model")


# --- The folder ---


def test_a_model_of_ours_is_replaced(tmp_path):
    for seed in range(3):
        save(a_model(seed), tmp_path / "model", shard=20_000 if seed == 1 else 10**9)
        assert_same(load(tmp_path / "model").model, a_model(seed))
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == ["config.json", "model.safetensors"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_without_an_exchange_it_is_replaced_too(tmp_path, monkeypatch):
    monkeypatch.setattr("llm_anatomy.files._exchange", lambda first, second: False)
    test_a_model_of_ours_is_replaced(tmp_path)
    taken = []

    def replace_once_only(first, second, replaced=engine.os.replace):
        taken.append(first)
        if len(taken) == 3:  # the config of the draft, the old folder aside, and now the new one in its place
            raise OSError("no")
        return replaced(first, second)

    monkeypatch.setattr("llm_anatomy.files.os.replace", replace_once_only)
    with pytest.raises(OSError, match="no"):
        save(a_model(7), tmp_path / "model")
    assert_same(load(tmp_path / "model").model, a_model(2))


OTHERS = {
    "a file": lambda f: (f / "notes.txt").write_text("mine"),
    "a folder": lambda f: (f / "1_Pooling").mkdir() or (f / "1_Pooling" / "mine.txt").write_text("mine"),
    "an empty folder": lambda f: (f / "plots").mkdir(),
    "a config below": lambda f: (f / "old").mkdir() or (f / "old" / "config.json").write_text("{}"),
    "weights below": lambda f: (f / "models").mkdir() or (f / "models" / "model.safetensors").write_text("{}"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_none_of_ours_is_never_replaced(name, tmp_path):
    save(a_model(), tmp_path / "model")
    OTHERS[name](tmp_path / "model")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="folder='.*' also holds '.*', which is no part of a saved model"):
        save(a_model(1), tmp_path / "model")
    assert sorted(tmp_path.rglob("*")) == before
    assert_same(load(tmp_path / "model").model, a_model())


def test_neither_are_other_folders_and_files(tmp_path):
    save(Checkpoint(model=a_model(), family="llama"), tmp_path / "llama")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text("broken")
    for name in ("llama", "file", "own"):
        with pytest.raises(ValueError, match="must not exist, be an empty folder, or hold a model that llm_anatomy"):
            save(a_model(), tmp_path / name)


KILLED = """
    import os, signal, sys
    from pathlib import Path
    import torch
    from llm_anatomy.config import ModelConfig
    from llm_anatomy.models.checkpoints import load, save
    from llm_anatomy.models.transformer import Transformer
    from llm_anatomy.tokenizers.simple import ByteTokenizer

    folder = Path(sys.argv[1]) / "model"
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(Transformer(ModelConfig(d_model=8, n_layers=1 + seed, n_heads=2, d_ff=9, n_vocab=256)))
    save(models[0], folder, shard=500, tokenizer=ByteTokenizer())
    found, events = [], 0
    while True:
        events += 1
        child = os.fork()
        if not child:
            left = [events]
            def hook(event, _):
                if event.split(".")[0] in ("open", "os", "shutil", "ctypes"):
                    left[0] -= 1
                    if not left[0]:
                        os.kill(os.getpid(), signal.SIGKILL)
            sys.addaudithook(hook)
            save(models[1], folder, shard=500, tokenizer=ByteTokenizer())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        read = load(folder).model
        same = [m for m in models if read.config == m.config]
        assert all(torch.equal(a, b) for a, b in zip(read.parameters(), same[0].parameters(), strict=True))
        found.append(models.index(same[0]))
        if found[-1]:
            save(models[0], folder, shard=500, tokenizer=ByteTokenizer())
        if not status:
            break
    print(*found)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two folders in one step")
def test_a_save_that_is_killed_leaves_the_old_model_or_the_new_one(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = done.stdout.split()
    assert len(found) > 20 and "0" in found and found[-1] == "1"


def test_a_folder_that_is_replaced_while_it_is_read_is_refused(tmp_path, monkeypatch):
    save(a_model(), tmp_path / "model")
    read = engine.storage.read

    def replaced_behind(wanted, use):
        monkeypatch.setattr(engine.storage, "read", read)
        save(a_model(1), tmp_path / "model")
        read(wanted, use)

    monkeypatch.setattr(engine.storage, "read", replaced_behind)
    with pytest.raises(ValueError, match="'.*' was replaced while it was read"):
        load(tmp_path / "model")


# --- What is refused ---


class Own(Cell):
    n_gates, n_states = 1, 1


def test_a_model_that_could_not_be_read_again_is_not_written(tmp_path):
    other = a_model()
    other.stack.blocks[0].attention.w_query = nn.Linear(24, 24, bias=True)
    untied = a_model(tie_embeddings=True)
    untied.unembedding.embedding = type(untied.embedding)(260, 24)
    for model, sentence in [
        (other, "the model has other tensors than its config describes, such as stack.blocks.0.attention.w_query.bias"),
        (untied, "such as unembedding.embedding.weight"),
        (nn.Linear(2, 3), "a model of type Linear has no config that describes it"),
        (RecurrentLM(Own, 5, 4, 3), "its config describes no model: cell='Own' must be one of 'ElmanCell'"),
        (Checkpoint(model=BigramNetwork(5, 4), family="llama"), "the family llama cannot represent a model of type Bi"),
        (Checkpoint(model=a_model(), family="lama"), "family='lama' must be one of llm_anatomy, bert"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            save(model, tmp_path / "model")
    assert not any(tmp_path.iterdir())


def changed(**changes):
    """A change of the fields of our config."""

    def change(said):
        for name, value in changes.items():
            inner = said["config"]
            *path, last = name.split("__")
            for part in path:
                inner = inner[part]
            inner[last] = value

    return change


HOSTILE = {
    "another version": (lambda s: s.update({"llm_anatomy model": 2}), "version 2 of the format is not supported"),
    "a version of text": (lambda s: s.update({"llm_anatomy model": "1"}), "it must be of type int"),
    "no model": (lambda s: s.pop("model"), "key 'model' is missing"),
    "another model": (lambda s: s.update(model="os.system"), "key 'model': 'os.system' must be one of Transformer, "),
    "a model of another config": (lambda s: s.update(model="MambaLM"), "'n_heads' is no field of MambaConfig"),
    "a config that is a list": (lambda s: s.update(config=[]), "key 'config': it must be of type dict"),
    "an unknown field beside": (lambda s: s.update(auto_run="a"), "key 'auto_run': it is unknown in a model of llm_an"),
    "a name of two lines": (lambda s: s.update({"a\nb\x1b[2J": 1}), "key 'ab.2J': it is unknown"),
    "an unknown field": (changed(warp=True), "key 'config': 'warp' is no field of ModelConfig"),
    "an unknown field of two lines": (changed(**{"a\nb": True}), r"'a\\nb' is no field of ModelConfig"),
    "an unknown option": (changed(rope__color=3), "'color' is no field of RopeConfig"),
    "a dotted name": (changed(**{"rope.base": 3.0}), "'rope.base' is no field of ModelConfig"),
    "an option of another part": (changed(position="alibi", rope={"base": 5.0}), "rope.base=5.0 must be left out"),
    "text for a number": (changed(d_model="24"), "d_model='24' must be int"),
    "a list for a number": (changed(d_model=[24]), r"d_model=\[24\] must be one value"),
    "a list of numbers for texts": (changed(window=3, layer_types=[1]), r"layer_types=\[1\] must be a list of texts"),
    "an object for a list": (changed(window=3, layer_types={}), "layer_types={} must be a list"),
    "a text for a flag": (changed(position="rope", rope={"layers": ["yes"]}), "rope.layers=.* must be a list of true"),
    "an object for a number": (changed(d_model={"a": 1}), "d_model=.* must be one value"),
    "true for a number": (changed(d_model=True), "d_model=True must be int"),
    "null for a number": (changed(d_model=None), "d_model=None must be int"),
    "more layers than can be built": (changed(n_layers=10**9), "n_layers=1000000000 must be at most 10000"),
    "rotations larger than memory": (changed(d_head=2**30), "d_head=1073741824 must be at most 16777216"),
    "numbers without end": (changed(norm_eps=float("inf")), "norm_eps=inf must be at most"),
    "no number": (changed(norm_eps=float("nan")), "norm_eps=nan must be at most"),
    "400 digits": (changed(n_vocab=10**400), "n_vocab=1000.* must be at most"),
    "a million letters": (changed(norm="n" * 10**6), "norm='nnn.* is too long"),
    "a million types": (changed(window=3, layer_types=["a"] * 10**6), "layer_types=.*"),
    "a negative size": (changed(d_ff=-1), "d_ff=-1 must be at least 1"),
    "an unknown part": (changed(norm="batchnorm"), "norm='batchnorm' must be one of 'layernorm'"),
    "sizes that do not fit": (changed(n_kv_heads=3), "n_kv_heads=3 must divide n_heads=4"),
    "too many weights": (changed(d_model=2**24, d_head=2**24, n_heads=9998), "describes no model: "),
    "other shapes": (changed(d_ff=37), "do not fit its config.json: "),
    "more layers than tensors": (
        changed(n_layers=9999),
        "n_layers=9999 is more than the 19 tensors",
    ),
    "another number of layers": (changed(n_layers=3), "do not fit its config.json: "),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hostile_is_refused_in_one_line(name, tmp_path, monkeypatch):
    change, sentence = HOSTILE[name]
    save(a_model(), tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    said = json.loads(path.read_text())
    change(said)
    path.write_text(json.dumps(said))
    monkeypatch.setattr(engine.storage, "read", lambda *_: pytest.fail("a tensor was read"))
    with pytest.raises(ValueError, match=sentence) as caught:
        load(tmp_path / "model")
    assert len(str(caught.value).splitlines()) == 1
    assert "do not fit" in sentence or len(str(caught.value)) < 600


def test_broken_files_are_refused(tmp_path):
    for damage, sentence in [
        (lambda f: (f / "config.json").write_text('{"llm_anatomy model":' * 100_000), "the file is nested too deeply"),
        (
            lambda f: (f / "config.json").write_bytes(b'{"llm_anatomy model": 1, "llm_anatomy model": 1}'),
            "occurs twice",
        ),
        (lambda f: (f / "model.safetensors").write_bytes(b"short"), "is truncated or no safetensors file"),
        (lambda f: change_tensors(f, lambda t: t.pop("stack.norm.weight")), "1 missing"),
        (lambda f: change_tensors(f, lambda t: t.update(extra=torch.ones(1))), "1 unexpected"),
        (lambda f: change_tensors(f, lambda t: t.update({"stack.norm.weight": torch.ones(24).int()})), "another type"),
        (
            lambda f: change_config(f, model="RecurrentLM", config=dict(cell="os", n_vocab=1, d_embed=1, d_hidden=1)),
            "describes no model: cell='os' must be one of",
        ),
    ]:
        save(a_model(), tmp_path / "model")
        damage(tmp_path / "model")
        with pytest.raises(ValueError, match=sentence) as caught:
            load(tmp_path / "model")
        assert len(str(caught.value).splitlines()) == 1
        for path in (tmp_path / "model").iterdir():
            path.unlink()


def test_a_field_that_is_missing_has_its_default():
    """A model saved before there was the field."""
    said = own_format.FAMILY.hf_config(ModelConfig(**CONFIG))
    del said["config"]["scale_logits"]
    assert own_format.FAMILY.config(Record("config.json", said)) == ModelConfig(**CONFIG)
    del said["config"]["d_ff"]
    with pytest.raises(ValueError, match="config.json, key 'config': missing fields d_ff"):
        own_format.FAMILY.config(Record("config.json", said))


def test_a_released_model_can_be_written_in_our_format(tmp_path):
    save(Checkpoint(model=a_model(), family="llama", extra_config={"eos_token_id": 256}), tmp_path / "llama")
    save(replace(load(tmp_path / "llama"), family="llm_anatomy"), tmp_path / "ours")
    assert load(tmp_path / "ours").extra_config == {"eos_token_id": 256}
    assert_same(load(tmp_path / "ours").model, a_model())


# --- Texts ---


def tokenizers_of_ours():
    text = "The lake is deep, and the lake is blue. Mia swims in the lake."
    return {
        "bytes": ByteTokenizer(["<|end|>"]),
        "characters": CharacterTokenizer.train([text]),
        "words": WordTokenizer.train([text], n_vocab=40),
        "bpe": BPE.train([text], n_vocab=270, special_tokens=["<|end|>"]),
        "unigram": Unigram.train([text], n_vocab=280),
    }


@pytest.mark.parametrize("name", tokenizers_of_ours())
def test_a_tokenizer_comes_along_and_text_is_generated(name, tmp_path, monkeypatch):
    tokenizer = tokenizers_of_ours()[name]
    model = with_buffers(Transformer(ModelConfig(**CONFIG | dict(n_vocab=tokenizer.n_vocab, position="sinusoidal"))))
    texts = Texts(tokenizer=tokenizer, before=(1,), after=(2, 0), stop=(0, 3))
    save(Checkpoint(model=model, texts=texts), tmp_path / "model")
    monkeypatch.setitem(sys.modules, "tokenizers", None)  # nothing of Hugging Face's is needed
    for _ in range(2):
        found = load(tmp_path / "model")
        assert type(found.tokenizer) is type(tokenizer) and found.tokenizer_note == ""
        assert found.texts.encode("the lake") == [1, *tokenizer.encode("the lake"), 2, 0]
        assert found.texts.stop == (0, 3)
        pieces = list(found.texts.write(found.model, "the lake", max_new_tokens=5))
        assert pieces == list(texts.write(model, "the lake", max_new_tokens=5))
        save(found, tmp_path / "model")  # over itself


def test_a_tokenizer_is_given_in_passing(tmp_path):
    tokenizer = ByteTokenizer(["<|end|>"])
    for family in ("llm_anatomy", "llama"):
        save(Checkpoint(model=a_model(), family=family), tmp_path / family, tokenizer=tokenizer)
        found = load(tmp_path / family)
        assert found.tokenizer.encode("né<|end|>", allowed_special="all") == [110, 195, 169, 256]
        assert len("".join(found.texts.write(found.model, "the lake", max_new_tokens=5))) > 0
    save(load(tmp_path / "llama"), tmp_path / "again", tokenizer=ByteTokenizer())  # instead of the one that came along
    assert load(tmp_path / "again").tokenizer.special_tokens == {}


def test_a_model_of_ours_becomes_one_of_hugging_faces_with_its_tokenizer(tmp_path):
    save(a_model(), tmp_path / "ours", tokenizer=ByteTokenizer(["<|end|>"]))
    save(replace(load(tmp_path / "ours"), family="llama"), tmp_path / "llama")
    names = {path.name for path in (tmp_path / "llama").iterdir()}
    assert "tokenizer.json" in names and "llm_anatomy_tokenizer.json" not in names
    assert load(tmp_path / "llama").tokenizer.encode("né") == [110, 195, 169]
    save(replace(load(tmp_path / "llama"), family="llm_anatomy", extra_config={}), tmp_path / "back")
    assert load(tmp_path / "back").tokenizer.encode("né") == [110, 195, 169]


def test_a_tokenizer_is_written_although_its_folder_is_gone(tmp_path):
    save(a_model(), tmp_path / "model", tokenizer=ByteTokenizer())
    checkpoint = load(tmp_path / "model")
    for path in (tmp_path / "model").iterdir():
        path.unlink()
    save(checkpoint, tmp_path / "again")
    assert load(tmp_path / "again").tokenizer.encode("né") == [110, 195, 169]


@pytest.mark.parametrize("ids", ["a", [1.5], [True], [256], [-1], None])
def test_ids_around_a_text_must_be_ids(ids, tmp_path):
    save(a_model(), tmp_path / "model", tokenizer=ByteTokenizer())
    (tmp_path / "model" / "tokenizer_config.json").write_text(json.dumps({"before": ids}))
    found = load(tmp_path / "model")
    assert found.tokenizer is None and "must be a list of ids below 256" in found.tokenizer_note
