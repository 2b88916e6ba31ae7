"""Valid config.json files with fields that are changed, deleted, added or given another type at random.

The model of such a file is refused in one sentence, or it is the model that Hugging Face's library reads from the same
folder. Where their library refuses a file, we do too, unless only fields without meaning have changed.

``PYTHONPATH=src:tests python -m models.checkpoints.mutations`` tries 5,000 files and prints what became of them;
``--seeds 100:200`` tries others, ``--only NAME`` those of one case of ``cases.py``, and ``--apart`` lists the files
that their library alone refuses.
"""

import argparse
import copy
import json
import random
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from models.checkpoints.cases import CASES
from models.checkpoints.generated import SPELLINGS
from models.checkpoints.parity import logits
from randomness import randomize
from tqdm import tqdm

from llm_anatomy.models.checkpoints import families, load
from llm_anatomy.models.checkpoints.fields import HARMLESS, NEUTRAL

SEEDS = range(5000)
BOUND = 1e-4  # of the largest logit
LONGEST_MESSAGE = 3 * 240
TOKENS = 17

ANYTHING: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    2,
    3,
    -1,
    0.5,
    1.0,
    1e-5,
    "",
    "none",
    "gelu",
    [],
    [1],
    {},
    {"a": 1},
)
ACTIVATIONS = ("silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "swish", "mish", "tanh", "SiLU")
ROPE = (
    {"rope_type": "default", "rope_theta": 700.0},
    {"type": "linear", "factor": 2.0},
    {"rope_type": "linear", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 12},
    {"rope_type": "default", "partial_rotary_factor": 0.5},
)
NOT_DRAWN = {"rescale_prenorm_residual"}  # from_pretrained of today divides the weights that it has read by a number
OF_TENSORS = {"legacy"}  # of DeBERTa: other names, and we read both


# --- The files ---


@cache
def vocabulary() -> tuple[str, ...]:
    """Names of fields: of all families, of all their classes, and some that nobody knows."""
    names = {name for family in families().values() for name in family.represented_names | family.harmless_names}
    names |= {*HARMLESS.split(), *NEUTRAL}
    names |= {name for case in CASES.values() for name in case.hf().config.to_dict()}
    names |= {"alibi", "quantization_config", "rotary_pct", "rope_theta", "sliding_window_pattern", "is_causal"}
    return tuple(sorted(names - NOT_DRAWN))


@cache
def values_of() -> dict[str, list]:
    """The values that a field has in the files of any case."""
    found = defaultdict(list)
    for case in CASES.values():
        for name, value in case.hf().config.to_dict().items():
            if value not in found[name]:
                found[name].append(value)
    return found


def mutate(rng: random.Random, fields: dict[str, Any], known: set[str]) -> str:
    """Change one field, and say how; ``known`` are those of the family, which are changed more often than others."""
    kinds = {"change": 5, "delete": 1, "null": 1, "retype": 2, "add": 3}
    kind = rng.choices(list(kinds), list(kinds.values()))[0]
    among = set(vocabulary()) if kind == "add" else set(fields)
    names = sorted(among & known if rng.random() < 0.7 else among) or sorted(among)
    names = [name for name in names if name not in NOT_DRAWN]
    of_rope = [name for name in names if "rope" in name or "rotary" in name]  # of many parts: more often
    name = rng.choice(of_rope if of_rope and rng.random() < 0.2 else names)
    before = fields.get(name)
    if kind == "delete":
        del fields[name]
        return f"{name} deleted"
    if kind == "null":
        fields[name] = None
    elif kind == "retype":
        fields[name] = retyped(rng, before)
    elif kind == "add":
        fields[name] = rng.choice([*ANYTHING, *values_of().get(name, ()), *(ROPE if "rope" in name else ())])
    else:
        fields[name] = changed(rng, name, before)
    return f"{name}: {before!r} -> {fields[name]!r}"


def changed(rng: random.Random, name: str, value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((0, 1, -1, value + 1, value - 1, 2 * value, value // 2, 2**31, 2**70))
    if isinstance(value, float):
        return rng.choice((0.0, -value, value / 3, 2 * value, 1e-12, 1e30, float("inf"), float("nan"), 2))
    if isinstance(value, str):
        more = [other for other in values_of().get(name, ()) if isinstance(other, str)]
        return rng.choice([*more, *ACTIVATIONS, value.upper(), ""])
    if isinstance(value, list):
        more = [other for other in values_of().get(name, ()) if isinstance(other, list)]
        return rng.choice([value[::-1], value[:-1], [*value, *value[:1]], [], value[:1] * len(value), *more])
    if isinstance(value, dict):
        other = copy.deepcopy(value)
        if other and rng.random() < 0.8:
            mutate_within(rng, other)
            return other
        return rng.choice([{}, *ROPE])
    return rng.choice([*ANYTHING, *values_of().get(name, ())])


def mutate_within(rng: random.Random, fields: dict[str, Any]) -> None:
    name = rng.choice(sorted(map(str, fields)))
    kind = rng.random()
    if kind < 0.2:
        fields.pop(name, None)
    elif kind < 0.6:
        fields[name] = changed(rng, name, fields.get(name))
    elif kind < 0.8:
        fields[name] = retyped(rng, fields.get(name))
    else:
        more = (
            "factor",
            "rope_type",
            "type",
            "partial_rotary_factor",
            "beta_fast",
            "mscale",
            "truncate",
            "attention_factor",
        )
        fields[rng.choice(more)] = rng.choice(
            (None, 0, 1.0, 2.0, 0.5, True, False, "linear", "yarn", "llama3", "default")
        )


def retyped(rng: random.Random, value: Any) -> Any:
    """The same value in another type, or any other."""
    same = [str(value), [value], {"value": value}]
    if isinstance(value, int | float) and value == value and abs(value) != float("inf"):
        same += [float(value), int(value), bool(value)]
    return rng.choice([*same, *ANYTHING])


# --- What becomes of them ---


@dataclass
class Outcome:
    """``word`` is equal, refused, apart (refused by their library alone), or at fault, which ``why`` explains."""

    seed: int
    case: str
    changes: list[str]
    word: str
    why: str = ""
    fields: dict = field(default_factory=dict, repr=False)

    def __str__(self):
        return f"{self.seed}, {self.case}: {'; '.join(self.changes)}\n    {self.word}: {self.why}"


class Folders:
    """The folders of all cases, made when they are first asked for."""

    def __init__(self, folder: Path):
        self.folder, self.made = folder, {}

    def of(self, name: str) -> tuple[Path, transformers.PreTrainedConfig, type]:
        if name not in self.made:
            hf, folder = randomize(CASES[name].hf()).eval(), self.folder / str(len(self.made))
            hf.save_pretrained(folder)
            (folder / "config.json").rename(folder / "original.json")
            self.made[name] = folder, hf.config, type(hf)
        return self.made[name]


def attempt(seed: int, folders: Folders, only: str | None = None) -> Outcome:
    """Mutate the config of one case, and load it here and there."""
    rng = random.Random(seed)
    name = rng.choice(sorted(CASES))
    folder, config, kind = folders.of(only or name)
    fields = json.loads((folder / "original.json").read_text())
    spelling = [step for step in SPELLINGS if rng.random() < 0.15]
    for step in spelling:
        SPELLINGS[step](fields, config)
    before = copy.deepcopy(fields)
    known = families()[CASES[only or name].family].represented_names
    changes = [mutate(rng, fields, known) for _ in range(rng.choice((1, 1, 1, 2)))]
    (folder / "config.json").write_text(json.dumps(fields))
    said = Outcome(seed, only or name, spelling + changes, "equal", fields=fields)
    try:
        ours = load(folder)
    except ValueError as error:
        message = str(error)
        short = len(message) <= LONGEST_MESSAGE and len(message.splitlines()) == 1
        said.word, said.why = ("refused" if short else "at fault"), message
        return said
    except Exception as error:
        said.word, said.why = "at fault", f"load raises {type(error).__name__}: {error}"
        return said
    family = families()[ours.family]
    kind = kind if family.name == CASES[said.case].family else getattr(transformers, family.architectures[0])
    tokens = min(TOKENS, getattr(ours.config, "n_ctx", None) or TOKENS)
    try:
        pairs = list(logits(ours.model, their_model(kind, folder), batch=2, tokens=tokens))
    except Exception as error:
        said.word, said.why = "apart", f"their library raises {type(error).__name__}: {str(error).strip()[-300:]}"
        plain = simplified(
            fields, before, family.harmless_names | NEUTRAL.keys() - family.represented_names | OF_TENSORS
        )
        if json.dumps(plain) == json.dumps(fields):
            said.word = "at fault"
            return said
        (folder / "config.json").write_text(json.dumps(plain))
        try:
            pairs = list(logits(ours.model, their_model(kind, folder), batch=2, tokens=tokens))
        except Exception:
            said.word = "at fault"
            return said
    difference = max(((found - expected).abs().max() / expected.abs().max()).item() for found, expected in pairs)
    if not difference <= BOUND:
        said.word, said.why = "at fault", f"logits differ by {difference:.1e} of the largest"
    return said


def simplified(fields: dict[str, Any], before: dict[str, Any], meaningless: set[str]) -> dict[str, Any]:
    """The same file as their library wants it: null is left out, 1 is 1.0, and fields without meaning are as before."""
    plain = {name: before[name] if name in meaningless else fields.get(name) for name in before}
    plain |= {name: value for name, value in fields.items() if name not in meaningless and name not in before}
    of_floats = {name for name in plain if any(type(value) is float for value in values_of().get(name, ()))}
    of_floats = {name for name in of_floats if type(plain[name]) is int}
    plain = {name: float(value) if name in of_floats else value for name, value in plain.items()}
    plain = {name: without_nulls(value) for name, value in plain.items()}
    return {name: value for name, value in plain.items() if value is not None or before.get(name, 0) is None}


def without_nulls(value: Any) -> Any:
    return {key: inner for key, inner in value.items() if inner is not None} if isinstance(value, dict) else value


def their_model(kind: type, folder: Path):
    """Their model, all of whose weights come from the file."""
    hf, info = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    lost = {name for key, names in info.items() if key != "unexpected_keys" for name in names}
    lost = {name for name in lost if "embed_positions" not in str(name)}  # a table of sines and cosines
    assert not lost, f"not read: {lost}"
    return hf.eval()


# --- The table ---


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Compare models of mutated files with Hugging Face's.")
    parser.add_argument("--seeds", default=f"{SEEDS.start}:{SEEDS.stop}", help="first:last+1, by default %(default)s")
    parser.add_argument("--only", choices=CASES, help="the files of one case")
    parser.add_argument("--apart", action="store_true", help="list the files that their library alone refuses")
    asked = parser.parse_args(arguments)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        folders = Folders(Path(folder))
        seeds = tqdm(range(*map(int, asked.seeds.split(":"))), unit="file", disable=None)
        found = [attempt(seed, folders, asked.only) for seed in seeds]
    for one in found:
        if one.word == "at fault" or asked.apart and one.word == "apart":
            print(one)
    print(dict(Counter(one.word for one in found)))
    return any(one.word == "at fault" for one in found)


if __name__ == "__main__":
    sys.exit(main())
