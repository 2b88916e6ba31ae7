"""GGUF files, in which a model, its settings and its tokenizer are one file and most weights are quantized.

A file is translated into what the engine understands: the fields of a ``config.json``, and tensors by Hugging Face's
names, each of which is dequantized when it is read. The package ``gguf`` knows the types and dequantizes them. The
header is read here, since its reader takes 1.8 s and 160 MB for a vocabulary of 49,152 tokens, and does not notice
that a file is truncated.
"""

import math
import mmap
import os
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from einops import rearrange

from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints.storage import DTYPES, Header
from llm_anatomy.shapes import Tensor

PLAIN = ("F32", "F16", "BF16")
QUANTIZED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
QUANTIZED += ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS")
"""The types of tensors, by ggml's names. A quantized tensor is a sequence of blocks that share a scale."""

VERSIONS = (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
FLOAT, TEXT, ARRAY = 6, 8, 9
"""The types of metadata: numbers by their formats in ``struct``, texts, and arrays."""

Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Stored(Header):
    """The description of a tensor in a GGUF file.

    Args:
        file, name, dtype: as in :class:`~llm_anatomy.models.checkpoints.storage.Header`; the dtype of a quantized
            tensor is "F32".
        shape: as Hugging Face's models have it, after ``change``.
        kind: its type in the file, by ggml's name.
        stored: its shape in the file, the axis of the blocks last.
        offset: its first byte.
        change: from the stored tensor to Hugging Face's.

    Source: the specification of GGUF in the documentation of ggml.

    >>> Stored(Path("a.gguf"), "blk.0.ffn_up.weight", (2, 32), "F32", "Q8_0", (2, 32), 64).n_bytes
    256
    """

    kind: str
    stored: tuple[int, ...]
    offset: int
    change: Change | None = None

    def read(self, opened: Callable[[Path], Any]) -> Tensor:
        """Read the tensor, and dequantize it to float32 if it is quantized."""
        n_bytes = _n_bytes(self.kind, self.stored)
        raw = np.asarray(np.memmap(self.file, np.uint8, "c", self.offset, (n_bytes,)))  # plain arrays are faster
        if self.kind in DTYPES:
            tensor = torch.from_numpy(raw).view(DTYPES[self.kind]).reshape(self.stored)
        else:
            gguf = _gguf()
            rows = raw.reshape(math.prod(self.stored[:-1]), -1)
            values = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType[self.kind])
            tensor = torch.from_numpy(values).reshape(self.stored)
        return self.change(tensor) if self.change else tensor


@dataclass(frozen=True, kw_only=True)
class GGUFFile:
    """What a GGUF file says, before a tensor is read.

    Args:
        path: of the file.
        metadata: all keys and values.
        record: the fields of the ``config.json`` that the model would have.
        headers: of the tensors, by Hugging Face's names.

    Source: the specification of GGUF in the documentation of ggml; GT-43.

    >>> record = Record("a.gguf", {"architectures": ["LlamaForCausalLM"]})
    >>> GGUFFile(path=Path("a.gguf"), metadata={}, record=record, headers={}).record.name
    'a.gguf'
    """

    path: Path
    metadata: Mapping[str, Any]
    record: Record
    headers: Mapping[str, Stored]


def is_gguf(name: str | os.PathLike) -> bool:
    """Whether this names a GGUF file, which may be missing.

    Args:
        name: a path, or a name on a hub.

    Source: the specification of GGUF, section on naming.

    >>> is_gguf("SmolLM2-135M-Instruct.Q4_1.gguf"), is_gguf("openai-community/gpt2")
    (True, False)
    """
    return Path(name).suffix.lower() == ".gguf" and not os.path.isdir(name)


def read_gguf(path: str | os.PathLike) -> GGUFFile:
    """Read the header of a GGUF file, and translate it.

    Args:
        path: of the file.

    Raises:
        ValueError: for a file that is missing, truncated or malformed; for an architecture, a setting or a type of
            tensors that is not supported; and if ``gguf`` is not installed.

    Source: the specification of GGUF in the documentation of ggml; the converter of llama.cpp.

    >>> read_gguf("no_such.gguf")
    Traceback (most recent call last):
    ValueError: file 'no_such.gguf' does not exist
    """
    path = Path(path)
    _gguf()
    metadata, tensors = _header(path)
    record = Record(path.name, metadata)
    count = metadata.get("split.count", 1)
    if count not in (0, 1):
        record.refuse("split.count", f"the file is one of {count!r:.20} parts, which must be merged first")
    name = record.take("general.architecture", str)
    if name not in ARCHITECTURES:
        record.refuse("general.architecture", f"{name!r:.60} is not supported; it must be {_or(ARCHITECTURES)}")
    architecture = ARCHITECTURES[name]
    settings = _Settings(record, name, tensors)
    fields = architecture.fields(settings) | _ids(metadata)
    settings.refuse_the_rest()
    headers = {hf: stored for t in tensors.values() for hf, stored in _translated(t, architecture, fields)}
    return GGUFFile(path=path, metadata=metadata, record=Record(path.name, fields), headers=headers)


def _gguf() -> ModuleType:
    try:
        import gguf
    except ImportError:
        raise ValueError("to read GGUF files, install gguf (pip install 'llm_anatomy[checkpoints]')") from None
    return gguf


def _n_bytes(kind: str, shape: tuple[int, ...]) -> int:
    gguf = _gguf()
    of_block, n_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return math.prod(shape) // of_block * n_bytes


def _or(names) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"


# --- The header ---


class _Cursor:
    """A position in the bytes of a file. Whatever is read must end before the file does."""

    def __init__(self, name: str, data):
        self.name, self.data, self.at = name, data, 0

    def take(self, form: str, count: int = 1) -> tuple:
        n_bytes = struct.calcsize(f"<{form}") * count
        self.check(n_bytes)
        values = struct.unpack_from(f"<{count}{form}", self.data, self.at)
        self.at += n_bytes
        return values

    def check(self, n_bytes: int) -> None:
        if self.at + n_bytes > len(self.data):
            raise ValueError(f"{self.name} is truncated or malformed: its header does not end within the file")

    def text(self) -> str:
        (length,) = self.take("Q")
        self.check(length)
        raw = self.data[self.at : self.at + length]
        self.at += length
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{self.name} is malformed: {raw!r:.60} in its header is not UTF-8") from None

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            of, length = *self.take("I"), *self.take("Q")
            if of in SCALARS:
                return list(self.take(SCALARS[of], length))
            if of != TEXT:
                raise ValueError(f"{self.name} is malformed: its metadata holds an array of type {of}")
            self.check(8 * length)
            return [self.text() for _ in range(length)]
        if kind not in SCALARS:
            raise ValueError(f"{self.name} is malformed: its metadata holds a value of type {kind}")
        (value,) = self.take(SCALARS[kind])
        return float(str(np.float32(value))) if kind == FLOAT else value  # 1e-5, and not 9.999999747378752e-06


@dataclass(frozen=True)
class _Tensor:
    file: Path
    name: str
    kind: str
    shape: tuple[int, ...]
    offset: int


def _header(path: Path) -> tuple[dict[str, Any], dict[str, _Tensor]]:
    """The metadata and the tensors, by their names in the file."""
    if not os.path.isfile(path):
        raise ValueError(f"file {str(path)!r:.200} does not exist")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _header_of(path, _Cursor(path.name, data))
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from None
    except ValueError as error:
        if os.path.getsize(path):
            raise
        raise ValueError(f"{path.name} is empty") from error


def _header_of(path: Path, cursor: _Cursor) -> tuple[dict[str, Any], dict[str, _Tensor]]:
    if len(cursor.data) < 24 or cursor.data[:4] != b"GGUF":
        raise ValueError(f"{path.name} is no GGUF file: it does not begin with GGUF")
    _, version, n_tensors, n_values = *cursor.take("I"), *cursor.take("I"), *cursor.take("Q"), *cursor.take("Q")
    if version not in VERSIONS:
        raise ValueError(f"{path.name} has version {version} of GGUF; it must be {_or(map(str, VERSIONS))}")
    metadata = {}
    for _ in range(n_values):
        key = cursor.text()
        if key in metadata:
            raise ValueError(f"{path.name}, key {key!r:.60}: the key occurs twice")
        metadata[key] = cursor.value(*cursor.take("I"))
    found = []
    for _ in range(n_tensors):
        name, (n_axes,) = cursor.text(), cursor.take("I")
        if not name.isprintable():
            raise ValueError(f"{path.name} holds {name!r:.60}, which is no name of a tensor")
        if not 1 <= n_axes <= 4:
            raise ValueError(f"{path.name}: {name} has {n_axes} axes; it must have 1 to 4")
        shape = cursor.take("Q", n_axes)[::-1]  # ggml's first axis is the last of PyTorch
        found.append((name, shape, *cursor.take("I"), *cursor.take("Q")))
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 8 or alignment % 8:
        raise ValueError(f"{path.name}, key 'general.alignment': {alignment!r:.60} must be a multiple of 8")
    begin = -(-cursor.at // alignment) * alignment
    tensors = {}
    for name, shape, kind, offset in found:
        if name in tensors:
            raise ValueError(f"{path.name}: the tensor {name:.60} occurs twice")
        if offset % alignment:
            raise ValueError(f"{path.name}: {name} begins at {offset}, no multiple of the alignment {alignment}")
        tensors[name] = _Tensor(path, name, _kind(path, name, kind), shape, begin + offset)
        _check_extent(tensors[name], len(cursor.data))
    return metadata, tensors


def _kind(path: Path, name: str, number: int) -> str:
    kinds = {kind.value: kind.name for kind in _gguf().GGMLQuantizationType}
    kind = kinds.get(number, str(number))
    if kind not in (*PLAIN, *QUANTIZED):
        raise ValueError(f"{path.name}: {name} has the type {kind}; it must be {_or((*PLAIN, *QUANTIZED))}")
    return kind


def _check_extent(tensor: _Tensor, n_bytes: int) -> None:
    gguf, says = _gguf(), f"{tensor.file.name}: {tensor.name}"
    of_block, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[tensor.kind]]
    if 0 in tensor.shape:
        raise ValueError(f"{says} has the shape {tensor.shape}; no axis may be empty")
    if tensor.shape[-1] % of_block:
        raise ValueError(f"{says} has rows of {tensor.shape[-1]} numbers, no multiple of {tensor.kind}'s {of_block}")
    if tensor.offset + _n_bytes(tensor.kind, tensor.shape) > n_bytes:
        raise ValueError(f"{says} does not end within the file, which is truncated or malformed")


# --- Architectures ---


class _Settings:
    """The metadata of the model, without the architecture's name, and which of its keys have been used."""

    def __init__(self, record: Record, architecture: str, tensors: Mapping[str, _Tensor]):
        self.record, self.prefix, self.tensors = record, f"{architecture}.", tensors
        self.used = {self.prefix + key for key in ("vocab_size", "tensor_data_layout", "rope.scaling.finetuned")}

    def get(self, key: str, kind: type | tuple[type, ...] = int, default: Any = None) -> Any:
        """A value of this type, or the default; without a default, the value is required."""
        name = self.prefix + key
        self.used.add(name)
        if name not in self.record.fields and default is not None:
            return default
        value = self.record.take(name, kind if isinstance(kind, type) else object)
        if not isinstance(value, kind) or isinstance(value, float) and not math.isfinite(value):
            self.refuse(key, f"{value!r:.60} must be a number")
        return value

    def has(self, key: str) -> bool:
        return self.prefix + key in self.record.fields

    def refuse(self, key: str, problem: str):
        self.record.refuse(self.prefix + key, problem)

    def must(self, key: str, allowed: Any) -> None:
        """Check a setting for which one value is supported."""
        self.used.add(self.prefix + key)
        value = self.record.fields.get(self.prefix + key, allowed)
        if value != allowed:
            self.refuse(key, f"{value!r:.60} is not supported; it must be {allowed!r}")

    def refuse_the_rest(self) -> None:
        for name, value in self.record.fields.items():
            if name.startswith(self.prefix) and name not in self.used:
                self.record.refuse(name, f"{value!r:.60} is unknown, and might change what the model computes")


NUMBER = (int, float)


def _sizes(settings: _Settings) -> dict[str, Any]:
    """The fields that Llama and its successors share."""
    width, n_heads = settings.get("embedding_length"), settings.get("attention.head_count")
    if n_heads < 1:
        settings.refuse("attention.head_count", f"{n_heads} must be at least 1")
    d_head = settings.get("attention.key_length", default=width // n_heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        settings.must(key, d_head)
    return {
        "vocab_size": _n_rows(settings, "token_embd.weight"),
        "hidden_size": width,
        "intermediate_size": settings.get("feed_forward_length"),
        "num_hidden_layers": settings.get("block_count"),
        "max_position_embeddings": settings.get("context_length"),
        "num_attention_heads": n_heads,
        "num_key_value_heads": settings.get("attention.head_count_kv", default=n_heads),
        "head_dim": d_head,
        "rms_norm_eps": settings.get("attention.layer_norm_rms_epsilon", NUMBER),
        "tie_word_embeddings": "output.weight" not in settings.tensors,
        "rope_parameters": _rope(settings, d_head),
    }


def _n_rows(settings: _Settings, name: str) -> int:
    if name not in settings.tensors:
        raise ValueError(f"{settings.record.name} holds no tensor {name}")
    return settings.tensors[name].shape[0]


def _rope(settings: _Settings, d_head: int) -> dict[str, Any]:
    """The base of RoPE and its scaling, from the settings or from the divisors of the frequencies."""
    base = settings.get("rope.freq_base", NUMBER, default=10000.0)
    usual = "linear" if settings.has("rope.scaling.factor") else "none"
    kind = settings.get("rope.scaling.type", str, default=usual)
    settings.must("rope.scaling.attn_factor", 1.0)
    factor = settings.get("rope.scaling.factor", NUMBER, default=1.0)
    if "rope_freqs.weight" in settings.tensors:
        if kind != "none":
            settings.refuse("rope.scaling.type", f"{kind!r:.60} must be 'none' beside the tensor rope_freqs.weight")
        return {"rope_theta": base, **_scaling_of(settings.tensors["rope_freqs.weight"], base, d_head)}
    if kind == "none":
        return {"rope_type": "default", "rope_theta": base}
    if kind == "linear":
        return {"rope_type": "linear", "rope_theta": base, "factor": factor}
    if kind != "yarn":
        settings.refuse("rope.scaling.type", f"{kind!r:.60} is not supported; it must be 'none', 'linear' or 'yarn'")
    return {
        "rope_type": "yarn",
        "rope_theta": base,
        "factor": factor,
        "original_max_position_embeddings": settings.get("rope.scaling.original_context_length"),
        "beta_fast": settings.get("rope.scaling.yarn_beta_fast", NUMBER, default=32.0),
        "beta_slow": settings.get("rope.scaling.yarn_beta_slow", NUMBER, default=1.0),
    }


LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""The settings of Llama 3.1, 3.2 and 3.3. GGUF files hold only the divisors that result from them."""


def _scaling_of(tensor: _Tensor, base: float, d_head: int) -> dict[str, Any]:
    """The scaling of Llama 3 whose divisors of the frequencies these are: the largest is its factor."""
    says = f"{tensor.file.name}: {tensor.name}"
    if tensor.shape != (d_head // 2,) or tensor.kind != "F32":
        raise ValueError(f"{says} is {tensor.kind} {tensor.shape}; it must be F32 ({d_head // 2},)")
    found = Stored(tensor.file, tensor.name, tensor.shape, "F32", "F32", tensor.shape, tensor.offset)
    divisors = found.read(Path).double()
    factor = round(divisors.max().item(), 4)
    frequencies = base ** -(torch.arange(0, d_head, 2).double() / d_head)
    turns = LLAMA3["original_max_position_embeddings"] * frequencies / math.tau
    low, high = LLAMA3["low_freq_factor"], LLAMA3["high_freq_factor"]
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    if not torch.allclose(1 / divisors, kept + (1 - kept) / factor, rtol=1e-4, atol=0):
        raise ValueError(f"{says} holds divisors that are not those of Llama 3.1, and no others are supported")
    return {"rope_type": "llama3", "factor": factor, **LLAMA3} if factor != 1 else {"rope_type": "default"}


def _llama(settings: _Settings) -> dict[str, Any]:
    """Llama, Mistral and Mixtral, which llama.cpp does not tell apart."""
    fields = _sizes(settings)
    n_experts = settings.get("expert_count", default=0)
    n_used = settings.get("expert_used_count", default=0)
    if n_experts:
        more = {"architectures": ["MixtralForCausalLM"], "num_local_experts": n_experts, "num_experts_per_tok": n_used}
    elif settings.has("attention.sliding_window"):
        more = {"architectures": ["MistralForCausalLM"]}
    else:
        biased = "blk.0.attn_q.bias" in settings.tensors, "blk.0.ffn_up.bias" in settings.tensors
        more = {"architectures": ["LlamaForCausalLM"], "attention_bias": biased[0], "mlp_bias": biased[1]}
    if settings.has("attention.sliding_window"):
        more["sliding_window"] = settings.get("attention.sliding_window")
    return fields | more


def _gemma2(settings: _Settings) -> dict[str, Any]:
    """Gemma 2. Files do not hold the scale of the scores; it is that of the released models, as in llama.cpp."""
    fields = _sizes(settings)
    is_27b = fields["num_hidden_layers"] == 46
    scalar = fields["hidden_size"] // fields["num_attention_heads"] if is_27b else fields["head_dim"]
    return fields | {
        "architectures": ["Gemma2ForCausalLM"],
        "query_pre_attn_scalar": scalar,
        "sliding_window": settings.get("attention.sliding_window", default=4096),
        "attn_logit_softcapping": settings.get("attn_logit_softcapping", NUMBER, default=50.0),
        "final_logit_softcapping": settings.get("final_logit_softcapping", NUMBER, default=30.0),
    }


def _gpt2(settings: _Settings) -> dict[str, Any]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": _n_rows(settings, "token_embd.weight"),
        "n_embd": settings.get("embedding_length"),
        "n_inner": settings.get("feed_forward_length"),
        "n_layer": settings.get("block_count"),
        "n_head": settings.get("attention.head_count"),
        "n_positions": settings.get("context_length"),
        "layer_norm_epsilon": settings.get("attention.layer_norm_epsilon", NUMBER),
        "tie_word_embeddings": "output.weight" not in settings.tensors,
    }


def _in_pairs(part: str, fields: dict[str, Any]) -> Change | None:
    """Llama's queries and keys, which llama.cpp interleaves: coordinates 2i and 2i + 1 are turned together."""
    if part not in ("attn_q", "attn_k"):
        return None
    n_heads = fields["num_attention_heads" if part == "attn_q" else "num_key_value_heads"]
    return lambda tensor: rearrange(
        tensor, "(heads pairs two) ... -> (heads two pairs) ...", heads=n_heads, two=2
    ).contiguous()


def _from_one(part: str, fields: dict[str, Any]) -> Change | None:
    """Gemma's norms multiply by 1 + w, and llama.cpp stores that sum."""
    return (lambda tensor: tensor.float() - 1) if part.endswith("norm") else None


def _transposed(part: str, fields: dict[str, Any]) -> Change | None:
    """GPT-2's matrices, which Hugging Face stores as (in, out)."""
    transposed = ("attn_qkv", "attn_output", "ffn_up", "ffn_down")
    return (lambda tensor: tensor.T if tensor.ndim == 2 else tensor) if part in transposed else None


@dataclass(frozen=True, kw_only=True)
class _Architecture:
    """How one architecture is translated.

    ``fields`` gives Hugging Face's fields. ``outside`` and ``inside`` are the names of tensors outside the layers and
    in them, without "weight" or "bias", and Hugging Face's names. ``change`` gives the change of a tensor.
    """

    fields: Callable[[_Settings], dict[str, Any]]
    inside: Mapping[str, str]
    outside: Mapping[str, str]
    layer: str = "model.layers"
    change: Callable[[str, dict[str, Any]], Change | None] = lambda part, fields: None


OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INSIDE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
EXPERTS = {"ffn_gate_exps": "w1", "ffn_up_exps": "w3", "ffn_down_exps": "w2"}
"""Mixtral's matrices, which are stored for all experts together."""

ARCHITECTURES = {
    "gemma": _Architecture(
        fields=lambda settings: _sizes(settings) | {"architectures": ["GemmaForCausalLM"]},
        outside=OUTSIDE,
        inside=INSIDE,
        change=_from_one,
    ),
    "gemma2": _Architecture(
        fields=_gemma2,
        outside=OUTSIDE,
        inside=INSIDE
        | {
            "post_attention_norm": "post_attention_layernorm",
            "ffn_norm": "pre_feedforward_layernorm",
            "post_ffw_norm": "post_feedforward_layernorm",
        },
        change=_from_one,
    ),
    "gpt2": _Architecture(
        fields=_gpt2,
        layer="transformer.h",
        outside={
            "token_embd": "transformer.wte",
            "position_embd": "transformer.wpe",
            "output_norm": "transformer.ln_f",
            "output": "lm_head",
        },
        inside={
            "attn_norm": "ln_1",
            "attn_qkv": "attn.c_attn",
            "attn_output": "attn.c_proj",
            "ffn_norm": "ln_2",
            "ffn_up": "mlp.c_fc",
            "ffn_down": "mlp.c_proj",
        },
        change=_transposed,
    ),
    "llama": _Architecture(
        fields=_llama, outside=OUTSIDE, inside=INSIDE | {"ffn_gate_inp": "block_sparse_moe.gate"}, change=_in_pairs
    ),
    "qwen2": _Architecture(
        fields=lambda settings: _sizes(settings) | {"architectures": ["Qwen2ForCausalLM"]},
        outside=OUTSIDE,
        inside=INSIDE,
    ),
    "qwen3": _Architecture(
        fields=lambda settings: _sizes(settings) | {"architectures": ["Qwen3ForCausalLM"]},
        outside=OUTSIDE,
        inside=INSIDE | {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"},
    ),
}
"""The architectures, by the names of llama.cpp. Its family llama includes Mistral and Mixtral."""


def _translated(tensor: _Tensor, architecture: _Architecture, fields: dict[str, Any]):
    """The headers of a tensor by Hugging Face's names: several if it holds all experts, none if it is not needed."""
    if tensor.name == "rope_freqs.weight":  # it is part of the fields
        return
    in_layer = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", tensor.name)
    layer, part, kind = in_layer.groups() if in_layer else ("", *tensor.name.rpartition(".")[::2])
    if in_layer and part in EXPERTS and len(tensor.shape) == 3:
        n_experts, *shape = tensor.shape
        for i in range(n_experts):
            name = f"{architecture.layer}.{layer}.block_sparse_moe.experts.{i}.{EXPERTS[part]}.{kind}"
            begin = tensor.offset + i * _n_bytes(tensor.kind, tuple(shape))
            yield name, _stored(tensor, tuple(shape), begin, None)
        return
    if in_layer and part in architecture.inside:
        name = f"{architecture.layer}.{layer}.{architecture.inside[part]}.{kind}"
    elif not in_layer and part in architecture.outside:
        name = f"{architecture.outside[part]}.{kind}"
    else:
        name = tensor.name  # the engine says that it is unexpected
    yield name, _stored(tensor, tensor.shape, tensor.offset, architecture.change(part, fields))


def _stored(tensor: _Tensor, stored: tuple[int, ...], offset: int, change: Change | None) -> Stored:
    shape = stored
    if change:
        try:
            shape = tuple(change(torch.empty(stored, device="meta")).shape)
        except RuntimeError:
            says = f"{tensor.file.name}: {tensor.name} is {stored}"
            raise ValueError(f"{says}, which is no multiple of its heads") from None
    dtype = tensor.kind if tensor.kind in PLAIN else "F32"
    return Stored(tensor.file, tensor.name, shape, dtype, tensor.kind, stored, offset, change)


def _ids(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The special tokens that a ``config.json`` names."""
    names = {"bos_token_id": "bos_token_id", "eos_token_id": "eos_token_id", "pad_token_id": "padding_token_id"}
    found = {hf: metadata.get(f"tokenizer.ggml.{name}") for hf, name in names.items()}
    return {hf: i for hf, i in found.items() if i is not None}
