"""Loading and saving checkpoints. Everything is checked from the headers before a tensor is read or written."""

import dataclasses
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from llm_anatomy.config import Config, ModelConfig
from llm_anatomy.files import Record, write_atomically
from llm_anatomy.models.checkpoints import storage, texts
from llm_anatomy.models.checkpoints.families import families
from llm_anatomy.models.checkpoints.family import Family, LanguageModel
from llm_anatomy.models.checkpoints.hub import locate
from llm_anatomy.models.checkpoints.rules import Move, matches, moves
from llm_anatomy.models.checkpoints.storage import Header
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.shapes import Tensor
from llm_anatomy.tokenizers.base import Tokenizer

HEAD = "unembedding.embedding.weight"
SHARD = 5_000_000_000


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model with everything that came with its weights.

    Args:
        model: ready to run; in evaluation mode.
        family: name of the family whose layout it has.
        texts: its tokenizer and its special tokens.
        more: fields of its ``config.json`` that do not affect the model; they are written when it is saved.
        folder: the folder it was loaded from, from which the files of its tokenizer are copied when it is saved.

    Source: the layout of Hugging Face's checkpoints; GT-43.

    >>> from llm_anatomy.config import ModelConfig
    >>> from llm_anatomy.models.transformer import Transformer
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))
    >>> Checkpoint(model=model, family="gpt2").config.d_model
    8
    """

    model: LanguageModel
    family: str
    texts: Texts = Texts(note="there is no tokenizer beside the weights")
    more: dict = field(default_factory=dict)
    folder: Path | None = None

    @property
    def config(self) -> Config:
        """The config of the model."""
        return self.model.config

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that came with the weights; None if there was none that can be read."""
        return self.texts.tokenizer

    @property
    def tokenizer_note(self) -> str:
        """Why there is no tokenizer; empty if there is one."""
        return self.texts.note


# --- Loading ---


def load(
    name_or_folder: str | os.PathLike, *, dtype: torch.dtype | None = None, device: str | torch.device = "cpu"
) -> Checkpoint:
    """A model with released weights, in the layout of one of the families.

    :func:`~llm_anatomy.models.checkpoints.families.families` lists them.

    Args:
        name_or_folder: a folder, or a name on the Hugging Face hub such as ``openai-community/gpt2``.
        dtype: a floating-point type for all weights, by default the most frequent one in the files.
        device: of the model.

    Raises:
        ValueError: before any tensor is read, for an architecture or an option that is not supported; tensors that are
            missing, unexpected or of another shape; files that are pickled, truncated or malformed; and a model that
            does not fit into the free memory.

    Source: the layout of Hugging Face's checkpoints; GT-43, GT-44.

    >>> load("no/such/folder")
    Traceback (most recent call last):
    ValueError: name_or_folder='no/such/folder' is no folder, and no name on the hub, which is like owner/model
    """
    device = _device(device)
    if dtype is not None and dtype not in storage.DTYPES.values():
        raise ValueError(f"{dtype=} must be one of {', '.join(map(str, storage.DTYPES.values()))}")
    folder = locate(name_or_folder)
    if not (folder / "config.json").is_file():
        raise ValueError(f"folder {str(folder)!r} holds no config.json")
    record = Record.read(folder / "config.json")
    family = _family_of(record)
    config = family.config(record)
    found = _named_as_now(family, storage.headers(folder))
    config, found = _without_copies(family, config, found)
    model = _empty_model(family, config)
    plan = _plan(family, model)
    _check_shapes(folder, model, plan, found, family.ignored)
    dtype = _most_frequent_dtype(found, plan) if dtype is None else dtype
    _check_memory(model, dtype, device)
    said = texts.read_texts(folder, record.fields)
    for move in sorted(plan, key=lambda move: -sum(found[name].n_bytes for name in move.hf)):
        wanted = [found[name] for name in move.hf]
        storage.read(wanted, lambda *hf, move=move: _assign(model, move, hf, dtype, device))
    kept = _kept(family)
    more = {name: value for name, value in record.fields.items() if name in kept}
    return Checkpoint(model=model.to(device).eval(), family=family.name, texts=said, more=more, folder=folder)


def _device(device: str | torch.device) -> torch.device:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"{device=} is not there: {str(error).splitlines()[0]}") from None
    if torch.device(device).type == "meta":
        raise ValueError(f"{device=} holds no numbers; it must be one that does, such as cpu")
    return torch.device(device)


def _family_of(record: Record) -> Family:
    named = record.fields.get("architectures")
    if named is not None and not (isinstance(named, list) and named and isinstance(named[0], str)):
        record.refuse("architectures", f"{named!r:.60} must be a list of names")
    key, value = ("architectures", named[0]) if named else ("model_type", record.take("model_type", str))
    for family in families().values():
        if value in (family.architectures if named else (family.model_type,)):
            return family
    known = sorted(n for f in families().values() for n in (f.architectures if named else (f.model_type,)))
    record.refuse(key, f"{value!r:.60} is not supported; it must be one of {', '.join(known)}")


def _named_as_now(family: Family, found: dict[str, Header]) -> dict[str, Header]:
    """The headers, by the names that the rules use."""
    bare = not any(name.startswith(family.prefix) for name in found)
    named = {}
    for name, header in found.items():
        for old, new in family.renamed.items():
            name = name.replace(old, new)
        if bare and name not in family.copies:  # a head is not part of the bare model, and never has its prefix
            name = family.prefix + name
        if name in named:
            raise ValueError(f"{header.file.name} holds {header.name} and {named[name].name}, which are one tensor")
        named[name] = header
    return named


def _without_copies(family: Family, config: Config, found: dict[str, Header]) -> tuple[Config, dict[str, Header]]:
    """Remove copies. A head that differs from the embedding means that they are not tied, whatever the config says."""
    found = dict(found)
    for copy, original in family.copies.items():
        is_head = any(rule.hf == (copy,) and rule.ours == (HEAD,) for rule in family.rules(config))
        if copy not in found or is_head and not config.get("tie_embeddings"):
            continue
        if original not in found:
            found[original] = found.pop(copy)
        elif _are_equal(found[copy], found[original]):
            del found[copy]
        elif is_head:
            config = dataclasses.replace(config, tie_embeddings=False)
        else:
            raise ValueError(f"{found[copy].file.name} holds {copy}, which must repeat {original} and does not")
    return config, found


def _are_equal(first: Header, second: Header) -> bool:
    equal = [first.shape == second.shape]
    if equal[0]:
        storage.read([first, second], lambda a, b: equal.append(torch.equal(a, b)))
    return all(equal)


def _empty_model(family: Family, config: Config) -> LanguageModel:
    try:
        with torch.device("meta"):
            return family.build(config)
    except (ValueError, RuntimeError) as error:  # the latter for more numbers than PyTorch can count
        raise ValueError(f"config.json describes no model: {str(error).splitlines()[0]}") from None


def _tensors(model: LanguageModel) -> dict[str, Tensor]:
    """Every tensor that a file has to hold, under one name each: parameters and persistent buffers."""
    repeated = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    buffers = {name: tensor for name, tensor in model.state_dict().items() if name not in repeated}
    return {**dict(model.named_parameters()), **buffers}


def _plan(family: Family, model: LanguageModel) -> list[Move]:
    config = model.config
    n_experts = config.moe.n_experts if isinstance(config, ModelConfig) and config.moe else 0
    return moves(family.rules(config), _tensors(model), n_experts)


def _hf_shapes(model: LanguageModel, plan: list[Move]) -> dict[str, tuple[int, ...]]:
    """The shapes of Hugging Face's tensors, found by passing empty tensors of ours through ``to_hf``."""
    ours = {name: torch.empty(tensor.shape, device="meta") for name, tensor in _tensors(model).items()}
    return {
        name: tuple(tensor.shape)
        for move in plan
        for name, tensor in zip(move.hf, move.change.to_hf(*(ours[n] for n in move.ours)), strict=True)
    }


def _check_shapes(folder: Path, model: LanguageModel, plan: list[Move], found: dict[str, Header], ignored) -> None:
    wanted = _hf_shapes(model, plan)
    missing = [f"{name} {shape}" for name, shape in wanted.items() if name not in found]
    others = [name for name in found if name not in wanted]
    extra = [f"{name} {found[name].shape}" for name in others if not any(matches(p, name) for p in ignored)]
    here = [(name, found[name], shape) for name, shape in wanted.items() if name in found]
    misshapen = [f"{name} is {header.shape}, not {shape}" for name, header, shape in here if header.shape != shape]
    of_type = [f"{name} is {header.dtype}" for name, header, _ in here if header.dtype not in storage.DTYPES]
    problems = {"missing": missing, "unexpected": extra, "of another shape": misshapen, "of another type": of_type}
    says = [f"{len(names)} {what} ({'; '.join(names)})" for what, names in problems.items() if names]
    if says:
        raise ValueError(f"the tensors in {str(folder)!r} do not fit its config.json: {', '.join(says)}")


def _most_frequent_dtype(found: dict[str, Header], plan: list[Move]) -> torch.dtype:
    n_bytes: dict[str, int] = {}
    for header in (found[name] for move in plan for name in move.hf):
        n_bytes[header.dtype] = n_bytes.get(header.dtype, 0) + header.n_bytes
    return storage.DTYPES[max(n_bytes, key=n_bytes.__getitem__)]


def _check_memory(model: LanguageModel, dtype: torch.dtype, device: torch.device) -> None:
    needed, free = sum(p.numel() for p in model.parameters()) * dtype.itemsize, free_bytes(device)
    if free is not None and needed > free:
        raise ValueError(
            f"the weights need {needed / 1e9:.2f} GB as {str(dtype).removeprefix('torch.')}, "
            f"and {device} has {free / 1e9:.2f} GB free; a smaller dtype or another device may do"
        )


def free_bytes(device: torch.device) -> int | None:
    """The memory available to a model; None where it is unknown.

    Args:
        device: a CUDA device, or a CPU, for which Linux and the limits of the control group are asked.

    Source: the manual of Linux, proc(5); the documentation of its control groups, version 2.

    >>> free_bytes(torch.device("meta")) is None
    True
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type != "cpu" or not Path("/proc/meminfo").is_file():
        return None
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free, group = 1024 * int(lines["MemAvailable"].split()[0]), Path("/sys/fs/cgroup")
    try:
        bound = int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
    except (OSError, ValueError):  # no such group, or no bound
        return free
    reclaimable = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())["inactive_file"]
    return min(free, bound + int(reclaimable))


def _assign(model: LanguageModel, move: Move, hf: tuple[Tensor, ...], dtype: torch.dtype, device: torch.device) -> None:
    """Copy into the model's own memory: the file may change later, and its pages must be freed."""
    for name, tensor in zip(move.ours, move.change.from_hf(*hf), strict=True):
        owner, _, last = name.rpartition(".")
        module = model.get_submodule(owner)
        if last in dict(
            module.named_buffers(recurse=False)
        ):  # with the dtype that was stored, which these buffers need
            setattr(module, last, tensor.to(device, copy=True))
        else:
            own = torch.empty(tensor.shape, dtype=dtype, device=device).copy_(tensor)
            setattr(module, last, nn.Parameter(own))


# --- Saving ---


def save(checkpoint: Checkpoint, folder: str | os.PathLike, *, shard: int = SHARD) -> None:
    """Write a model in the layout of its family, so that Hugging Face's library can read it.

    The folder appears only when it is complete; an interrupted save leaves nothing.

    Args:
        checkpoint: from :func:`load`, or ``Checkpoint(model=…, family=…)`` for a model of your own.
        folder: must not exist, or be empty.
        shard: the most bytes that a file may hold, at least 1; larger models get several files and an index.

    Raises:
        ValueError: for an unknown family, a config that it cannot represent, fields in ``more`` that affect the model
            or that the family does not know, and a folder that is not empty or is the working folder.

    Source: the layout of Hugging Face's checkpoints.

    >>> from llm_anatomy.config import ModelConfig
    >>> from llm_anatomy.models.transformer import Transformer
    >>> sizes = dict(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> model = Transformer(ModelConfig(position="rope", norm="rmsnorm", feedforward="gelu", **sizes))
    >>> save(Checkpoint(model=model, family="llama"), "llama")
    Traceback (most recent call last):
    ValueError: the family llama cannot represent feedforward='gelu' (it must be 'swiglu')
    """
    if checkpoint.family not in families():
        raise ValueError(f"family={checkpoint.family!r} must be one of {', '.join(families())}")
    if shard < 1:
        raise ValueError(f"{shard=} must be at least 1")
    folder, family, model = Path(folder).resolve(), families()[checkpoint.family], checkpoint.model
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"folder={str(folder)!r} must not exist, or be an empty folder")
    if folder == Path.cwd():
        raise ValueError(f"folder={str(folder)!r} must be another than the working folder, which cannot be replaced")
    foreign = sorted(checkpoint.more.keys() - _kept(family))
    if foreign:
        raise ValueError(f"more holds {', '.join(map(repr, foreign))}, which the family {family.name} cannot keep")
    fields = {"dtype": str(next(model.parameters()).dtype).removeprefix("torch.")} | checkpoint.more
    fields = family.hf_config(model.config) | fields
    plan = _plan(family, model)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as draft:
        whole = Path(draft) / folder.name
        whole.mkdir()  # with the usual permissions, unlike a temporary folder
        write_atomically(whole / "config.json", json.dumps(fields, indent=2) + "\n")
        storage.write(whole, _groups(model, plan), shard)
        for name in (*texts.FILES, "generation_config.json"):
            if checkpoint.folder and (checkpoint.folder / name).is_file():
                shutil.copy(checkpoint.folder / name, whole / name)
        if folder.exists():  # Windows does not replace a folder by another
            folder.rmdir()
        os.replace(whole, folder)


def _groups(model: LanguageModel, plan: list[Move]):
    """For each move, the sizes of the tensors to write, and a function that makes them."""
    ours, shapes = _tensors(model), _hf_shapes(model, plan)
    for move in plan:
        itemsize = ours[move.ours[0]].element_size()
        sizes = {name: torch.Size(shapes[name]).numel() * itemsize for name in move.hf}

        def make(move: Move = move) -> dict[str, Tensor]:
            with torch.no_grad():
                hf = move.change.to_hf(*(ours[name].detach() for name in move.ours))
            return {name: tensor for name, tensor in zip(move.hf, hf, strict=True)}

        yield sizes, make


def _kept(family: Family) -> set[str]:
    """Hugging Face's fields that are written as they were read."""
    own = {"architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "_name_or_path"}
    return family.said_elsewhere - own
