"""A voter's battles cannot be predicted, are the same after a reload, and treat all models alike."""

from collections import Counter

import pytest

from llm_anatomy.arena.battles import Battles
from llm_anatomy.arena.outputs import Outputs

MODELS = [f"m{i}" for i in range(5)]
OUTPUTS = Outputs({f"prompt {p}": {m: f"{m} on {p}" for m in MODELS} for p in range(7)})


@pytest.fixture
def battles():
    return Battles(OUTPUTS, secret=b"0123456789abcdef")


def all_of(battles, voter):
    return [battles.of(voter, n) for n in range(battles.outputs.n_pairs)]


@pytest.mark.syllabus("IITD-01", "GT-50")
def test_a_voter_sees_every_pair_of_outputs_once(battles):
    seen = all_of(battles, "v")
    assert len({(b.prompt, *sorted(b[1:3])) for b in seen}) == len(seen) == 7 * 10
    assert battles.of("v", len(seen)) is None and battles.of("v", -1) is None
    assert all(b.output_a == OUTPUTS.by_prompt[b.prompt][b.model_a] for b in seen)
    assert all(b.output_b == OUTPUTS.by_prompt[b.prompt][b.model_b] for b in seen)


@pytest.mark.parametrize("voter", ["v", "w", "x"])
def test_each_pair_of_models_comes_once_before_any_comes_again(battles, voter):
    pairs = [tuple(sorted(b[1:3])) for b in all_of(battles, voter)]
    for begin in range(0, len(pairs), 10):
        assert len(set(pairs[begin : begin + 10])) == 10


def test_a_reload_shows_the_same_and_other_voters_and_secrets_another(battles):
    assert all_of(battles, "v") == all_of(battles, "v") == all_of(Battles(OUTPUTS, b"0123456789abcdef"), "v")
    assert all_of(battles, "v") != all_of(battles, "w")
    assert all_of(battles, "v") != all_of(Battles(OUTPUTS, b"0123456789abcdeg"), "v")


def test_what_a_voter_saw_does_not_foretell_the_rest(battles):
    voters = [all_of(battles, f"voter {v}") for v in range(20)]
    order = {(b.prompt, *sorted(b[1:3])): i for i, b in enumerate(sorted(voters[0], key=lambda b: sorted(b[:3])))}
    first, second = ([order[(b.prompt, *sorted(b[1:3]))] for b in (seen[n] for seen in voters)] for n in (0, 1))
    assert len(set(first)) > 10 and len({(b - a) % 70 for a, b in zip(first, second, strict=True)}) > 5
    for seen in voters:
        assert {b.model_a < b.model_b for b in seen} == {True, False}


def test_neither_a_side_nor_a_pair_is_preferred(battles):
    seen = [battles.of(f"voter {v}", n) for v in range(300) for n in range(10)]
    assert set(Counter(tuple(sorted(b[1:3])) for b in seen).values()) == {300}
    for model in MODELS:
        left = sum(b.model_a == model for b in seen)
        assert 500 < left < 700  # of 1,200; more than five standard deviations on each side
    assert all(300 < n < 560 for n in Counter(b.prompt for b in seen).values())


def test_a_token_is_of_one_voter_one_battle_and_these_outputs(battles):
    changed = Outputs(dict(OUTPUTS.by_prompt) | {"prompt 0": {"m0": "new", "m1": "new"}})
    tokens = [battles.token("v", 0), battles.token("v", 1), battles.token("w", 0)]
    tokens += [Battles(changed, b"0123456789abcdef").token("v", 0), Battles(OUTPUTS, b"0" * 16).token("v", 0)]
    assert len(set(tokens)) == 5 and battles.token("v", 0) == tokens[0]
    assert not any(model in token for token in tokens for model in MODELS)
    assert battles.token("v1", 1) != battles.token("v", 11)


def test_prompts_may_have_different_models():
    outputs = Outputs({"a": {"m0": "", "m1": ""}, "b": {"m0": "", "m1": "", "m2": "", "m3": ""}})
    seen = all_of(Battles(outputs, bytes(16)), "v")
    assert Counter(b.prompt for b in seen) == {"a": 1, "b": 6} and len({frozenset(b[:3]) for b in seen}) == 7


def test_a_short_secret_is_refused():
    with pytest.raises(ValueError, match="secret has 15 bytes; it must have at least 16"):
        Battles(OUTPUTS, bytes(15))
