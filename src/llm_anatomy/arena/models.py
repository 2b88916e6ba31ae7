"""The outputs with which a class can begin: what the book's models, or any checkpoints, write for the same prompts."""

import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from llm_anatomy.arena.outputs import Outputs
from llm_anatomy.models.loading import is_stored, load
from llm_anatomy.models.sampling import Sampler, Temperature, greedy
from llm_anatomy.training.data.stories import stories

MODELS = ("story_llama@0.7", "story_llama@1.3", "story_rope@0.7", "story_rope@1.3", "story_learned@0.7", "story_rope@0")
"""What a class compares if nobody says otherwise: three small models, and one of them at several temperatures."""

HELD_OUT_STORIES = 1
"""The seed of stories that none of these models has read."""


def story_beginnings(n: int) -> list[str]:
    """The first sentences of stories, of at least 60 characters each.

    Args:
        n: number of stories.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`, seed 1; UCL-02.

    >>> story_beginnings(1)
    ['Polly was a hare who lived on a small boat. Her best friend was a cat named Theo.']
    """
    found: dict[str, None] = {}
    for text in stories(HELD_OUT_STORIES):
        if len(found) >= n:
            break
        beginning = re.match(r".{60,}?[.?!]\"?(?=\s)", text)
        if beginning:
            found[beginning[0]] = None
    return list(found)


def write_outputs(
    models: Sequence[str] = MODELS, prompts: Sequence[str] | None = None, *, max_new_tokens: int = 80, seed: int = 0
) -> Outputs:
    """Let models continue the same prompts, or answer them where a model has a chat template.

    Args:
        models: each is the name of a stored model such as ``story_rope``, a folder, a GGUF file or a name on the
            Hugging Face hub; ``@0.7`` behind it is the temperature, 1 by default, 0 for greedy decoding. In the arena,
            a folder or file has its own name, without the folders above it.
        prompts: the texts; by default the beginnings of 24 stories.
        max_new_tokens: most tokens of an output.
        seed: what is drawn depends on it, on the model and on the prompt.

    Raises:
        ValueError: for a model that there is not, a temperature that is no number, fewer than two models, or a model
            twice; and as :class:`~llm_anatomy.arena.outputs.Outputs` does.

    Source: Chiang et al. (2024), "Chatbot Arena", section 3; IITD-01.

    >>> outputs = write_outputs(["story_rope@0", "story_llama@0"], ["Mia was a"], max_new_tokens=2)
    >>> outputs.models
    ['story_llama@0', 'story_rope@0']
    """
    names = [Path(model).name if Path(model.rpartition("@")[0] or model).exists() else model for model in models]
    if len(models) < 2 or len(set(names)) < len(models):
        raise ValueError(f"models={' '.join(models)} must be at least two, all of them different")
    if max_new_tokens < 1:
        raise ValueError(f"{max_new_tokens=} must be at least 1")
    for model in models:
        _parts(model)  # refuse a wrong one before the first writes
    prompts = story_beginnings(24) if prompts is None else list(dict.fromkeys(prompts))
    by_prompt: dict[str, dict[str, str]] = {prompt: {} for prompt in prompts}
    for model, name in zip(tqdm(models, desc="outputs", disable=None), names, strict=True):
        drawn = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
        path, temperature = _parts(model)
        sampler = Sampler(Temperature(temperature), generator=drawn) if temperature else greedy
        settings = {"max_new_tokens": max_new_tokens, "sampler": sampler, "overflow": "slide"}
        try:
            texts = _texts(path, prompts, settings)
        except ValueError as error:
            raise ValueError(str(error) if path in str(error) else f"{path}: {error}") from None
        for prompt, text in zip(prompts, texts, strict=True):
            by_prompt[prompt][name] = re.sub(r"[^\S\n]|[\x00-\x08\x0e-\x1f\x7f]", " ", text).strip()
    return Outputs(by_prompt)


def _parts(model: str) -> tuple[str, float]:
    """Name or path, and temperature."""
    path, at, temperature = model.rpartition("@")
    if not at:
        return model, 1.0
    if not re.fullmatch(r"\d{1,3}(\.\d{1,4})?", temperature):
        raise ValueError(f"{model} must be a model, or a model and its temperature such as {path}@0.7")
    return path, float(temperature)


def _texts(name: str, prompts: list[str], settings: dict[str, Any]) -> list[str]:
    """What a model writes after each prompt, or answers."""
    checkpoint = load(name)
    if is_stored(name):  # an empty line ends a story
        texts = checkpoint.generate(prompts, batch_size=len(prompts), **settings)
        return [text.partition("\n\n")[0] for text in texts]
    answer = checkpoint.generate if checkpoint.texts.chat_template is None else checkpoint.chat
    return [answer(prompt, **settings) for prompt in prompts]
