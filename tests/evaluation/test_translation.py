"""BLEU against its definition, and the alignment error rate against one counted by hand."""

import builtins
import math
from collections import Counter

import pytest

from llm_anatomy.evaluation.text_metrics import bleu
from llm_anatomy.evaluation.translation import alignment_error_rate

REFERENCES = ["kavon duon lon wodo sub vidun .", "mira la pomo premi ."]


def by_definition(translations, references):
    right, all_of_them = [0] * 4, [0] * 4
    for found, wanted in zip(translations, references, strict=True):
        for n in range(1, 5):
            a, b = (
                Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
                for words in (found.split(), wanted.split())
            )
            right[n - 1] += (a & b).total()
            all_of_them[n - 1] += a.total()
    c, r = (sum(len(text.split()) for text in texts) for texts in (translations, references))
    precision = math.prod(a / b for a, b in zip(right, all_of_them, strict=True)) ** 0.25
    return 100 * min(1, math.exp(1 - r / c)) * precision


@pytest.mark.parametrize(
    "translations",
    [
        REFERENCES,
        ["kavon duon lon wodo sub vidon .", "mira la pomo premi ."],
        ["kavon duon lon wodo sub", "mira la pomo la pomo premi ."],
    ],
)
def test_bleu_is_that_of_its_definition(translations):
    assert bleu(translations, REFERENCES) == pytest.approx(by_definition(translations, REFERENCES), abs=1e-6)


def test_bleu_needs_as_many_references_and_its_package(monkeypatch):
    with pytest.raises(ValueError, match="1 translations and 2 references; there must be as many"):
        bleu(REFERENCES[:1], REFERENCES)
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "sacrebleu":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"BLEU needs sacrebleu \(pip install 'llm_anatomy\[experiments\]'\)"):
        bleu(REFERENCES, REFERENCES)


@pytest.mark.syllabus("UCL-31")
def test_the_error_rate_counts_sure_and_possible_links():
    sure, possible = [{(0, 0), (1, 1)}, {(2, 0)}], [{(0, 0), (1, 1), (2, 1)}, {(2, 0), (1, 0)}]
    assert alignment_error_rate(sure, sure, possible) == 0
    assert alignment_error_rate(possible, sure, possible) == 0  # one that is possible costs nothing
    assert alignment_error_rate([{(5, 5)}, set()], sure, possible) == 1
    # found 3, of which 1 is sure and 2 are possible: 1 − (1 + 2) / (3 + 3)
    assert alignment_error_rate([{(0, 0), (3, 1)}, {(1, 0)}], sure, possible) == 0.5


def test_links_that_are_sure_and_not_possible_are_refused_and_so_are_none_at_all():
    with pytest.raises(ValueError, match=r"the links \[\(1, 1\)\] are sure and not possible"):
        alignment_error_rate([set()], [{(1, 1)}], [set()])
    with pytest.raises(ValueError, match="there are no links"):
        alignment_error_rate([set()], [set()], [set()])
