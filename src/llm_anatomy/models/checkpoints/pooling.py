"""Vectors of sentences, from the hidden states of a model, as the folders of sentence-transformers describe it.

``modules.json`` lists the modules: a Transformer, a pooling over its tokens, and perhaps dense layers and a
normalization. Each has a folder with a ``config.json``.

Shapes: ``texts``, ``tokens``, ``d_model``, ``width`` (of a vector).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints import storage
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Bool, Float, Int, Tensor
from llm_anatomy.tokenizers.base import check_texts

MODULES = "modules.json"
FILES = (
    MODULES,
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "*_Pooling/config.json",
    "*_Normalize/config.json",
    "*_Dense/config.json",
    "*_Dense/model.safetensors",
)
"""The files that describe the pooling, which are downloaded with the weights and copied when a checkpoint is saved."""


def _mean(x: Tensor, mask: Tensor) -> Tensor:
    return (x * mask).sum(1) / mask.sum(1)


def _last(x: Tensor, mask: Tensor) -> Tensor:
    last = mask.sum(1).long() - 1  # (texts, 1): padding is on the right
    return x.take_along_dim(last[:, None], 1)[:, 0]


def _weighted_mean(x: Tensor, mask: Tensor) -> Tensor:
    return _mean(x, mask * torch.arange(1, x.shape[1] + 1, device=x.device)[:, None])


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls_token": lambda x, mask: x[:, 0],
    "max_tokens": lambda x, mask: x.masked_fill(mask == 0, torch.finfo(x.dtype).min).amax(1),
    "mean_tokens": _mean,
    "mean_sqrt_len_tokens": lambda x, mask: (x * mask).sum(1) / mask.sum(1).sqrt(),
    "weightedmean_tokens": _weighted_mean,
    "lasttoken": _last,
}
"""The poolings by the names of their switches, in the order in which the results of several are concatenated. Each is a
function of the hidden states and of a mask (texts, tokens, 1), 1 for a token and 0 for padding."""

_SHORT: list[str] = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
NAMES = dict(zip(_SHORT, POOLINGS, strict=True))
"""The switches by the names in ``pooling_mode``, which newer files have in place of switches."""

ACTIVATIONS = {"torch.nn.modules.linear.Identity": nn.Identity, "torch.nn.modules.activation.Tanh": nn.Tanh}


@dataclass(frozen=True, kw_only=True)
class Pooling:
    r"""How the hidden states of a text become one vector.

    .. math:: v = \mathrm{Normalize}(\mathrm{Dense}(\mathrm{pool}(x_1, \dots, x_n))), \quad
        \mathrm{mean}(x) = \frac{1}{n} \sum_t x_t, \quad \mathrm{Normalize}(v) = v / \lVert v \rVert

    Args:
        poolings: names in ``POOLINGS``; their results are concatenated.
        after: the modules that follow, such as a dense layer or the normalization.
        max_tokens: the most tokens that are read of a text, with the special tokens around it; None for no bound.
        prompt: precedes each text.
        lowercase: whether texts are lowercased before the tokenizer reads them.

    Source: Reimers and Gurevych (2019), "Sentence-BERT", section 3; the layout of their library.

    >>> pooling = Pooling(poolings=("mean_tokens", "max_tokens"))
    >>> x, mask = torch.tensor([[[1.0], [5.0], [9.0]]]), torch.tensor([[True, True, False]])
    >>> pooling.pool(x, mask)
    tensor([[5., 3.]])
    """

    poolings: tuple[str, ...]
    after: tuple[nn.Module, ...] = ()
    max_tokens: int | None = None
    prompt: str = ""
    lowercase: bool = False

    def pool(
        self, x: Float[Tensor, "texts tokens d_model"], attention_mask: Bool[Tensor, "texts tokens"]
    ) -> Float[Tensor, "texts width"]:
        """Compute the vectors from hidden states; padding must be on the right."""
        mask = attention_mask[..., None].to(x.dtype)
        vectors = torch.cat([pool(x, mask) for name, pool in POOLINGS.items() if name in self.poolings], -1)
        for module in self.after:
            vectors = module.to(vectors.device, vectors.dtype)(vectors)
        return vectors

    @torch.no_grad()
    def vectors_of_ids(
        self, model: Transformer, ids: Sequence[Sequence[int]], *, batch_size: int = 32
    ) -> Float[Tensor, "texts width"]:
        """Compute the vectors of texts that are already token ids.

        Args:
            model: an encoder or a decoder.
            ids: of each text, with the special tokens around it.
            batch_size: the most texts that are read at once.

        Raises:
            ValueError: for an encoder-decoder, a text without tokens, and a batch size below 1.
        """
        if model.config.kind == "encoder-decoder":
            raise ValueError("kind='encoder-decoder' has no vectors of sentences; it must be 'encoder' or 'decoder'")
        if batch_size < 1:
            raise ValueError(f"{batch_size=} must be at least 1")
        empty = [i for i, row in enumerate(ids) if not row]
        if empty:
            raise ValueError(f"text {empty[0]} has no tokens; it must have one")
        if not ids:
            return self.pool(torch.zeros(1, 1, model.config.d_model), torch.ones(1, 1, dtype=torch.bool))[:0]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))  # texts of about equal length, for little padding
        vectors: list[Tensor] = []
        for start in range(0, len(order), batch_size):
            batch, attention_mask = _pad([ids[i] for i in order[start : start + batch_size]])
            device = model.embedding.weight.device
            batch, attention_mask = batch.to(device), attention_mask.to(device)
            x, _ = model.hidden_states(batch, attention_mask=attention_mask)
            vectors.extend(self.pool(x, attention_mask))
        by_text = dict(zip(order, vectors, strict=True))
        return torch.stack([by_text[i] for i in range(len(ids))])

    def vectors(
        self, model: Transformer, texts: Texts, sentences: Sequence[str], *, batch_size: int = 32
    ) -> Float[Tensor, "texts width"]:
        """Compute the vectors of texts.

        Args:
            model: an encoder or a decoder.
            texts: its tokenizer and its special tokens.
            sentences: the texts.
            batch_size: the most texts that are read at once.

        Raises:
            ValueError: as ``vectors_of_ids`` does, and if there is no tokenizer.
        """
        bounds = [bound for bound in (self.max_tokens, model.config.n_ctx) if bound is not None]
        ids = [self._ids(texts, sentence, min(bounds, default=None)) for sentence in check_texts(sentences)]
        return self.vectors_of_ids(model, ids, batch_size=batch_size)

    def _ids(self, texts: Texts, sentence: str, longest: int | None) -> list[int]:
        """The ids of a text, of which no more are kept than ``longest``, those around it included."""
        text = (self.prompt + sentence).strip()
        ids = texts.encode(text.lower() if self.lowercase else text, allowed_special="all")
        if longest is None or len(ids) <= longest:
            return ids
        return [*ids[: longest - len(texts.after)], *texts.after]


def _pad(rows: list[Sequence[int]]) -> tuple[Int[Tensor, "texts tokens"], Bool[Tensor, "texts tokens"]]:
    """Ids with padding on the right, and the mask that is False there."""
    ids = nn.utils.rnn.pad_sequence([torch.tensor(list(row)) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, torch.arange(ids.shape[1])[None] < lengths[:, None]


class Normalize(nn.Module):
    """Divide each vector by its norm.

    Source: Reimers and Gurevych (2019), the code of their library.

    >>> Normalize()(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """

    def forward(self, x: Float[Tensor, "texts width"]) -> Float[Tensor, "texts width"]:
        return F.normalize(x, dim=-1)


# --- Reading ---


def read_pooling(folder: Path) -> Pooling:
    """Read what a folder says about vectors of sentences.

    Args:
        folder: of the checkpoint.

    Raises:
        ValueError: for a folder without ``modules.json``, and for modules, poolings and options that are not supported.

    Source: the layout of sentence-transformers.

    >>> read_pooling(Path("no/such/folder"))
    Traceback (most recent call last):
    ValueError: folder 'no/such/folder' holds no modules.json, which would say how hidden states become a vector
    """
    if not (folder / MODULES).is_file():
        raise ValueError(
            f"folder {str(folder)!r:.200} holds no {MODULES}, which would say how hidden states become a vector"
        )
    kinds = _modules(folder / MODULES)
    if [kind for kind, _ in kinds[:2]] != ["Transformer", "Pooling"] or kinds[0][1] != "":
        raise ValueError(f"{MODULES} must begin with a Transformer in the same folder and a Pooling")
    poolings, after = _poolings(_record(folder, kinds[1][1], needed=True)), []
    for kind, path in kinds[2:]:
        if kind not in ("Normalize", "Dense"):
            raise ValueError(f"{MODULES}: a module {kind!r:.60} is not supported; it must be Normalize or Dense")
        after.append(Normalize() if kind == "Normalize" else _dense(folder / path))
    settings = _record(folder, "", "sentence_bert_config.json")
    max_tokens, lowercase = _max_tokens(folder, settings), settings.fields.get("do_lower_case", False)
    if not isinstance(lowercase, bool):
        settings.refuse("do_lower_case", f"{lowercase!r:.60} must be true or false")
    prompt = _prompt(_record(folder, "", "config_sentence_transformers.json"))
    return Pooling(poolings=poolings, after=tuple(after), max_tokens=max_tokens, prompt=prompt, lowercase=lowercase)


def _modules(path: Path) -> list[tuple[str, str]]:
    """The kinds of the modules, and their folders."""
    try:
        modules = json.loads(path.read_text(encoding="utf-8"))
        return [(module["type"].rpartition(".")[2], _name(module["path"])) for module in modules]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path.name} must hold a list of modules, each with its type and its path") from None


def _name(path: str) -> str:
    """The name of a folder beside ``modules.json``; a path that leads elsewhere is refused."""
    if path != Path(path).name:
        raise ValueError(path)
    return path


def _record(folder: Path, inner: str, name: str = "config.json", needed: bool = False) -> Record:
    path = folder / inner / name
    if needed and not path.is_file():
        raise ValueError(f"folder {str(path.parent)!r:.200} holds no {name}")
    record = Record.read(path) if path.is_file() else Record(name, {})
    record.name = str(Path(inner) / name)
    return record


def _max_tokens(folder: Path, settings: Record) -> int | None:
    """The most tokens of a text, from the settings or else from those of the tokenizer, where 10^30 stands for any."""
    bound = settings.fields.get("max_seq_length")
    if bound is None:
        bound = _record(folder, "", "tokenizer_config.json").fields.get("model_max_length")
        return int(bound) if isinstance(bound, int | float) and 3 <= bound < 2**31 else None
    if not isinstance(bound, int) or isinstance(bound, bool) or bound < 3:
        settings.refuse("max_seq_length", f"{bound!r:.60} must be a number without fraction, at least 3")
    return bound


def _poolings(record: Record) -> tuple[str, ...]:
    fields: dict[str, Any] = dict(record.fields)
    fields.pop("word_embedding_dimension", None)
    fields.pop("embedding_dimension", None)
    if fields.pop("include_prompt", True) is not True:
        record.refuse("include_prompt", "false is not supported; it must be true")
    named = fields.pop("pooling_mode", ())
    named = named.split("+") if isinstance(named, str) else named
    switches = {name.removeprefix("pooling_mode_"): value for name, value in fields.items()}
    for name, value in switches.items():
        if name not in POOLINGS or not isinstance(value, bool):
            record.refuse(f"pooling_mode_{name:.60}", f"{value!r:.60} is not supported")
    if not isinstance(named, list | tuple) or not all(name in NAMES for name in named):
        record.refuse("pooling_mode", f"{named!r:.60} is not supported; it must be some of {', '.join(NAMES)}")
    chosen = {NAMES[name] for name in named} | {name for name, value in switches.items() if value}
    if not chosen:
        raise ValueError(f"{record.name} switches no pooling on")
    return tuple(name for name in POOLINGS if name in chosen)


def _dense(folder: Path) -> nn.Module:
    record = _record(folder.parent, folder.name, needed=True)
    name = record.take("activation_function", str)
    if name not in ACTIVATIONS:
        record.refuse("activation_function", f"{name!r:.60} must be one of {', '.join(ACTIVATIONS)}")
    sizes, bias = (record.take("in_features", int), record.take("out_features", int)), record.take("bias", bool)
    found = storage.headers(folder)
    shapes = {"linear.weight": sizes[::-1]} | ({"linear.bias": sizes[1:]} if bias else {})
    if {name: header.shape for name, header in found.items()} != shapes:
        raise ValueError(
            f"the tensors in {str(folder)!r:.200} must be {', '.join(f'{n} {s}' for n, s in shapes.items())}"
        )
    layer = nn.Linear(*sizes, bias=bias)
    tensors: list[Tensor] = []
    storage.read([found[name] for name in shapes], lambda *read: tensors.extend(tensor.clone() for tensor in read))
    layer.load_state_dict({name.removeprefix("linear."): t for name, t in zip(shapes, tensors, strict=True)})
    return nn.Sequential(layer, ACTIVATIONS[name]())


def _prompt(record: Record) -> str:
    """The text that precedes every sentence, unless another one is asked for."""
    name, prompts = record.fields.get("default_prompt_name"), record.fields.get("prompts") or {}
    if name is None:
        return ""
    if not isinstance(prompts, dict) or not isinstance(prompts.get(name), str):
        record.refuse("default_prompt_name", f"{name!r:.60} is none of the prompts")
    return prompts[name]
