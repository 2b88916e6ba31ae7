"""lm-evaluation-harness on our models: on a local task, its numbers equal those of its own ``hf`` model."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tokenizers
import torch
from released.installed import RELEASED, released

from llm_anatomy.evaluation.harness import harness_model
from llm_anatomy.evaluation.text_model import read_checkpoint
from llm_anatomy.models.checkpoints import Checkpoint, load, save
from llm_anatomy.models.checkpoints.chat import ChatTemplate
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.base import BYTE_NAMES
from llm_anatomy.training.data.sources import END_OF_TEXT
from llm_anatomy.training.data.tokenization import with_special_token
from llm_anatomy.training.experiments import story_tasks

pytestmark = pytest.mark.released

N_ITEMS = 24
SHARED = {"dataset_path": "json", "test_split": "train", "validation_split": None}
TASKS = {
    "choices": {
        "output_type": "multiple_choice",
        "doc_to_text": "{{context}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{answer}}",
        "metric_list": [{"metric": name} for name in ("acc", "acc_norm", "acc_mutual_info")],
    },
    "words": {
        "output_type": "generate_until",
        "doc_to_text": "Once {{context}}",  # its own model generates nothing sensible after an empty prompt
        "doc_to_target": "{{choices[answer]}}",
        "generation_kwargs": {"until": [".", ",", "\n"], "max_gen_toks": 8, "do_sample": False},
        "metric_list": [{"metric": "exact_match"}],
    },
    "texts": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{text}}",
        "metric_list": [{"metric": name} for name in ("bits_per_byte", "byte_perplexity", "word_perplexity")],
    },
}


@pytest.fixture(scope="module")
def lm_eval():
    released("lm_eval")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(RELEASED))
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
            patch.setenv(name, "1")
        import lm_eval

        yield lm_eval


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The small Llama of the stories in the layout of Hugging Face's library, with one more token: an end of text."""
    known = read_checkpoint("story_llama")
    tokenizer = with_special_token(known.tokenizer, END_OF_TEXT)
    with torch.random.fork_rng(devices=[]):
        model = Transformer(replace(known.config, n_vocab=tokenizer.n_vocab))
    weights = known.model.state_dict()
    for name, weight in model.state_dict().items():
        weight[: len(weights[name])] = weights[name]
        weight[len(weights[name]) :] = weights[name][:1] / 2
    template = ChatTemplate(templates={"default": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"})
    texts = Texts(tokenizer=tokenizer, stop=(tokenizer.special_tokens[END_OF_TEXT],), chat_template=template)
    folder = tmp_path_factory.mktemp("harness") / "model"
    save(Checkpoint(model=model, family="llama", texts=texts), folder)
    return folder


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Local tasks; their questions have contexts that are too long for the model, and one that is empty."""
    path = tmp_path_factory.mktemp("task")
    items = [vars(item) for item in story_tasks.facts().items[:N_ITEMS]]
    items[0]["context"] = ""
    for item, text in zip(items, story_tasks.whole_stories().items, strict=False):
        item["text"] = text.text.strip()
    (path / "data.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    files = {"dataset_kwargs": {"data_files": str(path / "data.jsonl")}}
    return [{"task": name, **SHARED, **files, **task} for name, task in TASKS.items()]


def results(lm_eval, model, tasks, **settings):
    found = lm_eval.simple_evaluate(
        model=model, tasks=tasks, bootstrap_iters=0, log_samples=True, verbosity="ERROR", **settings
    )
    answers = {name: [sample["filtered_resps"] for sample in samples] for name, samples in found["samples"].items()}
    return found["results"], answers


@pytest.mark.syllabus("GT-09", "GT-10")
@pytest.mark.parametrize("shots", [0, 1])
def test_numbers_are_those_of_its_own_model(lm_eval, folder, tasks, shots):
    from lm_eval.models.huggingface import HFLM

    asked = tasks if not shots else tasks[:2]
    for task in asked:
        task["num_fewshot"] = shots
    theirs, their_answers = results(
        lm_eval, HFLM(pretrained=str(folder), device="cpu", dtype="float32", batch_size=4), asked
    )
    ours, our_answers = results(lm_eval, harness_model(load(folder), batch_size=7), asked)
    for name in theirs:
        for metric, value in theirs[name].items():
            if isinstance(value, float):
                assert ours[name][metric] == pytest.approx(value, rel=1e-5), (name, metric)
    assert {name for metrics in theirs.values() for name in metrics} >= {"acc,none", "acc_norm,none"}
    assert our_answers["words"] == their_answers["words"]
    for a, b in zip(our_answers["choices"], their_answers["choices"], strict=True):
        torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=0, atol=2e-4)
    if not shots:
        torch.testing.assert_close(
            torch.tensor(our_answers["texts"]), torch.tensor(their_answers["texts"]), rtol=0, atol=1e-3
        )


def test_our_own_command_gives_the_same_accuracies(lm_eval, folder, tasks):
    from llm_anatomy.evaluation.evaluate import evaluate
    from llm_anatomy.evaluation.tasks import MultipleChoice, Question

    rows = [json.loads(line) for line in Path(tasks[0]["dataset_kwargs"]["data_files"]).read_text().splitlines()]
    items = [
        Question(context=row["context"], choices=tuple(row["choices"]), answer=row["answer"], unconditional="")
        for row in rows
    ]
    tasks[0]["num_fewshot"] = 0
    found, _ = results(lm_eval, harness_model(load(folder)), tasks[:1])
    metrics = evaluate(load(folder), [MultipleChoice("choices", items)]).metrics["choices"]
    names = {"raw": "acc", "per character": "acc_norm", "unconditional": "acc_mutual_info"}
    for ours, theirs in names.items():
        assert metrics[f"accuracy, {ours}"].estimate == pytest.approx(found["choices"][f"{theirs},none"]), ours


def test_the_command_of_the_harness_knows_our_models(folder, tmp_path, tasks, lm_eval):
    import yaml

    tasks[0]["num_fewshot"] = 0
    (tmp_path / "choices.yaml").write_text(yaml.safe_dump(tasks[0]))
    words = ["run", "--model", "llm_anatomy", "--model_args", f"pretrained={folder}", "--tasks", "choices"]
    words += ["--include_path", str(tmp_path), "--limit", "4", "--device", "cpu", "--batch_size", "2"]
    script = "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    script += "runpy.run_module(sys.argv.pop(1), run_name='__main__')"
    module = "llm_anatomy.evaluation.harness"
    done = subprocess.run([sys.executable, "-c", script, str(RELEASED), module, *words], capture_output=True, text=True)
    assert done.returncode == 0 and "|choices|" in done.stdout and "acc_norm" in done.stdout, done.stderr[-2000:]


def byte_fallback(adds_bos):
    """As Llama 2's: characters, and bytes for what is no character of the vocabulary."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2} | {name: 3 + byte for byte, name in enumerate(BYTE_NAMES)}
    vocab |= {letter: len(vocab) + i for i, letter in enumerate("▁abcdefghijklmnopqrstuvwxyz:")}
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he")]
    vocab |= {first + second: len(vocab) + i for i, (first, second) in enumerate(merges)}
    model = tokenizers.models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = tokenizers.Tokenizer(model)
    steps = [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    tokenizer.normalizer = tokenizers.normalizers.Sequence(steps)
    spaces = [tokenizers.decoders.Replace("▁", " "), tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse()]
    tokenizer.decoder = tokenizers.decoders.Sequence([*spaces, tokenizers.decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([tokenizers.AddedToken(name, normalized=False) for name in ("<unk>", "<s>", "</s>")])
    if adds_bos:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)]
        )
    return tokenizer


def words():
    names = ["<unk>", "<s>", "</s>", *(f"w{i}" for i in range(30))]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(names)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return tokenizer


TURNS = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}"
TURNS += "{% if add_generation_prompt %}[assistant]{% endif %}"
STRICT = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + TURNS
MODELS = {
    "bos added": lambda: (byte_fallback(True), "<s>", TURNS),
    "bos named": lambda: (byte_fallback(False), "<s>", STRICT),
    "no bos": lambda: (byte_fallback(False), None, TURNS.replace("{{ bos_token }}", "")),
    "words": lambda: (words(), "<s>", "{% for m in messages %}{{ m.content | trim }} w1 {% endfor %}"),
}
CHATS = [
    ([("user", "q")], True),
    ([("system", "s"), ("user", "q")], True),
    ([("user", "q"), ("assistant", "the answer is")], False),
    ([("system", "s"), ("user", "q"), ("assistant", "so "), ("user", "r"), ("assistant", "then")], False),
]
PAIRS = [("", " the cat"), ("the", " cat"), ("the ", "cat"), ("w1 w2", " w3"), ("ab " * 70, "the end"), ("ü", "é")]
ANSWERS = [
    {"until": ["e"], "max_gen_toks": 6},
    {"until": "zz", "max_tokens": 5, "do_sample": False, "temperature": 0.7},
    {"until": [], "max_completion_tokens": 4, "repetition_penalty": 1.7, "do_sample": False},
]


@pytest.mark.parametrize("name", MODELS)
def test_each_request_has_the_answer_of_its_own_model(lm_eval, tmp_path, name):
    import transformers
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    tokenizer, bos, template = MODELS[name]()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=False,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8 if parameter.ndim > 1 else 1)
    model.save_pretrained(tmp_path)
    named = {"eos_token": "</s>", "unk_token": "<unk>"} | ({"bos_token": bos} if bos else {})
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named)
    fast.chat_template = template
    fast.save_pretrained(tmp_path)
    theirs = HFLM(pretrained=str(tmp_path), device="cpu", batch_size=1, dtype="float32")
    ours = harness_model(load(tmp_path), batch_size="auto")

    def asked(kind, arguments):
        requests = [Instance(request_type=kind, doc={}, arguments=each, idx=0) for each in arguments]
        return [getattr(each, kind)(requests, disable_tqdm=True) for each in (ours, theirs)]

    for turns, begins in CHATS:
        messages = [{"role": role, "content": content} for role, content in turns]
        texts = [each.apply_chat_template(messages, add_generation_prompt=begins) for each in (ours, theirs)]
        assert texts[0] == texts[1]
    # of a continuation that has no token of its own, such as the second half of an unknown word, hf says 0
    pairs = PAIRS[:-1] if name == "words" else PAIRS
    for mine, other in zip(*asked("loglikelihood", pairs), strict=True):
        assert mine == (pytest.approx(other[0], abs=1e-3), other[1])
    whole = [("the cat",), ("w1 w2 w3",), ("ab c " * 60,)]
    if name == "bos added":  # which hf counts, and we do not
        with pytest.warns(UserWarning, match="does not count the token that the tokenizer adds"):
            assert ours.loglikelihood_rolling([Instance("loglikelihood_rolling", {}, whole[0], 0)])
    else:
        mine, other = asked("loglikelihood_rolling", whole)
        assert mine == pytest.approx(other, abs=1e-3)
    for settings in ANSWERS:
        mine, other = asked("generate_until", [("the", settings), ("w1 w2 w3", settings), ("ab " * 70, settings)])
        assert mine == other
