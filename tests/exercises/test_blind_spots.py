"""Cases tell wrong answers from right ones, and messages are true for all answers that are told them.

For each master, answers are made that differ from the solution in one place, or that are right only if an argument has
some property, such as no repetition. Four kinds of blind spots are found:

- two mistakes of the catalogue that agree on all public cases;
- a wrong answer that passes all public cases and properties, whether or not the hidden cases catch it;
- a property that an argument has in all cases, so that an answer which relies on it passes;
- a wrong answer that is told the sentence of a known mistake, though it does something else.

An answer is wrong if it differs from the solution on a case made by changing one of the master's own, on which all
accepted answers agree. This does not know what the statement excludes: what is no blind spot is listed with the reason
in ``reviewed_blind_spots.csv``.
"""

import csv
import json
import time
from collections import Counter
from functools import cache
from itertools import chain, combinations, islice, permutations
from pathlib import Path

import mutants
import pytest
import torch
from book_masters import IDS, book_master, each_master

from llm_anatomy.notebook.checks import broken_property, check, defined
from llm_anatomy.notebook.outcomes import CheckTimeout, alike, decode, encode, fingerprint, outcome

pytestmark = pytest.mark.filterwarnings("ignore")  # wrong answers do what PyTorch and Python warn of
LIST = Path(__file__).parent / "reviewed_blind_spots.csv"
HEAVY = {  # these train models or make many drafts: each answer takes seconds
    "before_transformers/first_steps",
    "evaluation/too_narrow",
    "norm_placement/last_gradient",
    "optimization/measured_decay",
    "optimization/noise_updates",
    "rotary_position/near_and_far",
    "tokenizers/longer_tokens",
    "transformer/through_the_depth",
    "transformer/type_of_model",
}
FEW = 15  # of the answers with one change, how many are tried in each run of the tests
MANY, SOME = 60, 6  # on how many changed cases an answer is tried, where there is time and in each run of the tests
LONGEST = 0.1  # seconds of the processor that an answer may take on one case, if the solution does not take as long
PATIENCE = 50  # times as long where an answer that takes too long would be reported


@cache
def reviewed():
    with LIST.open(encoding="utf-8", newline="") as lines:
        return {(row["exercise"], row["found"]): row["reason"] for row in csv.DictReader(lines)}


class Tried:
    """A master with what its answers come to on the public and the hidden cases."""

    def __init__(self, master, n_witnesses=MANY):
        self.master, self.n_witnesses = master, n_witnesses
        self.properties, self.observe = defined(master.checks)
        self.right, self.wrong = master.right(), master.wrong()
        self.solution = self.right[master.function]
        self.drawn = [master.cases(name) for name in ("cases", "hidden_cases")]
        self.cases = [*chain(*self.drawn)]
        self.public, self.hidden = ([self.encoded(case) for case in cases] for cases in self.drawn)
        self.longest = 10.0
        start = time.process_time()
        self.expected = [self.outcome(self.solution, case) for case in self.public]
        took = time.process_time() - start
        self.expected_hidden = [self.outcome(self.solution, case) for case in self.hidden]  # it has 10 s, too
        self.longest = max(LONGEST, 10 * took)
        self.known = {
            name: [fingerprint(self.outcome(answer, case)) for case in self.public]
            for name, answer in self.wrong.items()
        }

    @staticmethod
    def encoded(case):
        return {name: encode(value) for name, value in case.items()}

    def outcome(self, answer, case, patience=1):
        try:
            with mutants.limited(patience * self.longest):
                return outcome(answer, case, self.observe)[0]
        except CheckTimeout:
            return {"raised": "too slow"}
        except Exception as e:  # what was returned cannot be written down
            return {"raised": type(e).__name__}

    def passes(self, answer, cases, expected):
        found = (self.outcome(answer, case, PATIENCE) for case in cases)
        return all(alike(*pair) for pair in zip(found, expected, strict=True))

    def keeps_properties(self, answer):
        try:
            with mutants.limited(10 * self.longest):
                return not broken_property(self.properties, answer)
        except CheckTimeout:
            return False

    @cache  # noqa: B019  (a master is tried once, and then forgotten)
    def named(self, answer):
        """True if the answer passes the public cases, else the names of the known mistakes that it is taken for."""
        right, names = True, list(self.known)
        for i, case in enumerate(self.public):
            found = self.outcome(answer, case)
            right = right and alike(found, self.expected[i])
            names = [name for name in names if alike(found, self.known[name][i])]
            if not right and not names:
                break
        return True if right else names

    @property
    def witnesses(self):
        """Changed cases, with what all accepted answers make of them."""
        if not hasattr(self, "_witnesses"):
            self._witnesses = list(islice(self._agreed(), self.n_witnesses))
        return self._witnesses

    def _agreed(self):
        generator = torch.Generator().manual_seed(0)
        drawn = ([*islice(mutants.changed_cases(case, self.master.dimensions, generator), 200)] for case in self.cases)
        made = list(chain(*drawn))
        whole = [new for case in self.cases for new in mutants.cases_changed_throughout(case)]
        order = torch.randperm(len(made), generator=generator).tolist()
        for new in [*whole[: self.n_witnesses], *(made[i] for i in order[: 3 * self.n_witnesses])]:
            case = self.encoded(new)
            right = self.outcome(self.solution, case)
            if "returned" not in right or "changed" in right or {"NaN", "Infinity"} & set(_words(right)):
                continue
            if all(alike(self.outcome(answer, case), right) for answer in self.right.values()):
                yield case, right

    def differs(self, answer):
        """The first witness on which the answer is wrong, if there is one."""
        wrong = (case for case, right in self.witnesses if not alike(self.outcome(answer, case, PATIENCE), right))
        return next(wrong, None)


def _words(found):
    return json.dumps(found).replace("-", "").replace(",", " ").replace("]", " ").replace("[", " ").split()


def shown(case):
    def short(encoded):
        value = decode(encoded)
        text = repr(value.tolist() if isinstance(value, torch.Tensor) else value)
        return text if len(text) < 60 else f"{text[:57]}…"

    return ", ".join(f"{name} = {short(value)}" for name, value in case.items())


def passing(tried, answers):
    """Sentences about wrong answers that pass, each after what the list of the reviewed ones calls it."""
    for answer in answers:
        what = f"passes: {answer.change}"
        if (tried.master.id, what) in reviewed() or tried.named(answer.function) is not True:
            continue
        if not tried.master.arguments:
            if _of_numbers(answer.change):
                yield what, f"{what} of {answer.of}: two computations agree; choose numbers that tell them apart"
        elif not tried.keeps_properties(answer.function):
            continue
        elif not tried.passes(answer.function, tried.hidden, tried.expected_hidden):
            yield what, f"{what} of {answer.of}, though a hidden case refuses it; add a public case that does"
        elif found := tried.differs(answer.function):
            yield what, f"{what} of {answer.of}, though it is wrong for {shown(found)}; add such a case"


def _of_numbers(change):
    """Whether + stands for *, or * for ** or +, which equal numbers such as 2 and 2 make the same."""
    before, _, after = change.partition(" → ")
    plain = [text.replace(" ** ", "?").replace(" * ", "?").replace(" + ", "?") for text in (before, after)]
    return before != after and plain[0] == plain[1]


def misnamed(tried, answers):
    """Sentences about wrong answers that are told what is the mistake of another answer."""
    for answer in answers:
        names = tried.named(answer.function)
        for name in names if names is not True else ():
            what = f"{name}: {answer.change}"
            if (tried.master.id, what) in reviewed():
                continue
            both = answer.function, tried.wrong[name]
            if not all(alike(*(tried.outcome(each, case, PATIENCE) for each in both)) for case in tried.hidden):
                told = f"is told “{tried.master.mistakes[name]}”, though it differs from {name} on a hidden case"
                yield what, f"{what} of {answer.of} {told}; separate them by a case, or say what is true for both"


def named_twice(tried, answers):
    """Sentences about a change that leads to the same mistake at two places, such as of two equally large matrices."""
    places = {}
    for answer in answers:
        names = tried.named(answer.function)
        for name in names if names is not True else ():
            places.setdefault((name, answer.of, answer.change), set()).add(answer.place)
    for (name, of, change), found in places.items():
        what = f"{name}, twice: {change}"
        if len(found) > 1 and (tried.master.id, what) not in reviewed():
            told = f"is told “{tried.master.mistakes[name]}” at {len(found)} places of {of}"
            yield what, f"{change} {told}; does the sentence name all of them?"


def twins(tried):
    """Sentences about known mistakes that no public case tells apart."""
    for a, b in combinations(tried.known, 2):
        if all(map(alike, tried.known[a], tried.known[b])):
            yield f"twins: {a} and {b}", f"{a} and {b} agree on all public cases; add a case that tells them apart"


def common(tried):
    """Sentences about sizes that are equal in all cases, and about numbers none of which contains another's digits."""
    sizes = [mutants.sizes(case, tried.master.dimensions) for case in tried.cases]
    for a, b in combinations(sorted(set.intersection(*map(set, sizes))) if sizes else (), 2):
        what = f"equal: {a} and {b}"
        if all(each[a] == each[b] for each in sizes) and (tried.master.id, what) not in reviewed():
            yield what, f"{a} and {b} are equal in all cases, so an answer may exchange them; add a case with others"
    for name in tried.master.arguments:
        lists = [case[name] for case in tried.cases]
        what = f"digits: {name}"
        if (tried.master.id, what) in reviewed() or not all(mutants.whole_numbers(each) for each in lists):
            continue
        texts = [set(map(str, each)) for each in lists]
        if not any(a in b for each in texts for a, b in permutations(each, 2)):
            told = "no number, written in digits, is part of another number of the same case"
            yield what, f"{told}, so an answer may write {name} as a text; add a case such as [7, 17]"


def report(tried, sentences):
    found = [f"{tried.master.id}: {sentence}" for _, sentence in sentences]
    how = f"Mend the master or, if the statement excludes it or the sentence is true, add a line to {LIST.name}."
    assert not found, "\n".join([*found, how])


@each_master
def test_few_wrong_answers_are_overlooked(master):
    if master.id in HEAVY:
        pytest.skip("tried where there is more time")
    tried = Tried(master, SOME)
    made = mutants.mutants(master, accepted=False, most=FEW)
    forced = mutants.forced(master, tried.cases)
    report(tried, chain(twins(tried), common(tried), passing(tried, forced), passing(tried, made)))


@pytest.mark.slow
@each_master
class TestAllWrongAnswers:  # a class for each test, so that two processes share the work
    def test_none_is_overlooked_or_misnamed(self, master):
        tried = Tried(master)
        made = mutants.mutants(master, accepted=False, most=8 if master.id in HEAVY else None)
        report(tried, chain(passing(tried, made), misnamed(tried, made), named_twice(tried, made)))


@pytest.mark.slow
@each_master
class TestAllAnswers:
    def test_a_sentence_names_all_that_lead_to_the_same_result(self, master):
        if master.id in HEAVY:
            pytest.skip("each answer takes seconds")
        tried = Tried(master)
        report(tried, named_twice(tried, mutants.mutants(master)))


# What was found


RELIES_ON = {  # arguments as an answer changes them that passed all public cases once
    "absolute_position/read_counter": lambda digits: (digits[:, -24:],),
    "before_transformers/scan_in_parallel": lambda a, b: (a.abs(), b),
    "instruction_data/label_balance": lambda labels: ([" ".join(each.split()) for each in labels],),
    "tokenizers/encode_bpe": lambda text, merges: (text.lower(), merges),
    "tokenizers/train_bpe": lambda text, n_merges: (" ".join(text.split()), n_merges),
    "tokenizers/usable_pairs": lambda text: (text.lower(),),
}


@pytest.mark.parametrize("name", RELIES_ON)
def test_an_answer_that_relies_on_what_nobody_promised_is_refused(name):
    master = book_master(name)
    solution = master.right()[master.function]
    assert check(name, with_changed(solution, RELIES_ON[name])).status in {"failed", "mistake"}


def with_changed(solution, change):
    """The solution, as an answer with as many arguments as the change takes."""
    if change.__code__.co_argcount == 1:
        return lambda a: solution(*change(a))
    return lambda a, b: solution(*change(a, b))


def by_first_occurrence(instructions, n_new):
    lines = [f"Task {instructions.index(each) + 1}: {' '.join(each.split())}" for each in instructions]
    n = len(instructions)
    prompt = "\n".join(["Continue this list of varied tasks.", *lines, f"Task {n + 1}:"])
    return prompt, f"\nTask {n + n_new + 1}"


def last_tensor_alone(gradients, max_norm):
    length = list(gradients.values())[-1].norm()
    return {name: value * min(1.0, max_norm / max(length.item(), 1e-12)) for name, value in gradients.items()}


def multiplied_by_the_length(gradients, max_norm):
    length = torch.cat([value.flatten() for value in gradients.values()]).norm()
    return {name: value * min(1.0, max_norm * length.item()) for name, value in gradients.items()}


def last_word_forgotten(training, new, n_words):
    kept = sorted(set(training[:-1]), key=lambda word: (-training[:-1].count(word), training.index(word)))[:n_words]
    return sum(word not in kept for word in new) / len(new)


@pytest.mark.parametrize(
    ("name", "answer", "mistake"),
    [
        ("attention/hard_lookup", lambda q, k, v: v[(k.T @ q).argmax(-1)], "queries_meet_values"),
        ("before_transformers/clip_by_norm", last_tensor_alone, "longest_tensor"),
        ("before_transformers/clip_by_norm", multiplied_by_the_length, "unchanged"),
        ("instruction_data/next_prompt", by_first_occurrence, None),
        ("tokenizers/unknown_share", last_word_forgotten, "first_words"),
    ],
)
def test_an_answer_is_not_told_what_another_did(name, answer, mistake):
    result = check(name, answer)
    assert result.status in {"failed", "mistake"} and (mistake is None or result.mistake != mistake), result


def raw_for_unconditional(choices, n_tokens, log_probs, alone):
    master = book_master("evaluation/choose_by_likelihood")
    found = master.right()[master.function](choices, n_tokens, log_probs, alone)
    return found | {"unconditional": found["raw"]}


def bound_not_divided(texts, threshold):
    pairs = list(combinations(texts, 2))
    left = sum(2 * (Counter(a) & Counter(b)).total() / (len(a) + len(b)) >= threshold for a, b in pairs)
    return sum(2 * min(len(a), len(b)) >= threshold for a, b in pairs), left


def maximum_added(scores):
    larger = torch.exp(scores + scores.amax(1, keepdim=True))
    return larger / larger.sum(1, keepdim=True)


def last_run_of_the_translation_forgotten(translation, references, n):
    def runs(words, end):
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + end))

    most = Counter()
    for reference in references:
        most |= runs(reference, 1)
    own = runs(translation, 0)
    return (own & most).total(), own.total()


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("attention/stable_softmax", maximum_added, "or of even larger numbers"),
        ("evaluation/choose_by_likelihood", raw_for_unconditional, "is the raw one"),
        ("evaluation/clipped_precision", last_run_of_the_translation_forgotten, "of the translation or of all texts"),
        ("instruction_data/pairs_left", bound_not_divided, "leaves out no pair at all"),
    ],
)
def test_a_sentence_is_true_for_each_answer_that_is_told_it(name, answer, words):
    result = check(name, answer)
    assert result.status == "mistake" and words in result.message, result


def test_the_list_of_the_reviewed_names_exercises_and_reasons():
    assert {name for name, _ in reviewed()} <= set(IDS) and all(reviewed().values())
