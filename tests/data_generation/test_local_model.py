"""A checkpoint as a generator: batches and pieces are one text, cut where they should be and counted."""

import pytest
import torch
from data_generation.test_server import tiny

from llm_anatomy.config import ModelConfig
from llm_anatomy.data_generation.generators import TextGenerator
from llm_anatomy.data_generation.local_model import LocalModel
from llm_anatomy.models.checkpoints import Checkpoint, save
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.generation import generate
from llm_anatomy.models.stored import store
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.simple import ByteTokenizer

PROMPTS = ["Hello", "Hi", "A lake", "Why not?", "x"]


def whole(pieces):
    found = []
    while True:
        try:
            found.append(next(pieces))
        except StopIteration as end:
            assert "".join(found) == end.value.text
            return end.value


def test_it_is_a_generator_and_greedy_texts_are_those_of_generate():
    local = tiny()
    found = local.complete(PROMPTS, max_tokens=9, temperature=0)
    assert isinstance(local, TextGenerator)
    for prompt, completion in zip(PROMPTS, found, strict=True):
        ids = generate(local.model, [list(prompt.encode())], max_new_tokens=9, stop_token_ids=[256]).ids[0]
        assert completion.text == ByteTokenizer().decode([i for i in ids if i != 256])
        assert (completion.n_prompt_tokens, completion.n_tokens) == (len(prompt), len(ids))
        assert completion.finish_reason == ("stop" if ids[-1] == 256 else "length")


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"seed": 5}, {"seed": 5, "temperature": 0.3, "top_p": 0.9}])
@pytest.mark.parametrize("stop", [(), ("e", "qz")])
def test_one_prompt_in_pieces_is_the_same_text(settings, stop):
    local = tiny()
    for prompt in PROMPTS:
        (expected,) = local.complete([prompt], max_tokens=20, stop=stop, **settings)
        assert whole(local.pieces(local.encode(prompt), max_tokens=20, stop=stop, **settings)) == expected
        assert not any(sequence in expected.text for sequence in stop)


def test_seeds_decide_and_the_size_of_a_batch_does_not_change_greedy_texts():
    local = tiny()
    first, again, other = (local.complete(PROMPTS, max_tokens=20, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    small = LocalModel(local.model, local.texts, batch_size=2)
    texts = [[c.text for c in one.complete(PROMPTS, max_tokens=20, temperature=0)] for one in (local, small)]
    assert texts[0] == texts[1]


def test_a_text_ends_where_the_model_or_a_stop_sequence_ends_it():
    local = tiny()
    (free,) = local.complete(["Hello"], max_tokens=20, temperature=0)
    (cut,) = local.complete(["Hello"], max_tokens=20, temperature=0, stop=[free.text[3:5], free.text[9:]])
    assert cut.text == free.text[: free.text.index(free.text[3:5])] and cut.finish_reason == "stop"
    assert cut.n_tokens < free.n_tokens and free.finish_reason == "length"
    with torch.no_grad():
        local.model.unembedding.embedding.weight[256] += 10 * local.model.unembedding.embedding.weight[ord("e")]
    ended = local.complete(PROMPTS, max_tokens=40, seed=0)
    assert any(c.finish_reason == "stop" and c.n_tokens < 40 and "<|end|>" not in c.text for c in ended)


def test_the_context_ends_a_text_and_refuses_a_longer_prompt():
    local = tiny(n_ctx=16)
    (found,) = local.complete(["Hello"], max_tokens=40, temperature=0, stop=())
    assert found.n_tokens == 12 and found.finish_reason == "length"
    for ask in (lambda: local.complete(["x" * 17], max_tokens=1), lambda: local.pieces([1] * 17, max_tokens=1)):
        with pytest.raises(ValueError, match="a prompt has 17 tokens; the context of the model has 16"):
            ask()


def test_what_cannot_generate_is_refused():
    model = tiny().model
    with pytest.raises(ValueError, match="texts cannot be generated: there is none"):
        LocalModel(model, Texts(note="there is none"))
    with pytest.raises(ValueError, match="batch_size=0"):
        LocalModel(model, Texts(tokenizer=ByteTokenizer()), batch_size=0)
    config = ModelConfig(
        kind="encoder-decoder", d_model=8, n_layers=1, n_encoder_layers=1, n_heads=2, d_ff=9, n_vocab=256
    )
    with pytest.raises(ValueError, match="by a decoder, and not by an encoder-decoder"):
        LocalModel(Transformer(config), Texts(tokenizer=ByteTokenizer()))
    with pytest.raises(ValueError, match="has no tokens"):
        tiny().complete([""], max_tokens=1)


def test_models_are_opened_by_name_by_folder_and_by_file(tmp_path):
    local = tiny()
    save(Checkpoint(model=local.model, texts=local.texts), tmp_path / "model")
    store(local.model, tmp_path / "model.safetensors", tokenizer=local.texts.tokenizer)
    expected = local.complete(["Hello"], max_tokens=9, temperature=0)
    assert LocalModel.open(tmp_path / "model").complete(["Hello"], max_tokens=9, temperature=0) == expected
    assert LocalModel.open(tmp_path / "model.safetensors").complete(["Hello"], max_tokens=9)[0].n_tokens == 9
    story = LocalModel.open("story_rope", dtype="bfloat16")
    assert next(story.model.parameters()).dtype == torch.bfloat16
    with pytest.raises(ValueError, match="no model of the package .*story_rope"):
        LocalModel.open("story_nope")
    with pytest.raises(ValueError, match="is no folder"):
        LocalModel.open("no/such/folder")
