"""Tasks: their files, their examples, and their metrics against counts by hand."""

import json
import math

import pytest
import torch

from llm_anatomy.evaluation.intervals import mean_interval, wilson_interval
from llm_anatomy.evaluation.tasks import (
    Likelihoods,
    MultipleChoice,
    Passage,
    Prompt,
    Question,
    ShortAnswers,
    examples,
    read_task,
)
from llm_anatomy.evaluation.text_model import Likelihood

QUESTION = {"context": "The lake is", "choices": ["deep", "loud"], "answer": 0}
PROMPT = {"prompt": "Two plus two is", "answers": ["four", "4"]}


class Counting:
    """Stands in for a model: the log-probability of a text is minus its length, plus what is known to it."""

    def __init__(self, answers=(), bonus=()):
        self.answers, self.bonus, self.asked = answers, dict(bonus), []

    def stream_log_likelihoods(self, pairs):
        self.asked += pairs
        for i, (context, continuation) in reversed(list(enumerate(pairs))):
            log_prob = -float(len(continuation)) + self.bonus.get((context, continuation), 0.0)
            yield i, Likelihood(log_prob, len(continuation.split()), False)

    def stream_continuations(self, prompts, *, max_new_tokens, stop):
        self.asked += [(prompt, max_new_tokens, stop) for prompt in prompts]
        yield from reversed([(i, self.answers[prompt]) for i, prompt in enumerate(prompts)])

    def stream_whole_texts(self, texts):
        yield from reversed([(i, Likelihood(-float(i + 1), i + 2, False), len(t)) for i, t in enumerate(texts)])


def run(task, model, few_shot=0, seed=0):
    indices = range(len(task.items))
    results = dict(task.run(model, indices, few_shot, seed))
    assert sorted(results) == list(indices)
    assert json.loads(json.dumps(results[0])) == results[0]
    return task.metrics(indices, [results[i] for i in indices]), results


# --- Metrics ---


@pytest.mark.syllabus("GT-09")
def test_the_four_accuracies_of_questions():
    """The shortest choice is likely by itself; characters, tokens and the context change what is best."""
    items = [
        Question(context="a", choices=("x y z", "xxxxxxxxxx", "xx"), answer=1, unconditional="u"),
        Question(context="b", choices=("x", "yy"), answer=0, unconditional="u"),
    ]
    bonus = {("a", " x y z"): 1.5, ("a", " xxxxxxxxxx"): 9.0, ("u", " xxxxxxxxxx"): 8.5}
    model = Counting(bonus=bonus)
    metrics, results = run(MultipleChoice("q", items), model)
    # raw: -4.5, -2, -3; per token: -1.5, -2, -3; per character: -0.9, -0.2, -1.5; minus alone: 1.5, 0.5, 0
    assert results[0] == {"log_probs": [-4.5, -2.0, -3.0], "n_tokens": [3, 1, 1], "unconditional": [-6.0, -2.5, -3.0]}
    found = {name: metric.estimate for name, metric in metrics.items()}
    assert found == {
        "accuracy, raw": 1.0,
        "accuracy, per token": 0.5,
        "accuracy, per character": 0.5,
        "accuracy, unconditional": 0.5,
    }
    assert metrics["accuracy, raw"] == wilson_interval(2, 2)
    assert len(model.asked) == len({*model.asked}) == 10  # nothing is asked twice


def test_without_an_unconditional_prompt_for_all_there_are_three_scores():
    items = [Question(context="a", choices=("x", "y"), answer=0, unconditional=alone) for alone in ("u", None)]
    assert len(run(MultipleChoice("q", items), Counting())[0]) == 3


def test_groups_make_intervals_longer():
    right = [1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]
    bonus = {(f"{i}", " b"): -5.0 for i, one in enumerate(right) if one}

    def interval(groups):
        items = [Question(context=f"{i}", choices=("aa", "b"), answer=0, group=group) for i, group in enumerate(groups)]
        return run(MultipleChoice("q", items), Counting(bonus=bonus))[0]["accuracy, raw"]

    pairs = [f"{i // 2}" for i in range(12)]
    assert interval([None] * 12) == wilson_interval(8, 12)
    assert interval(pairs) == pytest.approx(mean_interval(right, [i // 2 for i in range(12)]))
    assert interval(["a", "a", *[None] * 10]) == pytest.approx(mean_interval(right, [0, 0, *range(1, 11)]))
    bonus = {(f"{i}", " b"): -5.0 for i in range(12)}
    assert interval(pairs) == wilson_interval(6, 6)  # all are right: six groups, not twelve questions


@pytest.mark.syllabus("GT-10")
def test_short_answers_are_compared_after_normalization():
    items = [
        Prompt(prompt="a", answers=("four", "4")),
        Prompt(prompt="b", answers=("the lake",)),
        Prompt(prompt="c", answers=("deep water",), stop=(".",)),
    ]
    model = Counting({"a": " Four.", "b": "a river", "c": "the deep lake"})
    metrics, results = run(ShortAnswers("p", items, max_new_tokens=7), model)
    assert [results[i]["exact_match"] for i in range(3)] == [1.0, 0.0, 0.0]
    assert [results[i]["f1"] for i in range(3)] == [1.0, 0.0, 0.5]
    assert metrics["exact match"] == wilson_interval(1, 3) and metrics["F1"].estimate == pytest.approx(0.5)
    assert metrics["F1"] == pytest.approx(mean_interval([1.0, 0.0, 0.5]))
    assert sorted(model.asked) == [("a", 7, ("\n",)), ("b", 7, ("\n",)), ("c", 7, (".",))]


@pytest.mark.syllabus("UCL-03")
def test_bits_per_byte_and_perplexity_are_ratios_of_sums():
    items = [Passage(text=text) for text in ("abcd", "ab", "abc")]
    metrics, _ = run(Likelihoods("t", items), Counting(), few_shot=3)
    bits = metrics["bits per byte"]
    assert bits.estimate == pytest.approx(6 / math.log(2) / 9)
    assert metrics["perplexity"].estimate == pytest.approx(math.exp(6 / 9))
    draws = torch.randint(3, (20000, 3), generator=torch.Generator().manual_seed(0))
    above, below = torch.tensor([1.0, 2, 3]) / math.log(2), torch.tensor([4.0, 2, 3])
    error = (above[draws].sum(1) / below[draws].sum(1)).std().item()
    assert 1.0 < (bits.high - bits.estimate) / 1.96 / error < 1.4  # n / (n - 1) for three texts


def test_one_item_has_no_interval():
    metrics, _ = run(Likelihoods("t", [Passage(text="abc")]), Counting())
    assert math.isnan(metrics["bits per byte"].low)


def test_items_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="t: item 1 is a Prompt, not a Passage"):
        Likelihoods("t", [Passage(text="a"), Prompt(prompt="a", answers=("b",))])


# --- Examples ---


@pytest.mark.syllabus("GT-10")
def test_examples_are_other_items_of_other_groups_and_stay_the_same():
    items = [Prompt(prompt=f"{i}", answers=(f"<{i}>",), group=f"{i // 3}" if i < 9 else None) for i in range(12)]
    seen = set()
    for i in range(12):
        shown = examples(items, i, 4, seed=5)
        assert shown == examples(items, i, 4, seed=5) and len({*shown}) == 4
        assert items[i] not in shown and (i >= 9 or all(item.group != items[i].group for item in shown))
        seen |= {*shown}
    assert len(seen) == 12 and examples(items, 0, 4, seed=5) != examples(items, 0, 4, seed=6)
    assert examples(items, 0, 0) == []
    with pytest.raises(ValueError, match="few_shot=10 must be at most 9, the number of other items in another group"):
        examples(items, 0, 10)
    with pytest.raises(ValueError, match="few_shot=-1 must be at least 0"):
        examples(items, 0, -1)


def test_prompts_show_solved_items():
    items = [Prompt(prompt=f"{i} is", answers=(f"<{i}>", "x"), delimiter=": ") for i in range(3)]
    model = Counting({prompt: "" for prompt in ("1 is: <1>\n\n2 is: <2>\n\n0 is",)})
    task = ShortAnswers("p", items)
    (first, second) = examples(items, 0, 2)
    prompt = f"{first.prompt}: {first.answers[0]}\n\n{second.prompt}: {second.answers[0]}\n\n0 is"
    model.answers = {prompt: "<0>"}
    assert dict(task.run(model, [0], 2, 0))[0]["exact_match"] == 1.0
    questions = [Question(context=f"{i} is", choices=("a", "b"), answer=i % 2) for i in range(2)]
    counting = Counting()
    list(MultipleChoice("q", questions).run(counting, [0], 1, 0))
    assert counting.asked == [("1 is b\n\n0 is", " a"), ("1 is b\n\n0 is", " b")]


# --- Files ---


def written(tmp_path, *lines):
    path = tmp_path / "lakes.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return path


def test_a_file_becomes_a_task_of_its_kind(tmp_path):
    more = {"unconditional": "Answer:", "delimiter": "", "group": 7, "id": "ignored"}
    lines = [b"\xef\xbb\xbf" + json.dumps(QUESTION).encode(), b" \r", QUESTION | more, QUESTION | {"answer": "loud"}]
    task = read_task(written(tmp_path, *lines))
    assert isinstance(task, MultipleChoice) and task.name == "lakes"
    first, second, third = task.items
    assert first == Question(context="The lake is", choices=("deep", "loud"), answer=0)
    assert (second.unconditional, second.delimiter, second.group) == ("Answer:", "", "7") and third.answer == 1
    task = read_task(written(tmp_path, PROMPT, PROMPT | {"stop": [".", "!"]}))
    assert isinstance(task, ShortAnswers) and task.items[0].stop == ("\n",) and task.items[1].stop == (".", "!")
    task = read_task(written(tmp_path, {"text": "Die Wörter.", "group": "a"}))
    assert isinstance(task, Likelihoods) and task.items == [Passage(text="Die Wörter.", group="a")]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"context": "a",', "no JSON (Expecting property name enclosed in double quotes at column 17)"),
        (b"\xff\xfe", "not UTF-8 (invalid start byte)"),
        (b"[" * 100_000, "the JSON is nested too deeply"),
        ([1], "it must hold a JSON object, not list"),
        ({"context": "a"}, "it must have exactly one of the keys choices, answers, text"),
        (QUESTION | {"text": "a"}, "it must have exactly one of the keys"),
        (QUESTION | {"choices": "deep"}, "key 'choices': 'deep' must be a list of texts, none of which is empty"),
        (QUESTION | {"choices": ["deep", ""]}, "key 'choices': ['deep', ''] must be a list of texts"),
        (QUESTION | {"choices": ["deep"]}, "key 'choices': there must be at least two"),
        (QUESTION | {"answer": 2}, "key 'answer': 2 must be the text of one choice, or an index from 0 to 1"),
        (QUESTION | {"answer": True}, "key 'answer': True must be the text of one choice"),
        (QUESTION | {"answer": "wide"}, "key 'answer': 'wide' must be the text of one choice"),
        ({"choices": ["a", "b"], "answer": 0}, "key 'context' is missing"),
        (QUESTION | {"context": 5}, "key 'context': 5 must be a text"),
        (QUESTION | {"group": [1]}, "key 'group': [1] must be a text or a number"),
        (PROMPT, "a file holds items of one kind, and this one a question and then a prompt"),
        ({"text": ""}, "key 'text': it must have at least one character"),
    ],
)
def test_a_bad_line_is_one_sentence_with_its_number(tmp_path, line, sentence):
    with pytest.raises(ValueError) as error:
        read_task(written(tmp_path, QUESTION, b"", line))
    assert str(error.value).startswith(f"lakes.jsonl, line 3: {sentence}")


def test_a_file_without_items_is_refused(tmp_path):
    with pytest.raises(ValueError, match="lakes.jsonl has no items"):
        read_task(written(tmp_path, b"", b"  "))
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        read_task(tmp_path)
