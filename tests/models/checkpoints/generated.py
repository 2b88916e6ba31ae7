"""Models of Hugging Face's, drawn at random, and the question whether ours are the same.

A seed names a family, by its turn, and draws every option of its configuration class from the values that mean
something, how ``config.json`` is spelled (as today, or as older releases did) and the dtype of the file. Some models
also get an option that no family claims: those may be refused, but only in one sentence, and before a tensor is read.

``PYTHONPATH=src:tests python -m models.checkpoints.generated`` compares the models of seeds 0 to 1,999 and prints a
table; ``--seeds 100:200`` those of others, ``--options`` adds a line for every option, and ``--only NAME`` takes one
family.
"""

import argparse
import contextlib
import copy
import dataclasses
import json
import math
import os
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import torch
import transformers
from models.checkpoints import cases
from models.checkpoints.cases import FULL, NO_TOKENS, SLIDING
from models.checkpoints.parity import inputs, our_logits, their_logits
from randomness import randomize
from safetensors.torch import load_file
from tqdm import tqdm

from llm_anatomy.models.checkpoints import families, load, save, storage
from llm_anatomy.models.generation import generate

os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")  # threads take longer than such small tensors

SEEDS = range(2000)
BOUND = 1e-4  # of the largest logit
SCALE = 0.2  # of the random parameters: with larger ones scores grow so sharp that float32 does not suffice
NEW = 5
LENGTHS = (1, 9, 17, 17, 17, 70)
UNCLAIMED = 0.15  # the share of models with an option that no family claims
LONGEST_MESSAGE = 3 * 240  # three lines


# --- What may be drawn ---


class Draw(random.Random):
    """Random values of options, for a text of ``tokens`` tokens."""

    def __init__(self, seed):
        super().__init__(seed)
        self.tokens = self.choice(LENGTHS)

    def flag(self, p=0.5):
        return self.random() < p

    def power(self, low, high):
        """Three digits of a number, all of whose magnitudes are as probable."""
        return float(f"{10 ** self.uniform(low, high):.3g}")

    def norm_eps(self, usual):
        return usual if self.flag(0.2) else self.power(-5, -1)

    def heads(self, even=False):
        """A number of heads, and the width of all of them, at least 4; that of one is even for RoPE."""
        n_heads = self.randint(1, 5)
        d_head = self.randint(4 if n_heads == 1 else 2, 12)
        return n_heads, n_heads * (d_head + d_head % 2 if even else d_head)

    def n_layers(self):
        return self.choice((1, 2, 2, 3))

    def n_vocab(self):
        return self.randint(3, 130)

    def divisor(self, n):
        return self.choice([k for k in range(1, n + 1) if n % k == 0])

    def longest_text(self):
        return self.choice((self.tokens + NEW, self.tokens + NEW + 1, 80, 2048))

    def window(self):
        return self.choice((1, 2, 5, max(1, self.tokens - 1), self.tokens, self.tokens + 1, 40))

    def layer_types(self, n_layers):
        return self.choices((SLIDING, FULL), k=n_layers)

    def sizes(self, even=False):
        """The sizes, by the names that most families use."""
        n_heads, d_model = self.heads(even)
        found = dict(vocab_size=self.n_vocab(), hidden_size=d_model, intermediate_size=self.randint(1, 60))
        return found | dict(num_hidden_layers=self.n_layers(), num_attention_heads=n_heads)

    def rope(self, latent=False):
        """Parameters of RoPE, of all types of scaling."""
        said = dict(rope_type=self.choice(("default", "default", "linear", "llama3", "yarn")))
        said["rope_theta"] = self.choice((10000.0, 1000000.0, 500, self.power(0.5, 3), self.power(3, 6)))
        if said["rope_type"] != "default":
            said["factor"] = self.choice((1.0, 2, 8.0, self.power(0, 1.6)))
        if said["rope_type"] in ("llama3", "yarn"):
            said["original_max_position_embeddings"] = self.choice((4, 16, 32, 64, 200, 4096))
            if self.flag(0.7):  # with planes on both sides of the bounds
                said["rope_theta"] = self.power(0.5, 2)
                said["original_max_position_embeddings"] = self.randint(10, 100)
        if said["rope_type"] == "llama3":
            said["low_freq_factor"] = self.power(-1, 0.5)
            said["high_freq_factor"] = said["low_freq_factor"] + self.power(-1, 1)
        if said["rope_type"] == "yarn":
            more = dict(beta_fast=self.choice((32.0, self.power(0.3, 1))), beta_slow=self.power(-1, 0.3))
            more |= {} if latent else dict(truncate=False)
            said |= {name: value for name, value in more.items() if self.flag()}
            if latent and self.flag():
                said |= dict(mscale=self.power(-0.5, 0.3), mscale_all_dim=self.power(-0.5, 0.3))
            elif self.flag():
                said["attention_factor"] = self.power(-0.3, 0.3)
        return said


GATED = ("silu", "gelu", "gelu_pytorch_tanh", "relu")
PLAIN = ("gelu", "gelu_new", "relu")


def scaling_not_claimed(d, found):
    """A type of scaling of RoPE, or an option of one, that no family claims."""
    d_head = found.get("qk_rope_head_dim", found.get("head_dim"))
    d_head = d_head or found["hidden_size"] // found["num_attention_heads"]
    kind = d.choice(("proportional", "dynamic" if "qk_rope_head_dim" in found else "longrope"))
    if d_head * found["rope_parameters"].get("partial_rotary_factor", 1) < 4:  # too narrow for the others
        kind = "proportional"
    said = dict(rope_type=kind, rope_theta=500.0, factor=2.0)
    if "partial_rotary_factor" in found["rope_parameters"]:
        said["partial_rotary_factor"] = found["rope_parameters"]["partial_rotary_factor"]
    if kind == "longrope":
        said |= dict(original_max_position_embeddings=8, long_factor=[1.5], short_factor=[1.0])
    return dict(rope_parameters=said)


def dynamic_rope(d, found, d_rotary):
    """In some models, RoPE that is scaled by as much as the text requires."""
    if d_rotary < 4 or d.flag(0.85):
        return {}
    rope = dict(
        rope_type="dynamic", rope_theta=d.choice((10000.0, d.power(0.5, 3))), factor=d.choice((1.0, 2, d.power(0, 1)))
    )
    if "partial_rotary_factor" in found["rope_parameters"]:
        rope["partial_rotary_factor"] = found["rope_parameters"]["partial_rotary_factor"]
    n_trained = d.choice((max(1, d.tokens // 2), d.tokens, d.tokens + 3, 2048))
    return dict(rope_parameters=rope, max_position_embeddings=n_trained)


def after_llama(d, eps=1e-6, head_dim=0.5):
    """What Llama and the families after it share; the share of models with ``head_dim``."""
    found = d.sizes(even=True) | dict(max_position_embeddings=d.longest_text(), tie_word_embeddings=d.flag())
    found |= dict(rope_parameters=d.rope())
    found |= dict(num_key_value_heads=d.divisor(found["num_attention_heads"]), hidden_act=d.choice(GATED))
    if eps:
        found["rms_norm_eps"] = d.norm_eps(eps)
    if d.flag(head_dim):
        found["head_dim"] = 2 * d.randint(1, 12)
        found["hidden_size"] = found["num_attention_heads"] * d.randint(4, 12)
    if "head_dim" in found or not head_dim:  # theirs does not see that a missing one follows from other sizes
        d_head = found.get("head_dim") or found["hidden_size"] // found["num_attention_heads"]
        found |= dynamic_rope(d, found, d_head)
    return found


def windows_after_some_layers(d, found):
    """Qwen's three ways to say which layers have windows."""
    n_layers = found["num_hidden_layers"]
    more = dict(use_sliding_window=d.flag(0.7), sliding_window=d.window(), max_window_layers=d.randint(0, n_layers + 1))
    if more["use_sliding_window"] and d.flag():
        more["layer_types"] = d.layer_types(n_layers)
    return found | more


def bert(d):
    found = d.sizes() | dict(max_position_embeddings=d.longest_text(), type_vocab_size=d.randint(1, 3))
    return found | dict(hidden_act=d.choice(PLAIN), layer_norm_eps=d.norm_eps(1e-12))


def bloom(d):
    n_heads, d_model = d.heads()
    if d.flag():  # slopes of all kinds
        n_heads = d.randint(6, 13)
        d_model = n_heads * d.randint(1, 4)
    found = dict(vocab_size=d.n_vocab(), hidden_size=d_model, n_head=n_heads, n_layer=d.n_layers())
    found |= dict(layer_norm_epsilon=d.norm_eps(1e-5), tie_word_embeddings=d.flag())
    return found | (dict(slow_but_exact=True, pretraining_tp=1) if d.flag(0.2) else {})


def deberta(d):
    found = d.sizes() | dict(hidden_act=d.choice(PLAIN), layer_norm_eps=d.norm_eps(1e-7), legacy=d.flag())
    found |= dict(max_position_embeddings=d.longest_text(), type_vocab_size=d.randint(0, 3))
    found |= dict(relative_attention=True, position_biased_input=False, max_relative_positions=d.choice((-1, 3, 9, 40)))
    return found | dict(pos_att_type=d.choice(("c2p|p2c", "p2c|c2p", ["c2p", "p2c"])))


def deberta_v2(d):
    more = dict(position_buckets=2 * d.randint(2, 9), share_att_key=True, norm_rel_ebd="layer_norm")
    found = deberta(d) | more
    least = more["position_buckets"] // 2 + 2  # below it, the bins would shrink
    found["max_position_embeddings"] = max(least, found["max_position_embeddings"])
    return found | dict(max_relative_positions=d.choice((-1, least, least + d.randint(1, 25))))


def latent(d):
    """What DeepSeek-V2 and V3 share."""
    found = d.sizes(even=True) | dict(max_position_embeddings=d.longest_text(), tie_word_embeddings=d.flag())
    found |= dict(num_key_value_heads=found["num_attention_heads"], hidden_act=d.choice(GATED))
    found |= dict(kv_lora_rank=d.randint(2, 20), q_lora_rank=d.choice((None, d.randint(2, 20))))
    found |= dict(qk_rope_head_dim=2 * d.randint(1, 5), qk_nope_head_dim=d.randint(1, 10), v_head_dim=d.randint(1, 10))
    found |= dict(moe_intermediate_size=d.randint(1, 20), n_shared_experts=d.randint(1, 3))
    found |= dict(first_k_dense_replace=d.randint(0, found["num_hidden_layers"]))
    found |= dict(routed_scaling_factor=d.power(-0.5, 0.5), rope_parameters=d.rope(latent=True))
    return found | dict(attention_bias=found["q_lora_rank"] is not None and d.flag())


def experts_in_groups(d, least):
    """Sizes of experts that lie in groups of at least ``least``."""
    n_group, size = d.randint(1, 4), d.randint(least, 4)
    reached = d.randint(1, n_group)
    found = dict(n_routed_experts=n_group * size, num_experts_per_tok=d.randint(1, reached * size))
    return found | dict(n_group=n_group, topk_group=reached)


def deepseek_v2(d):
    found = latent(d)
    found |= dict(qk_nope_head_dim=2 * d.randint(1, 5), kv_lora_rank=2 * d.randint(1, 10))  # for complex numbers
    found |= dict(head_dim=found["qk_rope_head_dim"])
    found |= dict(topk_method=d.choice(("greedy", "group_limited_greedy")), mlp_bias=d.flag())
    if found["topk_method"] == "group_limited_greedy":
        return found | experts_in_groups(d, 1)
    n_experts = d.randint(1, 8)
    return found | dict(n_routed_experts=n_experts, num_experts_per_tok=d.randint(1, n_experts))


def deepseek_v3(d):
    return latent(d) | experts_in_groups(d, 2) | dict(rope_interleave=d.flag())


def gemma(d):
    # Of "gelu" the reference of today makes the exact one; the authors mean the approximation, as we read it.
    more = dict(attention_bias=d.flag(), hidden_act="gelu_pytorch_tanh")
    return after_llama(d, head_dim=1) | more


def gemma2(d):
    found = after_llama(d, head_dim=1)
    found |= dict(attention_bias=d.flag(), hidden_activation=found.pop("hidden_act"), sliding_window=d.window())
    found |= dict(attn_logit_softcapping=d.choice((None, d.power(-0.5, 1.5))))
    found |= dict(final_logit_softcapping=d.choice((None, d.power(-0.5, 1.5))))
    found |= dict(query_pre_attn_scalar=d.choice((found["head_dim"], d.randint(1, 40))))
    if d.flag():
        found["layer_types"] = d.layer_types(found["num_hidden_layers"])
    return found


def gpt2(d):
    n_heads, d_model = d.heads()
    found = dict(vocab_size=d.n_vocab(), n_embd=d_model, n_head=n_heads, n_layer=d.n_layers())
    found |= dict(n_positions=d.longest_text(), n_inner=d.choice((None, d.randint(1, 60))))
    found |= dict(activation_function=d.choice((*PLAIN, "gelu_pytorch_tanh")))
    return found | dict(layer_norm_epsilon=d.norm_eps(1e-5), tie_word_embeddings=d.flag())


def gptj(d):
    found = gpt2(d)
    d_head = 2 * d.randint(1, 6)
    more = dict(n_embd=max(2, found["n_head"]) * d_head, n_head=max(2, found["n_head"]))
    return found | more | dict(activation_function=d.choice(PLAIN), rotary_dim=2 * d.randint(1, d_head // 2))


def gptneox(d):
    found = d.sizes() | dict(max_position_embeddings=d.longest_text(), tie_word_embeddings=d.flag())
    found |= dict(hidden_act=d.choice(("gelu", "gelu_new", "gelu_fast")), layer_norm_eps=d.norm_eps(1e-5))
    return with_a_part_turned(d, found | dict(attention_bias=d.flag(), use_parallel_residual=d.flag()))


def with_a_part_turned(d, found):
    """RoPE on an even number of the entries of a head, by a fraction that may stand for no whole number."""
    d_head = found["hidden_size"] // found["num_attention_heads"]
    rotated = 2 * d.randint(1, d_head // 2)
    fraction = min(1.0, math.nextafter((rotated + d.choice((0.0, 0.5))) / d_head, 2))
    usual = [share for share in (0.25, 0.5, 1.0) if d_head * share in range(2, d_head + 1, 2)]
    found |= dict(rope_parameters=d.rope() | dict(partial_rotary_factor=d.choice((fraction, *usual))))
    return found | dynamic_rope(d, found, int(d_head * found["rope_parameters"]["partial_rotary_factor"]))


def odd_rotary_width(d, found):
    rope = dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=d.choice((3, 5, 7)) / 8.9)
    return dict(hidden_size=9 * found["num_attention_heads"], rope_parameters=rope)


def llama(d):
    return after_llama(d) | dict(attention_bias=d.flag(), mlp_bias=d.flag())


def mamba(d):
    found = dict(vocab_size=d.n_vocab(), hidden_size=d.randint(4, 32), num_hidden_layers=d.n_layers())
    found |= dict(state_size=d.randint(1, 16), conv_kernel=d.randint(2, 4), expand=d.randint(1, 3))
    found |= dict(time_step_rank=d.choice(("auto", d.randint(1, 6))), tie_word_embeddings=d.flag())
    return found | dict(layer_norm_epsilon=d.norm_eps(1e-5))


def mistral(d):
    return after_llama(d) | dict(sliding_window=d.choice((None, d.window(), d.window())))


def mixtral(d):
    n_experts = d.randint(1, 6)
    more = dict(num_local_experts=n_experts, num_experts_per_tok=d.randint(1, n_experts))
    found = after_llama(d, eps=1e-5) | dict(sliding_window=d.choice((None, d.window()))) | more
    return with_width_of_a_head(found)


def clip(d):
    return d.choice((None, d.power(-1, 0.5)))


def olmo(d):
    return after_llama(d, eps=None, head_dim=0) | dict(attention_bias=d.flag(), clip_qkv=clip(d))


def olmo2(d):
    return after_llama(d, eps=1e-5, head_dim=0) | dict(attention_bias=d.flag())


def opt(d):
    found = d.sizes() | dict(max_position_embeddings=d.longest_text())
    found |= dict(ffn_dim=found.pop("intermediate_size"))
    found |= dict(activation_function=d.choice(PLAIN), tie_word_embeddings=d.flag(), do_layer_norm_before=d.flag(0.7))
    return found | dict(enable_bias=d.flag(), layer_norm_elementwise_affine=d.flag())


def qwen2(d):
    return windows_after_some_layers(d, after_llama(d))


def qwen3(d):
    return windows_after_some_layers(d, after_llama(d, head_dim=1)) | dict(attention_bias=d.flag())


def granite(d):
    found = after_llama(d) | dict(attention_bias=d.flag(), mlp_bias=d.flag())
    found |= dict(
        embedding_multiplier=d.choice((1.0, 12, d.power(-0.5, 1))), logits_scaling=d.choice((8, d.power(0, 1)))
    )
    found |= dict(attention_multiplier=d.power(-1.5, 0), residual_multiplier=d.choice((1.0, 0.22, d.power(-1, 0.3))))
    return with_width_of_a_head(found)


def with_width_of_a_head(found):
    """Their scalings of RoPE do not see that a missing head_dim follows from other sizes."""
    return dict(head_dim=found["hidden_size"] // found["num_attention_heads"]) | found


def smollm3(d):
    found = after_llama(d) | dict(attention_bias=d.flag(), mlp_bias=d.flag())
    n_layers = found["num_hidden_layers"]
    found |= dict(use_sliding_window=d.flag(), sliding_window=d.window(), no_rope_layer_interval=d.randint(2, 5))
    if d.flag():
        flags = [d.randint(0, 1) for _ in range(n_layers + d.randint(0, 2))]
        flags[d.randint(0, n_layers - 1)] = 1
        found["no_rope_layers"] = flags
    if found["use_sliding_window"] and d.flag():
        found["layer_types"] = d.layer_types(n_layers)
    return with_width_of_a_head(found)


def starcoder2(d):
    found = after_llama(d, eps=None) | dict(hidden_act=d.choice((*PLAIN, "gelu_pytorch_tanh")), use_bias=d.flag())
    return with_width_of_a_head(found) | dict(
        norm_epsilon=d.norm_eps(1e-5), sliding_window=d.choice((None, d.window()))
    )


def qwen3_moe(d):
    found = after_llama(d) | dict(
        attention_bias=d.flag(), norm_topk_prob=d.flag(), moe_intermediate_size=d.randint(1, 20)
    )
    n_experts, n_layers = d.randint(1, 6), found["num_hidden_layers"]
    found |= dict(num_experts=n_experts, num_experts_per_tok=d.randint(1, n_experts))
    step = d.randint(1, n_layers)
    with_experts = d.randint(1, n_layers // step) * step - 1  # without one, their class finds no logits of a router
    others = [layer for layer in range(n_layers + 1) if layer != with_experts]
    found |= dict(decoder_sparse_step=step, mlp_only_layers=d.sample(others, d.randint(0, len(others))))
    return with_width_of_a_head(found) | dict(use_sliding_window=d.flag(), sliding_window=d.window())


def cohere(d):
    found = after_llama(d, eps=None, head_dim=0) | dict(layer_norm_eps=d.norm_eps(1e-5), use_qk_norm=d.flag())
    return found | dict(attention_bias=d.flag(), logit_scale=d.choice((1.0, 0.0625, d.power(-1, 0.5))))


def stablelm(d):
    found = d.sizes() | dict(max_position_embeddings=d.longest_text(), tie_word_embeddings=d.flag())
    found |= dict(num_key_value_heads=d.divisor(found["num_attention_heads"]), hidden_act=d.choice(GATED))
    found |= dict(layer_norm_eps=d.norm_eps(1e-5), use_qkv_bias=d.flag(), qk_layernorm=d.flag())
    return with_a_part_turned(d, found | dict(use_parallel_residual=d.flag()))


def falcon(d):
    """Of both generations, each in its own terms."""
    alibi = d.flag(0.4)
    n_heads, d_model = d.heads(even=True)
    if alibi and d.flag():  # slopes of all kinds
        n_heads = d.randint(6, 13)
        d_model = n_heads * d.choice((2, 4))
    found = dict(vocab_size=d.n_vocab(), hidden_size=d_model, num_hidden_layers=d.n_layers(), alibi=alibi)
    found |= dict(num_attention_heads=n_heads, max_position_embeddings=d.longest_text(), bias=d.flag())
    found |= dict(ffn_hidden_size=d.choice((None, d.randint(1, 60))), activation=d.choice(PLAIN))
    found |= dict(layer_norm_epsilon=d.norm_eps(1e-5), tie_word_embeddings=d.flag())
    if not alibi:
        found["rope_parameters"] = d.rope()
    if d.flag():
        return found | dict(multi_query=n_heads == 1 or d.flag(), parallel_attn=d.flag())
    n_kv_heads = d.divisor(n_heads)
    n_norms = 2 if n_kv_heads in (1, n_heads) else d.choice((None, 1, 2))
    return found | dict(new_decoder_architecture=True, num_kv_heads=n_kv_heads, num_ln_in_parallel_attn=n_norms)


def mpt(d):
    n_heads, d_model = d.heads()
    if d.flag():
        n_heads = d.randint(6, 13)
        d_model = n_heads * d.randint(1, 4)
    attention = dict(clip_qkv=clip(d), softmax_scale=d.choice((None, d.power(-1, 0))), alibi_bias_max=d.randint(1, 16))
    found = dict(vocab_size=d.n_vocab(), d_model=d_model, n_heads=n_heads, n_layers=d.n_layers())
    found |= dict(max_seq_len=d.longest_text(), layer_norm_epsilon=d.norm_eps(1e-5), tie_word_embeddings=d.flag())
    return found | (dict(attn_config=attention) if d.flag(0.8) else {})


def two_ropes(d, found, local_base):
    """What layers without a window have, and the base of those with one."""
    local = d.choice((local_base, found["rope_parameters"]["rope_theta"], d.power(0.5, 4)))
    full = {name: value for name, value in found["rope_parameters"].items() if name != "truncate"}
    found |= dict(sliding_window=d.window())
    if d.flag():
        found["layer_types"] = d.layer_types(found["num_hidden_layers"])
    return found | dict(rope_parameters={FULL: full, SLIDING: dict(rope_type="default", rope_theta=local)})


def gemma3(d):
    found = two_ropes(d, after_llama(d, head_dim=1), 10000.0) | dict(attention_bias=d.flag())
    found |= dict(hidden_activation=found.pop("hidden_act"))
    found |= dict(final_logit_softcapping=d.choice((None, d.power(-0.5, 1.5))))
    return found | dict(query_pre_attn_scalar=d.choice((found["head_dim"], d.randint(1, 40))))


def olmo3(d):
    return two_ropes(d, after_llama(d, eps=1e-5, head_dim=0), 500000.0) | dict(attention_bias=d.flag())


def phi3(d):
    found = after_llama(d, eps=1e-5, head_dim=0) | dict(sliding_window=d.choice((None, d.window())))
    d_head = found["hidden_size"] // found["num_attention_heads"]
    rotated = 2 * d.randint(1, d_head // 2)
    fraction = min(1.0, math.nextafter((rotated + d.choice((0.0, 0.5))) / d_head, 2))
    rope = dict(rope_type=d.choice(("default", "longrope")), rope_theta=d.choice((10000.0, d.power(0.5, 4))))
    found["max_position_embeddings"] = d.longest_text()
    if rope["rope_type"] == "longrope":
        rope |= {name: [d.power(0, 1) for _ in range(rotated // 2)] for name in ("short_factor", "long_factor")}
        rope |= dict(attention_factor=d.power(-0.3, 0.3)) if d.flag() else {}
        n_trained = max(2, d.choice((d.tokens // 2, d.tokens + 2, d.tokens + NEW)))
        found["max_position_embeddings"] = max(n_trained, found["max_position_embeddings"])
        found["original_max_position_embeddings"] = n_trained
    return found | dict(rope_parameters=rope | dict(partial_rotary_factor=fraction))


def gpt_oss(d):
    found = after_llama(d, eps=1e-5, head_dim=1) | dict(attention_bias=d.flag(), sliding_window=d.window())
    del found["hidden_act"]
    n_experts = d.randint(1, 6)
    found |= dict(num_local_experts=n_experts, num_experts_per_tok=d.randint(1, n_experts))
    found |= dict(swiglu_alpha=d.choice((1.702, d.power(-1, 1))), swiglu_limit=d.choice((7.0, d.power(-1, 1))))
    if d.flag():
        found["layer_types"] = d.layer_types(found["num_hidden_layers"])
    return found


def roformer(d):
    found = d.sizes(even=True) | dict(max_position_embeddings=d.longest_text(), type_vocab_size=d.randint(1, 3))
    found |= dict(embedding_size=d.choice((None, found["hidden_size"])), is_decoder=d.flag())
    return found | dict(hidden_act=d.choice(PLAIN), layer_norm_eps=d.norm_eps(1e-12))


def t5(d):
    n_layers, buckets = d.choice((1, 2, 3)), 2 * d.randint(2, 16)
    found = dict(vocab_size=d.n_vocab(), d_model=d.randint(4, 40), d_kv=d.randint(1, 12), d_ff=d.randint(1, 60))
    found |= dict(num_layers=n_layers, num_decoder_layers=d.choice((None, 1, 2, 3)), num_heads=d.randint(1, 5))
    found |= dict(relative_attention_num_buckets=buckets, layer_norm_epsilon=d.norm_eps(1e-6))
    found |= dict(relative_attention_max_distance=d.choice((buckets // 2 + 1, buckets, buckets + 7, 128)))
    kinds = ("relu", "gelu", "silu", "gated-gelu", "gated-silu", "gated-relu")
    return found | dict(feed_forward_proj=d.choice(kinds), tie_word_embeddings=d.flag())


@dataclass(frozen=True)
class Kind:
    """How the models of a family are drawn, and options of its class that it does not claim."""

    config: str
    model: str
    draw: Callable[[Draw], dict]
    unclaimed: tuple[dict | Callable[[Draw, dict], dict], ...]

    @property
    def of_config(self):
        return getattr(transformers, self.config + "Config")


def options(**values):
    """Each of these values of each of these fields, one at a time."""
    return tuple({name: value} for name, some in values.items() for value in some)


GATES = (*options(hidden_act=("mish", "gelu_new", "quick_gelu", "tanh")), scaling_not_claimed)
AS_DECODER = (dict(is_decoder=True, add_cross_attention=True),)
IN_PIECES = (dict(slow_but_exact=True, pretraining_tp=2),)
OF_T5 = options(feed_forward_proj=("gated-mish", "tanh"), relative_attention_num_buckets=(7, 13))
OF_BERT = options(hidden_act=("mish", "silu"), tie_word_embeddings=(False,)) + AS_DECODER
OF_DEBERTA = options(tie_word_embeddings=(False,), position_biased_input=(True,), hidden_act=("mish",))
OF_DEBERTA_1 = OF_DEBERTA + options(pos_att_type=("c2p", "p2c"))
OF_DEBERTA_2 = OF_DEBERTA + options(
    share_att_key=(False,), norm_rel_ebd=("none",), position_buckets=(-1, 5), conv_kernel_size=(3,)
)
OF_DEEPSEEK = (*options(hidden_act=("mish",), rms_norm_eps=(1e-3,)), scaling_not_claimed)
OF_GEMMA = (*options(use_bidirectional_attention=(True,), hidden_act=("silu", "relu")), scaling_not_claimed)
OF_GEMMA_2 = (*options(use_bidirectional_attention=(True,), hidden_activation=("mish",)), scaling_not_claimed)
OF_GPT_2 = options(
    scale_attn_weights=(False,),
    add_cross_attention=(True,),
    scale_attn_by_inverse_layer_idx=(True,),
    activation_function=("silu", "tanh", "quick_gelu"),
)
OF_NEOX = (*options(hidden_act=("relu", "mish")), scaling_not_claimed, odd_rotary_width)
OF_FALCON = options(activation=("silu", "mish"), apply_residual_connection_post_layernorm=(True,))
OF_MPT = options(no_bias=(False,), logit_scale=(0.5,), norm_type=("rmsnorm",), expansion_ratio=(2,))
OF_MPT += options(attn_config=(dict(alibi=False), dict(qk_ln=True), dict(prefix_lm=True)))
OF_GEMMA_3 = options(use_bidirectional_attention=(True,), hidden_activation=("mish",), attn_logit_softcapping=(0.7,))
OF_MAMBA = options(use_bias=(True,), use_conv_bias=(False,), hidden_act=("relu",))
OF_OPT = options(word_embed_proj_dim=(6,), _remove_final_layer_norm=(True,), activation_function=("silu",))
OF_STARCODER = (*options(hidden_act=("silu", "mish")), scaling_not_claimed)
OF_ROFORMER = OF_BERT + options(rotary_value=(True,), embedding_size=(6,))

DECODER = "ForCausalLM"
ENCODER = "ForMaskedLM"
KINDS = {
    "bert": Kind("Bert", ENCODER, bert, OF_BERT + options(is_decoder=(True,))),
    "bloom": Kind("Bloom", DECODER, bloom, IN_PIECES + options(apply_residual_connection_post_layernorm=(True,))),
    "deberta": Kind("Deberta", ENCODER, deberta, OF_DEBERTA_1),
    "deberta_v2": Kind("DebertaV2", ENCODER, deberta_v2, OF_DEBERTA_2),
    "deepseek_v2": Kind("DeepseekV2", DECODER, deepseek_v2, OF_DEEPSEEK + options(norm_topk_prob=(True,))),
    "deepseek_v3": Kind("DeepseekV3", DECODER, deepseek_v3, OF_DEEPSEEK + options(norm_topk_prob=(False,))),
    "gemma": Kind("Gemma", DECODER, gemma, OF_GEMMA),
    "gemma2": Kind("Gemma2", DECODER, gemma2, OF_GEMMA_2),
    "gpt2": Kind("GPT2", "LMHeadModel", gpt2, OF_GPT_2),
    "gptj": Kind("GPTJ", DECODER, gptj, options(activation_function=("mish", "silu"))),
    "gptneox": Kind("GPTNeoX", DECODER, gptneox, OF_NEOX),
    "granite": Kind("Granite", DECODER, granite, GATES),
    "llama": Kind("Llama", DECODER, llama, GATES),
    "mamba": Kind("Mamba", DECODER, mamba, OF_MAMBA),
    "mistral": Kind("Mistral", DECODER, mistral, GATES),
    "mixtral": Kind("Mixtral", DECODER, mixtral, GATES),
    "mt5": Kind("MT5", "ForConditionalGeneration", t5, OF_T5),
    "olmo": Kind("Olmo", DECODER, olmo, GATES),
    "olmo2": Kind("Olmo2", DECODER, olmo2, GATES),
    "opt": Kind("OPT", DECODER, opt, OF_OPT),
    "qwen2": Kind("Qwen2", DECODER, qwen2, GATES),
    "qwen3": Kind("Qwen3", DECODER, qwen3, GATES),
    "qwen3_moe": Kind("Qwen3Moe", DECODER, qwen3_moe, GATES),
    "roformer": Kind("RoFormer", ENCODER, roformer, OF_ROFORMER),
    "smollm3": Kind("SmolLM3", DECODER, smollm3, GATES),
    "starcoder2": Kind("Starcoder2", DECODER, starcoder2, OF_STARCODER),
    "t5": Kind("T5", "ForConditionalGeneration", t5, OF_T5),
    "t5_encoder": Kind("T5", "EncoderModel", t5, OF_T5 + options(is_decoder=(True,))),
    "mt5_encoder": Kind("MT5", "EncoderModel", t5, OF_T5 + options(is_decoder=(True,))),
    "gemma3": Kind("Gemma3Text", DECODER, gemma3, OF_GEMMA_3),
    "olmo3": Kind("Olmo3", DECODER, olmo3, options(hidden_act=("mish",))),
    "phi3": Kind("Phi3", DECODER, phi3, options(hidden_act=("mish", "gelu_new"))),
    "gpt_oss": Kind("GptOss", DECODER, gpt_oss, (scaling_not_claimed,)),
    "cohere": Kind("Cohere", DECODER, cohere, GATES),
    "falcon": Kind("Falcon", DECODER, falcon, OF_FALCON),
    "mpt": Kind("Mpt", DECODER, mpt, OF_MPT),
    "stablelm": Kind("StableLm", DECODER, stablelm, (*GATES, odd_rotary_width)),
}


# --- A model, and its folder ---


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What a seed says: the fields of a configuration, the dtype of the file, and how ``config.json`` is spelled."""

    seed: int
    family: str
    fields: dict
    unclaimed: dict
    dtype: torch.dtype
    spelling: tuple[str, ...]
    has_head: bool
    harmless: dict
    shard: int
    batch: int
    tokens: int

    @property
    def name(self):
        dtype = str(self.dtype).removeprefix("torch.")
        head = () if self.has_head else ("no head",)
        return ", ".join((f"seed {self.seed}", self.family, dtype, *head, *self.spelling, str(self.all_fields)))

    @property
    def all_fields(self):
        return self.harmless | self.fields | self.unclaimed

    @staticmethod
    def options(fields):
        """Every option by name, with its value if it is one of a few."""
        for name, value in fields.items():
            if name == "rope_parameters":
                value = value.get(FULL, value)
                yield f"rope_type={value['rope_type']}"
                yield from (f"{value['rope_type']} {key}" for key in value if key not in ("rope_type", "rope_theta"))
            elif isinstance(value, bool | str | None):
                yield f"{name}={json.dumps(value)}"
            else:
                yield name

    def model(self):
        """The model, with random values, in its dtype."""
        kind, fields = KINDS[self.family], copy.deepcopy(self.all_fields)
        suffix = DECODER if self.family == "roformer" and fields["is_decoder"] else kind.model
        hf = kind.config.removesuffix("Text") + suffix if self.has_head else kind.config + "Model"
        hf = getattr(transformers, hf)
        hf = hf(kind.of_config(**NO_TOKENS | fields))
        if self.family == "roformer":
            cases.with_table_as_buffer(hf)
        elif self.family == "deepseek_v3":
            cases.with_selection_bias(hf)
        elif self.family in ("t5", "mt5") and self.has_head and self.seed % 2:
            cases.with_own_head(hf)
        return with_experts_one_by_one(randomize(hf, self.seed, SCALE).to(self.dtype).eval())

    def write(self, folder):
        """Save the model, and return it as the library reads it again."""
        hf = self.model()
        hf.save_pretrained(folder, max_shard_size=self.shard)
        if self.dtype == torch.float32 and not self.spelling:
            return hf
        path = folder / "config.json"
        said = json.loads(path.read_text())
        for step in self.spelling:
            SPELLINGS[step](said, hf.config)
        path.write_text(json.dumps(said))
        return read(type(hf), folder)


def read(kind, folder):
    return with_experts_one_by_one(kind.from_pretrained(folder, dtype=torch.float32).eval())


def with_experts_one_by_one(hf):
    """Their product of groups of experts takes no odd widths."""
    hf.set_experts_implementation("eager")
    return hf


def older_rope(said, config):
    """``rope_theta`` and ``rope_scaling``, as before ``rope_parameters``."""
    rope = said.pop("rope_parameters", None)
    if rope and FULL in rope:
        local = rope[SLIDING]["rope_theta"]
        if said["model_type"] != "gemma3_text" and local != config.default_theta:  # which the older file cannot say
            said["rope_parameters"] = rope
            return
        said |= {"rope_local_base_freq": local} if said["model_type"] == "gemma3_text" else {}
        rope = rope[FULL]
    if rope:
        base, fraction = "rope_theta", "partial_rotary_factor"
        if said["model_type"] == "gpt_neox":
            base, fraction = "rotary_emb_base", "rotary_pct"
        said[base] = rope.pop("rope_theta")
        if "partial_rotary_factor" in rope:
            said[fraction] = rope.pop("partial_rotary_factor")
        kind = rope.pop("rope_type")
        name = "rope_type" if said["model_type"] in ("gemma3_text", "olmo3") else "type"  # the older one they read not
        said["rope_scaling"] = None if kind == "default" else rope | {name: kind}


def other_names(said, config):
    """The names that the class knows its fields by as well."""
    for other, name in type(config).attribute_map.items():
        if name in said:
            said[other] = said.pop(name)


def older_dtype(said, config):
    said["torch_dtype"] = said.pop("dtype")


def defaults_left_out(said, config):
    usual = {field.name: field.default for field in dataclasses.fields(config)}
    for name in [name for name, value in said.items() if name in usual and usual[name] == value]:
        if name not in ("n_layer", "n_head", "hidden_size", "num_experts_per_tok"):  # sizes are always said
            del said[name]
    rope = said.get("rope_parameters") or said
    if rope.get("rope_theta") == getattr(type(config), "default_theta", None):
        del rope["rope_theta"]


def no_architectures(said, config):
    del said["architectures"]


MAY_BE_NULL = ("num_key_value_heads", "head_dim", "num_decoder_layers", "embedding_size", "word_embed_proj_dim")
MAY_BE_NULL += ("n_inner", "layer_types", "rope_parameters", "rope_scaling", "qk_head_dim")
MAY_BE_NULL += ("num_kv_heads", "ffn_hidden_size", "num_ln_in_parallel_attn", "attn_config")


def nulls(said, config):
    """Null, where the class says that it stands for the value."""
    for name in [name for name in MAY_BE_NULL if name in said]:
        with contextlib.suppress(Exception):  # it may not be null
            if getattr(type(config)(**copy.deepcopy(said) | {name: None}), name, None) == getattr(config, name, None):
                said[name] = None


SPELLINGS = {
    "older rope": older_rope,
    "other names": other_names,
    "torch_dtype": older_dtype,
    "defaults left out": defaults_left_out,
    "no architectures": no_architectures,
    "nulls": nulls,
}


def without_effect(d, family):
    """Other values of the switches and shares that, as we say, do not affect the model."""
    usual = {field.name: field.default for field in dataclasses.fields(KINDS[family].of_config)}
    usual = {name: usual[name] for name in sorted(families()[family].harmless_names & usual.keys() - NOT_DRAWN)}
    found = {name: not value for name, value in usual.items() if isinstance(value, bool)}
    found |= {name: d.uniform(0.01, 0.5) for name, value in usual.items() if isinstance(value, float)}
    return found | {name: value for name, value in NUMBERS.items() if name in usual}


NUMBERS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=1, pretraining_tp=2, chunk_size_feed_forward=1)
NOT_DRAWN = {"return_dict", "output_hidden_states", "output_attentions", "is_encoder_decoder"}
NOT_DRAWN |= {"rescale_prenorm_residual"}  # from_pretrained of today divides the weights that it has read by a number


def family_of(seed):
    """Each in its turn."""
    return list(KINDS)[seed % len(KINDS)]


def draw(seed):
    """The model that a seed names."""
    d, family = Draw(seed), family_of(seed)
    kind = KINDS[family]
    has_head, is_part = d.flag(0.85), "_encoder" in family  # as it is, an encoder of T5 has none
    needed = {"no architectures"} if is_part or not has_head else set()
    spelling = tuple(step for step in SPELLINGS if d.flag(0.25) and step not in needed)
    dtype = d.choice((torch.float32, torch.float32, torch.bfloat16, torch.float16))
    fields = kind.draw(d)
    unclaimed = d.choice(kind.unclaimed) if d.flag(UNCLAIMED) else {}
    unclaimed = unclaimed(d, fields) if callable(unclaimed) else unclaimed
    return Drawn(
        seed=seed,
        family=family,
        fields=fields,
        unclaimed=unclaimed,
        harmless={name: value for name, value in without_effect(d, family).items() if d.flag(0.2)},
        dtype=dtype,
        spelling=spelling,
        has_head=has_head or is_part,
        shard=d.choice((4000, 10**9)),
        batch=d.randint(1, 3),
        tokens=d.tokens,
    )


# --- The comparison ---


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a model: refused, at fault, or equal but for a difference relative to the largest logit."""

    drawn: Drawn
    refused: str | None = None
    fault: str | None = None
    difference: float = 0.0

    @property
    def word(self):
        return "at fault" if self.fault else "refused" if self.refused else "equal"


def outcome(drawn):
    """Compare a model with ours; an exception of any kind is a fault."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            hf = drawn.write(Path(folder) / "theirs")
            refused, checkpoint = attempt(Path(folder) / "theirs")
            if refused:
                assert drawn.unclaimed, f"refused, though the family claims all of it: {refused}"
                return Outcome(drawn=drawn, refused=refused)
            return Outcome(drawn=drawn, difference=compare(drawn, hf, checkpoint, Path(folder)))
        except Exception as error:
            return Outcome(drawn=drawn, fault=f"{type(error).__name__}: {error}")


def attempt(folder):
    """Our checkpoint in float32, or the sentence that refuses it before a tensor is read."""
    with patch.object(storage, "read", wraps=storage.read) as tensors:
        try:
            return None, load(folder, dtype=torch.float32)
        except ValueError as error:
            says = str(error)
    assert not tensors.called, f"refused after tensors have been read: {says}"
    assert "\n" not in says and len(says) <= LONGEST_MESSAGE, f"refused at length: {says}"
    return says, None


@torch.no_grad()
def compare(drawn, hf, checkpoint, folder):
    """The largest difference of logits and greedy tokens; what we save must be the same file, and the same to them."""
    ours = checkpoint.model
    asked = list(inputs(ours.config, drawn.batch, drawn.tokens))
    expected = [their_logits(hf, *one) for one in asked]
    largest = max(map(apart, (our_logits(ours, *one) for one in asked), expected, (mask for _, mask in asked)))
    assert largest <= BOUND, f"logits differ by {largest:.1e} of the largest"
    if ours.config.kind != "encoder" and drawn.has_head:
        short = regret(ours, hf, *asked[-1])
        assert short <= BOUND, f"a greedy token is not theirs, by {short:.1e} of the largest logit"
    checkpoint = checkpoint if drawn.dtype == torch.float32 else load(folder / "theirs")
    save(checkpoint, folder / "ours", shard=drawn.shard)
    again = read(type(hf), folder / "ours")
    check_file(drawn, folder)
    stated, found = said(hf.config), said(again.config)
    differ = {name: (value, found.get(name)) for name, value in stated.items() if found.get(name) != value}
    assert not differ, f"fields that come back otherwise: {differ}"
    back = max(map(apart, (their_logits(again, *one) for one in asked), expected, (mask for _, mask in asked)))
    assert back <= 1e-6, f"what we save has other logits, by {back:.1e} of the largest"
    return largest


def apart(found, expected, attention_mask):
    """The largest difference, relative to the largest logit; of the tokens that are none of padding."""
    assert found.shape == expected.shape and expected[attention_mask].isfinite().all()
    assert found[attention_mask].isfinite().all(), "logits are not finite"
    return ((found - expected)[attention_mask].abs().max() / expected[attention_mask].abs().max()).item()


def check_file(drawn, folder):
    before, after = (tensors(folder / name) for name in ("theirs", "ours"))
    before = {name: tensor for name, tensor in before.items() if not name.startswith("pooler.")}  # no part of ours
    if not drawn.fields.get("legacy"):  # of DeBERTa: other names, which we read and do not write
        assert before.keys() == after.keys(), f"tensors {before.keys() ^ after.keys()} are in one file only"
    for name in before.keys() & after.keys():
        one, other = before[name], after[name]
        assert one.dtype == other.dtype and torch.equal(one, other), f"{name} comes back as another"


def tensors(folder):
    return {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


def said_of_rope(rope):
    needless = {"type"}  # the older name of rope_type
    if rope.get("factor") == 1:
        needless |= {"mscale", "mscale_all_dim"}  # factors of log(1)
    return {name: value for name, value in rope.items() if name not in needless}


SYNONYMS = {"gelu_fast": "gelu_new", "gelu_pytorch_tanh": "gelu_new"}
UNSAID = {"transformers_version", "architectures", "dtype", "_name_or_path", "legacy", "slow_but_exact"}
WINDOWS = {"sliding_window", "use_sliding_window", "max_window_layers"}


def said(config):
    """What a configuration of theirs says of the model, with one spelling for what means the same."""
    fields = {name: value for name, value in config.to_dict().items() if name not in UNSAID and value is not None}
    if "layer_types" in fields:
        needless = {"max_window_layers"} if SLIDING in fields["layer_types"] else WINDOWS
        fields = {name: value for name, value in fields.items() if name not in needless}
    if "no_rope_layers" in fields:  # the interval is read where there is no list
        fields["no_rope_layers"] = fields["no_rope_layers"][: fields["num_hidden_layers"]]
        del fields["no_rope_layer_interval"]
    if "mlp_only_layers" in fields:
        step, listed = fields.pop("decoder_sparse_step"), fields.pop("mlp_only_layers")
        fields["dense"] = [i for i in range(fields["num_hidden_layers"]) if i in listed or (i + 1) % step]
    if fields.get("rope_parameters"):
        rope = fields["rope_parameters"]
        by_type = rope if FULL in rope else {FULL: rope}
        if len(by_type) == 2 and SLIDING not in fields["layer_types"]:
            by_type = {FULL: rope[FULL]}
        fields["rope_parameters"] = {kind: said_of_rope(rope) for kind, rope in by_type.items()}
    if "attn_config" in fields:
        fields["attn_config"] = {key: value for key, value in fields["attn_config"].items() if key not in UNSAID}
    if "pos_att_type" in fields:
        fields["pos_att_type"] = sorted(fields["pos_att_type"])
        if fields["max_relative_positions"] == -1:
            fields["max_relative_positions"] = fields["max_position_embeddings"]
    return {name: SYNONYMS.get(value, value) if isinstance(value, str) else value for name, value in fields.items()}


def regret(ours, hf, given, attention_mask):
    """By how much, at most, our greedy tokens fall short of their largest logit after the same tokens; 0 if equal."""
    ids, batch = given["ids"], len(given["ids"])
    if "source" in given:
        sources = [row[here].tolist() for row, here in zip(given["source"], given["here"], strict=True)]
        written = generate(ours, [[0]] * batch, sources=sources, max_new_tokens=NEW).ids
        ids, attention_mask = torch.zeros(batch, 1, dtype=torch.long), torch.ones(batch, 1, dtype=torch.bool)
    else:
        prompts = [row[here].tolist() for row, here in zip(ids, attention_mask, strict=True)]
        written = generate(ours, prompts, max_new_tokens=NEW).ids
    written, n = torch.tensor(written), ids.shape[1]
    more = torch.ones_like(written, dtype=torch.bool)
    whole = given | dict(ids=torch.cat((ids, written), 1))
    if "segments" in given:
        whole["segments"] = torch.zeros_like(whole["ids"])  # as our prompts have none
    seen = torch.cat((attention_mask, more), 1)
    if any(getattr(module, "by_length", False) for module in ours.modules()):  # each step is that of a longer text
        steps = range(n, n + NEW)
        found = [their_logits(hf, dict(ids=whole["ids"][:, :end]), seen[:, :end])[:, -1:] for end in steps]
        expected = torch.cat(found, 1)
    else:
        expected = their_logits(hf, whole, seen)[:, n - 1 : -1]
    short = expected.amax(-1) - expected.gather(-1, written[..., None])[..., 0]
    return (short.max() / expected.abs().max()).item()


# --- The table ---


def outcomes(seeds: Iterable[int]):
    """Compare the models of these seeds."""
    seeds = list(seeds)
    with tqdm(seeds, unit="model", disable=None) as shown:
        found = []
        for seed in shown:
            found.append(outcome(draw(seed)))
            shown.set_postfix(Counter(one.word for one in found))
    return found


def table(found, by_option=False):
    """Models by family and, if wanted, by option; then what became of options that no family claims; then faults."""
    words, counts, largest, reasons = ("equal", "refused", "at fault"), defaultdict(Counter), defaultdict(float), {}
    for one in found:
        family, options = (
            one.drawn.family,
            {str(one.drawn.dtype), *one.drawn.spelling, "head" if one.drawn.has_head else "no head"},
        )
        options |= set(one.drawn.options(one.drawn.all_fields))
        if one.drawn.unclaimed:
            options.add(f"not claimed: {', '.join(one.drawn.options(one.drawn.unclaimed))}")
        for row in [(), (family,), *((family, option) for option in options)]:
            counts[row][one.word] += 1
            largest[row] = max(largest[row], one.difference)
            reasons.setdefault(row, one.refused)
    lines = [f"{'':60}{'models':>8}" + "".join(f"{word:>10}" for word in words) + f"{'largest':>10}"]
    for row in sorted(counts, key=lambda row: (not row, row)):
        if len(row) < 2 or by_option:
            name = "    " * (len(row) - 1) + row[-1] if row else "all"
            numbers = "".join(f"{counts[row][word]:10}" for word in words)
            lines.append(f"{name:60}{counts[row].total():8}{numbers}{largest[row]:10.0e}")
    for row in sorted(row for row in counts if len(row) == 2 and row[1].startswith("not claimed")):
        lines.append(f"{row[0]}, {row[1]}: {dict(counts[row])}; {reasons[row]}")
    lines += [f"{one.drawn.name}\n    {one.fault}" for one in found if one.fault]
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Compare generated models with Hugging Face's.")
    parser.add_argument("--seeds", default=f"{SEEDS.start}:{SEEDS.stop}", help="first:last+1, by default %(default)s")
    parser.add_argument("--options", action="store_true", help="add a line for every option")
    parser.add_argument("--only", choices=KINDS, help="the models of one family")
    asked = parser.parse_args(arguments)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    seeds = range(*map(int, asked.seeds.split(":")))
    found = outcomes(seed for seed in seeds if asked.only in (None, family_of(seed)))
    print(table(found, asked.options))
    return any(one.fault for one in found)


if __name__ == "__main__":
    sys.exit(main())
