"""The package's models in lm-evaluation-harness, with all of its tasks.

    python -m llm_anatomy.evaluation.harness run --model llm_anatomy --model_args pretrained=./my-model --tasks piqa

This is the command of lm-evaluation-harness, which also knows our models. In Python, :func:`register` gives it their
name, and :func:`harness_model` makes a model for its ``simple_evaluate``. On the same weights, its numbers are those of
its own ``hf`` model.
"""

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from tqdm import tqdm

from llm_anatomy.evaluation.text_model import TextModel
from llm_anatomy.models.checkpoints.engine import Checkpoint
from llm_anatomy.models.loading import load

NAME = "llm_anatomy"
"""The name of our models in lm-evaluation-harness."""

MAX_NEW_TOKENS = 256
"""The most tokens of an answer if a task does not say it, as in its ``hf`` model."""


def harness_model(checkpoint: Checkpoint, batch_size: int = 32) -> Any:
    """Make a model for lm-evaluation-harness.

    Args:
        checkpoint: a decoder with its tokenizer.
        batch_size: number of texts in a forward pass.

    Returns:
        An ``lm_eval.api.model.LM``, for its function ``simple_evaluate(model=…)``.

    Raises:
        ValueError: if lm-evaluation-harness is not installed; and as
            :class:`~llm_anatomy.evaluation.text_model.TextModel` does.

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
            self._model = TextModel(pretrained, int(batch_size or 32), allowed_special="all")
            self._device = next(pretrained.model.parameters()).device

        def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
            found = {}
            asked = self._model.stream_log_likelihoods([request.args for request in requests])
            for i, likelihood in tqdm(asked, total=len(requests), desc="likelihoods", disable=disable_tqdm or None):
                found[i] = likelihood.log_prob, likelihood.is_greedy
                self.cache_hook.add_partial("loglikelihood", requests[i].args, found[i])
            return [found[i] for i in range(len(requests))]

        def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
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
                for (stop, max_new_tokens), indices in alike.items():
                    prompts = [requests[i].args[0] for i in indices]
                    answers = self._model.stream_continuations(prompts, max_new_tokens=max_new_tokens, stop=stop)
                    for number, text in answers:
                        found[indices[number]] = text
                        self.cache_hook.add_partial("generate_until", requests[indices[number]].args, text)
                        bar.update()
            return [found[i] for i in range(len(requests))]

        @property
        def tokenizer_name(self) -> str:
            return f"{NAME}-{type(self._model.tokenizer).__name__}-{self._model.tokenizer.n_vocab}"

        def chat_template(self, chat_template: bool | str = False) -> str | None:
            templates = self._templates().templates
            return templates.get(chat_template if isinstance(chat_template, str) else "default")

        def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
            return self._templates().render(chat_history, add_generation_prompt=add_generation_prompt)

        def _templates(self) -> Any:
            template = self._model.texts.chat_template
            if template is None:
                raise ValueError("the model has no chat template, and so was not made for conversations")
            return template

    return HarnessModel


def _settings(asked: dict[str, Any]) -> tuple[tuple[str, ...], int]:
    """The stop strings and the most new tokens that a request asks for."""
    if asked.get("do_sample") and asked.get("temperature", 1.0) > 0:
        raise ValueError(f"{asked} asks for random answers; {NAME} answers greedily")
    until = asked.get("until") or []
    stop = (until,) if isinstance(until, str) else tuple(until)
    n = asked.get("max_gen_toks", asked.get("max_new_tokens", MAX_NEW_TOKENS))
    return tuple(string for string in stop if string), int(n)


if __name__ == "__main__":
    try:
        register()
    except ValueError as problem:
        sys.exit(str(problem))
    from lm_eval.__main__ import cli_evaluate  # pyright: ignore[reportMissingImports]

    cli_evaluate()
