"""Instructions about the stories: the check knows the right answer, whoever asks and however it is put."""

import re
from random import Random

import pytest

from llm_anatomy.training.data import story_grammar as grammar
from llm_anatomy.training.data.stories import _with_an, expand, plan
from llm_anatomy.training.data.story_instructions import (
    HELPER_HOMES,
    KINDS,
    SEEN_KINDS,
    TEST_HELPERS,
    TEST_NAMES,
    UNSEEN_KINDS,
    Instruction,
    check,
    draw,
    has_form,
    normalized,
    phrasings,
    read,
    respond,
)


def test_there_are_kinds_enough_and_those_of_tests_resemble_others():
    assert len(SEEN_KINDS) == 18 and len(UNSEEN_KINDS) == 4 and {*SEEN_KINDS, *UNSEEN_KINDS} == {*KINDS}
    assert sum(bool(kind.labels) for kind in KINDS.values()) == 5
    texts = [text for kind in KINDS if kind != "where" for text in phrasings(kind)]  # those of where are those of who
    assert len(texts) == len(set(texts)) > 150
    for kind in KINDS:
        assert len(phrasings(kind)) >= 5 and len(phrasings(kind, test=True)) == 2
    assert not {t for kind in KINDS for t in phrasings(kind)} & {t for k in KINDS for t in phrasings(k, test=True)}


@pytest.mark.parametrize("kind", KINDS)
def test_right_responses_are_accepted_and_instructions_are_recognized(kind):
    rng = Random(kind)
    for i in range(60):
        instruction = draw(kind, rng, new_phrasing=i % 3 == 1, test=i % 3 == 2)
        response = respond(instruction, rng)
        assert check(instruction, response) and has_form(instruction, response), (instruction, response)
        assert check(instruction, f"  {response[:1].upper()}{response[1:].removesuffix('.')}. \n")
        assert read(instruction.text, instruction.input) == instruction
        assert "\n" not in instruction.input + response
    assert not check(instruction, "") and not has_form(instruction, "")
    assert not check(instruction, "Sing a song.") and not has_form(instruction, "Sing a song.")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].accepts is None])
def test_responses_to_other_inputs_have_the_form_and_are_wrong(kind):
    rng, n_other = Random(kind), 0
    for _ in range(40):
        one, other = draw(kind, rng), draw(kind, rng)
        response = respond(other, rng)
        assert has_form(one, response)
        assert check(one, response) == (normalized(response) == normalized(respond(one)))
        n_other += not check(one, response)
    assert n_other >= 8


def test_answers_are_the_facts_from_which_the_passage_was_written():
    for seed in range(200):
        rng = Random(seed)
        facts = plan(rng)
        opening = _with_an(expand("opening", facts, rng))
        hero, friend = f"{facts['hero']}", f"{facts['friend']}"
        passage = f"{opening} {_with_an(expand('friend_fact', facts, rng))}"
        for name, slot in ((hero, "hero_home"), (friend, "friend_home")):
            home = _with_an(f"{facts[slot]:at}")
            if f" lived {home}" in passage:
                assert check(Instruction("who", "Answer the question.", f"{passage} Who lived {home}?"), name)
                assert check(Instruction("where", "Answer the question.", f"{passage} Where did {name} live?"), home)
        first, second = sorted([hero, friend], key=opening.index)
        assert check(Instruction("names", "Who appears here?", opening), f"{first} and {second}")
        beings = "children" if f"{facts['hero']:noun}" in ("girl", "boy") else "animals"
        assert check(Instruction("beings", "Children or animals?", opening), beings)
        has = _with_an(expand("hero_fact", facts, rng))
        if "grandmother" not in has:
            assert check(Instruction("thing", "Which thing is in the text?", has), f"{facts['thing']}")
            assert check(Instruction("colour", "Which colour is in the text?", has), f"{facts['thing']}".split()[0])
        found = _with_an(expand("share", facts, rng))
        if found.count(f"{facts['many']}") == 1:
            assert check(Instruction("number", "Find the number in the text.", found), f"{facts['many']:number}")


@pytest.mark.parametrize(
    ("kind", "given", "right", "wrong"),
    [
        ("count", '"Are you cold?" asked Mia. Tom smiled.', "two", "three"),
        ("replace", "Mia, Ada: Everybody liked Mia.", "Everybody liked Ada.", "Everybody liked Mia."),
        ("reverse", "drum, kite, map", "map, kite, drum", "map, drum, kite"),
        ("contains", "kite: Mia had a red kite.", "yes", "no"),
        ("contains", "kite: Mia had some red kittens.", "no", "yes"),
        ("mood", "Mia was close to tears.", "sad", "happy"),
        ("season", "Snow covered the path.", "winter", "summer"),
        ("pronoun", "Zoe", "she", "he"),
        ("last", "drum, kite, map", "map", "kite"),
        ("second", "drum, kite, map", "kite", "map"),
        ("write", "kite", "Mia had a red kite.", "Mia had a red drum."),
        ("about", "Tom", "Tom had a red kite.", "Tom had an red kite."),
        ("continue", "Once there was a girl named Mia. Mia had a friend called Tom. Tom was a boy.",
         "Mia had a red kite.", "Ada had a red kite."),
        ("continue", "Once there was a girl named Mia. Mia had a friend called Tom. Tom was a boy.",
         "Mia had a red kite. Tom was happy.", "Tom was a boy."),
    ],
)  # fmt: skip
def test_responses_that_were_judged_by_hand(kind, given, right, wrong):
    instruction = Instruction(kind, phrasings(kind)[0], given)
    assert check(instruction, right) and not check(instruction, wrong)


def test_inputs_of_tests_are_never_in_training_data():
    rng = Random(0)
    names = {(test, draw("pronoun", rng, test=test).input) for test in (False, True) for _ in range(1500)}
    assert {name for test, name in names if test} == TEST_NAMES
    assert {name for test, name in names if not test} == {*grammar.GIRLS, *grammar.BOYS} - TEST_NAMES
    homes = {(test, draw("home", rng, test=test).input) for test in (False, True) for _ in range(400)}
    assert {helper for test, helper in homes if test} == TEST_HELPERS
    assert {helper for test, helper in homes if not test} == {*grammar.HELPERS} - TEST_HELPERS
    assert len(TEST_NAMES) >= 15 and len(TEST_HELPERS) == 10


def test_no_story_says_where_a_helper_lives():
    assert len(set(HELPER_HOMES.values())) == len(HELPER_HOMES) == 20
    for rule, lines in grammar.RULES.items():
        assert not any("{helper" in line and " lived" in line.split("{helper")[1][:20] for line in lines), rule


def test_only_what_fits_is_recognized():
    assert read("Which word comes first?", "Mia had a red kite.") is None
    assert read("which word comes first?", "drum, kite") is None
    assert read(" Which word comes first? ", "drum, kite\n").kind == "first"
    assert (
        read("Answer the question.", "Mia and Tom were friends. Tom lived in a tent. Who lived in a tent?").kind
        == "who"
    )
    assert read("Answer the question.", "Mia lived in a tent. Where did Mia live?").kind == "where"
    with pytest.raises(ValueError, match="does not fit the kind 'first'"):
        check(Instruction("first", "Which word comes first?", "Mia"), "Mia")
    for function in (draw, lambda kind, _: phrasings(kind)):
        with pytest.raises(ValueError, match="kind='sing' must be one of names, who"):
            function("sing", Random(0))


def test_phrasings_are_sentences():
    for kind in KINDS:
        for text in [*phrasings(kind), *phrasings(kind, test=True)]:
            assert re.fullmatch(r"[A-Z][a-z ,:]+[.?]", text) and "  " not in text, text
