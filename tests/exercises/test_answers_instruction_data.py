"""Answers that students give to the exercises of chapter 15: right ones pass, wrong ones are told what is wrong."""

import re
from collections import Counter
from difflib import SequenceMatcher
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bookbinder import ROOT
from bookbinder.masters import load
from llm_anatomy.data_generation import prompts
from llm_anatomy.data_generation.cost import Price, Usage
from llm_anatomy.data_generation.filters import NearDuplicates, rouge_l, words_of
from llm_anatomy.data_generation.generators import Completion
from llm_anatomy.data_generation.parsing import parse_instructions
from llm_anatomy.data_generation.pool import Task
from llm_anatomy.notebook.checks import check

INSTRUCTIONS = [
    "Name three kinds of birds.",
    "Name three kinds of fish.",
    "Sort the words by their length.",
    "Sort the words of the text by length.",
    "Why do birds sing?",
    "Write a poem about rain.",
    "Write a short poem about the rain.",
    "Count the sentences.",
]


def told(name, answer):
    return check(f"instruction_data/{name}", answer)


def passes(name, answer):
    result = told(name, answer)
    assert result.status == "passed", result


def told_not_passed(name, answer, words):
    result = told(name, answer)
    assert result.status != "passed" and words in f"{result.example} {result.message}", result


def solution(name):
    return load(ROOT / "exercises" / "instruction_data" / name).run()[name]


# What the package says


def test_the_prompt_is_that_of_the_package():
    prompt, stop = solution("next_prompt")(INSTRUCTIONS, 7)
    assert prompt == prompts.instruction_prompt([Task(text) for text in INSTRUCTIONS])
    assert (stop,) == prompts.INSTRUCTION_STOP


@pytest.mark.parametrize("text", [" Sing.\nTask 10: Dance.\nTask 10:", "Add\nthem.\nTask 9: Go.", "", "\nTask 3:\n"])
@pytest.mark.parametrize("cut_off", [True, False])
def test_tasks_are_read_as_the_package_reads_them(text, cut_off):
    completion = Completion(text, 90, 12, "length" if cut_off else "stop")
    assert solution("read_tasks")(text, cut_off) == parse_instructions(completion)


def test_rouge_l_is_that_of_the_package():
    for one, other in combinations([*INSTRUCTIONS, "...", "42"], 2):
        assert solution("rouge_l_score")(one, other) == pytest.approx(rouge_l(words_of(one), words_of(other)))


def test_pairs_that_are_skipped_are_no_near_duplicates():
    texts = [words_of(text) for text in INSTRUCTIONS]
    by_length, by_words = solution("pairs_left")(texts, 0.7)
    n_similar = sum(rouge_l(one, other) >= 0.7 for one, other in combinations(texts, 2))
    assert n_similar <= by_words <= by_length <= 28 and by_words < 28


def test_the_pool_grows_as_the_package_s():
    near, added = NearDuplicates(INSTRUCTIONS[:1]), []
    for i, text in enumerate(INSTRUCTIONS[1:], start=1):
        if not near.refuses(text):
            near.add(text)
            added.append(i)
    words = [words_of(text) for text in INSTRUCTIONS]
    similarity = torch.tensor([[rouge_l(one, other) for other in words] for one in words])
    assert solution("growing_pool")(similarity, 1, 0.7) == added != list(range(1, 8))


def test_the_bill_is_that_of_the_package():
    price, bill = Price(read=20, written=20), solution("alpaca_bill")()
    assert price.cost(Usage(2_600, 2_600 * 1_600, 52_000 * 80)) == pytest.approx(bill["batch"])
    assert price.cost(Usage(3_250, 3_250 * 1_600, 65_000 * 80)) == pytest.approx(bill["filtered"])


def test_targets_that_do_not_count_are_those_that_the_loss_leaves_out():
    ids, is_answer = torch.tensor([3, 4, 5, 1, 2]), torch.tensor([False, False, True, True, False])
    inputs, targets = solution("answer_targets")(ids, is_answer)
    logits = torch.randn(4, 6)
    counted = F.cross_entropy(logits[1:3], torch.tensor([5, 1]))
    assert inputs.tolist() == [3, 4, 5, 1]
    torch.testing.assert_close(F.cross_entropy(logits, targets), counted)


# Right answers of many forms

RIGHT = {
    "next_prompt": [
        lambda instructions, n_new: np.array(solution("next_prompt")(instructions, n_new)),
        lambda instructions, n_new: (
            solution("next_prompt")(instructions, n_new)[0],
            ["\nTask " + str(len(instructions) + n_new + 1)],
        ),
    ],
    "read_tasks": [
        lambda text, cut_off: np.array(solution("read_tasks")(text, cut_off), dtype=str).tolist(),
        lambda text, cut_off: np.array(solution("read_tasks")(text, cut_off), dtype=object),
        lambda text, cut_off: every_part("\n" + text, cut_off, r"\nTask [0-9]+:"),
        lambda text, cut_off: every_part(text.strip(), cut_off),
    ],
    "rouge_l_score": [
        lambda one, other: np.float32(rouge_l(words_of(one), words_of(other))),
        lambda one, other: Fraction(rouge_l(words_of(one), words_of(other))),
        lambda one, other: torch.tensor([rouge_l(words_of(one), words_of(other))]),
        lambda one, other: by_positions(words_of(one), words_of(other)),
    ],
    "pairs_left": [
        lambda texts, threshold: np.array(solution("pairs_left")(texts, threshold), dtype=float),
        lambda texts, threshold: torch.tensor(solution("pairs_left")(texts, threshold)),
        lambda texts, threshold: pairs_by(combinations(texts, 2), threshold),
    ],
    "growing_pool": [
        lambda *given: np.array(solution("growing_pool")(*given)),
        lambda *given: tuple(map(float, solution("growing_pool")(*given))),
    ],
    "answer_targets": [
        lambda ids, is_answer: torch.stack(solution("answer_targets")(ids, is_answer)).numpy(),
        lambda ids, is_answer: [row.to(torch.int32) for row in solution("answer_targets")(ids, is_answer)],
    ],
    "label_balance": [
        lambda labels: torch.tensor(solution("label_balance")(labels)),
        lambda labels: [Fraction(number) for number in solution("label_balance")(labels)],
        lambda labels: balance(labels, lambda label: label.casefold().strip()),
    ],
    "alpaca_bill": [
        lambda: {"cents": 0.9615, "tokens": 481.0, "single": "1747 $", "batch": np.float32(166.4), "filtered": "208"},
        lambda: {
            "cents": "0.96",
            "tokens": 480.77,
            "single": "$1,747",
            "batch": "166.40",
            "filtered": torch.tensor(208),
        },
    ],
    "what_follows": [
        lambda: {letter: word.upper() for letter, word in solution("what_follows")().items()},
        lambda: {letter.lower(): f" {word}" for letter, word in solution("what_follows")().items()},
    ],
    "repaired_tasks": [
        lambda rows: repaired_by(rows),
        lambda rows: tuple(dict(reversed(row.items())) for row in solution("repaired_tasks")(rows)),
        lambda rows: repaired_by(rows, start=r"\A(?:Task )?(?:(?<=Task )\d+:|(?<!Task )\d+\.)\s*"),
        lambda rows: repaired_by(rows, output=lambda text: [text, text[7:].lstrip()][text.startswith("Output:")]),
        lambda rows: repaired_by(rows, output=lambda text: re.sub(r"\AOutput:", "", text).strip()),
    ],
    "verbs_and_nouns": [lambda *given: np.array(solution("verbs_and_nouns")(*given))],
    "paid_twice": [lambda *given: np.array(solution("paid_twice")(*given), dtype=int)],
    "wrong_settings": [
        lambda: {letter.lower(): f" {field.upper()}" for letter, field in solution("wrong_settings")().items()},
        lambda: {letter: f"`{field.replace('_', ' ')}`" for letter, field in solution("wrong_settings")().items()},
    ],
    "read_the_pool": [lambda: {"refused": 230, "stricter": 250, "half": np.float32(0.5), "new": "88"}],
}


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, answers in RIGHT.items() for answer in answers])
def test_right_answers_pass_whatever_their_form(name, answer):
    passes(name, answer)


# Wrong answers that are not in the catalogue


def in_one_line(text):
    return " ".join(text.split())


def every_part(text, cut_off, start=r"(?m)^Task \d+:"):
    parts = re.split(start, text)
    return [in_one_line(part) for part in parts[: len(parts) - cut_off] if part.strip()]


def up_to_the_last_line(text, cut_off):
    return every_part(text.rpartition("\n")[0] if cut_off else text, False)


def by_positions(one, other):
    """ROUGE-L from the longest increasing list of positions, in place of a table."""
    ends = []
    for word in one:
        for j in reversed([j for j, each in enumerate(other) if each == word]):
            k = sum(end < j for end in ends)
            ends[k : k + 1] = [j]
    return 2 * len(ends) / max(1, len(one) + len(other))


def score(one, other, pattern):
    a, b = (re.findall(pattern, text.lower()) for text in (one, other))
    return rouge_l(a, b) if a and b else 0.0


def pairs_by(texts, threshold):
    left = [0, 0]
    for a, b in texts:
        for k, n in enumerate((min(len(a), len(b)), (Counter(a) & Counter(b)).total())):
            left[k] += 2 * n >= threshold * (len(a) + len(b))
    return tuple(left)


def grown(similarity, n_seeds, threshold, columns, below=torch.lt):
    added = []
    for i in range(n_seeds, len(similarity)):
        if below(similarity[i, columns(n_seeds, added)], threshold).all():
            added.append(i)
    return added


def balance(labels, clean):
    p = torch.tensor([float(n) for n in Counter(clean(label) for label in labels if label.strip()).values()])
    p = p / p.sum()
    return p.max(), (p**-p).prod()


def sent(requests, journal, key):
    keys = [key(request) for request in journal]
    return [i for i, each in enumerate(requests) if key(each) not in keys + [key(r) for r in requests[:i]]]


def repaired_by(rows, **change):
    """The repaired rows, with one rule changed."""
    rule = {
        "start": r"^(Task \d+:|\d+\.)\s*",
        "none": lambda text: text.lower(),
        "output": lambda text: re.sub(r"^Output:\s*", "", text),
        "echo": lambda given, output: output == given,
    } | change
    found = []
    for row in rows:
        instruction = re.sub(rule["start"], "", row["instruction"].strip())
        given, output = row["input"].strip(), rule["output"](row["output"].strip())
        given = "" if rule["none"](given) in ("<noinput>", "no input", "none", "n/a") else given
        repaired = {"instruction": instruction, "input": given, "output": output}
        if instruction and output and not rule["echo"](given, output) and repaired not in found:
            found.append(repaired)
    return found


def cut_at_the_colon(rows):
    def start(text):
        if text.startswith("Task ") and ":" in text:
            return text.split(":", 1)[1].strip()
        return re.sub(r"^\d+\.\s*", "", text)

    return repaired_by([row | {"instruction": start(row["instruction"].strip())} for row in rows], start=r"^$")


def blocks(one, other):
    """Python's own comparison, which looks for the longest run first, and so misses longer subsequences."""
    a, b = words_of(one), words_of(other)
    n = sum(block.size for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())
    return 2 * n / max(1, len(a) + len(b))


def joined_nouns(instructions, n_top):
    """All nouns of an instruction as one."""
    joined = []
    for words in instructions:
        nouns = " ".join(word for word, tag in words if tag == "noun")
        joined.append([pair for pair in words if pair[1] != "noun"] + [(nouns, "noun")] * bool(nouns))
    return solution("verbs_and_nouns")(joined, n_top)


WRONG = [
    (
        "next_prompt",
        lambda instructions, n_new: (solution("next_prompt")(instructions, n_new)[0], b"Task"),
        "stop text",
    ),
    ("next_prompt", lambda i, n: (solution("next_prompt")(i, n)[0], f"\nTask {n + 9}"), "'\\nTask 11' instead of"),
    ("read_tasks", lambda text, cut_off: every_part(text, cut_off, r"\nTask \d+:"), "'Task 9: Go.' instead of 'Go.'"),
    ("read_tasks", lambda text, cut_off: every_part(text, cut_off, r"(?m)^Task\s+\d+:"), "Task  8: no start"),
    ("read_tasks", lambda text, cut_off: every_part(text, cut_off, r"(?m)^Task \d+[.:]"), "Task 8. No start"),
    ("read_tasks", lambda text, cut_off: every_part(text, cut_off, r"(?m)^Task .*?:"), "read_tasks"),
    ("read_tasks", lambda text, cut_off: [*dict.fromkeys(every_part(text, cut_off))], "Task 10: Go."),
    (
        "read_tasks",
        lambda text, cut_off: [e for e in every_part(text, False) if not cut_off or e[-1] in ".?"],
        "read_tasks",
    ),
    ("rouge_l_score", lambda one, other: score(one, other, "[a-z0-9-]+"), "well-known"),
    ("rouge_l_score", lambda one, other: score(one, other, r"[^\W_]+"), "café"),
    ("rouge_l_score", lambda one, other: 100 * rouge_l(words_of(one), words_of(other)), "75 instead of 0.75"),
    ("label_balance", lambda labels: tuple(2 * each for each in solution("label_balance")(labels)), "label_balance"),
    ("verbs_and_nouns", joined_nouns, "in case"),
    ("verbs_and_nouns", lambda instructions, n_top: solution("verbs_and_nouns")(instructions, n_top + 1), "in case"),
    ("paid_twice", lambda *given: sent(*given, lambda r: (r["prompt"], r["max_tokens"] + r["seed"])), "paid_twice"),
    ("paid_twice", lambda *given: sent(*given, lambda r: (r["prompt"][:5], r["max_tokens"], r["seed"])), "paid_twice"),
    (
        "repaired_tasks",
        lambda rows: repaired_by(rows, output=lambda text: re.sub(r"(?i)^Output:\s*", "", text)),
        "'a' instead of 'output: a'",
    ),
    ("repaired_tasks", lambda rows: repaired_by(rows, echo=lambda a, b: b in a if a else a == b), "repaired_tasks"),
    ("what_follows", lambda: solution("what_follows")() | dict.fromkeys("BFG", "shown"), "'B', 'F' and 'G'"),
    ("wrong_settings", lambda: solution("wrong_settings")() | {"F": "threshold"}, "your value for 'F'"),
    ("alpaca_bill", lambda: solution("alpaca_bill")() | {"tokens": 2083}, "your number for 'tokens'"),
    ("rouge_l_score", blocks, "rouge_l_score"),
    ("rouge_l_score", lambda one, other: score(one, other, r"\w+"), "underscore"),
    ("rouge_l_score", lambda one, other: score(one, other, "[a-z0-9']+"), "apostrophe"),
    ("read_tasks", lambda text, cut_off: every_part(text, cut_off, r"(?mi)^Task \d+:"), "small letters"),
    ("read_tasks", lambda text, cut_off: every_part(text, cut_off, r"(?m)^ *Task \d+:"), "behind spaces"),
    ("read_tasks", up_to_the_last_line, "last line"),
    ("read_tasks", lambda text, cut_off: [f" {each}" for each in every_part(text, cut_off)], "read_tasks"),
    ("pairs_left", lambda texts, t: pairs_by([(a, b) for a, b in combinations(texts, 2) if a != b], t), "same words"),
    (
        "pairs_left",
        lambda texts, t: pairs_by(combinations(sorted({tuple(text) for text in texts}), 2), t),
        "stands in the list several times",
    ),
    ("growing_pool", lambda *given: grown(*given, lambda n, added: [*range(n), *added], torch.le), "equals"),
    ("growing_pool", lambda *given: grown(*given, lambda n, added: slice(n + len(added))), "as many of the first"),
    ("label_balance", lambda labels: balance(labels, lambda label: label.strip(" ").lower()), "line breaks"),
    ("label_balance", lambda labels: balance(labels, lambda label: "".join(label.lower().split())), "inside of labels"),
    ("label_balance", lambda labels: balance(labels, lambda label: label.strip(" \n.").lower()), "full stop"),
    ("alpaca_bill", lambda: solution("alpaca_bill")() | {"tokens": 480}, "rounded down"),
    ("alpaca_bill", lambda: solution("alpaca_bill")() | {"single": 1664, "batch": 83.2, "filtered": 104}, "reads"),
    ("repaired_tasks", lambda rows: repaired_by(rows, start=r"^(Task )?\d+[.:)]\s*"), "another mark"),
    ("repaired_tasks", lambda rows: repaired_by(rows, none=lambda text: text.lower().strip(".")), "full stop"),
    ("repaired_tasks", lambda rows: repaired_by(rows, echo=lambda a, b: a.lower() == b.lower()), "capital"),
    ("repaired_tasks", lambda rows: repaired_by(rows, echo=lambda a, b: a and a in b), "contains the input"),
    (
        "repaired_tasks",
        lambda rows: repaired_by([row for row in rows if row["input"].strip() != row["output"].strip()]),
        "before you empty",
    ),
    (
        "repaired_tasks",
        lambda rows: repaired_by(rows, output=lambda text: re.sub("^[Output:]+", "", text).strip()),
        "take letters away",
    ),
    (
        "repaired_tasks",
        lambda rows: repaired_by(rows, output=lambda text: text.replace("Output:", "", 1).strip()),
        "first `Output:` of an output away",
    ),
    (
        "repaired_tasks",
        lambda rows: repaired_by(rows, output=lambda text: re.sub(r"Output:\s*", "", text, count=1)),
        "first `Output:` of an output away",
    ),
    (
        "repaired_tasks",
        lambda rows: repaired_by(
            rows,
            output=lambda text: text.lstrip("".join(sorted("Output:"))).strip() if text[:7] == "Output:" else text,
        ),
        "letters away that follow `Output:`",
    ),
    ("repaired_tasks", cut_at_the_colon, "has no number"),
    ("repaired_tasks", lambda rows: repaired_by(rows, start=r"(?i)^(Task \d+:|\d+\.)\s*"), "small letters"),
    ("repaired_tasks", lambda rows: repaired_by(rows, start=r"(?m)^(Task \d+:|\d+\.)\s*"), "a later line"),
    ("repaired_tasks", lambda rows: repaired_by(rows, start=r"^(Task \d+:|\d+[.)])\s*"), "a bracket follows"),
    ("repaired_tasks", lambda rows: repaired_by(rows, start=r"^(Task\s*\d+:|\d+\.)\s*"), "no space stands"),
    ("repaired_tasks", lambda rows: [], "leads to '0 rows' instead of '1 row'"),
    ("repaired_tasks", lambda rows: 2 * solution("repaired_tasks")(rows), "leads to '2 rows' instead of '1 row'"),
    (
        "pairs_left",
        lambda texts, threshold: (
            pairs_by(combinations(texts, 2), threshold)[0],
            pairs_by(combinations([[word.lower() for word in text] for text in texts], 2), threshold)[1],
        ),
        "differ in capital letters",
    ),
    ("paid_twice", lambda *given: sent(*given, lambda r: f"{r['prompt']}{r['max_tokens']}{r['seed']}"), "same key"),
    ("wrong_settings", lambda: solution("wrong_settings")() | {"A": "n_in_context"}, "show eight tasks"),
    ("read_the_pool", lambda: solution("read_the_pool")() | {"new": 50}, "height of the second bar"),
    ("read_the_pool", lambda: solution("read_the_pool")() | {"refused": 331}, "ends at 0.7"),
    ("read_the_pool", lambda: solution("read_the_pool")() | {"refused": 140}, "lacks the bar"),
    ("read_the_pool", lambda: solution("read_the_pool")() | {"refused": 140, "stricter": 190}, "lacks the bar"),
    ("read_the_pool", lambda: solution("read_the_pool")() | {"new": 130, "stricter": 410}, 'numbers for "new" and'),
    ("read_the_pool", lambda: solution("read_the_pool")() | {"stricter": 470}, "about as many as are refused at 0.5"),
    ("read_the_pool", lambda: solution("read_the_pool")() | {"new": float("nan")}, "nan, which is not a number"),
    ("read_the_pool", lambda: solution("read_the_pool")() | {"half": 0.9}, 'Your threshold "half" is too large.'),
    ("rouge_l_score", lambda one, other: "0.7 or so", "not a number"),
    ("next_prompt", lambda instructions, n_new: "Task 9:", "two strings"),
    ("read_tasks", lambda text, cut_off: text, "list of strings"),
    ("read_tasks", lambda text, cut_off: re.findall(r"Task \d+: (.*)", text), "read_tasks"),
    ("pairs_left", lambda texts, threshold: len(texts), "two numbers"),
    ("growing_pool", lambda similarity, n_seeds, threshold: [0.5], "whole numbers"),
    ("label_balance", lambda labels: 0.5, "two numbers"),
    ("alpaca_bill", lambda: {"cents": "a cent"}, "not a number"),
    ("what_follows", lambda: dict.fromkeys("ABCDEFGH", "perhaps"), "not one of the three words"),
    ("repaired_tasks", lambda rows: [{"instruction": "a"}], "lacks the entry"),
    ("wrong_settings", lambda: dict.fromkeys("ABCDEF", "top_p"), "not one of the seven fields"),
    ("read_the_pool", lambda: {"refused": 220}, "is missing"),
]


@pytest.mark.parametrize(("name", "answer", "words"), WRONG)
def test_wrong_answers_are_told(name, answer, words):
    told_not_passed(name, answer, words)


@pytest.mark.parametrize(("name", "found"), [("rouge_l_score", 0.75), ("label_balance", (0.8, 1.85))])
def test_the_first_case_gives_what_the_explanation_says(name, found):
    case = load(ROOT / "exercises" / "instruction_data" / name).cases()[0]
    assert solution(name)(**case) == pytest.approx(found, abs=0.005)


@pytest.mark.parametrize("name", ["growing_pool", "answer_targets", "paid_twice"])
def test_code_with_the_mistake_does_not_pass(name):
    master = load(ROOT / "exercises" / "instruction_data" / name)
    assert told(name, master.run()["broken"]).status in ("not attempted", "failed", "mistake")
