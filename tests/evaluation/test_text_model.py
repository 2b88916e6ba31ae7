"""Likelihoods and continuations of texts in batches, against one forward pass for each text."""

import pytest
import torch
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.evaluation import text_model
from llm_anatomy.evaluation.text_model import TextModel, likelihoods, read_checkpoint, rolling_pairs
from llm_anatomy.models.before_transformers import MambaLM
from llm_anatomy.models.checkpoints import Checkpoint
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.simple import ByteTokenizer

END = "<|end|>"
N_VOCAB = 257


def transformer(**more):
    torch.manual_seed(0)
    sizes = dict(d_model=24, n_layers=2, n_heads=3, d_ff=40, n_vocab=N_VOCAB, position="rope")
    model = Transformer(ModelConfig(**sizes | more)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def text_model_of(model=None, batch_size=3, allowed_special=(), **around):
    tokenizer = ByteTokenizer([END])
    checkpoint = Checkpoint(model=model or transformer(), texts=Texts(tokenizer=tokenizer, **around))
    return TextModel(checkpoint, batch_size, allowed_special)


def pairs_of(*lengths):
    generator = torch.Generator().manual_seed(1)
    return [tuple(torch.randint(N_VOCAB, (n,), generator=generator).tolist() for n in pair) for pair in lengths]


@torch.no_grad()
def one_by_one(model, pairs, n_ctx=None):
    for context, continuation in pairs:
        whole = [*context, *continuation]
        read = whole[:-1] if n_ctx is None else whole[:-1][-n_ctx:]
        log_probs = model(torch.tensor([read]))[0].float().log_softmax(-1)[-len(continuation) :]
        targets = torch.tensor(continuation)
        yield log_probs.gather(1, targets[:, None]).sum().item(), bool((log_probs.argmax(-1) == targets).all())


class Bare(nn.Module):
    """A model of which nothing is known but its logits."""

    def __init__(self, model):
        super().__init__()
        self.inner = model

    def forward(self, ids):
        return self.inner(ids)


def mamba():
    torch.manual_seed(0)
    return MambaLM(n_vocab=N_VOCAB, d_model=8, n_layers=1, d_state=4).eval()


@pytest.mark.syllabus("GT-09", "UCL-03")
@pytest.mark.parametrize("batch_size", [1, 3, 50])
@pytest.mark.parametrize("make", [transformer, lambda: Bare(transformer()), mamba], ids=["model", "logits", "mamba"])
def test_batches_give_the_likelihoods_of_single_texts(make, batch_size):
    model, pairs = make(), pairs_of((5, 2), (1, 1), (9, 4), (2, 7), (5, 1), (3, 3), (8, 5))
    found = dict(likelihoods(model, pairs, batch_size=batch_size))
    expected = list(one_by_one(model, pairs))
    assert sorted(found) == list(range(len(pairs)))
    for i, (log_prob, is_greedy) in enumerate(expected):
        assert found[i].log_prob == pytest.approx(log_prob, abs=1e-4)
        assert found[i].is_greedy == is_greedy and found[i].n_tokens == len(pairs[i][1])


def test_a_continuation_of_the_most_likely_tokens_is_greedy():
    model, ids = transformer(), [3, 5, 7]
    for _ in range(4):
        ids.append(model(torch.tensor([ids]))[0, -1].argmax().item())
    changed = [*ids[3:-1], (ids[-1] + 1) % N_VOCAB]
    (_, best), (_, other) = sorted(likelihoods(model, [(ids[:3], ids[3:]), (ids[:3], changed)]))
    assert best.is_greedy and not other.is_greedy and best.log_prob > other.log_prob


def test_a_long_context_loses_its_beginning():
    model, pairs = transformer(n_ctx=6), pairs_of((9, 2), (3, 4), (20, 6), (1, 1))
    found = dict(likelihoods(model, pairs, n_ctx=6, batch_size=2))
    for i, (log_prob, _) in enumerate(one_by_one(model, pairs, n_ctx=6)):
        assert found[i].log_prob == pytest.approx(log_prob, abs=1e-4)


def test_choices_of_one_token_share_a_row_and_parts_of_the_logits_do_not_matter(monkeypatch):
    model, read = transformer(), []
    (context, _), (_, longer) = pairs_of((5, 1), (5, 3))
    pairs = [(context, [i]) for i in (1, 2, 3, 4)] + [(context, longer)]
    expected = dict(likelihoods(model, pairs))
    monkeypatch.setattr(text_model, "MOST_LOGITS", 2 * N_VOCAB)
    hidden_states = model.hidden_states
    monkeypatch.setattr(model, "hidden_states", lambda ids, **more: (read.append(ids.shape), hidden_states(ids))[1])
    found = dict(likelihoods(model, pairs, batch_size=8))
    assert read == [(2, 7)]
    for i, one in expected.items():
        assert found[i].log_prob == pytest.approx(one.log_prob, abs=1e-5) and found[i].is_greedy == one.is_greedy


def test_bfloat16_and_long_texts_first():
    model = transformer()
    pairs = pairs_of((2, 1), (9, 4), (5, 2))
    exact = dict(likelihoods(model, pairs))
    found = list(likelihoods(model.to(torch.bfloat16), pairs, batch_size=1))
    assert [i for i, _ in found] == [1, 2, 0]
    for i, one in found:
        assert one.log_prob == pytest.approx(exact[i].log_prob, rel=0.05)


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([([1], [2]), ([], [2])], "pair 1 has 0 and 1 ids; both need at least one"),
        ([([1], [])], "pair 0 has 1 and 0 ids"),
        ([([1], [2] * 7)], "pair 0 has a continuation of 7 ids; the model reads 6"),
    ],
)
def test_pairs_that_cannot_be_computed_are_refused_at_once(pairs, sentence):
    with pytest.raises(ValueError, match=sentence):
        likelihoods(transformer(), pairs, n_ctx=6)
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        likelihoods(transformer(), [([1], [2])], batch_size=0)


@pytest.mark.parametrize("n_ctx", [1, 2, 3, 5, 11, 12, 13, None])
@pytest.mark.parametrize("first", [0, None])
def test_rolling_windows_predict_each_token_once_with_as_much_context_as_fits(n_ctx, first):
    ids = list(range(1, 13))
    pairs = rolling_pairs(ids, first, n_ctx)
    assert [i for _, continuation in pairs for i in continuation] == ids[first is None :]
    whole = [*([] if first is None else [first]), *ids]
    for context, continuation in pairs:
        together = [*context, *continuation]
        assert together == whole[whole.index(together[0]) :][: len(together)] and context
        assert n_ctx is None or len(together) <= n_ctx + 1
    assert n_ctx is None or len(whole) <= n_ctx or sum(map(len, pairs[-1])) == n_ctx + 1


def test_a_pair_is_divided_where_the_continuation_begins():
    model = text_model_of(before=(256,))
    assert model.encode_pair("ab", " c") == ([256, 97, 98], [32, 99])
    assert model.encode_pair("ab ", "c") == ([256, 97, 98], [32, 99])  # the space belongs to the word after it
    assert model.encode_pair("", "cd") == ([256], [99, 100])
    assert text_model_of(stop=(256,)).encode_pair("", "cd") == ([256], [99, 100])
    assert text_model_of().encode_pair("", "cd") == ([99], [100])  # nothing stands before the text
    with pytest.raises(ValueError, match="nothing stands before 'c'; the context must not be empty"):
        text_model_of().encode_pair("", "c")
    with pytest.raises(ValueError, match="the continuation is empty"):
        model.encode_pair("ab", "")


def test_special_tokens_are_texts_only_where_they_are_allowed():
    with pytest.raises(ValueError, match=r"the text '<|end|>a' cannot be encoded"):
        text_model_of().encode(f"{END}a")
    assert text_model_of(before=(256,), allowed_special="all").encode(f"{END}a") == [256, 97]  # not twice


def test_whole_texts_add_up_over_their_windows():
    model = transformer(n_ctx=7)
    texts = ["The lake is deep and cold.", "No.", "é" * 9]
    for around, n_lost in ({"stop": (256,)}, 0), ({}, 1):
        found = {i: (one, n) for i, one, n in text_model_of(model, **around).stream_whole_texts(texts)}
        for i, text in enumerate(texts):
            pairs = rolling_pairs(list(text.encode()), None if n_lost else 256, 7)
            expected = sum(log_prob for log_prob, _ in one_by_one(model, pairs, 7))
            assert found[i][0].log_prob == pytest.approx(expected, abs=1e-4)
            assert found[i][0].n_tokens == len(text.encode()) - n_lost
        assert found[0][1] == len(texts[0]) - n_lost
    with pytest.raises(ValueError, match="text='a' has no token that could be predicted"):
        list(text_model_of(model).stream_whole_texts(["a"]))


@pytest.mark.syllabus("GT-10")
def test_continuations_are_greedy_and_end_before_a_stop_string():
    model = transformer(n_ctx=20)
    prompts = ["The lake", "a", "The lake is deep and cold, and so is the river."]
    ours = text_model_of(model, batch_size=2)
    found = dict(ours.stream_continuations(prompts, max_new_tokens=5))
    for i, prompt in enumerate(prompts):
        ids = list(prompt.encode())[-15:]
        for _ in range(5):
            ids.append(model(torch.tensor([ids]))[0, -1, :256].argmax().item())
        assert found[i] == bytes(ids[-5:]).decode(errors="replace")
    stop = found[0][2]
    assert dict(ours.stream_continuations(prompts[:1], max_new_tokens=5, stop=[stop])) == {
        0: found[0].partition(stop)[0]
    }


def test_what_cannot_be_continued_is_refused_at_once():
    model = text_model_of(transformer(n_ctx=20))
    with pytest.raises(ValueError, match="max_new_tokens=20 must be below 20"):
        model.stream_continuations(["a"], max_new_tokens=20)
    with pytest.raises(ValueError, match="prompt='' has no tokens"):
        model.stream_continuations(["a", ""], max_new_tokens=3)


def test_a_model_without_a_tokenizer_or_that_is_no_decoder_is_refused():
    with pytest.raises(ValueError, match="there is no tokenizer, without which a text cannot be read"):
        TextModel(Checkpoint(model=transformer()))
    with pytest.raises(ValueError, match="only a decoder that predicts the next token"):
        text_model_of(transformer(kind="encoder"))
    with pytest.raises(ValueError, match="batch_size=0"):
        text_model_of(batch_size=0)


def test_a_stored_model_is_read_by_its_name_and_by_its_path(tmp_path):
    from llm_anatomy.models.checkpoints import save
    from llm_anatomy.models.stored import FOLDER

    one, other = read_checkpoint("story_rope"), read_checkpoint(str(FOLDER / "story_rope.safetensors"), dtype="float64")
    assert one.config == other.config and next(other.model.parameters()).dtype == torch.float64
    save(one, tmp_path / "copy")
    assert read_checkpoint(tmp_path / "copy").config == one.config
    with pytest.raises(ValueError, match="no model of the package .*or of the hub"):
        read_checkpoint("story_rop")


LONG = {"rope.scaling.type": "longrope", "rope.scaling.original_max_position_embeddings": 8}
LONG |= {"rope.scaling.factor": 4.0, "rope.scaling.short_factor": (1.0,) * 4, "rope.scaling.long_factor": (4.0,) * 4}
DYNAMIC = {
    "rope.scaling.type": "dynamic",
    "rope.scaling.original_max_position_embeddings": 8,
    "rope.scaling.factor": 4.0,
}


@pytest.mark.parametrize("scaling", [LONG, DYNAMIC], ids=["longrope", "dynamic"])
def test_where_rope_depends_on_the_length_a_likelihood_does_not_depend_on_its_neighbours(scaling):
    config = {"d_model": 24, "n_layers": 2, "n_heads": 3, "d_ff": 40, "n_vocab": N_VOCAB, "position": "rope"}
    torch.manual_seed(0)
    model = Transformer(ModelConfig.of(config | scaling)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    pairs = pairs_of((3, 2), (9, 4), (20, 3), (2, 4), (12, 9))
    found = dict(likelihoods(model, pairs, batch_size=5))
    for index, (log_prob, _) in enumerate(one_by_one(model, pairs)):
        assert found[index].log_prob == pytest.approx(log_prob, rel=1e-5)


def test_after_an_empty_context_a_text_begins_as_the_tokenizer_says():
    named = text_model_of(bos=5, stop=(N_VOCAB - 1,))
    added, ended = text_model_of(before=(7,), stop=(9,)), text_model_of(stop=(9,))
    assert [model.first_id for model in (named, added, ended, text_model_of())] == [5, 7, 9, None]
    assert named.encode_pair("", "a") == ([5], [97]) and named.encode("a") == [97]
