"""A small converter to GGUF, which does what llama.cpp's does to models and tokenizers of Hugging Face."""

import math
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

Kind = gguf.GGMLQuantizationType
ARCHITECTURE = {"mistral": "llama", "mixtral": "llama"}


def write_gguf(path, hf, kind="F32", tokenizer=None, change=lambda writer: None, quantize=None):
    """Write a model, with matrices of this kind where their rows are multiples of its blocks, and F32 otherwise.

    ``tokenizer`` is its metadata, ``change`` may write more, and ``quantize`` stands in for
    the package's function, which does not know all kinds.
    """
    config, model_type = hf.config, hf.config.model_type
    name = ARCHITECTURE.get(model_type, model_type)
    writer = gguf.GGUFWriter(path, name)
    _sizes(writer, config)
    change(writer)
    for key, value in (tokenizer or {}).items():
        _write(writer, key, value)
    kind = Kind[kind]
    for key, tensor in _tensors(hf, name).items():
        small = tensor.ndim == 1 or tensor.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]
        stored = (quantize or gguf.quants.quantize)(tensor, Kind.F32 if small else kind) if kind != Kind.F32 else tensor
        writer.add_tensor(key, stored, raw_dtype=Kind.F32 if small else kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


def _sizes(writer, config):
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_vocab_size(config.vocab_size)
    if config.model_type == "gpt2":
        writer.add_feed_forward_length(config.n_inner)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_head_count_kv(config.num_key_value_heads)
    if config.head_dim * config.num_attention_heads != config.hidden_size:  # as older converters do
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if config.model_type == "mixtral":
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if config.model_type == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def _tensors(hf, name):
    """The arrays by the names of llama.cpp, changed as it changes them."""
    config = hf.config
    arch = next(arch for arch, said in gguf.MODEL_ARCH_NAMES.items() if said == name)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    with TemporaryDirectory() as folder:  # in the names of released files
        hf.save_pretrained(folder)
        theirs = load_file(Path(folder) / "model.safetensors")
    found, experts = {}, {}
    for key, tensor in theirs.items():
        if expert := re.fullmatch(r"(.*\.experts)\.(\d+)\.(w\d)\.weight", key):
            before, i, part = expert.groups()
            experts.setdefault(f"{before}.{part}.weight", {})[int(i)] = tensor
        else:
            found[key] = tensor
    found |= {key: torch.stack([each[i] for i in sorted(each)]) for key, each in experts.items()}
    made = {}
    for key, tensor in found.items():
        prefix, suffix = key.rsplit(".", 1)
        ours = f"{names.get_name(prefix)}.{suffix}"
        assert not ours.startswith("None"), key
        if name == "llama" and "attn_q." in ours:
            tensor = _interleaved(tensor, config.num_attention_heads)
        if name == "llama" and "attn_k." in ours:
            tensor = _interleaved(tensor, config.num_key_value_heads)
        if name.startswith("gemma") and key.endswith("norm.weight"):
            tensor = tensor + 1
        if name == "gpt2" and key.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
            tensor = tensor.T
        made[ours] = tensor.float().contiguous().numpy()
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "llama3":
        made["rope_freqs.weight"] = _divisors(config.head_dim, **rope)
    return made


def _interleaved(tensor, n_heads):
    halves = tensor.reshape(n_heads, 2, tensor.shape[0] // n_heads // 2, *tensor.shape[1:])
    return halves.swapaxes(1, 2).reshape(tensor.shape)


def _divisors(
    width, rope_theta, factor, low_freq_factor, high_freq_factor, original_max_position_embeddings, rope_type
):
    """As llama.cpp's converter computes them, frequency by frequency."""
    made = []
    for i in range(0, width, 2):
        wavelength = math.tau * rope_theta ** (i / width)
        turns = original_max_position_embeddings / wavelength
        if turns > high_freq_factor:
            made.append(1)
        elif turns < low_freq_factor:
            made.append(factor)
        else:
            smooth = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor)
            made.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(made, np.float32)


def tokenizer_metadata(fields, pre=None, **more):
    """The metadata of a tokenizer: of byte-level BPE with the name of its splitter, of SentencePiece's BPE without.

    ``fields`` are those of a tokenizer.json, and ``more`` are further keys, without their prefix.
    """
    keys, model = gguf.Keys.Tokenizer, fields["model"]
    added = {token["id"]: token for token in fields["added_tokens"]}
    texts = {i: text for text, i in model["vocab"].items()} | {i: token["content"] for i, token in added.items()}
    tokens = [texts.get(i, f"[PAD{i}]") for i in range(max(texts) + 1)]
    types = [(3 if added[i]["special"] else 4) if i in added else 1 if i in texts else 5 for i in range(len(tokens))]
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    found = {keys.MODEL: "gpt2" if pre else "llama", keys.PRE: pre or "default"}
    if pre:
        found[keys.MERGES] = [" ".join(merge) for merge in merges]
    else:
        order = {}
        for merge in merges:
            order.setdefault("".join(merge), -float(len(order)))
        # the converter forgets the scores of tokens that were defined by hand, and knows a tab as a byte only
        found[keys.SCORES] = [-1000.0 if types[i] == 4 else order.get(text, -1e9) for i, text in enumerate(tokens)]
        found[keys.UNK_ID] = model["vocab"][model["unk_token"]]
        tab = "\t" if "<0x09>" in tokens else "<0x09>"
        tokens = [tab if text == "\t" else text for text in tokens]
        types = [6 if re.fullmatch("<0x..>", text) else types[i] for i, text in enumerate(tokens)]
        tokens = [text.replace("▁", " ") if types[i] == 4 else text for i, text in enumerate(tokens)]
    named = {f"tokenizer.{name}" if "template" in name else f"tokenizer.ggml.{name}": more[name] for name in more}
    return {**found, keys.LIST: tokens, keys.TOKEN_TYPE: types, **named}


def _write(writer, key, value):
    kinds = {list: writer.add_array, bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string}
    kinds[type(value)](key, value)
