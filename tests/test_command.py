"""The command line: lists, shows and compares the models of the lectures; what it cannot do is one sentence."""

import importlib
import json
import os
import subprocess
import sys

import pytest

from llm_anatomy.__main__ import main
from llm_anatomy.models.presets import presets

RECORDS = presets()


def run(capsys, *words):
    """Exit code, output, errors."""
    try:
        code = main(list(words))
    except SystemExit as leaving:
        code = leaving.code
    return code, *capsys.readouterr()


@pytest.mark.syllabus("GT-43", "GT-44")
def test_the_list_has_every_model_in_lines_that_fit(capsys):
    code, out, err = run(capsys, "models")
    lines = out.splitlines()
    assert code == 0 and not err and max(map(len, lines)) <= 120
    rows = {line.split()[0]: line for line in lines[1 : 1 + len(RECORDS)]}
    assert list(rows) == list(RECORDS)
    expected = ["gpt-2", "2019", "decoder", "learned", "layernorm", "pre", "gelu_tanh", "12/12", "12", "768"]
    assert rows["gpt-2"].split() == [*expected, "124,439,808"]
    assert "pre, parallel" in rows["gpt-neox"] and "swiglu experts 128 latent" in rows["deepseek-v2"]
    assert rows["gpt-4"].count("—") == 9 and rows["lamda"].endswith(" 137B")
    starts = [line.index(" ".join(line.split()[1:2])) for line in lines[: 1 + len(RECORDS)]]
    assert len(set(starts)) == 1  # columns stand under each other


def test_the_list_as_json_has_what_is_known(capsys):
    code, out, _ = run(capsys, "models", "--json")
    listed = {record["name"]: record for record in json.loads(out)}
    assert code == 0 and list(listed) == list(RECORDS)
    assert listed["llama-3-8b"]["parameters"] == listed["llama-3-8b"]["exact"] == 8030261248
    assert listed["t5-small"]["parameters"] == 60506624  # two stacks
    assert listed["gpt-4"]["parameters"] is None and "d_model" in listed["gpt-4"]["unknown"]
    assert listed["gpt-2"]["values"]["d_model"] == 768 and "table 2" in listed["gpt-2"]["sources"]["d_model"]


@pytest.mark.parametrize("name", RECORDS)
def test_show_says_all_that_is_known(capsys, name):
    code, out, err = run(capsys, "models", "show", name)
    record = RECORDS[name]
    assert code == 0 and not err
    for text in [record.title, record.paper, *record.items, *record.unknown, *record.sources.values()]:
        assert text in out
    for said in [record.notes, record.difference, record.printed, record.exact_source, record.builder]:
        assert not said or said in " ".join(out.split())
    lines = dict(line.split(maxsplit=1) for line in out.splitlines() if " " in line)
    assert all(lines[field].startswith(str(value)) for field, value in record.values.items())
    assert ("parameters, counted:" in out) == record.known


def test_show_as_json(capsys):
    _, out, _ = run(capsys, "models", "show", "gpt-2", "--json")
    assert json.loads(out)["parameters"] == 124439808
    assert run(capsys, "models", "--json", "show", "gpt-2")[1] == out


@pytest.mark.syllabus("GT-11")
def test_diff_has_every_change_and_nothing_else(capsys):
    code, out, _ = run(capsys, "models", "diff", "gpt-2", "llama-3-8b")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert code == 0 and rows["field"] == ["gpt-2", "llama-3-8b"] and rows["norm"] == ["layernorm", "rmsnorm"]
    assert rows["parameters"] == ["124,439,808", "8,030,261,248"] and "norm_placement" not in rows
    _, out, _ = run(capsys, "models", "diff", "gpt-2", "llama-3-8b", "--json")
    changed = json.loads(out)
    assert set(changed) == set(rows) - {"field", "parameters"}
    assert changed["norm"] == {"gpt-2": "layernorm", "llama-3-8b": "rmsnorm"}


def test_diff_of_a_model_and_itself_has_no_change(capsys):
    _, out, _ = run(capsys, "models", "diff", "gpt-2", "gpt-2")
    assert [line.split()[0] for line in out.splitlines()] == ["field", "parameters"]
    assert json.loads(run(capsys, "models", "diff", "gpt-2", "gpt-2", "--json")[1]) == {}


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["show", "gtp-2"], "'gtp-2' is no preset; close to it are gpt-2"),
        (["diff", "gpt-2", "lama-7b"], "'lama-7b' is no preset; close to it are llama-7b"),
        (["diff", "gpt-2", "lamda"], "'lamda' cannot be built: norm, norm_placement, tie_embeddings are not public"),
        (["diff", "megabyte", "gpt-2"], "'megabyte' has no ModelConfig: it is built by llm_anatomy.models"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_code_2(capsys, words, sentence):
    code, out, err = run(capsys, "models", *words)
    assert code == 2 and not out and sentence in err and len(err.splitlines()) == 1


@pytest.mark.parametrize("words", [[], ["model"], ["models", "shows", "gpt-2"], ["models", "show"], ["experiment"]])
def test_what_is_no_command_gets_the_usage_and_code_2(capsys, words):
    code, out, err = run(capsys, *words)
    assert code == 2 and not out and err.startswith("usage: python -m llm_anatomy")


HELP = {
    (): ["models", "generate", "chat", "experiment", "example"],
    ("models",): ["show", "diff", "--json", "examples"],
}
HELP |= {("models", "show"): ["NAME", "such as gpt-2", "a folder"], ("models", "diff"): ["FIRST", "SECOND"]}
HELP |= {
    ("generate",): ["NAME", "PROMPT", "--max-new-tokens", "--temperature", "--top-k", "--top-p", "--seed", "example"],
    ("chat",): ["NAME", "--system", "{slide,stop}", "--allowed-special", "--dtype", "--device", "examples"],
}
HELP |= {
    ("experiment",): [
        "positions",
        "before_transformers",
        "feedforward",
        "kv_cache",
        "memory",
        "normalization",
        "translation",
        "story_models",
    ]
}
HELP[("experiment",)] += ["norm_placement"]
HELP |= {("experiment", "positions"): ["--seeds", "--steps", "--out", "45 minutes"]}
HELP |= {("experiment", "memory"): ["--seeds", "--steps", "5 minutes"]}
HELP |= {
    ("experiment", name): ["--seeds", "--steps", "--out", "15 minutes"] for name in ("story_models", "translation")
}
HELP |= {("experiment", "before_transformers"): ["--seeds", "--steps", "--out", "20 minutes"]}
HELP |= {("experiment", "norm_placement"): ["--seeds", "--steps", "--out", "516", "40 minutes"]}
HELP |= {("experiment", "feedforward"): ["--seeds", "--steps", "--out", "48 models", "15 minutes"]}
HELP |= {("experiment", "kv_cache"): ["--seeds", "--steps", "--out", "42 models", "15 minutes"]}
HELP |= {("experiment", "normalization"): ["--seeds", "--steps", "--out", "109 networks", "10 minutes"]}


@pytest.mark.parametrize("words", HELP)
def test_help_says_what_there_is(capsys, words):
    code, out, _ = run(capsys, *words, "--help")
    assert code == 0 and "usage: python -m llm_anatomy" in out and all(word in out for word in HELP[words])


def test_a_builder_is_a_class_that_there_is():
    for record in RECORDS.values():
        if record.builder:
            module, _, name = record.builder.rpartition(".")
            assert isinstance(getattr(importlib.import_module(module), name), type)


def test_it_runs_as_a_module_and_stops_quietly_when_its_reader_does():
    command = [sys.executable, "-m", "llm_anatomy", "models", "show", "gpt-2"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("GPT-2") and not done.stderr
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as left:
        assert not subprocess.run([*command, "--json"], stdout=left, stderr=subprocess.PIPE).stderr
