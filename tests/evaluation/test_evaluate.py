"""Evaluations: reports with their settings, and results that survive an interruption."""

import json

import pytest
import torch

from llm_anatomy.config import ModelConfig
from llm_anatomy.evaluation.evaluate import evaluate, fingerprint, items_file, read_results
from llm_anatomy.evaluation.tasks import Likelihoods, MultipleChoice, Passage, Question
from llm_anatomy.models.checkpoints import Checkpoint
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.simple import ByteTokenizer

QUESTIONS = [Question(context=f"The {i}th lake is", choices=("deep", "loud"), answer=i % 2) for i in range(9)]


def checkpoint(seed=0):
    torch.manual_seed(seed)
    model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=256, position="alibi"))
    return Checkpoint(model=model, texts=Texts(tokenizer=ByteTokenizer()))


class Interrupted(MultipleChoice):
    """A task that breaks off after some items, and counts those that it was asked for."""

    asked, after = 0, 99

    def run(self, model, indices, few_shot, seed):
        for n, found in enumerate(super().run(model, indices, few_shot, seed)):
            if n == self.after:
                raise KeyboardInterrupt
            self.asked += 1
            yield found


def tasks(after=99):
    task = Interrupted("lakes", QUESTIONS)
    task.after = after
    return [task, Likelihoods("texts", [Passage(text="A lake."), Passage(text="A river.")])]


@pytest.mark.syllabus("GT-09")
def test_a_report_says_how_its_numbers_were_computed(tmp_path):
    out = tmp_path / "new" / "report.json"
    report = evaluate(checkpoint(), tasks(), out=out, name="small", limit=4, few_shot=1, seed=3, batch_size=2)
    written = json.loads(out.read_text())
    assert written == json.loads(json.dumps(report.as_json()))
    settings = written["settings"]
    assert settings["model"] == "small" and settings["weights"] == fingerprint(checkpoint().model)
    assert [settings[name] for name in ("limit", "few_shot", "seed", "batch_size", "device")] == [4, 1, 3, 2, "cpu"]
    assert settings["versions"]["torch"] == torch.__version__ and {*settings["tasks"]} == {"lakes", "texts"}
    assert written["tasks"]["lakes"]["items"] == 4 and written["tasks"]["texts"]["items"] == 2
    accuracy = written["tasks"]["lakes"]["metrics"]["accuracy, raw"]
    assert accuracy["interval"][0] <= accuracy["value"] <= accuracy["interval"][1]
    assert [row[:3] for row in report.rows()][0] == ["lakes", "4", "accuracy, raw"]
    assert {task: len(found) for task, found in read_results(out).items()} == {"lakes": 4, "texts": 2}
    assert read_results(out)["lakes"][2] == report.results["lakes"][2]


def test_the_batch_size_does_not_change_the_results():
    one, other = (evaluate(checkpoint(), tasks(), batch_size=n).results["lakes"] for n in (1, 50))
    for a, b in zip(one, other, strict=True):
        assert a["log_probs"] == pytest.approx(b["log_probs"], abs=1e-5)


def test_an_interrupted_evaluation_goes_on_where_it_was(tmp_path):
    out = tmp_path / "report.json"
    whole = evaluate(checkpoint(), tasks(), batch_size=1)
    with pytest.raises(KeyboardInterrupt):
        evaluate(checkpoint(), tasks(after=5), out=out, batch_size=1)
    assert not out.exists() and len(read_results(out)["lakes"]) == 5
    with items_file(out).open("a") as file:  # a kill in the middle of a line
        file.write('["lakes", 7, {"log_pr')
    again = tasks()
    report = evaluate(checkpoint(), again, out=out, batch_size=1)
    assert again[0].asked == 4 and report.metrics == whole.metrics and report.results == whole.results
    again = tasks()
    assert evaluate(checkpoint(), again, out=out).metrics == whole.metrics and again[0].asked == 0


def test_a_larger_limit_extends_an_evaluation(tmp_path):
    out, more = tmp_path / "report.json", tasks()
    evaluate(checkpoint(), tasks(), out=out, limit=3, few_shot=2)
    report = evaluate(checkpoint(), more, out=out, few_shot=2)
    assert more[0].asked == 6 and report.n_items["lakes"] == 9
    assert report.metrics == evaluate(checkpoint(), tasks(), few_shot=2).metrics


@pytest.mark.parametrize("change", ["weights", "few_shot", "items"])
def test_the_results_of_another_evaluation_are_not_taken(tmp_path, change):
    out = tmp_path / "report.json"
    evaluate(checkpoint(), tasks(), out=out)
    other = tasks()
    if change == "items":
        other[0].items = QUESTIONS[1:]
    with pytest.raises(ValueError, match="has the results of another evaluation: remove it, or choose another --out"):
        evaluate(checkpoint(change == "weights"), other, out=out, few_shot=int(change == "few_shot"))
    assert len(read_results(out)["lakes"]) == 9


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"limit": 0}, "limit=0 must be at least 1"),
        ({"few_shot": -1}, "few_shot=-1 must be at least 0"),
        ({"few_shot": 9}, "few_shot=9 must be at most 8"),
        ({"batch_size": 0}, "batch_size=0 must be at least 1"),
        ({"out": "report.txt"}, "out='report.txt' must end in .json"),
        ({"tasks": []}, "the tasks are none"),
        (
            {"tasks": [MultipleChoice("a", QUESTIONS)] * 2},
            "the tasks are a, a; there must be one or more, with different",
        ),
        ({"tasks": [MultipleChoice("a", [])]}, "the task a has no items"),
    ],
)
def test_what_cannot_be_evaluated_is_one_sentence(settings, sentence):
    settings = {"tasks": tasks()} | settings
    with pytest.raises(ValueError, match=sentence):
        evaluate(checkpoint(), settings.pop("tasks"), **settings)


def test_the_fingerprint_is_that_of_the_weights():
    one, other = checkpoint().model, checkpoint().model
    assert fingerprint(one) == fingerprint(other) != fingerprint(checkpoint(1).model)
    with torch.no_grad():
        next(other.parameters())[0] += 1
    assert fingerprint(one) != fingerprint(other)
