"""From a training run to a folder in the layout of Hugging Face's library."""

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load as load_state

from llm_anatomy.models.checkpoints import Checkpoint, families, load, save
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.data.shards import TokenShards
from llm_anatomy.training.lab.checkpoints import reason
from llm_anatomy.training.lab.config import TrainConfig
from llm_anatomy.training.lab.loop import CHECKPOINTS, MODEL
from llm_anatomy.training.lab.weights import finished, first_weights, plain_model

USUAL = ("llama", "gpt2", "qwen3", "qwen2", "mistral", "olmo2", "gemma2", "gemma")
"""The families that are tried first."""


def export(
    run: str | os.PathLike[str], folder: str | os.PathLike[str], *, family: str | None = None, step: int | None = None
) -> str:
    """Write the model of a run in the layout of a family of Hugging Face's library.

    Args:
        run: folder of a run, or of a model that was saved.
        folder: for the new files; it must not exist, or be empty.
        family: name of the family; by default the first that can represent the model.
        step: of the checkpoint whose weights are written; by default those at the end of the run.

    Returns:
        The name of the family.

    Raises:
        ValueError: if the run is not finished and no step is given, there is no such checkpoint, or no family, or not
            the named one, can represent the model; or if the weights of the checkpoint cannot be read.

    Source: the layout of Hugging Face's checkpoints; GT-43.

    >>> export("no/such/run", "folder")
    Traceback (most recent call last):
    ValueError: no/such/run is no folder of a run or of a model
    """
    run = Path(run)
    checkpoint = _finished(run) if step is None else _at(run, step)
    family = family or _first_family(checkpoint)
    save(replace(checkpoint, family=family, more={}), folder)
    return family


def _finished(run: Path) -> Checkpoint:
    for folder in (run / MODEL, run):
        if (folder / "config.json").is_file() and any(folder.glob("*.safetensors*")):
            return load(folder)
    if (run / CHECKPOINTS).is_dir():
        raise ValueError(f"the run in {run} is not finished; give the --step of a checkpoint: {_steps(run)}")
    raise ValueError(f"{run} is no folder of a run or of a model")


def _at(run: Path, step: int) -> Checkpoint:
    """The model of a run with the weights of a checkpoint."""
    config = TrainConfig.load(run)
    first = first_weights(config, TokenShards(config.data.path, "train"))
    _read_weights(run, step, first.model, config.optimizer.ema_decay is not None)
    model = plain_model(cast(Transformer, first.model), config.finetune)
    return finished(first, cast(Transformer, model))  # there are no other ranks


def _read_weights(run: Path, step: int, model: nn.Module, are_averaged: bool) -> None:
    """Read the weights of a checkpoint into a model, without the state of its optimizer."""
    folder = run / CHECKPOINTS / f"step-{step:08d}"
    if not folder.is_dir():
        raise ValueError(f"step={step} must be that of a checkpoint in {run}; there are {_steps(run)}")
    weights = model.state_dict()
    wanted = {"model": weights}
    if are_averaged:
        trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        wanted["average"] = {name: torch.empty_like(weights[name]) for name in trained}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch says that there is no process group
        try:
            load_state(wanted, checkpoint_id=folder, no_dist=True)
        except CheckpointException as error:
            raise ValueError(f"the weights of {folder.name} cannot be read: {reason(error)}") from None
    model.load_state_dict(weights | wanted.get("average", {}))


def _steps(run: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (run / CHECKPOINTS).glob("step-????????"))


def _first_family(checkpoint: Checkpoint) -> str:
    """The first family that can represent the model."""
    known = families()
    for name in (*USUAL, *sorted(known.keys() - {*USUAL})):
        try:
            if isinstance(checkpoint.config, known[name].config_class):
                known[name].hf_config(checkpoint.config)
                return name
        except ValueError:
            continue
    raise ValueError("no family of Hugging Face's library can represent this model: each lacks one of its parts")
