"""Outputs are read line by line, and each pair of outputs is counted once."""

import json
from itertools import combinations

import pytest

from llm_anatomy.arena import models as models_module
from llm_anatomy.arena.models import MODELS, story_beginnings, write_outputs
from llm_anatomy.arena.outputs import MAX_CHARACTERS, Outputs
from llm_anatomy.models.checkpoints import Checkpoint
from llm_anatomy.models.sampling import Temperature

THREE = {"one": {"x": "1", "y": "2", "z": "3"}, "two": {"y": "4", "x": "5"}, "three": {"x": "6", "z": "7", "y": "8"}}


def line(**fields):
    return json.dumps({"prompt": "one", "model": "x", "output": "1"} | fields) + "\n"


@pytest.mark.syllabus("IITD-01", "GT-50")
def test_a_file_that_was_written_is_read_back(tmp_path):
    outputs = Outputs(THREE | {"Ünicode\u2028\nand lines": {"x": "<b>", "y": ""}})
    (tmp_path / "a.jsonl").write_text("\n" + "".join(outputs.lines()), "utf-8")
    again = Outputs.read(tmp_path / "a.jsonl")
    assert again == outputs and again.fingerprint == outputs.fingerprint and again.models == ["x", "y", "z"]
    other = Outputs(THREE | {"one": THREE["one"] | {"x": "2"}})
    assert other.fingerprint != Outputs(THREE).fingerprint


def test_each_pair_of_outputs_for_a_prompt_has_one_index():
    outputs = Outputs(THREE)
    found = [outputs.pair(i) for i in range(outputs.n_pairs)]
    expected = [(prompt, a, b) for prompt in THREE for a, b in combinations(sorted(THREE[prompt]), 2)]
    assert found == expected and len(found) == 7


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "a.jsonl: there are no outputs"),
        (line() + "{\n", "a.jsonl, line 2: this is no JSON in UTF-8 (Expecting property name"),
        ("[" * 100_000, "a.jsonl, line 1: this is no JSON in UTF-8"),
        ("[1]\n", "line 1: there must be an object with the texts prompt, model, output"),
        (line(output=None), "line 1: there must be an object with the texts"),
        (line(), "a.jsonl: the prompt 'one' has 1 output; a battle needs two"),
        (line() + "\n" + line(output="2"), "line 3: x has a second output for the prompt 'one'"),
        (line(model="=SUM(A1)"), "line 1: model==SUM(A1) must be at most 100 letters"),
        (line(model="x" * 101), "must be at most 100 letters"),
        (line(model="x\n"), "must be at most 100 letters"),
        (line(output="x" * (MAX_CHARACTERS + 1)), "line 1: the output has 20,001 characters; at most 20,000 are"),
        (line(prompt="a\0b"), "line 1: the prompt has the character U+0000, which is no part of a text"),
        (line(output="\ud800"), "line 1: the output has the character U+D800"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_the_line(tmp_path, text, sentence):
    (tmp_path / "a.jsonl").write_text(text, "utf-8")
    with pytest.raises(ValueError) as error:
        Outputs.read(tmp_path / "a.jsonl")
    assert sentence in str(error.value) and len(str(error.value)) < 300


def test_a_file_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(line(output="é").encode("utf-16"))
    with pytest.raises(ValueError, match="line 1: this is no JSON in UTF-8"):
        Outputs.read(tmp_path / "a.jsonl")


# --- What models write ---


def test_models_write_for_the_same_prompts_and_temperatures_differ():
    prompts = story_beginnings(2)
    models = ["story_rope@0", "story_rope@1.3", "story_learned@0"]
    outputs = write_outputs(models, prompts, max_new_tokens=12)
    assert outputs.prompts == prompts and outputs.models == sorted(models)
    first = outputs.by_prompt[prompts[0]]
    assert len(set(first.values())) == 3 and all(first.values())
    assert write_outputs(models, prompts, max_new_tokens=12) == outputs
    assert (
        write_outputs(models, prompts, max_new_tokens=12, seed=1).by_prompt[prompts[0]]["story_rope@0"]
        == first["story_rope@0"]
    )
    assert write_outputs(models, prompts, max_new_tokens=12, seed=1) != outputs


def test_the_longest_texts_are_taken():
    assert Outputs({"p" * MAX_CHARACTERS: {"x": "x" * MAX_CHARACTERS, "y": ""}}).n_pairs == 1


def test_control_characters_of_a_model_become_spaces(monkeypatch):
    monkeypatch.setattr(models_module, "_texts", lambda path, prompts, settings: ["\x00a\tb\x1b\u2028c\n\nd \n"])
    outputs = write_outputs(["story_rope", "story_llama"], ["Once"])
    assert set(outputs.by_prompt["Once"].values()) == {"a b  c\n\nd"}


def test_the_temperature_is_one_and_models_are_drawn_apart(monkeypatch):
    seen = []
    monkeypatch.setattr(models_module, "Temperature", lambda value: seen.append(value) or Temperature(value))
    outputs = write_outputs(["story_rope", "story_rope@1.0"], ["Once"], max_new_tokens=12)
    assert seen == [1, 1] and len(set(outputs.by_prompt["Once"].values())) == 2


def test_an_output_ends_where_the_story_ends(monkeypatch):
    names = ["story_rope", "story_llama"]
    monkeypatch.setattr(Checkpoint, "generate", lambda *_, **__: ["The end.\n\nA story."])
    assert write_outputs(names, ["Once"]).by_prompt["Once"] == dict.fromkeys(names, "The end.")


def test_a_checkpoint_writes_and_one_with_a_chat_template_answers(tmp_path, monkeypatch):
    pytest.importorskip("jinja2")
    from llm_anatomy.config import ModelConfig
    from llm_anatomy.models.checkpoints import save
    from llm_anatomy.models.checkpoints.chat import ChatTemplate
    from llm_anatomy.models.checkpoints.texts import Texts
    from llm_anatomy.models.transformer import Transformer
    from llm_anatomy.tokenizers.simple import ByteTokenizer

    for name, template in {"plain": None, "chat": "{% for m in messages %}<{{ m.content }}>{% endfor %}"}.items():
        model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=260, position="alibi"))
        template = template and ChatTemplate(templates={"default": template}, variables={})
        texts = Texts(tokenizer=ByteTokenizer(["<e>", "<s>"]), stop=(256,), chat_template=template)
        save(Checkpoint(model=model, texts=texts), tmp_path / name)
    outputs = write_outputs(
        ["story_rope", str(tmp_path / "plain"), f"{tmp_path / 'chat'}@0"], ["Hello."], max_new_tokens=5
    )
    assert set(outputs.by_prompt["Hello."]) == {"story_rope", "plain", "chat@0"}
    asked = []
    monkeypatch.setattr(ChatTemplate, "render", lambda self, messages, **_: asked.append(messages) or "<>")
    write_outputs([str(tmp_path / "plain"), str(tmp_path / "chat")], ["Hello."], max_new_tokens=5)
    assert asked[0] == [{"role": "user", "content": "Hello."}]


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        (["story_rope"], "models=story_rope must be at least two, all of them different"),
        (["story_rope", "story_rope"], "all of them different"),
        (["a/story_rope", "b/../a/story_rope"], "'a/story_rope' is no folder"),
        (["story_rope@hot", "story_llama"], "story_rope@hot must be a model, or a model and its temperature such as"),
        (["story_rope@-1", "story_llama"], "story_rope@-1 must be a model"),
        (["no-such-model", "story_llama"], "'no-such-model' cannot be loaded"),
        (["translation", "story_llama"], "translation: a text cannot be read"),
    ],
)
def test_models_that_cannot_be_used_are_one_sentence(models, sentence):
    with pytest.raises(ValueError) as error:
        write_outputs(models, ["Once"], max_new_tokens=2)
    assert sentence in str(error.value)


def test_the_models_of_a_first_class_are_six():
    assert len(set(MODELS)) == 6 and len(story_beginnings(24)) == 24
