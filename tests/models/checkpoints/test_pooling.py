"""Vectors of sentences: every pooling against its formula, what folders of sentence-transformers say, and refusals."""

import json

import pytest
import tokenizers
import torch
import transformers
from models.checkpoints.cases import SIZES, t5
from models.checkpoints.test_engine import a_model
from randomness import randomize
from safetensors.torch import save_file
from tokenizers import normalizers, pre_tokenizers, processors
from torch import nn

from llm_anatomy.models.before_transformers import BigramNetwork
from llm_anatomy.models.checkpoints import Checkpoint, load, save
from llm_anatomy.models.checkpoints.pooling import NAMES, POOLINGS, Normalize, Pooling, read_pooling

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "the",
    "lake",
    "is",
    "deep",
    "and",
    "blue",
    "in",
    "winter",
    "mia",
    "swims",
    "##s",
]
OLD = dict(word_embedding_dimension=24, **{f"pooling_mode_{name}": name == "mean_tokens" for name in POOLINGS})


def write_modules(folder, pooling=OLD, more=("Normalize",), **settings):
    """What sentence-transformers writes beside a model."""
    modules = [dict(idx=0, name="0", path="", type="sentence_transformers.models.Transformer")]
    for i, kind in enumerate(("Pooling", *more), start=1):
        modules.append(dict(idx=i, name=str(i), path=f"{i}_{kind}", type=f"sentence_transformers.models.{kind}"))
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "sentence_bert_config.json").write_text(
        json.dumps(dict(max_seq_length=9, do_lower_case=False) | settings)
    )


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """Their BERT with its tokenizer."""
    folder = tmp_path_factory.mktemp("theirs")
    config = transformers.BertConfig(**SIZES | dict(vocab_size=len(WORDS)), max_position_embeddings=40)
    model = randomize(transformers.BertModel(config)).eval()
    model.save_pretrained(folder)
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    made.add_special_tokens(WORDS[:4])
    made.save(str(folder / "tokenizer.json"))
    return model, made, folder


@pytest.fixture
def folder(theirs, tmp_path):
    for file in theirs[2].iterdir():
        (tmp_path / file.name).symlink_to(file)
    write_modules(tmp_path)
    return tmp_path


TEXTS = [
    "the lake",
    " Mia swims  ",
    "the lake is deep and blue in winter and the lake is deep",
    "winters",
    "the [SEP] lake",
]


@torch.no_grad()
def expected(theirs, pool, texts=TEXTS, longest=9):
    """One text after the other, without padding: the pooled states of their model."""
    model, made, _ = theirs
    made.enable_truncation(longest)
    return torch.stack([pool(model(input_ids=torch.tensor([made.encode(t.strip()).ids]))[0][0]) for t in texts])


FORMULAS = {
    "cls": lambda x: x[0],
    "max": lambda x: x.max(0).values,
    "mean": lambda x: x.mean(0),
    "mean_sqrt_len_tokens": lambda x: x.sum(0) / len(x) ** 0.5,
    "weightedmean": lambda x: sum((t + 1) * row for t, row in enumerate(x)) / sum(range(1, len(x) + 1)),
    "lasttoken": lambda x: x[-1],
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_every_pooling_is_its_formula(name, batch_size, theirs, folder):
    for pooling in ({"pooling_mode": name}, {f"pooling_mode_{NAMES[name]}": True}):
        write_modules(folder, pooling, more=())
        found = load(folder).embed(TEXTS, batch_size=batch_size)
        torch.testing.assert_close(found, expected(theirs, FORMULAS[name]), rtol=1e-5, atol=1e-5)


def test_several_poolings_stand_side_by_side_in_their_order(theirs, folder):
    write_modules(folder, {"pooling_mode": "lasttoken+cls+mean"}, more=())
    found = load(folder).embed(TEXTS)
    parts = [expected(theirs, FORMULAS[name]) for name in ("cls", "mean", "lasttoken")]
    torch.testing.assert_close(found, torch.cat(parts, 1), rtol=1e-5, atol=1e-5)
    assert load(folder).embed([]).shape == (0, 72)


def test_dense_layers_and_the_norm_follow(theirs, folder):
    write_modules(folder, more=("Dense", "Normalize"))
    layer = nn.Linear(24, 5)
    said = dict(in_features=24, out_features=5, bias=True, activation_function="torch.nn.modules.activation.Tanh")
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "config.json").write_text(json.dumps(said))
    save_file({f"linear.{name}": p for name, p in layer.state_dict().items()}, folder / "2_Dense" / "model.safetensors")
    checkpoint = load(folder)
    found = checkpoint.embed(TEXTS)
    vectors = layer(expected(theirs, FORMULAS["mean"])).tanh()
    torch.testing.assert_close(found, vectors / vectors.norm(dim=1, keepdim=True), rtol=1e-5, atol=1e-5)
    save(checkpoint, folder / "again")  # with all that describes the vectors
    assert torch.equal(load(folder / "again").embed(TEXTS), found)
    (folder / "2_Dense" / "config.json").write_text(json.dumps(said | {"bias": False}))
    with pytest.raises(ValueError, match=r"the tensors in '.*2_Dense' must be linear.weight \(5, 24\)"):
        load(folder).embed(TEXTS)


def test_a_prompt_precedes_and_capitals_may_go(theirs, folder):
    said = {"prompts": {"query": "the lake: "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(said))
    write_modules(folder, more=(), do_lower_case=True)
    found = load(folder).embed(["MIA"])
    torch.testing.assert_close(found, expected(theirs, FORMULAS["mean"], ["the lake: mia"]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("said, longest", [(dict(model_max_length=7), 7), (dict(model_max_length=1e30), 40), ({}, 40)])
def test_without_a_bound_of_its_own_a_text_is_cut_as_for_the_tokenizer(said, longest, theirs, folder):
    write_modules(folder, more=(), max_seq_length=None)
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    long = ["the lake " * 30]
    found = load(folder).embed(long)
    torch.testing.assert_close(found, expected(theirs, FORMULAS["mean"], long, longest), rtol=1e-5, atol=1e-5)


def test_decoders_and_the_encoder_of_t5_have_vectors(tmp_path):
    encoder = randomize(t5(kind=("T5Config", "T5EncoderModel"))).eval()
    encoder.save_pretrained(tmp_path / "t5")
    pooling, ids = Pooling(poolings=("mean_tokens",), after=(Normalize(),)), [[3, 4, 5], [6], [7, 8]]
    found = pooling.vectors_of_ids(load(tmp_path / "t5").model, ids)
    with torch.no_grad():
        means = torch.stack([encoder(input_ids=torch.tensor([row]))[0][0].mean(0) for row in ids])
    torch.testing.assert_close(found, nn.functional.normalize(means), rtol=1e-5, atol=1e-5)
    decoder, last = a_model(), Pooling(poolings=("lasttoken",))
    alone = torch.cat([decoder.hidden_states(torch.tensor([row]))[0][:, -1] for row in ids])
    torch.testing.assert_close(last.vectors_of_ids(decoder, ids, batch_size=2), alone, rtol=1e-5, atol=1e-5)


# --- What is refused ---


def modules(**changes):
    def change(folder):
        said = json.loads((folder / "modules.json").read_text())
        said[2] |= changes
        (folder / "modules.json").write_text(json.dumps(said))

    return change


REFUSED = {
    "no pooling": (lambda f: (f / "modules.json").unlink(), "holds no modules.json, which would say how hidden states"),
    "modules of another form": (lambda f: (f / "modules.json").write_text("[1]"), "must hold a list of modules, each"),
    "modules nested without end": (lambda f: (f / "modules.json").write_text("[" * 10**5), "must hold a list of modul"),
    "another module": (modules(type="sentence_transformers.models.LSTM"), "a module 'LSTM' is not supported; it must"),
    "code of its own": (modules(type="custom.Thing"), "a module 'Thing' is not supported"),
    "a path elsewhere": (modules(path="../2_Dense"), "must hold a list of modules, each with its type and its path"),
    "no Transformer": (
        lambda f: (f / "modules.json").write_text('[{"type": "a.WordEmbeddings", "path": ""}]'),
        "must begin with a Transformer in the same folder and a Pooling",
    ),
    "no config of the pooling": (lambda f: (f / "1_Pooling" / "config.json").unlink(), "1_Pooling' holds no conf"),
    "an unknown pooling": (lambda f: write_modules(f, {"pooling_mode": "median"}), "'median'.* is not supported; it"),
    "an unknown switch": (lambda f: write_modules(f, {"pooling_mode_median": True}), "'pooling_mode_median': True i"),
    "a switch of text": (lambda f: write_modules(f, {"pooling_mode_max_tokens": "yes"}), "'yes' is not supported"),
    "no pooling switched on": (lambda f: write_modules(f, {}), "1_Pooling/config.json switches no pooling on"),
    "prompts left out": (lambda f: write_modules(f, OLD | {"include_prompt": False}), "false is not supported"),
    "a length of text": (lambda f: write_modules(f, max_seq_length="9"), "key 'max_seq_length': '9' must be a number"),
    "no activation": (
        lambda f: (
            write_modules(f, more=("Dense",))
            or (f / "2_Dense").mkdir()
            or (f / "2_Dense" / "config.json").write_text('{"activation_function": "os.system"}')
        ),
        "2_Dense/config.json, key 'activation_function': 'os.system' must be one of",
    ),
    "a prompt that there is not": (
        lambda f: (f / "config_sentence_transformers.json").write_text('{"default_prompt_name": "query"}'),
        "key 'default_prompt_name': 'query' is none of the prompts",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_refused_in_a_sentence(name, folder):
    change, sentence = REFUSED[name]
    change(folder)
    with pytest.raises(ValueError, match=sentence) as caught:
        load(folder).embed(TEXTS)
    assert len(str(caught.value).splitlines()) == 1


def test_arguments_are_refused_by_name(folder):
    checkpoint = load(folder)
    for texts, sentence in [("one", "texts is one string"), ([""], None)]:
        if sentence:
            with pytest.raises(ValueError, match=sentence):
                checkpoint.embed(texts)
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        checkpoint.embed(TEXTS, batch_size=0)
    with pytest.raises(ValueError, match="text 1 has no tokens; it must have one"):
        read_pooling(folder).vectors_of_ids(a_model(), [[1], []])
    with pytest.raises(ValueError, match="the model comes from no folder"):
        Checkpoint(model=a_model()).embed(TEXTS)
    with pytest.raises(ValueError, match="a BigramNetwork has no vectors of sentences"):
        Checkpoint(model=BigramNetwork(5, 4)).embed(TEXTS)
    with pytest.raises(ValueError, match="kind='encoder-decoder' has no vectors of sentences"):
        read_pooling(folder).vectors_of_ids(a_model(kind="encoder-decoder"), [[1]])
