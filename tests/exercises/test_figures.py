"""Exercises that read a figure say something true about each part that is wrong, and about no other."""

import itertools
import random
import re

import pytest
from book_masters import FOLDERS, book_master

from llm_anatomy.notebook.checks import defined
from llm_anatomy.notebook.outcomes import encode, outcome
from llm_anatomy.notebook.sentences import RIGHT, in_parts, of_parts

FIGURES = [name for name in FOLDERS if "\nkind: figure\n" in (FOLDERS[name] / "exercise.md").read_text("utf-8")]
each_figure = pytest.mark.parametrize("master", FIGURES, indirect=True)
NAMED = r"Your (.+) (is|are) (not right|too (small|large|short|long|early|late|low|high)(?: for your first number)?)"
HINTS = "The hints tell you how to go on."


READ: dict[str, dict] = {}  # id → what `observe` says of the parts for the solution and for each known mistake


def readings(master):
    if master.id not in READ:
        _, observe = defined(master.checks)
        answers = {"right": master.right()[master.function], **master.wrong()}
        READ[master.id] = {name: outcome(answer, {}, observe)[0]["returned"] for name, answer in answers.items()}
    return READ[master.id]


def wrong_parts(observed):
    return {name: item for name, item in zip(observed["names"], observed["items"], strict=True) if item != RIGHT}


def known(master):
    return [(master.mistakes[name], read) for name, read in readings(master).items() if name != "right"]


def observed(master, parts):
    return encode({name: "right" for name in readings(master)["right"]["names"]} | parts)


def combinations(master):
    """Answers that put together what known mistakes, and something unheard of, make of the parts."""
    labels = {name: {"right", "unheard of"} for name in readings(master)["right"]["names"]}
    for read in readings(master).values():
        for name, item in zip(read["names"], read["items"], strict=True):
            labels[name].add(item["data"][0])
    draw = random.Random(master.id)
    for _ in range(300):
        yield {name: draw.choice(sorted(said)) for name, said in labels.items()}


def test_there_are_figures_to_read():
    assert len(FIGURES) >= 11
    assert all(in_parts(readings(book_master(name))["right"]) for name in FIGURES)


@each_figure
def test_two_known_mistakes_in_one_answer_are_both_told(master):
    found = 0
    for (first, a), (second, b) in itertools.combinations(known(master), 2):
        parts = [wrong_parts(each) for each in (a, b)]
        both = {name: item["data"][0] for each in parts for name, item in each.items()}
        if parts[0].keys() & parts[1].keys() or any(wrong_parts(c) == parts[0] | parts[1] for _, c in known(master)):
            continue
        message = of_parts(observed(master, both), known(master))
        longer = [c for _, c in known(master) if wrong_parts(c).items() <= (parts[0] | parts[1]).items()]
        if max(map(len, map(wrong_parts, longer))) <= max(map(len, parts)):
            assert first in message and second in message and HINTS not in message
            found += 1
    assert found or master.id == "feedforward/read_the_slopes"  # each of its exchanges moves two of five names


@each_figure
def test_each_wrong_part_is_told_and_no_name_of_ours(master):
    sentences = {sentence: wrong_parts(read).keys() for sentence, read in known(master)}
    for parts in combinations(master):
        wrong = {name for name, said in parts.items() if said != "right"}
        if not wrong:
            continue
        rest, told = of_parts(observed(master, parts), known(master)), set()
        for sentence in sorted(sentences, key=len, reverse=True):
            if sentence in rest:
                rest, told = rest.replace(sentence, ""), told | sentences[sentence]
        for sentence in filter(None, map(str.strip, rest.replace(HINTS, "").split(". "))):
            match = re.fullmatch(NAMED, sentence.rstrip("."))
            assert match, sentence
            for name in wrong - told:
                head, _, tail = name.partition(" for ")
                told |= {name} if head in match[1] and tail in match[1] else set()
        assert told == wrong


def test_sentences_come_in_the_order_of_the_numbers():
    said = {"fifth value": "lost", "fourth value": "lost", "mean": "too large", "speed": "too small: half"}
    sentences = {"speed": "Your first number is that of the second curve.", "mean": "For the third number, halve it."}
    right = dict.fromkeys(said, "right")
    known = [(sentence, encode(right | {part: said[part]})) for part, sentence in sentences.items()]
    assert of_parts(encode(said), known) == (
        f"{sentences['speed']} {sentences['mean']} Your fourth value and fifth value are not right. {HINTS}"
    )


@each_figure
def test_no_sentence_says_that_other_parts_are_right(master):
    """It is told beside others as well."""
    claim = re.compile(r"^Only|(number|radius|letter|length|numbers|radii|letters|lengths|two) (is|are) right")
    assert not list(filter(claim.search, master.mistakes.values()))
