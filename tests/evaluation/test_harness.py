"""The adapter for lm-evaluation-harness, without it; tests/released/test_harness.py compares the numbers."""

import builtins

import pytest

from llm_anatomy.config import ModelConfig
from llm_anatomy.evaluation import harness
from llm_anatomy.models.checkpoints import Checkpoint
from llm_anatomy.models.checkpoints.chat import ChatTemplate
from llm_anatomy.models.checkpoints.scoring import TextModel
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.simple import ByteTokenizer


def test_without_the_harness_it_says_how_to_get_it(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("lm_eval"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    harness._harness_class.cache_clear()
    with pytest.raises(ValueError, match=r"needs lm-evaluation-harness \(pip install 'llm_anatomy\[evaluation\]'\)"):
        harness.register()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"until": "\n"}, (("\n",), 256, 1.0)),
        ({"until": ["\n", ""], "max_gen_toks": 5, "do_sample": False, "temperature": 0.7}, (("\n",), 5, 1.0)),
        ({"do_sample": True, "temperature": 0.0, "top_p": 0.5}, ((), 256, 1.0)),
        ({"max_tokens": 3, "max_completion_tokens": 4, "repetition_penalty": 1.3}, ((), 3, 1.3)),
        ({"max_completion_tokens": 4, "max_new_tokens": None, "num_beams": 1}, ((), 4, 1.0)),
    ],
)
def test_the_settings_of_a_request(asked, expected):
    assert harness._settings(asked) == expected


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"do_sample": True, "temperature": 0.7}, "asks for random answers; llm_anatomy answers greedily"),
        ({"do_sample": True}, "asks for random answers"),
        ({"temperature": 0.7}, "asks for random answers"),
        ({"num_beams": 4}, "num_beams=4 is not supported by llm_anatomy; it must be 1 or left out"),
        ({"no_repeat_ngram_size": 3}, "no_repeat_ngram_size=3 is not supported"),
        ({"bad_words": ["x"]}, "'bad_words' is no setting of answers that llm_anatomy knows"),
    ],
)
def test_what_would_change_an_answer_is_not_dropped(asked, sentence):
    with pytest.raises(ValueError, match=sentence):
        harness._settings(asked)


def test_what_turns_texts_into_ids_has_a_fingerprint():
    model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=260))
    texts = [
        Texts(tokenizer=ByteTokenizer(["<a>", "<b>"]), chat_template=ChatTemplate(templates={"default": "A"})),
        Texts(tokenizer=ByteTokenizer(["<a>", "<b>"]), chat_template=ChatTemplate(templates={"default": "B"})),
        Texts(tokenizer=ByteTokenizer(["<a>", "<c>"]), chat_template=ChatTemplate(templates={"default": "A"})),
        Texts(tokenizer=ByteTokenizer(["<a>", "<b>"]), bos=256),
    ]
    found = [harness._fingerprint(TextModel(Checkpoint(model=model, texts=each))) for each in [*texts, *texts]]
    assert len(set(found)) == 4 and found[:4] == found[4:]
