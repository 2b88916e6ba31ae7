"""What a training run is: every choice in one validated config, which a file in YAML and the command line describe."""

import dataclasses
import inspect
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_anatomy.config import Config, ModelConfig
from llm_anatomy.files import Record, write_atomically
from llm_anatomy.models.presets import preset
from llm_anatomy.registry import PARTS
from llm_anatomy.training.schedules import SCHEDULES

FILE = "config.json"
"""The config of a run in its folder."""

STRATEGIES = ("ddp", "fsdp")
PRECISIONS = ("float32", "bfloat16", "float16")
ACTIONS = ("none", "stop", "skip", "rewind")


def _or_zero(default: float | int) -> Any:
    return dataclasses.field(default=default, metadata={"or_zero": True})


@dataclass(frozen=True, kw_only=True)
class DataConfig(Config):
    """What a model reads.

    Args:
        path: folder of token shards, which the command tokenize writes.
        n_tokens: length of a training sequence; the context of the model.
        batch_size: number of sequences of an optimizer step, over all ranks.
        micro_batch_size: the most sequences of one forward pass on a rank; 0 for all of them at once. With fewer, the
            gradients of several passes are accumulated, and the step is the same.
        mask_documents: whether attention stays within a document where several are packed into a sequence.
        workers: number of processes on each rank that read ahead; 0 to read between the steps.

    Source: GT-03; Brown et al. (2020), section 2.2, for packing.

    >>> DataConfig(path="shards", n_tokens=1024).batch_size
    32
    """

    prefix = "data."

    path: str
    n_tokens: int
    batch_size: int = 32
    micro_batch_size: int = 0
    mask_documents: bool = True
    workers: int = 0


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Config):
    """AdamW, and what is done to gradients and weights beside it.

    Args:
        max_lr: the maximum of the learning rate, which the schedule multiplies.
        beta1: decay of the mean of gradients.
        beta2: decay of the mean of squared gradients.
        eps: added to the root of the latter.
        weight_decay: decoupled weight decay of matrices and embeddings; vectors such as gains and biases have none.
        max_grad_norm: gradients whose norm over all parameters is larger are clipped to it; null not to clip.
        ema_decay: decay of an average of the weights, which is evaluated and saved in their stead; null for none.

    Source: Loshchilov and Hutter (2019); GT-38, GT-39.

    >>> OptimizerConfig(beta2=0.999).weight_decay
    0.1
    """

    prefix = "optimizer."

    max_lr: float = 1e-3
    beta1: float = _or_zero(0.9)
    beta2: float = _or_zero(0.95)
    eps: float = 1e-8
    weight_decay: float = _or_zero(0.1)
    max_grad_norm: float | None = 1.0
    ema_decay: float | None = None

    def __post_init__(self):
        super().__post_init__()
        for field in dataclasses.fields(self):
            self._require(math.isfinite(getattr(self, field.name) or 0), field.name, "be finite")
        for field in ("beta1", "beta2", "ema_decay"):
            self._require((getattr(self, field) or 0) < 1, field, "be below 1")


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig(Config):
    """How the learning rate changes over the run.

    Args:
        name: Hugging Face's name of the schedule, such as cosine, linear, constant_with_warmup, inverse_sqrt or
            warmup_stable_decay.
        warmup_steps: number of steps over which the rate rises linearly to its maximum.
        min_lr_rate: the floor of the decay, as a fraction of the maximum.
        decay_steps: length of the decay at the end, for warmup_stable_decay alone.

    Source: Loshchilov and Hutter (2017); GT-37.

    >>> ScheduleConfig(name="linear", warmup_steps=100).options()
    {'warmup_steps': 100, 'min_lr_rate': 0.0}
    """

    prefix = "schedule."

    name: str = "cosine"
    warmup_steps: int = 0
    min_lr_rate: float = 0.0
    decay_steps: int = 0

    def __post_init__(self):
        super().__post_init__()
        self._require(self.name in SCHEDULES, "name", f"be one of {', '.join(SCHEDULES)}")
        self._require(self.min_lr_rate <= 1, "min_lr_rate", "be at most 1")
        decays = "decay_steps" in inspect.signature(SCHEDULES[self.name]).parameters
        what = f"be {'given' if decays else 'left out'} with schedule.name={self.name!r}"
        self._require(bool(self.decay_steps) == decays, "decay_steps", what)

    def options(self) -> dict[str, int | float]:
        """The arguments of the schedule beside the step and the number of steps."""
        values = dataclasses.asdict(self)
        return {name: values[name] for name in inspect.signature(SCHEDULES[self.name]).parameters if name in values}


@dataclass(frozen=True, kw_only=True)
class ParallelConfig(Config):
    """Where and how the model is computed.

    Args:
        strategy: what several processes do: ddp (each has the whole model) or fsdp (each keeps a part of parameters,
            gradients and optimizer states). One process computes the whole model either way.
        device: cpu or cuda; null for cuda where there is one.
        precision: float32; bfloat16 or float16 for mixed precision, float16 with loss scaling.
        compile: whether torch.compile compiles the model.
        activation_checkpointing: whether blocks keep their input alone and are computed again in the backward pass.

    Source: the documentation of PyTorch, ``torchrun``; Micikevicius et al. (2018), mixed precision.

    >>> ParallelConfig(precision="float16", strategy="fsdp")
    Traceback (most recent call last):
    ValueError: parallel.precision='float16' must be float32 or bfloat16 with parallel.strategy='fsdp'
    """

    prefix = "parallel."

    strategy: str = "ddp"
    device: str | None = None
    precision: str = "float32"
    compile: bool = False
    activation_checkpointing: bool = False

    def __post_init__(self):
        super().__post_init__()
        self._require(self.strategy in STRATEGIES, "strategy", f"be one of {', '.join(STRATEGIES)}")
        self._require(self.precision in PRECISIONS, "precision", f"be one of {', '.join(PRECISIONS)}")
        scaled_shards = self.precision == "float16" and self.strategy == "fsdp"
        self._require(not scaled_shards, "precision", "be float32 or bfloat16 with parallel.strategy='fsdp'")


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig(Config):
    """When the state of the run is saved.

    Args:
        every: number of steps from one checkpoint to the next.
        keep_last: how many of the last checkpoints are kept.
        keep_best: whether that with the smallest validation loss is kept besides.
        asynchronous: whether the run goes on while a checkpoint is written.

    Source: GT-03.

    >>> CheckpointConfig(every=0)
    Traceback (most recent call last):
    ValueError: checkpoint.every=0 must be at least 1
    """

    prefix = "checkpoint."

    every: int = 500
    keep_last: int = 3
    keep_best: bool = True
    asynchronous: bool = True


@dataclass(frozen=True, kw_only=True)
class WatchConfig(Config):
    """What is recorded beside the loss, the learning rate, the gradient norm and the speed of each step.

    Args:
        evaluate_every: number of steps from one validation loss to the next; 0 for none.
        evaluation_sequences: how many sequences of the validation split it is computed on, from the first.
        sample_every: number of steps from one sample of text to the next; 0 for none.
        prompt: the beginning of samples; null to begin as a document does.
        sample_tokens: the most tokens of a sample.
        diagnose_every: number of steps from one record of norms, update ratios and activations of each part to the
            next; 0 for none.
        tensorboard: whether metrics are also written for TensorBoard.
        wandb: whether they are also sent to Weights & Biases.
        quiet: whether neither the progress line nor the events are shown; both files are written all the same.

    Source: Zhang et al. (2022), "OPT", section 2.5; GT-03.

    >>> WatchConfig(evaluate_every=0).sample_tokens
    100
    """

    prefix = "watch."

    evaluate_every: int = _or_zero(500)
    evaluation_sequences: int = 256
    sample_every: int = 0
    prompt: str | None = None
    sample_tokens: int = 100
    diagnose_every: int = 0
    tensorboard: bool = False
    wandb: bool = False
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class SpikeConfig(Config):
    """What happens at a loss or gradient that is not finite, and at one that is far above those before it.

    Args:
        action: none; stop the run; skip the step; or rewind: go back to a checkpoint, and go on with data after the
            spike. A loss that is not finite stops a run whose action is none.
        window: number of the last steps with which a step is compared, at least 4.
        loss_threshold: a loss is a spike if it is more than so many standard deviations above their median.
        gradient_factor: a gradient norm is one if it is more than so many times their median.
        rewind_steps: the checkpoint must be at least so many steps older than the spike, where there is one.
        max_skips: the run stops at the spike after so many skipped steps in a row, since its weights are then damaged.
        max_rewinds: the run stops at the spike after so many rewinds.

    Source: Chowdhery et al. (2022), "PaLM", section 5.1, for rewinding; GT-03.

    >>> SpikeConfig(action="rewind").max_rewinds
    5
    """

    prefix = "spikes."

    action: str = "stop"
    window: int = 100
    loss_threshold: float = 6.0
    gradient_factor: float = 10.0
    rewind_steps: int = 0
    max_skips: int = 10
    max_rewinds: int = 5

    def __post_init__(self):
        super().__post_init__()
        self._require(self.action in ACTIONS, "action", f"be one of {', '.join(ACTIONS)}")
        self._require(self.window >= 4, "window", "be at least 4")
        self._require(self.gradient_factor > 1, "gradient_factor", "be above 1")


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig(Config):
    """Where the weights come from, if not from the generator.

    Args:
        start_from: a released checkpoint to begin with: a folder, a GGUF file or a name on the Hugging Face hub.
        lora_rank: rank of low-rank updates, which are then all that is trained; 0 to train all weights.
        lora_alpha: the updates are multiplied by lora_alpha / lora_rank; null for the factor 1.
        lora_targets: the ends of the names of the linear layers that get one.

    Source: Hu et al. (2022), "LoRA"; GT-37.

    >>> FinetuneConfig(start_from="openai-community/gpt2", lora_rank=8).lora_targets
    ('w_query', 'w_key', 'w_value', 'w_output')
    """

    prefix = "finetune."

    start_from: str | None = None
    lora_rank: int = 0
    lora_alpha: float | None = None
    lora_targets: tuple[str, ...] = ("w_query", "w_key", "w_value", "w_output")

    def __post_init__(self):
        super().__post_init__()
        self._require(self.start_from or not self.lora_rank, "lora_rank", "be 0 without finetune.start_from")


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """A training run, whose every choice is here.

    Args:
        out: folder of the run: its config, metrics, events and checkpoints and, at the end, its model.
        n_steps: number of optimizer steps.
        seed: of the first weights and of the order of the data.
        model: the fields of a ModelConfig, such as d_model and n_layers, or the name of a preset, such as gpt-2; with
            fields and a preset, the fields change it. The size of the vocabulary is that of the data.
        data: what the model reads.
        optimizer: AdamW, clipping, and an average of the weights.
        schedule: of the learning rate.
        parallel: device, precision, and what several processes do.
        checkpoint: when the run is saved.
        watch: what is recorded.
        spikes: what is done about them.
        finetune: which weights the run begins with.

    Raises:
        ValueError: naming the field, its value and what is allowed.

    Source: GT-37, GT-39; the arguments of Hugging Face's trainer and of torchtitan.

    >>> sizes = dict(d_model=24, n_layers=2, n_heads=3, d_ff=64)
    >>> config = TrainConfig.of({"out": "run", "n_steps": 100, "model": sizes, "data.path": "a", "data.n_tokens": 32})
    >>> config.optimizer.max_lr, config.model_config(n_vocab=480).n_vocab
    (0.001, 480)
    >>> TrainConfig.of({"out": "run", "n_steps": 1, "data.path": "a", "data.n_tokens": 32, "optimizer.beta2": 1.5})
    Traceback (most recent call last):
    ValueError: optimizer.beta2=1.5 must be below 1
    """

    out: str
    n_steps: int
    seed: int = 0
    model: dict[str, Any] | str | None = None
    data: DataConfig
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    parallel: ParallelConfig = ParallelConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    watch: WatchConfig = WatchConfig()
    spikes: SpikeConfig = SpikeConfig()
    finetune: FinetuneConfig = FinetuneConfig()

    def __post_init__(self):
        super().__post_init__()
        self._require(self.out, "out", "be the name of a folder")
        self._require(self.seed < 1 << 63, "seed", "be below 2**63")
        warmup = self.schedule.warmup_steps
        self.schedule._require(warmup < self.n_steps, "warmup_steps", f"be below n_steps={self.n_steps}")
        rest = self.n_steps - warmup
        self.schedule._require(
            self.schedule.decay_steps <= rest, "decay_steps", f"be at most {rest}, the steps after the warm-up"
        )
        if self.finetune.start_from:
            self._require(self.model is None, "model", "be left out with finetune.start_from, which brings its own")
        elif isinstance(self.model, dict | str):  # a mistake is found before the data are opened
            self.model_config(n_vocab=1)

    def model_config(self, n_vocab: int) -> ModelConfig:
        """The config of the model that the run trains from new weights.

        Args:
            n_vocab: the size of the vocabulary of the data, which holds unless ``model`` names another.
        """
        self._require(self.model, "model", "be given, unless finetune.start_from is")
        fields: dict[str, Any] = {"preset": self.model} if isinstance(self.model, str) else dict(self.model or {})
        named = fields.pop("preset", None)
        if not isinstance(named, str | None):
            raise ValueError(f"model.preset={named!r:.80} must be the name of a preset")
        values = preset(named).changed() | {"n_vocab": n_vocab} if named else {"n_vocab": n_vocab}
        values |= _flat(fields)
        scheme = PARTS["position"].get(str(values.get("position")))
        if named or scheme is not None and scheme.needs_n_ctx and "n_ctx" not in values:
            values["n_ctx"] = _flat(fields).get("n_ctx", self.data.n_tokens)
        try:
            config = ModelConfig.of(values)
        except ValueError as error:
            raise ValueError(f"model: {error}") from None
        if config.n_vocab < n_vocab:
            raise ValueError(f"model.n_vocab={config.n_vocab} must be at least {n_vocab}, the vocabulary of the data")
        if config.n_ctx is not None:
            what = f"be at most model.n_ctx={config.n_ctx}"
            self.data._require(self.data.n_tokens <= config.n_ctx, "n_tokens", what)
        if config.kind != "decoder" or not config.unembedding:
            raise ValueError(f"model: kind={config.kind!r} must be 'decoder' with an unembedding: runs predict tokens")
        return config

    def save(self, folder: str | Path) -> None:
        """Write the config into the folder of a run, as JSON, which YAML includes."""
        write_atomically(Path(folder) / FILE, json.dumps(_nested(self), indent=2) + "\n")

    @classmethod
    def load(cls, folder: str | Path) -> "TrainConfig":
        """Read the config of a run from its folder."""
        record = Record.read(Path(folder) / FILE)
        with record.name_in_errors("the config of the run"):
            return cls.of(record.fields)


def _nested(config: Config) -> dict[str, Any]:
    """The fields that differ from their defaults, nested configs as dicts."""
    nested = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value != field.default:
            nested[field.name] = _nested(value) if isinstance(value, Config) else value
    return nested


def _flat(fields: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested fields by dotted names."""
    flat = {}
    for name, value in fields.items():
        flat |= _flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {before + name: value}
    return flat
