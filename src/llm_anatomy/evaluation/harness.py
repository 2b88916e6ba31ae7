"""The package's models in lm-evaluation-harness, with all of its tasks.

    python -m llm_anatomy.evaluation.harness run --model llm_anatomy --model_args pretrained=./my-model --tasks piqa

This is the command of lm-evaluation-harness, which also knows our models. In Python, :func:`register` gives it their
name, and :func:`harness_model` makes a model for its ``simple_evaluate``. On the same weights, its numbers are those of
its own ``hf`` model, with two differences. If a tokenizer adds a token before each text, ``hf`` counts this token in
the likelihood of a whole text, and we count the text alone; a warning says so. If a continuation merges into the last
token of its context, so that it has no token of its own, ``hf`` calls it certain, and we predict it as a text of its
own. What we do not support, such as random answers and beam search, is refused.
"""

import hashlib
import sys
import tempfile
import warnings
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tqdm import tqdm

from llm_anatomy.evaluation.text_model import TextModel
from llm_anatomy.models.checkpoints.engine import Checkpoint
from llm_anatomy.models.loading import load
from llm_anatomy.models.sampling import RepetitionPenalty, Sampler, Temperature

NAME = "llm_anatomy"
"""The name of our models in lm-evaluation-harness."""

MAX_NEW_TOKENS = 256
"""The most tokens of an answer if a task does not say it, as in its ``hf`` model."""

LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""The names of this number; the first one that a task gives counts."""

NEUTRAL = {"num_beams": 1, "no_repeat_ngram_size": 0, "length_penalty": 1.0, "min_p": 0.0}
"""Settings that are not supported, with the values that ask for nothing."""

OF_RANDOM_ANSWERS = {"do_sample", "temperature", "top_p", "top_k"}

BATCH_SIZE = 32


def harness_model(checkpoint: Checkpoint, batch_size: int = 32) -> Any:
    """Make a model for lm-evaluation-harness.

    Args:
        checkpoint: a decoder with its tokenizer.
        batch_size: number of texts in a forward pass.

    Returns:
        An ``lm_eval.api.model.LM``, for its function ``simple_evaluate(model=…)``.

    Raises:
        ValueError: if lm-evaluation-harness is not installed; and as
            :class:`~llm_anatomy.models.checkpoints.scoring.TextModel` does.

    Source: Gao et al., "A framework for few-shot language model evaluation"; GT-09, GT-10.

    >>> from inspect import signature
    >>> list(signature(harness_model).parameters)
    ['checkpoint', 'batch_size']
    """
    return _harness_class()(checkpoint, batch_size=batch_size)


def register() -> None:
    """Tell lm-evaluation-harness our models, so that it finds them by the name ``llm_anatomy``.

    Raises:
        ValueError: if lm-evaluation-harness is not installed.

    Source: the interface guide of lm-evaluation-harness, "New model guide"; GT-09.

    >>> from inspect import signature
    >>> signature(register).return_annotation
    """
    _harness_class()


@cache
def _harness_class() -> Any:
    try:
        from lm_eval.api.model import LM  # pyright: ignore[reportMissingImports]
        from lm_eval.api.registry import register_model  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError("this needs lm-evaluation-harness (pip install 'llm_anatomy[evaluation]')") from None

    @register_model(NAME)
    class HarnessModel(LM):
        """A checkpoint that answers the three types of requests."""

        def __init__(self, pretrained: str | Checkpoint, batch_size: Any = 32, **settings: Any):
            super().__init__()
            allowed = {"dtype": None, "device": None, "max_batch_size": None}
            if unknown := sorted(settings.keys() - allowed.keys()):
                raise ValueError(f"{unknown[0]} is no argument of {NAME}; there are pretrained, dtype and device")
            if not isinstance(pretrained, Checkpoint):
                known = {name: settings[name] for name in ("dtype", "device") if settings.get(name)}
                pretrained = load(pretrained, **known)
            size = str(batch_size or BATCH_SIZE)
            size = str(BATCH_SIZE) if size.partition(":")[0] == "auto" else size
            if not size.isdecimal():
                raise ValueError(f"{batch_size=} must be a number, 'auto' or 'auto:N'")
            self._model = TextModel(pretrained, int(size), allowed_special="all")
            self._device = next(pretrained.model.parameters()).device

        def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
            found = {}
            asked = self._model.stream_log_likelihoods([request.args for request in requests])
            for i, likelihood in tqdm(asked, total=len(requests), desc="likelihoods", disable=disable_tqdm or None):
                found[i] = likelihood.log_prob, likelihood.is_greedy
                self.cache_hook.add_partial("loglikelihood", requests[i].args, found[i])
            return [found[i] for i in range(len(requests))]

        def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
            if self._model.texts.before:
                warnings.warn(
                    "the likelihood of a whole text does not count the token that the tokenizer adds before it; "
                    "lm-evaluation-harness's own hf model counts it",
                    stacklevel=2,
                )
            found = {}
            asked = self._model.stream_whole_texts([request.args[0] for request in requests])
            for i, likelihood, _ in tqdm(asked, total=len(requests), desc="texts", disable=disable_tqdm or None):
                found[i] = likelihood.log_prob
                self.cache_hook.add_partial("loglikelihood_rolling", requests[i].args, found[i])
            return [found[i] for i in range(len(requests))]

        def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
            alike: dict[tuple, list[int]] = {}
            for i, request in enumerate(requests):
                alike.setdefault(_settings(request.args[1]), []).append(i)
            found = {}
            with tqdm(total=len(requests), desc="answers", disable=disable_tqdm or None) as bar:
                for (stop, max_new_tokens, penalty), indices in alike.items():
                    prompts = [requests[i].args[0] for i in indices]
                    settings = {"max_new_tokens": max_new_tokens, "stop": stop, "alone": True}  # as hf decodes
                    if penalty != 1:
                        settings["sampler"] = Sampler(RepetitionPenalty(penalty), Temperature(0.0))
                    answers = self._model.stream_continuations(prompts, **settings)
                    for number, text in answers:
                        found[indices[number]] = text
                        self.cache_hook.add_partial("generate_until", requests[indices[number]].args, text)
                        bar.update()
            return [found[i] for i in range(len(requests))]

        @cached_property
        def tokenizer_name(self) -> str:  # of the requests that it keeps
            return f"{NAME}-{_fingerprint(self._model)}"

        def chat_template(self, chat_template: bool | str = False) -> str | None:
            templates = self._templates().templates
            return templates.get(chat_template if isinstance(chat_template, str) else "default")

        def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
            settings = {"add_generation_prompt": add_generation_prompt}
            settings["continue_final_message"] = not add_generation_prompt
            try:
                return self._templates().render(chat_history, **settings)
            except ValueError as refused:
                others = [message for message in chat_history if message["role"] != "system"]
                if len(others) == len(chat_history) or self._model.texts.chat_template is None:
                    raise
                text = self._templates().render(others, **settings)
                warnings.warn(f"the system message is left out: {refused}", stacklevel=2)
                return text

        def _templates(self) -> Any:
            template = self._model.texts.chat_template
            if template is None:
                raise ValueError("the model has no chat template, and so was not made for conversations")
            return template

    return HarnessModel


def _settings(asked: dict[str, Any]) -> tuple[tuple[str, ...], int, float]:
    """The stop strings, the most new tokens and the repetition penalty that a request asks for."""
    draws = asked.get("do_sample")
    temperature = asked.get("temperature", 1.0 if draws else 0.0) or 0.0
    if temperature > 0 and draws is not False:
        raise ValueError(f"{asked} asks for random answers; {NAME} answers greedily")
    for name, value in asked.items():
        if name in NEUTRAL and value not in (None, NEUTRAL[name]):
            raise ValueError(f"{name}={value!r} is not supported by {NAME}; it must be {NEUTRAL[name]!r} or left out")
    if unknown := asked.keys() - {"until", "repetition_penalty", *LENGTHS, *NEUTRAL, *OF_RANDOM_ANSWERS}:
        raise ValueError(f"{min(unknown)!r} is no setting of answers that {NAME} knows")
    until = asked.get("until") or []
    stop = (until,) if isinstance(until, str) else tuple(until)
    n = next((asked[name] for name in LENGTHS if asked.get(name) is not None), MAX_NEW_TOKENS)
    penalty = asked.get("repetition_penalty")
    return tuple(string for string in stop if string), int(n), 1.0 if penalty is None else float(penalty)


def _fingerprint(model: TextModel) -> str:
    """A checksum of what turns texts into ids: the tokenizer, the ids around a text, and the chat templates."""
    with tempfile.TemporaryDirectory() as folder:
        model.tokenizer.save(Path(folder) / "tokenizer")
        content = (Path(folder) / "tokenizer").read_bytes()
    texts = model.texts
    around = repr((texts.before, texts.after, texts.bos, texts.stop, texts.chat_template))
    return hashlib.sha256(content + around.encode()).hexdigest()[:16]


if __name__ == "__main__":
    try:
        register()
    except ValueError as problem:
        sys.exit(str(problem))
    from lm_eval.__main__ import cli_evaluate  # pyright: ignore[reportMissingImports]

    cli_evaluate()
