"""Outputs of several models for the same prompts: a JSONL file with one output on each line."""

import hashlib
import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path

KEYS = ("prompt", "model", "output")
MAX_CHARACTERS = 20_000
"""Of a prompt or an output; a longer one cannot be read in a class."""

_MODEL = re.compile(r"\w[\w .:/+()@=,-]{0,99}")  # safe in a spreadsheet, too: no formula begins with a letter
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")  # control characters, halves of surrogate pairs


@dataclass(frozen=True)
class Outputs:
    """What the models have written: for each prompt, the output of each model.

    Args:
        by_prompt: the outputs by prompt and model. Not every model needs to have an output for every prompt.

    Raises:
        ValueError: if there is a prompt with fewer than two outputs, a name of a model that is empty, longer than 100
            characters, or has other characters than letters, digits, spaces and ``_.:/+()@=,-``, or a text that is
            longer than 20,000 characters.

    Source: Chiang et al. (2024), "Chatbot Arena", section 3; IITD-01.

    >>> outputs = Outputs({"Once": {"small": "upon a time", "large": "there was a hare"}})
    >>> outputs.models, outputs.n_pairs
    (['large', 'small'], 1)
    """

    by_prompt: Mapping[str, Mapping[str, str]]

    def __post_init__(self) -> None:
        if not self.by_prompt:
            raise ValueError("there are no outputs")
        for prompt, outputs in self.by_prompt.items():
            for model, text in outputs.items():
                _check(prompt, model, text)
            if len(outputs) < 2:
                raise ValueError(
                    f"the prompt {prompt!r:.60} has {len(outputs)} output{'s' * (not outputs)}; a battle needs two"
                )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Outputs":
        """Read a JSONL file. Each line is an object with the texts ``prompt``, ``model`` and ``output``.

        Args:
            path: the file, in UTF-8; empty lines are left out.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if a line is wrong, with its number, or if the outputs are not what :class:`Outputs` takes.
        """
        path, by_prompt = Path(path), {}
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if not line.strip():
                continue
            try:
                prompt, model, text = _fields(line)
                _check(prompt, model, text)
                if model in by_prompt.setdefault(prompt, {}):
                    raise ValueError(f"{model} has a second output for the prompt {prompt!r:.60}")
            except ValueError as error:
                raise ValueError(f"{path.name}, line {number}: {error}") from None
            by_prompt[prompt][model] = text
        try:
            return cls(by_prompt)
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from None

    def lines(self) -> Iterable[str]:
        """The lines of a JSONL file with these outputs."""
        for prompt, outputs in self.by_prompt.items():
            for model, text in outputs.items():
                yield json.dumps(dict(zip(KEYS, (prompt, model, text), strict=True)), ensure_ascii=False) + "\n"

    @cached_property
    def models(self) -> list[str]:
        """The names of all models, sorted."""
        return sorted({model for outputs in self.by_prompt.values() for model in outputs})

    @cached_property
    def prompts(self) -> list[str]:
        """The prompts, in the order of the file."""
        return list(self.by_prompt)

    @cached_property
    def _ends(self) -> list[int]:
        """For each prompt, the number of pairs up to and including it."""
        ends, n = [], 0
        for outputs in self.by_prompt.values():
            n += len(outputs) * (len(outputs) - 1) // 2
            ends.append(n)
        return ends

    @property
    def n_pairs(self) -> int:
        """Number of pairs of outputs for the same prompt."""
        return self._ends[-1]

    def pair(self, index: int) -> tuple[str, str, str]:
        """The prompt and the two models of a pair, the pairs of a prompt in the order of the models' names.

        Args:
            index: from 0 to below ``n_pairs``.
        """
        row = bisect_right(self._ends, index)
        prompt = self.prompts[row]
        first = index - (self._ends[row - 1] if row else 0)
        a, b = list(combinations(sorted(self.by_prompt[prompt]), 2))[first]
        return prompt, a, b

    @cached_property
    def fingerprint(self) -> str:
        """A checksum that tells whether two files have the same outputs."""
        return hashlib.sha256("".join(self.lines()).encode("utf-8", "surrogatepass")).hexdigest()


def _fields(line: bytes) -> list[str]:
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is no JSON in UTF-8 ({error})") from None
    if not isinstance(record, dict) or not all(isinstance(record.get(key), str) for key in KEYS):
        raise ValueError(f"there must be an object with the texts {', '.join(KEYS)}")
    return [record[key] for key in KEYS]


def _check(prompt: str, model: str, text: str) -> None:
    if not _MODEL.fullmatch(model):
        raise ValueError(
            f"{model=:.120} must be at most 100 letters, digits, spaces and _.:/+()@=,- after a letter or digit"
        )
    for name, value in {"prompt": prompt, "output": text}.items():
        if len(value) > MAX_CHARACTERS:
            raise ValueError(f"the {name} has {len(value):,} characters; at most {MAX_CHARACTERS:,} are allowed")
        if found := _NO_TEXT.search(value):
            raise ValueError(f"the {name} has the character U+{ord(found[0]):04X}, which is no part of a text")
