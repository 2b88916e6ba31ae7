"""A small model in the layout of a released one: it has all parts of SmolLM2-135M at an eighth of the width.

    python -m llm_anatomy experiment story_llama

It stands in for a released checkpoint where there is no network: chapter 13 writes it as Hugging Face's library would,
and takes it apart. It reads the stories of :mod:`~llm_anatomy.training.experiments.story_models` with their tokenizer.
Nothing was tuned. The command stores ``story_llama`` of :mod:`llm_anatomy.data`; on another processor, or with another
version of PyTorch, its weights differ in their last digits.
"""

from collections.abc import Iterable
from pathlib import Path

import torch

from llm_anatomy.config import ModelConfig, RopeConfig
from llm_anatomy.models.stored import store
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.data.windows import random_windows
from llm_anatomy.training.experiments.runs import initialize_
from llm_anatomy.training.experiments.story_models import N_CTX, N_VOCAB, corpus
from llm_anatomy.training.trainer import train

COMMAND = "python -m llm_anatomy experiment story_llama"
N_STEPS, BATCH_SIZE, WARMUP_STEPS, MAX_LR = 2000, 16, 100, 1e-2


def llama_config() -> ModelConfig:
    """The config of the model: nine heads, of which three share a key-value head, and a gated feed-forward layer.

    Source: the config of SmolLM2-135M, with widths divided by eight and four of thirty layers; GT-11, CMU-34.

    >>> config = llama_config()
    >>> config.n_heads // config.n_kv_heads, config.d_head, config.d_ff
    (3, 8, 192)
    """
    return ModelConfig(
        d_model=72,
        n_layers=4,
        n_heads=9,
        n_kv_heads=3,
        d_ff=192,
        n_vocab=N_VOCAB,
        n_ctx=N_CTX,
        position="rope",
        rope=RopeConfig(base=100_000.0, pairing="half_split"),
        norm="rmsnorm",
        feedforward="swiglu",
        tie_embeddings=True,
    )


def experiment(out: Path, seeds: Iterable[int] = (0,), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Train the model and store it.

    Args:
        out: folder of the model; it is created if it does not exist.
        seeds: the model of each seed is trained; those after the first have the seed in their names.
        n_steps: number of training steps.
        n_workers: must be 1; a single model is trained by one process.

    Raises:
        ValueError: if ``n_workers`` is not 1.

    Source: UCL-02, GT-11.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    2000
    """
    if n_workers != 1:
        raise ValueError(f"{n_workers=} must be 1: the models are trained one after the other")
    out.mkdir(parents=True, exist_ok=True)
    _, tokenizer, training, _ = corpus()
    for number, seed in enumerate(seeds):
        with torch.random.fork_rng(devices=[]):
            model = Transformer(llama_config())
        initialize_(model, seed)
        batches = random_windows(training, N_CTX, BATCH_SIZE, torch.Generator().manual_seed(seed))
        train(model, batches, n_steps=n_steps, max_lr=MAX_LR, warmup_steps=min(WARMUP_STEPS, n_steps - 1))
        name = "story_llama" if number == 0 else f"story_llama_{seed}"
        known = {"command": COMMAND, "seed": seed, "n_steps": n_steps, "tokenizer": tokenizer}
        store(model.eval(), out / f"{name}.safetensors", **known)
