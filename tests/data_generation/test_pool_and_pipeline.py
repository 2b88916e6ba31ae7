"""The pool and its file, and the loop that fills it: the same tasks whatever interrupts it."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from llm_anatomy.data_generation.cost import Price, Usage
from llm_anatomy.data_generation.filters import NearDuplicates, refused_by
from llm_anatomy.data_generation.generators import Completion, TextGenerator
from llm_anatomy.data_generation.pipeline import Settings, grow
from llm_anatomy.data_generation.pool import Instance, Pool, Round, Task, read_tasks, write_conversations
from llm_anatomy.data_generation.prompts import EXAMPLES

THINGS = [f"{kind} {n}" for n in range(4) for kind in ("river", "lake", "bird", "stone", "tree", "boat", "house")]
SEEDS = [Task(f"Tell me why a {thing} is useful.", (Instance("", "It is."),), False) for thing in THINGS[:9]]


class Rules:
    """Writes tasks from a small vocabulary, some of them bad, as the seed says; counts what it is asked."""

    def __init__(self, seconds=0.0):
        self.asked, self.seconds = [], seconds

    def complete(self, prompts, *, max_tokens, stop=(), temperature=1.0, top_p=1.0, seed=None):
        time.sleep(self.seconds)
        self.asked += [(prompt, max_tokens, tuple(stop), temperature, top_p, seed) for prompt in prompts]
        return [self.one(prompt, random.Random(f"{seed} {i}")) for i, prompt in enumerate(prompts)]

    def one(self, prompt, draw):
        if prompt.endswith("Task 9:"):
            texts = [f"{i}: {self.task(draw)}" for i in range(10, 16)]
            return Completion(f" {self.task(draw)}\n" + "\nTask ".join(["", *texts]), len(prompt), 60, "length")
        if prompt.endswith("classification?"):
            return Completion(" Yes" if "whether" in prompt.splitlines()[-2] else " No", len(prompt), 1, "stop")
        label_first = "Class label:" in prompt
        text = "Class label: yes\nInput: one\nClass label: no\nInput: two" if label_first else "Input: a\nOutput: b"
        return Completion("" if draw.random() < 0.2 else text, len(prompt), 12, "stop")

    def task(self, draw):
        a, b, c, d = draw.sample(THINGS, 4)
        kinds = [f"Compare {a}, {b} and {c} with {d}.", f"Say whether {a} or {b} needs {c} or {d}.", "Draw it."]
        return draw.choice(kinds)


def test_the_rules_are_a_generator():
    assert isinstance(Rules(), TextGenerator) and not isinstance(object(), TextGenerator)


@pytest.mark.syllabus("GT-46")
def test_the_pool_grows_and_its_tasks_have_passed_the_filters():
    pool, rules = Pool(SEEDS), Rules()
    grow(pool, rules, n_tasks=20, progress=False)
    assert 20 <= len(pool.generated) < 27 and len(pool) == 9 + len(pool.generated) == len(list(pool))
    near = NearDuplicates(task.instruction for task in SEEDS)
    for task in pool.generated:
        assert refused_by(task.instruction) is None and not near.refuses(task.instruction) and task.instances
        near.add(task.instruction)
        assert task.is_classification is ("whether" in task.instruction)
        assert [instance.output for instance in task.instances] == (["yes", "no"] if task.is_classification else ["b"])
    assert set(pool.refused) == {"length", "near-duplicate", "no instance"} and min(pool.refused.values()) > 0
    assert pool.usage == Usage(len(rules.asked), sum(len(asked[0]) for asked in rules.asked), pool.usage.n_tokens)


@pytest.mark.syllabus("GT-47")
def test_the_generator_is_asked_in_three_ways():
    rules = Rules()
    grow(Pool(SEEDS), rules, n_tasks=12, settings=Settings(n_prompts=2), progress=False)
    kinds = {"Task 9:": [], "classification?": [], "\n": []}
    for asked in rules.asked:
        kinds[next(end for end in kinds if asked[0].endswith(end))].append(asked[1:5])
    assert set(kinds["Task 9:"]) == {(1024, ("\nTask 16",), 0.7, 0.5)} and len(kinds["Task 9:"]) % 2 == 0
    assert set(kinds["classification?"]) == {(3, ("\n",), 0.0, 1.0)}
    assert set(kinds["\n"]) == {(300, ("\nTask:", "\n\n\n"), 0.0, 1.0)}
    assert len(kinds["classification?"]) == len(kinds["\n"])
    seeds = [asked[5] for asked in rules.asked if asked[0].endswith("Task 9:")]
    assert len(set(seeds)) == len(seeds) / 2


def test_a_seed_decides_everything_and_another_seed_something_else():
    texts = []
    for seed in (0, 0, 1):
        pool = Pool(SEEDS)
        grow(pool, Rules(), n_tasks=15, settings=Settings(seed=seed), progress=False)
        texts.append([task.instruction for task in pool.generated])
    assert texts[0] == texts[1] != texts[2]


def test_a_pool_that_is_continued_grows_to_the_same_file(tmp_path):
    grow(Pool(SEEDS, tmp_path / "whole"), Rules(), n_tasks=30, progress=False)
    for n in (3, 11, 30):
        grow(Pool(SEEDS, tmp_path / "parts"), Rules(), n_tasks=n, progress=False)
    whole = (tmp_path / "whole").read_bytes()
    assert (tmp_path / "parts").read_bytes() == whole
    rules = Rules()
    grow(Pool(SEEDS, tmp_path / "parts"), rules, n_tasks=30, progress=False)
    assert not rules.asked and (tmp_path / "parts").read_bytes() == whole


PROGRAM = """
import sys
from data_generation.test_pool_and_pipeline import SEEDS, Rules
from llm_anatomy.data_generation.pipeline import grow
from llm_anatomy.data_generation.pool import Pool
grow(Pool(SEEDS, sys.argv[1]), Rules(0.2), n_tasks=40, progress=False)
"""


def test_after_a_kill_at_any_moment_the_pool_grows_to_the_same_file(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # where the tests and the package lie
    path = tmp_path / "parts"
    for n_rounds in (1, 3):
        with subprocess.Popen([sys.executable, "-c", PROGRAM, path], env=environment) as program:
            try:
                while program.poll() is None and not (path.exists() and path.read_bytes().count(b"\n") > n_rounds):
                    time.sleep(0.005)
            finally:
                program.kill()
        assert program.returncode == -signal.SIGKILL
    for each in (path, tmp_path / "whole"):
        grow(Pool(SEEDS, each), Rules(), n_tasks=40, progress=False)
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_generator_that_brings_nothing_new_is_given_up_with_the_reasons():
    class Poor(Rules):
        def task(self, draw):
            return draw.choice([SEEDS[0].instruction, "Draw it."])

    pool = Pool(SEEDS)
    with pytest.raises(ValueError, match=r"20 rounds in a row brought no new task \((length|near-duplicate) \d+, "):
        grow(pool, Poor(), n_tasks=1, progress=False)
    assert len(pool.rounds) == 20


def test_tasks_of_the_same_round_are_compared_with_each_other():
    class Twice(Rules):
        def task(self, draw):
            return "Compare the oldest lake with the youngest."

    pool = Pool(SEEDS)
    grow(pool, Twice(), n_tasks=1, settings=Settings(n_prompts=3), progress=False)
    assert len(pool.generated) == 1 and pool.rounds[-1].refused["near-duplicate"] > 10


def test_too_few_seeds_and_examples_of_one_kind_are_refused():
    with pytest.raises(ValueError, match="there are 7 seed tasks"):
        grow(Pool(SEEDS[:7]), Rules(), n_tasks=1, progress=False)
    with pytest.raises(ValueError, match="examples must have tasks that are classification, and tasks that are not"):
        grow(Pool(SEEDS), Rules(), n_tasks=1, examples=EXAMPLES[1:2], progress=False)


@pytest.mark.parametrize("name", ["n_prompts", "instruction_tokens", "instance_tokens"])
def test_settings_out_of_range_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
        Settings(**{name: 0})


# --- The file ---

ROUNDS = [Round((Task("Name a bird.", (Instance("ü", "ö"),), True),), {"length": 2}, Usage(1, 2, 3)), Round(())]


def filled(path):
    pool = Pool(SEEDS, path, {"seed": 3, "p": 0.5})
    for added in ROUNDS:
        pool.append(added)
    return pool


def test_a_pool_is_read_as_it_was_written(tmp_path):
    pool = filled(tmp_path / "pool.jsonl")
    for again in (Pool(SEEDS, pool.path, pool.settings), Pool.read(pool.path)):
        assert again.rounds == pool.rounds == ROUNDS and again.seeds == tuple(SEEDS)
        assert again.settings == {"seed": 3, "p": 0.5} and again.usage == Usage(1, 2, 3)
        assert again.refused == {"length": 2} and again.generated[0].instances[0].input == "ü"


def test_two_programs_do_not_write_to_one_pool(tmp_path):
    pool = filled(tmp_path / "pool.jsonl")
    other = Pool.read(pool.path)
    other.append(Round(()))
    with pytest.raises(ValueError, match="pool.jsonl was changed by another program"):
        pool.append(Round(()))
    assert len(pool.rounds) == 2 and len(Pool.read(pool.path).rounds) == 3


def test_a_pool_that_was_made_otherwise_is_refused(tmp_path):
    path = filled(tmp_path / "pool.jsonl").path
    with pytest.raises(ValueError, match="pool.jsonl was made with seed=3, and cannot go on with 4"):
        Pool(SEEDS, path, {"seed": 4, "p": 0.5})
    with pytest.raises(ValueError, match="was made with p=0.5, and cannot go on with None"):
        Pool(SEEDS, path, {"seed": 3})
    with pytest.raises(ValueError, match="was made with other seed tasks"):
        Pool(SEEDS[1:], path, {"seed": 3, "p": 0.5})
    with pytest.raises(ValueError, match="is there twice"):
        Pool([SEEDS[0], SEEDS[0]])


@pytest.mark.parametrize(
    ("line", "content", "sentence"),
    [
        (0, b"", "line 1: "),
        (0, b"{}\n", "line 1: this is no pool of tasks"),
        (0, b'{"pool": 1, "seeds": 3, "settings": {}}\n', "line 1: the keys 'seeds'"),
        (0, b'{"pool": 1, "seeds": [{}], "settings": {}}\n', "key 'instruction' is missing"),
        (1, b"{\n", "line 2: it is not JSON"),
        (1, b"\xff\n", "line 2: it is not JSON"),
        (1, b"[]\n", "line 2: this is no round of a pool"),
        (2, b'{"round": 5}\n', "line 3: it holds round 5, where round 1 is due"),
        (2, b'{"round": 1, "tasks": [{"instruction": ""}]}\n', "line 3: instruction='' must not be empty"),
    ],
)
def test_a_file_that_is_no_pool_is_refused_with_the_line(tmp_path, line, content, sentence):
    path = filled(tmp_path / "pool.jsonl").path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:line], content, *lines[line + 1 :]]))
    with pytest.raises(ValueError, match=sentence):
        Pool.read(path)


def test_a_file_of_another_kind_stays_as_it_is(tmp_path):
    for text in ("", "my notes"):
        (tmp_path / "a.txt").write_text(text)
        with pytest.raises(ValueError, match="a.txt, line 1: this is no pool of tasks"):
            Pool(SEEDS, tmp_path / "a.txt")
        assert (tmp_path / "a.txt").read_text() == text


# --- Tasks in files ---


def test_seed_tasks_in_the_form_of_self_instruct_are_read(tmp_path):
    fields = {"id": "seed_task_0", "name": "n", "instruction": "Add.", "is_classification": False}
    (tmp_path / "a.jsonl").write_text(json.dumps(fields | {"instances": [{"input": "1, 2", "output": "3"}]}) + "\n\n")
    (task,) = read_tasks(tmp_path / "a.jsonl")
    assert task == Task("Add.", (Instance("1, 2", "3"),), False) == Task.from_json(task.to_json())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "it is not JSON"),
        ("[]", "a task must be a JSON object, not list"),
        ("{}", "key 'instruction' is missing"),
        ('{"instruction": 3}', "key 'instruction' must be a text, not 3"),
        ('{"instruction": " "}', "must not be empty"),
        ('{"instruction": "a", "instances": [3]}', "key 'instances': it must be a list of objects"),
        ('{"instruction": "a", "instances": [{"input": "b"}]}', "key 'output' is missing"),
        ('{"instruction": "a", "is_classification": "no"}', "key 'is_classification': it must be true or false"),
    ],
)
def test_a_line_that_is_no_task_is_named(tmp_path, line, sentence):
    (tmp_path / "a.jsonl").write_text('{"instruction": "Sing."}\n' + line)
    with pytest.raises(ValueError, match="a.jsonl, line 2: ") as caught:
        read_tasks(tmp_path / "a.jsonl")
    assert sentence in str(caught.value)


@pytest.mark.syllabus("GT-45")
def test_instances_become_conversations(tmp_path):
    tasks = [Task("Add.", (Instance("1, 2", "3"), Instance("", "ü"))), Task("Sing.")]
    assert write_conversations(tasks, tmp_path / "a.jsonl") == 2
    found = [json.loads(line)["messages"] for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [[message["content"] for message in one] for one in found] == [["Add.\n\n1, 2", "3"], ["Add.", "ü"]]
    assert {tuple(message["role"] for message in one) for one in found} == {("user", "assistant")}


# --- Cost ---


@pytest.mark.syllabus("GT-45")
def test_the_cost_is_that_of_tokens_read_and_written():
    price = Price(read=0.5, written=2)
    assert price.cost(Usage(1, 2_000_000, 250_000)) == 1.5 and price.n_tokens_for(5) == 4_000_000
    assert price.cost(Usage(2, 1_000_000, 1_000_000)) == 2.5
    for bad in ({"read": -1, "written": 1}, {"read": 1, "written": float("nan")}):
        with pytest.raises(ValueError, match="must be at least 0 and finite"):
            Price(**bad)
