"""The command line: lists, shows and compares the models of the lectures; what it cannot do is one sentence."""

import importlib
import json
import os
import signal
import subprocess
import sys

import pytest

from llm_anatomy.__main__ import COMMANDS, main
from llm_anatomy.arena import command as arena
from llm_anatomy.commands import corpus, evaluating, experiments, models, self_instruct, serving, training
from llm_anatomy.commands import texts as texts_command
from llm_anatomy.data_generation.generators import Completion
from llm_anatomy.models.checkpoints.chat import ChatTemplate
from llm_anatomy.models.presets import presets
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.simple import ByteTokenizer
from llm_anatomy.training.data.shards import TokenShards

RECORDS = presets()
COUNTED = [RECORDS[name].config() for name in ("gpt-2", "llama-3-8b", "t5-small")]


@pytest.fixture(autouse=True)
def few_counted(monkeypatch):
    """Only a few models are built to count their parameters, since this takes long; tests of the presets count all."""
    count = models._n_parameters
    monkeypatch.setattr(models, "_n_parameters", lambda config: count(config) if config in COUNTED else 10**11)


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
    table = out.split("\n\n")[1].splitlines()[1:]  # below the title, above the counts and notes
    shown = dict(line.split(maxsplit=1) for line in table)
    assert all(shown[field].startswith(str(value)) for field, value in record.values.items())
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
    (): ["models", "generate", "chat", "tokenize", "train", "export", "evaluate", "experiment", "example"],
    ("models",): ["show", "diff", "--json", "examples"],
}
HELP |= {("models", "show"): ["NAME", "such as gpt-2", "a folder"], ("models", "diff"): ["FIRST", "SECOND"]}
HELP |= {
    ("generate",): ["NAME", "PROMPT", "--max-new-tokens", "--temperature", "--top-k", "--top-p", "--seed", "example"],
    ("chat",): ["NAME", "--system", "{slide,stop}", "--allowed-special", "--dtype", "--device", "examples"],
}
HELP |= {
    ("tokenize",): ["SOURCE", "--out", "--tokenizer", "--train-tokenizer", "--validation", "--workers", "--field"]
    + ["--conversations", "continues it", "examples"]
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
HELP |= {
    ("train",): [
        "CONFIG.yaml",
        "--optimizer.max_lr",
        "--data.batch_size",
        "--print_config",
        "status 0",
        "75",
        "torchrun",
    ],
    ("export",): ["RUN", "FOLDER", "--family", "--step", "examples"],
}
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
HELP[("experiment",)] += ["story_llama"]
HELP |= {("experiment", "story_llama"): ["--seeds", "--steps", "--out", "SmolLM2", "one model"]}
HELP[()] += ["arena"]
HELP |= {
    ("arena",): ["serve", "outputs", "export", "import", "board", "examples"],
    ("arena", "serve"): ["--outputs", "--models", "--database", "--question", "--host", "--port", "killed"],
    ("arena", "outputs"): ["--models", "--prompts", "--max-new-tokens", "--seed", "--out", "story_llama@0.7"],
    ("arena", "export"): ["--database", "--out", "model_a, model_b, winner, voter, time", "both_bad"],
    ("arena", "import"): ["FILE", "--database", "left alone"],
    ("arena", "board"): ["--database", "intervals"],
}
HELP[("experiment",)] += ["optimization"]
HELP[("experiment",)] += ["ablation"]
HELP |= {
    ("experiment", "ablation"): [
        "--rows",
        "--seeds",
        "--steps",
        "--workers",
        "--device",
        "--size",
        "--task",
        "--tables",
    ]
    + ["--out", "156 models", "265", "40 minutes", "plan.json", "examples", "product_key_memory"]
}
HELP |= {("experiment", "instructions"): ["--seeds", "--steps", "--out", "40 models", "80 minutes"]}
HELP |= {("experiment", "optimization"): ["--seeds", "--steps", "--out", "551 models", "12 minutes"]}
HELP |= {
    ("evaluate",): ["CHECKPOINT", "--tasks", "story_facts", "--data", "--limit", "--batch-size", "--few-shot", "--out"]
    + ["--seed", "--dtype", "--device", "--json", '"choices"', "continues it", "examples"]
}
HELP[("experiment",)] += ["benchmarks"]
HELP |= {("experiment", "benchmarks"): ["--seeds", "--steps", "--out", "40 models", "up to an hour"]}


HELP |= {
    ("serve",): ["CHECKPOINT", "--host", "--port", "--name", "/v1/chat/completions", "story_rope", "0.0.0.0"],
    ("self-instruct",): ["SEEDS", "--out", "--tasks", "--server", "--checkpoint", "--price", "--requests-per-minute"]
    + ["--conversations", "OPENAI_API_KEY", "examples"],
}
HELP[()] += ["serve", "self-instruct"]


@pytest.mark.parametrize("words", HELP)
def test_help_says_what_there_is(capsys, words):
    code, out, _ = run(capsys, *words, "--help")
    assert code == 0 and "usage: python -m llm_anatomy" in out and all(word in out for word in HELP[words])


# --- tokenize ---

END = "<|endoftext|>"
CHATML = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}"


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.txt").write_text(f"{END}The lake is calm.\n{END}The lake is deep.\n" * 20)
    return tmp_path / "texts"


def checkpoint(folder, **texts):
    """The smallest model, with a tokenizer and what is said around its texts."""
    from llm_anatomy.config import ModelConfig
    from llm_anatomy.models.checkpoints import Checkpoint, save
    from llm_anatomy.models.checkpoints.texts import Texts
    from llm_anatomy.models.transformer import Transformer

    model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=260, position="alibi"))
    save(Checkpoint(model=model, texts=Texts(tokenizer=ByteTokenizer([END, "<s>"]), **texts)), folder)
    return str(folder)


def documents(folder, split="train"):
    shards = TokenShards(folder, split)
    ids, numbers = shards.ids(0, shards.n_tokens), shards.documents(0, shards.n_tokens)
    return [ids[numbers == n].tolist() for n in range(shards.n_documents)]


@pytest.mark.syllabus("GT-03")
def test_tokenize_trains_a_tokenizer_and_writes_shards(capsys, texts, tmp_path):
    words = ["tokenize", str(texts), "--out", str(tmp_path / "out"), "--train-tokenizer", "270", "--validation", "0.1"]
    code, out, err = run(capsys, *words)
    shards = TokenShards(tmp_path / "out", "train")
    tokenizer = Tokenizer.load(shards.tokenizer)
    assert code == 0 and not err and tokenizer.n_vocab == 270 == shards.n_vocab
    n = TokenShards(tmp_path / "out", "validation").n_tokens
    assert (
        out == f"The shards are in {tmp_path / 'out'}: tokens {shards.n_tokens:,} for training, {n:,} for validation.\n"
    )
    begins = {document[0] for document in documents(tmp_path / "out")}
    assert begins == {tokenizer.special_tokens[END]} == {269}
    assert tokenizer.decode(documents(tmp_path / "out")[0][1:]) == "The lake is calm.\n"
    code, out, err = run(capsys, *words)
    assert code == 2 and not out and "holds a complete corpus already" in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("around", "before", "after"),
    [
        ({}, [256], []),
        ({"stop": (256,)}, [256], []),
        ({"before": (257,), "stop": (256,)}, [257], [256]),
        ({"before": (257,), "after": (0,), "stop": (256,)}, [257], [0]),
    ],
)
def test_tokenize_begins_and_ends_documents_as_the_checkpoint_does(capsys, texts, tmp_path, around, before, after):
    name = checkpoint(tmp_path / "model", **around)
    assert run(capsys, "tokenize", str(texts), "--out", str(tmp_path / "out"), "--tokenizer", name)[0] == 0
    assert documents(tmp_path / "out")[0] == [*before, *b"The lake is calm.\n", *after]


def test_tokenize_takes_the_file_of_a_tokenizer(capsys, texts, tmp_path):
    ByteTokenizer().save(tmp_path / "bytes.json")
    words = ["tokenize", str(texts), "--out", str(tmp_path / "out"), "--tokenizer", str(tmp_path / "bytes.json")]
    assert run(capsys, *words, "--workers", "2", "--validation", "0")[0] == 0
    assert documents(tmp_path / "out")[1] == [256, *b"The lake is deep.\n"]


def test_tokenize_writes_conversations_with_the_template_of_the_checkpoint(capsys, tmp_path):
    pytest.importorskip("jinja2")
    template = ChatTemplate(templates={"default": CHATML}, variables={"eos_token": "<s>"})
    name = checkpoint(tmp_path / "model", stop=(256,), chat_template=template)
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    (tmp_path / "a.jsonl").write_text((json.dumps({"talk": messages}) + "\n") * 9)
    words = ["tokenize", str(tmp_path / "a.jsonl"), "--field", "talk", "--tokenizer", name, "--conversations", "40"]
    document, rest = [*b"<user>Hi", 257, *b"<assistant>Ho", 257], 17
    for loss, n_context in {"responses": 9, "all": 1}.items():
        out = tmp_path / loss
        assert run(capsys, *words, "--out", str(out), "--loss", loss, "--validation", "0")[0] == 0
        shards = TokenShards(out, "train")
        assert shards.row_length == 40 and documents(out)[:2] == [document, [256] * rest]
        assert shards.targets(0, 40).tolist() == [False] * n_context + [True] * (23 - n_context) + [False] * rest


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{here}/texts"], "one of the arguments --tokenizer --train-tokenizer is required"),
        (["{here}/texts", "--train-tokenizer", "9"], "n_vocab=9 must be at least 257"),
        (["{here}/model", "--train-tokenizer", "300"], "holds no file that ends in .txt, .md, .jsonl, .parquet"),
        (["{here}/texts", "--tokenizer", "no/such/folder"], "'no/such/folder' is no folder"),
        (["{here}/texts", "--tokenizer", "{here}/bare"], "has no tokenizer that can be read: there is no tokenizer"),
        (
            ["{here}/texts", "--tokenizer", "{here}/model", "--conversations", "9"],
            "holds text files, which have no key",
        ),
        (["{here}/lines", "--tokenizer", "{here}/model", "--conversations", "9"], "model has no chat template"),
        (["{here}/lines", "--train-tokenizer", "300", "--conversations", "9"], "--conversations needs --tokenizer"),
    ],
)
def test_tokenize_says_in_one_sentence_what_cannot_be_done(capsys, texts, tmp_path, words, sentence):
    checkpoint(tmp_path / "model")
    checkpoint(tmp_path / "bare")
    (tmp_path / "bare/llm_anatomy_tokenizer.json").unlink()
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines/a.jsonl").write_text('{"messages": []}\n')
    words = [word.format(here=tmp_path) for word in words]
    code, out, err = run(capsys, "tokenize", *words, "--out", str(tmp_path / "out"))
    assert code == 2 and not out and sentence in err.splitlines()[-1] and not (tmp_path / "out").exists()
    assert len(err.splitlines()) == 1 or err.startswith("usage: ")


# --- self-instruct and serve ---


@pytest.fixture
def seeds(tmp_path):
    lines = [{"instruction": f"Say what {n} is.", "instances": [{"input": "", "output": "It is."}]} for n in range(8)]
    (tmp_path / "seeds.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(tmp_path / "seeds.jsonl")


class Scripted:
    """Writes one new task in each round, with an instance."""

    def __init__(self, *_, **__):
        self.n = 0

    def complete(self, prompts, *, max_tokens, stop=(), temperature=1.0, top_p=1.0, seed=None):
        self.n += 1
        texts = {"Task 9:": f" Compare {seed} and {7 * seed} with {9 * seed}.", "classification?": " No"}
        found = [next((t for end, t in texts.items() if p.endswith(end)), "Output: same") for p in prompts]
        return [Completion(text, 1000, 500, "stop") for text in found]


@pytest.mark.syllabus("GT-45", "GT-46")
def test_self_instruct_fills_a_pool_and_says_what_it_cost(capsys, monkeypatch, tmp_path, seeds):
    monkeypatch.setattr("llm_anatomy.commands.self_instruct.OpenAIServer", Scripted)
    words = ["self-instruct", seeds, "--out", str(tmp_path / "pool.jsonl"), "--server", "http://x/v1", "--model", "m"]
    words += ["--price", "2,4", "--conversations", str(tmp_path / "chat.jsonl")]
    code, out, err = run(capsys, *words, "--tasks", "3")
    rows = dict(line.split("  ", 1) for line in out.splitlines() if "  " in line)
    assert code == 0 and not err and rows["tasks"].strip() == "3" and rows["rounds"].strip() == "3"
    assert rows["requests"].strip() == "9" and rows["tokens"].strip() == "9,000 read, 4,500 written"
    assert rows["cost"].strip() == "0.04 dollars, 1.200 cents for each task"
    assert out.splitlines()[-1] == f"3 conversations are in {tmp_path / 'chat.jsonl'}."
    assert len((tmp_path / "chat.jsonl").read_text().splitlines()) == 3
    code, out, _ = run(capsys, *words, "--tasks", "4")
    assert code == 0 and "4 conversations" in out and len((tmp_path / "pool.jsonl").read_text().splitlines()) == 5
    code, _, err = run(capsys, *words, "--tasks", "5", "--seed", "1")
    assert code == 2 and "pool.jsonl was made with seed=0, and cannot go on with 1" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--server", "http://x/v1"], "--server needs --model"),
        (["--checkpoint", "story_rope", "--model", "m"], "--model and --chat belong to --server"),
        (["--checkpoint", "story_rope", "--price", "2"], "price='2' must be two numbers"),
        (["--checkpoint", "story_rope", "--threshold", "2"], "threshold=2.0 must be above 0"),
        (["--server", "x", "--model", "m"], "must be an address such as"),
        (["--checkpoint", "story_rope"], "the context of the model has 96"),
        ([], "one of the arguments --server --checkpoint is required"),
    ],
)
def test_self_instruct_says_in_one_sentence_what_cannot_be_done(capsys, tmp_path, seeds, words, sentence):
    code, out, err = run(capsys, "self-instruct", seeds, "--out", str(tmp_path / "pool"), "--tasks", "1", *words)
    assert code == 2 and not out and sentence in err.splitlines()[-1]


def test_serve_serves_a_stored_model_until_it_is_interrupted():
    openai = pytest.importorskip("openai")
    command = [sys.executable, "-m", "llm_anatomy", "serve", "story_rope", "--port", "0", "--quiet"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore it
    ) as server:
        url = server.stdout.readline().split(" at ")[1].split(";")[0]
        client = openai.OpenAI(base_url=url, api_key="any")
        answer = client.completions.create(model="story_rope", prompt="Once", max_tokens=5, temperature=0)
        server.send_signal(signal.SIGINT)
        assert answer.usage.completion_tokens == 5 and answer.choices[0].text.isprintable()
        assert server.wait(timeout=60) == 130 and server.stderr.read() == "\nstopped by the keyboard\n"


def test_a_builder_is_a_class_that_there_is():
    for record in RECORDS.values():
        if record.builder:
            module, _, name = record.builder.rpartition(".")
            assert isinstance(getattr(importlib.import_module(module), name), type)


def test_it_runs_as_a_module_imports_nothing_that_trains_and_stops_quietly_when_its_reader_does():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as left:
        command = [sys.executable, "-X", "importtime", "-m", "llm_anatomy", "models", "show", "gpt-2", "--json"]
        done = subprocess.run(command, stdout=left, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if not line.startswith("import time:")] == []
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "llm_anatomy.config" in imported and "llm_anatomy.training.lab.loop" not in imported


# --- evaluate ---

LAKES = [{"context": f"The {i}th lake is", "choices": ["deep", "loud"], "answer": i % 2} for i in range(6)]


@pytest.mark.syllabus("GT-09")
def test_evaluate_prints_a_table_and_writes_a_report(capsys, tmp_path):
    name, out = checkpoint(tmp_path / "model"), tmp_path / "report.json"
    (tmp_path / "lakes.jsonl").write_text("".join(json.dumps(lake) + "\n" for lake in LAKES))
    words = ["evaluate", name, "--data", str(tmp_path / "lakes.jsonl"), "--tasks", "agreement", "--limit", "5"]
    code, printed, err = run(capsys, *words, "--few-shot", "1", "--batch-size", "4", "--out", str(out))
    lines = printed.splitlines()
    assert code == 0 and not err and lines[0].split() == ["task", "items", "metric", "value", "95%", "interval"]
    assert [line.split()[:2] for line in lines[1:7]] == [["agreement", "5"]] * 3 + [["lakes", "5"]] * 3
    assert lines[-1].startswith(f"The report is in {out}, and the result of each item beside it, in {tmp_path}")
    report = json.loads(out.read_text())
    assert report["settings"]["few_shot"] == 1 and report["settings"]["model"] == name
    accuracy = report["tasks"]["lakes"]["metrics"]["accuracy, raw"]["value"]
    assert lines[4].split() == ["lakes", "5", "accuracy,", "raw", f"{accuracy:.3f}", *lines[4].split()[-3:]]
    code, printed, _ = run(capsys, "evaluate", name, "--data", str(tmp_path / "lakes.jsonl"), "--json")
    assert code == 0 and list(json.loads(printed)["tasks"]) == ["lakes"]


def test_evaluate_knows_the_stored_models(capsys):
    code, printed, _ = run(capsys, "evaluate", "story_rope", "--limit", "2")
    tasks = [line.split()[0] for line in printed.splitlines()[1:]]
    assert code == 0 and list(dict.fromkeys(tasks)) == [
        "story_facts",
        "story_verbs",
        "story_last_words",
        "story_text",
        "agreement",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["story_rope", "--tasks", "piqa"], "'piqa' is no task; there are story_facts, story_verbs,"),
        (["story_rope", "--data", "{here}/bad.jsonl"], "bad.jsonl, line 2: key 'answer': 5 must be the text of one"),
        (["story_rope", "--data", "{here}/none.jsonl"], "none.jsonl cannot be read: No such file"),
        (["no/such/model"], "is no folder, and no name on the hub"),
        (["translation", "--tasks", "agreement"], "only a decoder that predicts the next token can be evaluated"),
        (["story_rope", "--tasks", "agreement", "--few-shot", "200"], "few_shot=200 must be at most 199"),
    ],
)
def test_evaluate_says_in_one_sentence_what_cannot_be_done(capsys, tmp_path, words, sentence):
    bad = [LAKES[0], LAKES[0] | {"answer": 5}]
    (tmp_path / "bad.jsonl").write_text("".join(json.dumps(lake) + "\n" for lake in bad))
    code, printed, err = run(capsys, "evaluate", *(word.format(here=tmp_path) for word in words))
    assert code == 2 and not printed and sentence in err and len(err.splitlines()) == 1


def test_each_command_has_help_of_its_own_and_the_list_needs_no_pytorch(capsys):
    modules = (models, texts_command, serving, self_instruct, corpus, evaluating, experiments, training, arena)
    added = {f"{home.partition(':')[0]}" for home, _ in COMMANDS.values() if home}
    assert {f"llm_anatomy.{name}" for name in added} == {module.__name__ for module in modules}
    for name, (_, summary) in COMMANDS.items():
        code, out, err = run(capsys, name, "--help")
        assert code == 0 and not err and (name == "train" or " ".join(out.split()).find(summary[1:]) > 0), name
        assert out.count("--") >= 1, name
    script = "import sys; from llm_anatomy.__main__ import main\ntry: main(['--help'])\nfinally: print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert all(f"  {name}" in found.stdout for name in COMMANDS)
    assert "torch" not in found.stdout.splitlines()[-1].split()
