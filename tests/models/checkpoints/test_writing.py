"""New ids become the same text in pieces, in a batch and at once, for tokenizers that write bytes in different ways."""

import random

import pytest
import torch
from models.checkpoints.test_chat import a_model, chatty

from llm_anatomy.models.checkpoints import Checkpoint, save
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.checkpoints.writing import in_pieces
from llm_anatomy.models.generation import Step
from llm_anatomy.models.sampling import Sampler, Temperature, TopK
from llm_anatomy.tokenizers.base import BYTE_NAMES
from llm_anatomy.tokenizers.hugging_face import HuggingFaceTokenizer
from llm_anatomy.tokenizers.simple import ByteTokenizer

WORDS = ["▁", "▁a", "b", "▁lake", "é", "."]
DECODERS = [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
]


def llama_like():
    vocab = {name: i for i, name in enumerate([*BYTE_NAMES, *WORDS])}
    model = {"type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": True, "fuse_unk": True, "unk_token": None}
    return HuggingFaceTokenizer.from_json({"model": model, "decoder": {"type": "Sequence", "decoders": DECODERS}})


def steps_of(ids):
    return (Step([i], ["length" if n == len(ids) - 1 else None], None) for n, i in enumerate(ids))


def whole(pieces):
    found = []
    while True:
        try:
            found.append(next(pieces))
        except StopIteration as end:
            return found, end.value


def drawn(rng, n):
    """Words, and bytes of characters that are whole, cut, or none."""
    ids = []
    while len(ids) < n:
        word = rng.choice(["word", "word", "€", "🙂", "\xff", "byte"])
        if word == "word":
            ids.append(256 + rng.randrange(len(WORDS)))
        elif word == "byte":
            ids.append(rng.randrange(256))
        else:
            content = word.encode("utf-8" if word != "\xff" else "latin-1")
            ids += content[: rng.randint(1, len(content))]
    return ids


@pytest.mark.parametrize("make", [llama_like, lambda: ByteTokenizer([*WORDS])], ids=["byte fallback", "bytes"])
def test_pieces_are_the_whole_text_whatever_the_bytes_are(make):
    tokenizer, rng, n_pieces = make(), random.Random(3), 0
    for _ in range(200):
        known, new = drawn(rng, rng.randrange(4)), drawn(rng, 12)
        if known and known[-1] < 256:
            known.append(257)  # a prompt ends with a character
        pieces, written = whole(in_pieces(steps_of(new), tokenizer, known))
        text = tokenizer.decode([*known, *new]).removeprefix(tokenizer.decode(known))
        assert "".join(pieces) == written.text == text and written.ids == new
        assert all(pieces) and written.finish_reason == "length"
        n_pieces += len(pieces)
    assert n_pieces > 700  # nothing waits for the end


def test_what_may_be_a_stop_string_is_held_back():
    tokenizer = ByteTokenizer()
    pieces, written = whole(
        in_pieces(steps_of(b"a stone, a stop. And more"), tokenizer, [], stop_strings=["stop", "!"])
    )
    assert pieces[:4] == ["a", " ", "ston", "e"]
    assert "".join(pieces) == written.text == "a stone, a " and written.finish_reason == "stop_string"
    assert len(written.ids) == len("a stone, a stop")
    pieces, written = whole(in_pieces(steps_of(b"a sto"), tokenizer, [], stop_strings=["stop"]))
    assert pieces == ["a", " ", "sto"] and written.text == "a sto"


def test_a_list_of_prompts_is_continued_as_each_of_them():
    checkpoint = Checkpoint(model=a_model(), texts=Texts(tokenizer=ByteTokenizer(["<|end|>"]), before=(256,)))
    prompts = ["The lake", "A", "Mia was a hare"]
    apart = [checkpoint.generate(prompt, max_new_tokens=7) for prompt in prompts]
    assert checkpoint.generate(prompts, max_new_tokens=7, batch_size=2) == apart
    stop = apart[0][2]
    found = checkpoint.generate(prompts, max_new_tokens=7, stop_strings=[stop])
    assert found == [text.partition(stop)[0] for text in apart]
    assert found[0] == checkpoint.generate(prompts[0], max_new_tokens=7, stop_strings=[stop])
    with pytest.raises(ValueError, match="batch_size=0"):
        checkpoint.generate(prompts, batch_size=0)
    with pytest.raises(ValueError, match="has no tokens"):
        Checkpoint(model=checkpoint.model, texts=Texts(tokenizer=ByteTokenizer())).generate(["a", ""])


def test_scores_are_sums_of_log_probabilities():
    checkpoint = Checkpoint(model=a_model(), texts=Texts(tokenizer=ByteTokenizer(["<|end|>"]), before=(256,)))
    pairs = [("The lake", " is deep"), ("A", "b")]
    for (context, continuation), found in zip(pairs, checkpoint.score(pairs, batch_size=1), strict=True):
        ids = [256, *(context + continuation).encode()]
        with torch.inference_mode():
            log_probs = checkpoint.model(torch.tensor([ids]))[0].log_softmax(-1)
        n = len(continuation)
        expected = sum(log_probs[at - 1, ids[at]].item() for at in range(len(ids) - n, len(ids)))
        assert found.log_prob == pytest.approx(expected, rel=1e-5) and found.n_tokens == n


def test_a_conversation_of_a_checkpoint_remembers_its_messages():
    checkpoint = Checkpoint(model=a_model(), texts=chatty())
    conversation = checkpoint.conversation(system="Be kind.", max_new_tokens=2)
    "".join(conversation.ask("Hi"))
    assert [message["role"] for message in conversation.messages] == ["system", "user", "assistant"]


def test_a_checkpoint_optimized_for_inference_writes_and_scores_the_same_and_is_not_saved(tmp_path):
    checkpoint = Checkpoint(model=a_model(), texts=Texts(tokenizer=ByteTokenizer(["<|end|>"]), before=(256,)))
    optimized = checkpoint.for_inference()
    assert type(optimized.model).__name__ == "InferenceTransformer"
    assert optimized.generate("The lake", max_new_tokens=9) == checkpoint.generate("The lake", max_new_tokens=9)
    (found,), (expected,) = (one.score([("The", " lake")]) for one in (optimized, checkpoint))
    assert found.log_prob == pytest.approx(expected.log_prob, rel=1e-5)
    with pytest.raises(ValueError, match="optimized for inference cannot be saved"):
        save(optimized, tmp_path / "model")


def test_numbers_describe_a_sampler_and_what_is_no_setting_is_named():
    checkpoint = Checkpoint(model=a_model(), texts=Texts(tokenizer=ByteTokenizer(["<|end|>"]), before=(256,)))
    drawn = [checkpoint.generate("A", max_new_tokens=9, temperature=1.5, top_k=50, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    sampler = Sampler(Temperature(1.5), TopK(50), generator=torch.Generator().manual_seed(1))
    assert drawn[0] == checkpoint.generate("A", max_new_tokens=9, sampler=sampler)
    assert checkpoint.generate("A", temperature=0, max_new_tokens=9) == checkpoint.generate("A", max_new_tokens=9)
    with pytest.raises(TypeError, match="do_sample is no setting of generated texts; there are .*, temperature, "):
        checkpoint.generate("A", do_sample=True)
    with pytest.raises(TypeError, match="sampler and top_p must not both be given"):
        checkpoint.stream("A", sampler=sampler, top_p=0.5)
    with pytest.raises(ValueError, match="sampler returned torch.float32 .*; it must return the id of one token"):
        checkpoint.generate("A", sampler=Temperature(0.5))


def test_messages_are_answered_and_count_once_the_answer_begins():
    checkpoint = Checkpoint(model=a_model(), texts=chatty())
    messages = [{"role": "user", "content": "Hi"}]
    assert "".join(checkpoint.stream(messages, max_new_tokens=5)) == checkpoint.chat("Hi", max_new_tokens=5)
    conversation = checkpoint.conversation(max_new_tokens=5)
    conversation.ask("never taken")
    assert conversation.messages == []
    assert conversation.answer("Hi") == checkpoint.chat("Hi", max_new_tokens=5)
    assert [message["content"] for message in conversation.messages][0] == "Hi"


def test_a_tokenizer_with_more_tokens_than_the_model_knows_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="the tokenizer has 300 tokens; the model knows n_vocab=260"):
        save(a_model(), tmp_path / "model", tokenizer=ByteTokenizer([f"<{n}>" for n in range(44)]))
    assert not [*tmp_path.iterdir()]


def test_a_list_of_texts_is_not_streamed(run_without_shape_checks):
    run_without_shape_checks("""
import llm_anatomy as la
try:
    la.load("story_rope").stream(["A", "B"])
except ValueError as error:
    assert str(error).startswith("prompt must be a text, or the messages of a conversation"), error
else:
    raise AssertionError("it was accepted")
""")
