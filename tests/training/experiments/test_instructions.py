"""The instruction experiment: data, fine-tuning and tests are what they say, and the tables are whole."""

import csv
from collections import Counter
from pathlib import Path

import pytest
import torch

from llm_anatomy.__main__ import main
from llm_anatomy.data import table
from llm_anatomy.models.checkpoints import Checkpoint
from llm_anatomy.models.checkpoints.chat import ChatTemplate
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.generation import Generation
from llm_anatomy.models.stored import FOLDER, stored
from llm_anatomy.training.data.shards import TokenShards
from llm_anatomy.training.data.story_instructions import KINDS, SEEN_KINDS, Instruction, check, phrasings, read, respond
from llm_anatomy.training.experiments import instructions
from llm_anatomy.training.experiments.instructions import (
    BASE,
    CHAT_TEMPLATE,
    COLUMNS,
    CONDITIONS,
    INSTRUCTED,
    MAX_LRS,
    N_CTX,
    N_TEST,
    RANKS,
    TESTS,
    TUNED,
    TUNING_SEEDS,
    Data,
    Score,
    examples,
    fine_tune,
    grown_pool,
    kinds_of,
    render,
    score,
    seed_tasks,
    story_ids,
    train_base,
    write_rows,
)

NAME = "instructions_experiment"
HERE = Path(str(FOLDER))


def conversation(text="Count to two.", output="One, two."):
    return [{"role": "user", "content": text}, {"role": "assistant", "content": output}]


def asked(messages):
    text, _, given = messages[0]["content"].partition("\n\n")
    return read(text, given)


@pytest.mark.syllabus("GT-45")
def test_conversations_are_written_as_the_chat_template_says():
    template = ChatTemplate(templates={"default": CHAT_TEMPLATE})
    for messages in (conversation(), conversation("Name the thing.\n\nMia had a red kite.", "a red kite") * 2):
        assert template.render(messages, add_generation_prompt=False) == render(messages)
        prompt = template.render(messages[:1], add_generation_prompt=True)
        assert prompt == render(messages[:1], add_generation_prompt=True) and render(messages).startswith(prompt)
    assert render(messages[:1]) == "Name the thing.\n Mia had a red kite.\n>"


@pytest.mark.syllabus("GT-46")
def test_the_seed_tasks_are_right():
    for task in seed_tasks():
        pairs = [(read(task.instruction, one.input), one.output) for one in task.instances]
        assert len(pairs) == 3 and all(check(*pair) for pair in pairs)
        (kind,) = {instruction.kind for instruction, _ in pairs}
        assert kind in SEEN_KINDS and task.is_classification == bool(KINDS[kind].labels)


def test_conditions_differ_from_the_main_one_in_one_thing():
    main_one = CONDITIONS["main"]
    assert len(CONDITIONS) == 19 and main_one == Data()
    for name, data in CONDITIONS.items():
        n_changed = sum(a != b for a, b in zip(data, main_one, strict=True))
        assert n_changed == (0 if name in TUNED else 2 if name in ("wrong_0.25_n_250", "wrong_0.25_n_1000",
                             "wrong_0.5_n_250", "wrong_0.5_n_1000") else 1), name  # fmt: skip


@pytest.mark.syllabus("GT-46")
def test_examples_are_as_many_as_wrong_and_of_as_few_kinds_as_the_condition_says():
    for wrong in (0.0, 0.5):
        found = examples(Data(600, wrong=wrong), seed=1)
        share = sum(not check(asked(messages), messages[1]["content"]) for messages in found) / 600
        assert len(found) == 600 and share == pytest.approx(wrong * 0.93, abs=0.06)  # some lots repeat the right answer
    assert examples(Data(50), seed=1) == examples(Data(50), seed=1) != examples(Data(50), seed=2)
    assert len({asked(messages).kind for messages in examples(Data(1000), seed=1)}) > 14
    assert any(instructions.NEW_NAME.search(f"{messages}") for messages in examples(Data(600), seed=1))
    assert not any(instructions.NEW_NAME.search(f"{messages}") for messages in examples(Data(600, new_names=False), 1))
    few = Data(100, n_kinds=3)
    assert {asked(messages).kind for messages in examples(few, seed=1)} <= {*kinds_of(few, 1)}
    assert len({kinds_of(few, seed) for seed in range(5)}) == 5
    for seed in range(2):  # each pool has tasks of the kinds of each condition
        for data in CONDITIONS.values():
            assert examples(data._replace(n_examples=1), seed)
    instructions_of_pool = {task.instruction for task in grown_pool(1)}
    assert {messages[0]["content"].partition("\n\n")[0] for messages in found} <= instructions_of_pool


@pytest.mark.syllabus("GT-45")
def test_rows_teach_the_responses_alone_and_stories_as_a_whole(tmp_path):
    tokenizer, _ = story_ids()
    write_rows(tmp_path / "a", Data(n_examples=40), 0)
    shards = TokenShards(tmp_path / "a", "train")
    ids, targets = shards.ids(0, shards.n_tokens), shards.targets(0, shards.n_tokens)
    learned = tokenizer.decode(ids[targets].tolist())
    outputs = [messages[1]["content"] for messages in examples(Data(n_examples=40), 0)]
    assert sorted(learned.split("\n\n")[:-1]) == sorted(f" {output}" for output in outputs)
    write_rows(tmp_path / "b", Data(n_examples=40, replay=0.5), 0)
    mixed = TokenShards(tmp_path / "b", "train")
    assert mixed.n_tokens == 2 * shards.n_tokens
    of_stories = mixed.targets(shards.n_tokens, mixed.n_tokens).reshape(-1, N_CTX)
    assert of_stories[:, 1:].all() and not of_stories[:, 0].any()
    write_rows(tmp_path / "c", Data(n_examples=40), 0, loss="all")
    everything = TokenShards(tmp_path / "c", "train")
    assert everything.targets(0, everything.n_tokens).sum() > 2 * targets.sum()


@pytest.fixture(scope="module")
def base():
    return Checkpoint(model=train_base(2), texts=Texts(tokenizer=story_ids()[0]))


@pytest.fixture
def few_examples(monkeypatch):
    small = {name: data._replace(n_examples=60) for name, data in CONDITIONS.items()}
    monkeypatch.setattr(instructions, "CONDITIONS", small)


@pytest.mark.syllabus("GT-45")
def test_all_weights_are_trained_or_those_beside_the_matrices_alone(base, few_examples):
    before = base.model.state_dict()
    whole, again, lora = (fine_tune(base, name, 0, 0.01, n_steps=2) for name in ("main", "main", f"lora_{RANKS[1]}"))
    for name, weight in whole.state_dict().items():
        torch.testing.assert_close(weight, again.state_dict()[name], atol=0, rtol=0)
        assert not torch.equal(weight, before[name])
        change = lora.state_dict()[name] - before[name]
        is_adapted = name.rsplit(".", 2)[-2] in instructions.LORA_TARGETS and weight.ndim == 2
        if is_adapted:
            assert 1 < torch.linalg.matrix_rank(change, rtol=1e-4) <= RANKS[1], name
        else:
            assert not change.any(), name


def test_responses_are_judged_twice(monkeypatch, base):
    asked_for = [Instruction("first", "Which word comes first?", f"{first}, map") for first in ("kite", "drum", "cup")]
    monkeypatch.setattr(instructions, "responses", lambda *_: ["kite", "Kite.", "Kites fly."])
    assert score(base.model, base.tokenizer, asked_for) == Score(n=3, right=1, form=2)


def test_a_response_ends_with_its_line(base, monkeypatch):
    instructed = [
        Instruction("copy", "Say the same words again.", "Mia smiled."),
        Instruction("pronoun", "Is this name she or he?", "Mia"),
    ]
    found = instructions.responses(base.model, base.tokenizer, instructed)
    assert len(found) == 2 and found[1] == instructions.responses(base.model, base.tokenizer, instructed[1:])[0]
    asked = []

    def written(_, prompts, **settings):
        asked.extend(map(base.tokenizer.decode, prompts))
        assert settings["stop_strings"] == ["\n"]
        return Generation([base.tokenizer.encode(" she\n\nMia") for _ in prompts], ["stop_string"] * len(prompts))

    monkeypatch.setattr(instructions, "generate", written)
    assert instructions.responses(base.model, base.tokenizer, instructed) == [" she", " she"]
    assert asked == ["Say the same words again.\n Mia smiled.\n>", "Is this name she or he?\n Mia\n>"]


def test_tests_are_drawn_once_and_differ_from_those_for_tuning():
    drawn = {
        (tests, kind): instructions.test_instructions(tests, kind, 5)
        for tests, kinds in TESTS.items()
        for kind, _ in kinds
    }
    for (tests, kind), found in drawn.items():
        assert all((i.text in phrasings(kind, test=True)) == (tests == "paraphrase") for i in found)
        assert all(respond(i) for i in found)
    assert instructions.test_instructions("seen", "who", 5, "tuning") != drawn["seen", "who"]
    assert all(
        len(story_ids()[0].encode(render(conversation(i.message(), "")))) <= N_CTX - 8 for k in drawn for i in drawn[k]
    )


# --- Tables ---


def test_a_small_experiment_writes_all_tables(tmp_path, monkeypatch, few_examples):
    few = {name: CONDITIONS[name]._replace(n_examples=60) for name in ("main", "lora_1")}
    monkeypatch.setattr(instructions, "CONDITIONS", few)
    monkeypatch.setattr(instructions, "TUNED", ("main", "lora_1"))
    monkeypatch.setattr(instructions, "TUNING_SEEDS", (100,))
    monkeypatch.setattr(instructions, "MAX_NEW_TOKENS", 2)
    monkeypatch.setattr(instructions, "MAX_LRS", {"main": (0.001, 0.002), "lora": (0.01,)})
    monkeypatch.setattr(instructions, "SEEN_KINDS", ("first", "mood"))
    monkeypatch.setattr(
        instructions, "TESTS", {"seen": [("first", {}), ("mood", {})], "facts": [("home", {"test": True})]}
    )
    monkeypatch.setattr(instructions, "plain_windows", lambda: (torch.arange(2 * N_CTX + 2).view(2, -1), 500))
    arguments = ["experiment", "instructions", "--seeds", "0", "1", "--steps", "2", "--out", str(tmp_path)]
    assert main(arguments) == 0
    rows = {}
    for name, columns in COLUMNS.items():
        with (tmp_path / f"{name}.csv").open() as lines:
            head, *rows[name] = csv.reader(lines)
        assert head == columns and rows[name] and {len(row) for row in rows[name]} == {len(head)}
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.csv" for name in [*COLUMNS, NAME]} | {
        f"{name}.safetensors" for name in (BASE, INSTRUCTED)
    }
    assert Counter(row[0] for row in rows["instructions_tuning"]) == {"main": 2, "lora_1": 1}
    assert Counter(row[0] for row in rows["instructions_scores"]) == {"base": 3, "main": 6, "lora_1": 6}
    assert {row[2] for row in rows["instructions_losses"] if row[0] == "main"} <= {"0.001", "0.002"}
    model, known = stored(tmp_path / f"{INSTRUCTED}.safetensors")
    assert known["chat_template"] == CHAT_TEMPLATE and known["tokenizer"].n_vocab == model.config.n_vocab
    with pytest.raises(ValueError, match="n_workers=0 must be at least 1"):
        instructions.experiment(tmp_path, n_workers=0)


def test_the_stored_tables_are_whole():
    settings = {row["field"]: row["value"] for row in table(NAME)}
    assert settings["n_steps"] == instructions.N_STEPS and settings["seeds"] == "0 1 2 3 4"
    for name, columns in COLUMNS.items():
        assert all(list(row) == columns for row in table(name))
    found = Counter(row["condition"] for row in table("instructions_tuning"))
    n_tuned = {name: len(MAX_LRS["lora" if "lora" in name else "main"]) * len(TUNING_SEEDS) for name in TUNED}
    assert found == n_tuned
    n_tests = sum(len(kinds) for kinds in TESTS.values())
    found = Counter(row["condition"] for row in table("instructions_scores"))
    assert found == {"base": n_tests} | {name: 5 * n_tests for name in CONDITIONS}
    assert all(0 <= max(row["right"], row["form"]) <= row["n"] == N_TEST for row in table("instructions_scores"))
    assert Counter(row["condition"] for row in table("instructions_losses")) == {"base": 1} | dict.fromkeys(
        CONDITIONS, 5
    )
    assert sum(path.stat().st_size for path in HERE.glob("instructions_*.csv")) <= 250_000
    assert all((HERE / f"{name}.safetensors").stat().st_size <= 250_000 for name in (BASE, INSTRUCTED))


@pytest.mark.syllabus("GT-45")
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_the_stored_model_has_the_scores_of_its_run(monkeypatch, every):
    """Its weights are stored in 8 bits, and other processors round differently, so that a few responses may differ."""
    model, known = stored(INSTRUCTED)
    tests = {name: kinds[::every] for name, kinds in instructions.TESTS.items()}
    monkeypatch.setattr(instructions, "TESTS", tests)
    asked = {(name, kind) for name, kinds in tests.items() for kind, _ in kinds}
    wanted = [row for row in table("instructions_scores") if (row["condition"], row["seed"]) == ("main", 0)]
    wanted = [row for row in wanted if (row["tests"], row["kind"]) in asked]
    rows = instructions._scores(model, known["tokenizer"], [], SEEN_KINDS)
    right = {(tests, kind): right for tests, kind, _, _, right, _ in rows}
    assert sum(right.values()) == pytest.approx(sum(row["right"] for row in wanted), rel=0.05)
    assert all(abs(right[row["tests"], row["kind"]] - row["right"]) <= 6 for row in wanted)
