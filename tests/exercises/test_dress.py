"""The notebook's check and the grader say the same of a right answer in whatever dress its values come."""

from collections import OrderedDict, namedtuple
from dataclasses import asdict
from functools import partial

import numpy as np
import pytest
import torch

from llm_anatomy.notebook.checks import check
from llm_grader import key, marking
from llm_grader.records import Outcome, PreparedQuestion
from llm_grader.worker import calls, questions

CHAPTERS = ["attention", "before_transformers", "tokenizers", "transformer"]
CHAPTERS += ["absolute_position", "relative_position", "rotary_position", "normalization", "norm_placement"]
CHAPTERS += ["feedforward", "kv_cache", "optimization", "open_models", "modifications", "instruction_data"]
CHAPTERS += ["evaluation"]


def dressed(value, *, tensor=lambda x: x, number=lambda x: x, sequence=lambda x: x, dictionary=lambda x: x):
    """A value whose tensors, numbers, sequences and dictionaries are replaced."""
    inner = partial(dressed, tensor=tensor, number=number, sequence=sequence, dictionary=dictionary)
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, dict):
        return dictionary({name: inner(entry) for name, entry in value.items()})
    if isinstance(value, tuple | list):
        return sequence(type(value)(map(inner, value)))
    return number(value) if isinstance(value, bool | int | float) else value


def reversed_array(x):
    return x.detach().flip(0).numpy()[::-1] if x.dim() else x.detach().numpy()


def strided(x):
    return torch.stack((x, x), -1)[..., 0]


def scalar_of_numpy(x):
    return {bool: np.bool_, int: np.int64, float: np.float64}[type(x)](x)


def named(value):
    names = [f"value_{i}" for i in range(len(value))]
    return namedtuple("Results", names)(*value) if isinstance(value, tuple) else tuple(value)


DRESS = {
    "arrays and scalars of NumPy": {
        "tensor": reversed_array,
        "number": scalar_of_numpy,
        "dictionary": lambda value: {np.str_(name): entry for name, entry in value.items()},
    },
    "tensors without axes, lists for tuples": {
        "tensor": strided,
        "number": torch.tensor,
        "sequence": lambda value: list(value) if isinstance(value, tuple) else tuple(value),
        "dictionary": lambda value: OrderedDict(reversed(value.items())),
    },
    "numbers for tensors without axes, named tuples": {
        "tensor": lambda x: (
            x.item()
            if x.dim() == 0
            else x.double()
            if x.is_floating_point()
            else x.int()
            if x.dtype == torch.int64
            else x
        ),
        "number": lambda x: float(x) if type(x) is int and abs(x) < 2**53 else x,
        "sequence": named,
    },
    "leaves of the graph": {"tensor": lambda x: x.detach().requires_grad_() if x.is_floating_point() else x},
}


def worn(solution, changes, *given):
    return dressed(solution(*given), **changes)


def verdicts(question, prepared, answer):
    """What the notebook says of an answer, and what the grader gives for it."""
    found = questions.observe(
        asdict(question), prepared.request["cases"], list(calls.evaluate(answer, prepared.request))
    )
    return check(question.id, answer), marking.mark(Outcome("done", found), prepared)


@pytest.mark.parametrize(
    "chapter",
    [pytest.param(name, marks=[] if name == "before_transformers" else [pytest.mark.corpus]) for name in CHAPTERS],
)
def test_check_and_grader_agree_whatever_dress_an_answer_wears(chapter):
    for question in key.load(chapter).questions:
        known = questions.prepare(asdict(question), seed=5)
        prepared = PreparedQuestion(
            question, {name: known.pop(name) for name in ("cases", "cotangents", "probes")}, **known
        )
        solution = calls.run_source(question.solution, "solution")[question.function]
        for dress, changes in DRESS.items():
            said, mark = verdicts(question, prepared, partial(worn, solution, changes))
            assert (said.status == "passed") == (mark.points == mark.possible), (question.id, dress, said, mark)
            # Only what an exercise asks for in so many words may be wrong: a dtype, or gradients.
            assert said.status == "passed" or question.dtype or question.gradients, (question.id, dress, said, mark)
            assert mark.criteria["values"] == 1, (question.id, dress, mark)


def test_what_float32_can_hold_earns_all_and_a_wider_type_does_not_help():
    """Logarithms lose digits at large scores, less than the hidden cases allow; exponentials overflow in any type."""
    (question,) = [each for each in key.load("attention").questions if each.function == "stable_softmax"]
    for seed in range(10):
        known = questions.prepare(asdict(question), seed)
        request = {name: known.pop(name) for name in ("cases", "cotangents", "probes")}
        prepared = PreparedQuestion(question, request, **known)
        said, mark = verdicts(question, prepared, lambda x: torch.exp(x - x.logsumexp(-1, keepdim=True)))
        assert (said.status, mark.points) == ("passed", mark.possible), (seed, mark)
        said, mark = verdicts(question, prepared, lambda x: x.double().exp() / x.double().exp().sum(-1, keepdim=True))
        assert said.status != "passed" and mark.points <= mark.possible / 2, (seed, mark)


def test_a_gradient_that_is_cut_or_overflows_is_told_by_the_notebook_too():
    (question,) = [each for each in key.load("attention").questions if each.function == "stable_softmax"]
    known = questions.prepare(asdict(question), seed=5)
    prepared = PreparedQuestion(
        question, {name: known.pop(name) for name in ("cases", "cotangents", "probes")}, **known
    )
    answers = {
        "nothing could be learned. Stay": lambda x: torch.softmax(x, -1).detach().requires_grad_(),
        "An exponential overflows": lambda x: 1 / (x[:, None, :] - x[:, :, None]).exp().sum(-1),
    }
    for words, answer in answers.items():
        said, mark = verdicts(question, prepared, answer)
        assert words in said.message and mark.category == "wrong gradients", (said, mark)
