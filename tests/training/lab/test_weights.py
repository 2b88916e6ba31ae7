"""The weights that a run begins with, and the model that it leaves, also for other libraries."""

import pytest
import torch
from training.lab.small_runs import metrics, run_small, small_config, write_corpus

from llm_anatomy.__main__ import main
from llm_anatomy.models.checkpoints import Checkpoint, load, save
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.simple import ByteTokenizer
from llm_anatomy.training.data.shards import TokenShards
from llm_anatomy.training.data.sources import DocumentSource
from llm_anatomy.training.data.tokenization import TextEncoder, tokenize
from llm_anatomy.training.lab.config import TrainConfig
from llm_anatomy.training.lab.export import export
from llm_anatomy.training.lab.weights import first_weights

END = "<|endoftext|>"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "a.txt").write_text(END.join(f"{word} and {word}." for word in ("one", "two", "three", "four") * 9))
    encoder = TextEncoder(ByteTokenizer([END]), [256])
    tokenize(DocumentSource(folder / "a.txt"), folder / "shards", encoder, validation=0.2)
    return folder / "shards"


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory):
    """A run with samples, whose checkpoints hold an average too."""
    out = tmp_path_factory.mktemp("runs") / "run"
    changes = {"watch.sample_every": 12, "watch.sample_tokens": 5, "optimizer.ema_decay": 0.5}
    run_small(small_config(corpus, out, **changes))
    return out


def test_the_model_of_a_run_writes(finished, capsys):
    checkpoint = load(finished / "model")
    assert checkpoint.tokenizer.special_tokens == {END: 256}
    assert checkpoint.texts.before == checkpoint.texts.stop == (256,)
    assert main(["generate", str(finished / "model"), "", "--max-new-tokens", "4", "--seed", "1"]) == 0
    assert capsys.readouterr().out


def test_samples_are_events(finished):
    lines = (finished / "events.jsonl").read_text().splitlines()
    assert sum('"kind": "sample"' in line for line in lines) == 2


def test_a_run_is_exported_for_hugging_face(finished, tmp_path, capsys):
    assert main(["export", str(finished), str(tmp_path / "hf")]) == 0
    assert "in the layout of llama" in capsys.readouterr().out
    from transformers import AutoModelForCausalLM, AutoTokenizer

    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "hf")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    ids = load(finished / "model").texts.encode("one and")
    assert tokenizer("one and")["input_ids"] == ids
    with torch.no_grad():
        logits = theirs(torch.tensor([ids])).logits
        torch.testing.assert_close(load(finished / "model").model(torch.tensor([ids])), logits, rtol=1e-4, atol=1e-5)


def test_the_weights_of_a_checkpoint_are_exported(finished, tmp_path):
    export(finished, tmp_path / "last", step=24)
    export(finished, tmp_path / "before", step=21, family="llama")
    end, last, before = (load(folder).model for folder in (finished / "model", tmp_path / "last", tmp_path / "before"))
    for name, tensor in end.state_dict().items():
        assert torch.equal(tensor, last.state_dict()[name])
    assert not torch.equal(end.embedding.weight, before.embedding.weight)


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["no/such/run"], "no/such/run is no folder of a run or of a model"),
        (["{run}", "--step", "3"], "step=3 must be that of a checkpoint in"),
        (["{run}", "--family", "gpt2"], "the family gpt2 cannot represent position='rope'"),
        (["{run}", "--family", "lama"], "family='lama' must be one of"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(finished, tmp_path, capsys, words, sentence):
    run, *options = (word.format(run=finished) for word in words)
    assert main(["export", run, str(tmp_path / "hf"), *options]) == 2
    error = capsys.readouterr().err
    assert sentence in error and len(error.splitlines()) == 1 and not (tmp_path / "hf").exists()


def test_weights_that_a_checkpoint_lacks_are_named(corpus, tmp_path, capsys):
    fields = small_config(corpus, tmp_path / "run")
    run_small(fields, stop_after=8)
    TrainConfig.of(fields | {"optimizer.ema_decay": 0.5}).save(tmp_path / "run")
    assert main(["export", str(tmp_path / "run"), str(tmp_path / "hf"), "--step", "7"]) == 2
    error = capsys.readouterr().err
    assert "the weights of step-00000007 cannot be read: Missing key" in error and len(error.splitlines()) == 1


def test_an_unfinished_run_names_its_checkpoints(corpus, tmp_path):
    run_small(small_config(corpus, tmp_path / "run"), stop_after=8)
    with pytest.raises(ValueError, match=r"is not finished; give the --step of a checkpoint: \[7, 8\]"):
        export(tmp_path / "run", tmp_path / "hf")


def test_released_weights_need_the_tokenizer_of_the_data(corpus, tmp_path):
    model = Transformer(TrainConfig.of(small_config(corpus, "out")).model_config(257))
    for name, special in (("same", END), ("other", "<s>")):
        texts = Texts(tokenizer=ByteTokenizer([special]))
        save(Checkpoint(model=model, family="llama", texts=texts), tmp_path / name)
    fields = small_config(corpus, "out", model=None)
    same = TrainConfig.of(fields | {"finetune.start_from": str(tmp_path / "same")})
    first = first_weights(same, TokenShards(corpus, "train"))
    assert torch.equal(first.model.embedding.weight, model.embedding.weight) and first.model.training
    other = TrainConfig.of(fields | {"finetune.start_from": str(tmp_path / "other")})
    with pytest.raises(ValueError, match="must have the tokenizer of the data in .*: tokenize them with --tokenizer"):
        first_weights(other, TokenShards(corpus, "train"))


def test_data_without_a_tokenizer_make_a_model_without_one(tmp_path):
    corpus = write_corpus(tmp_path / "data")
    run_small(small_config(corpus, tmp_path / "run", n_steps=2))
    checkpoint = load(tmp_path / "run/model")
    assert checkpoint.tokenizer is None and len(metrics(tmp_path / "run")) == 2
