"""The weights of a run: those that it begins with, their average, and the plain model that they make at its end."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.optim.swa_utils import get_ema_multi_avg_fn

from llm_anatomy.layers.lora import add_lora, merge_lora
from llm_anatomy.models.checkpoints import Checkpoint, load
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.training.data.shards import TokenShards
from llm_anatomy.training.data.sources import END_OF_TEXT
from llm_anatomy.training.lab.config import FinetuneConfig, TrainConfig


def first_weights(config: TrainConfig, shards: TokenShards) -> Checkpoint:
    """Make the model of a run as it is before the first step: drawn from the seed, or as it was released.

    Args:
        config: of the run.
        shards: the data, which name the tokenizer.

    Returns:
        The model, on the CPU and in float32, with its tokenizer.

    Raises:
        ValueError: if the released model has another tokenizer than the data, or cannot read their sequences.

    Source: GT-37; Hu et al. (2022), "LoRA", for what is trained with ``lora_rank``.

    >>> from llm_anatomy.training.data.shards import ShardWriter
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = ShardWriter(folder, n_vocab=7)
    ...     writer.add("train", [1, 2, 3])
    ...     writer.finish()
    ...     sizes = dict(d_model=6, n_layers=1, n_heads=2, d_ff=9)
    ...     config = TrainConfig.of({"out": "o", "n_steps": 1, "model": sizes, "data": {"path": folder, "n_tokens": 2}})
    ...     first_weights(config, TokenShards(folder, "train")).config.n_vocab
    7
    """
    tokenizer = None if shards.tokenizer is None else Tokenizer.load(shards.tokenizer)
    if config.finetune.start_from is None:
        torch.manual_seed(config.seed)
        model = Transformer(config.model_config(shards.n_vocab))
        return Checkpoint(model=model.train(), texts=_texts(tokenizer))
    checkpoint = load(config.finetune.start_from, dtype=torch.float32)
    _check_released(config, checkpoint, shards, tokenizer)
    torch.manual_seed(config.seed)
    _add_updates(checkpoint.model.train(), config.finetune)
    return checkpoint


def _texts(tokenizer: Tokenizer | None) -> Texts:
    if tokenizer is None:
        return Texts(note="the data have no tokenizer")
    border = [tokenizer.special_tokens[END_OF_TEXT]] if END_OF_TEXT in tokenizer.special_tokens else []
    return Texts(tokenizer=tokenizer, before=tuple(border), stop=tuple(border))  # as each document begins


def _check_released(
    config: TrainConfig, checkpoint: Checkpoint, shards: TokenShards, tokenizer: Tokenizer | None
) -> None:
    model, named = checkpoint.model, f"finetune.start_from={config.finetune.start_from!r:.80}"
    if not isinstance(model, Transformer) or model.config.kind != "decoder" or not model.config.unembedding:
        raise ValueError(f"{named} must be a decoder that predicts the next token")
    theirs = checkpoint.tokenizer
    same = tokenizer is None or theirs is None or _begins_with(theirs.vocabulary, tokenizer.vocabulary)
    if not same or shards.n_vocab > model.config.n_vocab:
        raise ValueError(
            f"{named} must have the tokenizer of the data in {shards.folder}: tokenize them with --tokenizer "
            f"{config.finetune.start_from}"
        )
    if model.config.n_ctx is not None:
        what = f"be at most {model.config.n_ctx}, the context of {config.finetune.start_from}"
        config.data._require(config.data.n_tokens <= model.config.n_ctx, "n_tokens", what)


def _begins_with(theirs: list[bytes], ours: list[bytes]) -> bool:
    """Whether two vocabularies agree, but for tokens that were appended to one of them."""
    n = min(len(theirs), len(ours))
    return theirs[:n] == ours[:n]


def _add_updates(model: nn.Module, config: FinetuneConfig) -> None:
    """Add low-rank updates, if the config asks for them."""
    if config.lora_rank:
        alpha = config.lora_alpha or float(config.lora_rank)
        add_lora(model, config.lora_rank, alpha, config.lora_targets)


class AveragedWeights:
    r"""The exponential moving average of trained parameters.

    .. math:: \bar\theta \leftarrow d\, \bar\theta + (1 - d)\, \theta

    Args:
        model: bare, as it is distributed.
        decay: :math:`d`, below 1.

    Source: Polyak and Juditsky (1992); ``torch.optim.swa_utils``, whose function computes it; GT-39.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.constant_(model.weight, 2.0)
    >>> average = AveragedWeights(model, decay=0.75)
    >>> _ = nn.init.constant_(model.weight, 6.0)
    >>> average.update()
    >>> with average.swapped():
    ...     model.weight.item()
    3.0
    >>> model.weight.item()
    6.0
    """

    def __init__(self, model: nn.Module, decay: float):
        self._trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.tensors = {name: p.detach().clone() for name, p in self._trained.items()}
        self._update = get_ema_multi_avg_fn(decay)

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the parameters, after a step."""
        self._update([*self.tensors.values()], [p.detach() for p in self._trained.values()], 1)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """In this context, the model has the average."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, parameter in self._trained.items():
            trained = parameter.detach().clone()
            parameter.copy_(self.tensors[name])
            self.tensors[name].copy_(trained)


def plain_model(model: Transformer, config: FinetuneConfig) -> Transformer | None:
    """Put the parameters of all ranks together, and merge low-rank updates.

    All ranks must call this.

    Args:
        model: bare, as it is distributed.
        config: whether it has low-rank updates.

    Returns:
        An ordinary model on the CPU, in evaluation mode; None on all ranks but the first.

    Source: the documentation of PyTorch, ``torch.distributed.checkpoint.state_dict``; GT-37.

    >>> from llm_anatomy.config import ModelConfig
    >>> model = Transformer(ModelConfig(d_model=6, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))
    >>> plain = plain_model(model, FinetuneConfig())
    >>> torch.equal(plain.embedding.weight, model.embedding.weight), plain.training
    (True, False)
    """
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if not weights:
        return None
    with torch.random.fork_rng(devices=[]):  # the numbers that the run draws stay the same
        plain = Transformer(model.config)
        _add_updates(plain, config)
    plain.load_state_dict(weights)
    if config.lora_rank:
        merge_lora(plain)
    return plain.eval()


def finished(first: Checkpoint, model: Transformer) -> Checkpoint:
    """The checkpoint of a finished run, in our own format: with the tokenizer of the first weights.

    Args:
        first: what the run began with.
        model: what it made of it.

    Source: GT-37.

    >>> from llm_anatomy.config import ModelConfig
    >>> model = Transformer(ModelConfig(d_model=6, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))
    >>> finished(Checkpoint(model=model, family="gpt2"), model).family
    'llm_anatomy'
    """
    return replace(Checkpoint(model=model), texts=first.texts)
