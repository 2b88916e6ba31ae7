"""Answers that students give to the exercises of chapter 13: right ones pass, wrong ones are told what is wrong."""

import math
from collections import Counter, namedtuple
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from llm_anatomy.models.costs import costs
from llm_anatomy.models.presets import find, preset
from llm_anatomy.notebook.checks import check


def told(name, answer):
    return check(f"open_models/{name}", answer)


def told_not_passed(name, answer, words):
    result = told(name, answer)
    assert result.status != "passed" and words in f"{result.example} {result.message}", result
    return result


# The parameters of LLaMA


def counted(block=lambda d, kv, f: 2 * d * d + 2 * d * kv + 3 * d * f + 2 * d, once=lambda d: d, tables=None):
    def answer(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
        kv = n_kv_heads * d_model // n_heads
        n_tables = (tables or (lambda tied: 2 - tied))(tie_embeddings)
        return n_layers * block(d_model, kv, d_ff) + once(d_model) + n_tables * n_vocab * d_model

    return answer


RIGHT_COUNTS = [
    counted(),
    counted(block=lambda d, kv, f: sum((d * d, d * kv, d * kv, d * d, d * f, d * f, f * d, d, d))),
    counted(tables=lambda tied: np.where(tied, 1, 2)),
    lambda *sizes: torch.tensor(counted()(*sizes)),
]


@pytest.mark.parametrize("answer", RIGHT_COUNTS)
def test_parameters_may_be_counted_in_many_ways(answer):
    assert told("llama_parameters", answer).status == "passed"


def test_the_counts_are_those_of_the_released_models():
    names = ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "n_vocab", "tie_embeddings")
    for name in ("llama-7b", "llama-13b", "llama-33b", "llama-65b", "llama-3-8b", "llama-3.2-1b"):
        config = preset(name)
        assert counted()(*(getattr(config, field) for field in names)) == find(name).exact


WRONG_COUNTS = {
    "A gated one has a third": counted(lambda d, kv, f: 2 * d * d + 2 * d * kv + 2 * d * f + 2 * d),
    "as large as that of the queries": counted(lambda d, kv, f: 4 * d * d + 3 * d * f + 2 * d),
    "RMSNorm has a gain alone": counted(
        lambda d, kv, f: 2 * d * d + 2 * d * kv + 3 * d * f + 4 * d, once=lambda d: 2 * d
    ),
    "The norm after the last block is missing": counted(once=lambda d: 0),
    "it is the embedding itself": counted(tables=lambda tied: 2),
    "is a matrix of its own": counted(tables=lambda tied: 1),
    "Your number is in billions": lambda *sizes: counted()(*sizes) / 1e9,
    "expected": counted(lambda d, kv, f: 2 * d * d + 3 * d * kv + 3 * d * f + 2 * d),
    "a string instead of a number": lambda *sizes: str(counted()(*sizes)),
    "one for the keys and one for the values": counted(lambda d, kv, f: 2 * d * d + d * kv + 3 * d * f + 2 * d),
    "as narrow at their inputs": counted(lambda d, kv, f: 2 * d * d + 2 * kv * kv + 3 * d * f + 2 * d),
}


# The same numbers come of two mistakes, so the message must name both.
EQUAL_COUNTS = {
    "that of the queries or that of the output": counted(lambda d, kv, f: d * d + 3 * d * kv + 3 * d * f + 2 * d),
    "that of the output, or that of the queries": counted(lambda d, kv, f: d * d + 2 * d * kv + 3 * d * f + 2 * d),
    "two parameters for each feature": counted(
        lambda d, kv, f: 2 * d * d + 2 * d * kv + 3 * d * f + 4 * d, once=lambda d: 2 * d
    ),
}
WRONG_COUNTS |= EQUAL_COUNTS


@pytest.mark.parametrize("words", WRONG_COUNTS)
def test_a_wrong_count_is_told(words):
    told_not_passed("llama_parameters", WRONG_COUNTS[words], words)


# What shared heads pay for


def paid(saved=lambda d, h, kv: 2 * d * (d - kv * d / h), unit=3, result=lambda factor, more: (factor, more)):
    def answer(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
        left = saved(d_model, n_heads, n_kv_heads)
        factor = (d_ff + left / (unit * d_model)) / d_ff
        return result(factor, unit * d_model * (new_d_ff - d_ff) - left)

    return answer


RIGHT_PAYMENTS = [
    paid(),
    paid(lambda d, h, kv: 2 * d**2 * (1 - Fraction(kv, h))),
    paid(result=lambda factor, more: [np.float64(factor), round(more)]),
    paid(result=lambda factor, more: torch.tensor([factor, more], dtype=torch.float64).unbind()),
]


@pytest.mark.parametrize("answer", RIGHT_PAYMENTS)
def test_what_is_paid_may_be_computed_in_many_ways(answer):
    result = told("compensated_width", answer)
    assert result.status == "passed", result


WRONG_PAYMENTS = {
    "keys and values are shared": paid(lambda d, h, kv: d * (d - kv * d / h)),
    "The matrices of queries and output stay": paid(lambda d, h, kv: 4 * d * (d - kv * d / h)),
    "A gated one has three": paid(unit=2),
    "for what is saved": paid(lambda d, h, kv: 2 * d * kv * d / h),
    "larger by one": paid(result=lambda factor, more: (factor - 1, more)),
    "the wrong sign": paid(result=lambda factor, more: (factor, -more)),
    "The factor comes first": paid(result=lambda factor, more: (more, factor)),
    "compensated_width": paid(lambda d, h, kv: 2 * d * (d - kv)),
    "Return it as it is": paid(result=lambda factor, more: (round(factor, 2), more)),
    "as wide as before": lambda d, h, kv, d_ff, new: paid()(d, h, kv, d_ff, d_ff),
    "not lead to a whole number": lambda d, h, kv, d_ff, new: (
        int(paid()(d, h, kv, d_ff, new)[0] * d_ff) / d_ff,
        paid()(d, h, kv, d_ff, new)[1],
    ),
    "By how much may it grow": lambda d, h, kv, d_ff, new: (new / d_ff, paid()(d, h, kv, d_ff, new)[1]),
}


@pytest.mark.parametrize("words", WRONG_PAYMENTS)
def test_what_is_paid_wrongly_is_told(words):
    told_not_passed("compensated_width", WRONG_PAYMENTS[words], words)


# Numbers on paper

RIGHT_NUMBERS = [
    ("bloom_numbers", [7.84, 59.02, 172.8, 324, 3.597, 176.2]),
    ("bloom_numbers", np.array([7.8, 100 - 40.98, 172.8, 324, 3.6, 176])),
    ("bloom_numbers", (Fraction(784, 100), Decimal("59.02"), Fraction(1728, 10), 16.2 / 0.05, 3.60, 176.234)),
    ("bloom_numbers", torch.tensor([7.84, 59.02, 172.8, 324, 3.6, 176])),
    ("two_bills", [7.8, 51.4, 82.8, 42.9, 35, 3.44]),
    ("two_bills", np.array([7.81, 51, 82.77, 43, 35.0, 3.4])),
    ("two_bills", torch.tensor([7.8, 51.4, 82.8, 42.9, 35.0, 3.44])),
    ("two_bills", (Decimal("7.8"), 51, Fraction(828, 10), 43, 1_720_320 / 2048 / 24, 3.44064)),
]


@pytest.mark.parametrize(("name", "numbers"), RIGHT_NUMBERS)
def test_numbers_may_be_given_in_many_ways(name, numbers):
    result = told(name, lambda: numbers)
    assert result.status == "passed", result


WRONG_NUMBERS = [
    ("bloom_numbers", [7.8, 40.98, 172.8, 324, 3.6, 176], "labels that can be read"),
    ("bloom_numbers", [7.8, 59.02, 172.8, 324, 3.6, 175], "one of the two slides says"),
    ("bloom_numbers", [7.8, 59.02, 0.1728, 324, 3.6, 176], "it is in terabytes"),
    ("bloom_numbers", [7.8, 59.02, 172.8, 324, 3.6, 173], "does not contain the table"),
    ("bloom_numbers", [218_880, 59.02, 172.8, 324, 3.6, 176], "means a ratio"),
    ("bloom_numbers", [8, 59.02, 172.8, 16.5, 3.6, 176], "your first and fourth numbers are not right"),
    ("bloom_numbers", ["7.8"] * 6, "without quotes"),
    ("bloom_numbers", [7.8, 59.02, 172.8, 324, 3.6], "six numbers are needed"),
    ("two_bills", [2.6, 17, 27.6, 14, 35, 3.4], "those of the forward pass"),
    ("two_bills", [7.8e22, 51, 82.8e22, 43, 35, 3.4], "not divided by 10²²"),
    ("two_bills", [7.8, 0.514, 82.8, 0.429, 35, 3.4], "Multiply them by 100"),
    ("two_bills", [7.8, 51, 82.8, 43, 840, 3.4], "it is in hours"),
    ("two_bills", [7.8, 51, 82.8, 43, 35, 1.7], "Each costs 2 dollars"),
    ("two_bills", [7.8, 51, 41.4, 21, 35, 3.4], "Llama 2 saw more"),
    ("two_bills", [7.8, 50, 82.8, 42, 35, 3.4], "your second and fourth numbers are not right"),
    ("two_bills", [7.8, 51, 84, 43, 35, 3.4], "and not 70"),
    ("two_bills", [7.8, 51, 82.8, 42, 35, 3.4], "cut it off"),
    ("two_bills", [7.8, 51, None, 43, 35, 3.4], "None is not a number"),
    ("two_bills", 7.8, "six numbers are needed"),
]


@pytest.mark.parametrize(("name", "numbers", "words"), WRONG_NUMBERS)
def test_wrong_numbers_are_told(name, numbers, words):
    result = told(name, lambda: numbers)
    assert result.status != "passed" and words in result.message, result


# A mixture that repeats nothing too often


def mixture(rest=lambda left, shares, free: left * shares / shares[free].sum(), n_passes=50, result=lambda x, u, n: x):
    def answer(unique, shares, n_tokens, most):
        read, full = n_tokens * shares, torch.zeros(len(unique), dtype=torch.bool)
        for _ in range(n_passes):
            full = full | (read > most * unique)
            left = n_tokens - most * unique[full].sum()
            read = torch.where(full, most * unique, rest(left, shares, ~full))
        return result(read, unique, n_tokens)

    return answer


def level(unique, shares, n_tokens, most):
    """Raises the level in small steps at last, and in large ones before."""
    found, step = torch.zeros((), dtype=torch.float64), 1e6
    while step > 1e-9:
        while torch.minimum(most * unique.double(), (found + step) * shares.double()).sum() < n_tokens:
            found = found + step
        step /= 4
    return torch.minimum(most * unique, found * shares)


RIGHT_MIXTURES = [
    mixture(),
    level,
    mixture(result=lambda x, u, n: x.numpy()),
    mixture(rest=lambda left, shares, free: left * torch.where(free, shares, 0) / (shares * free).sum()),
]


@pytest.mark.parametrize("answer", RIGHT_MIXTURES)
def test_a_mixture_may_be_capped_in_many_ways(answer):
    result = told("capped_mixture", answer)
    assert result.status == "passed", result


WRONG_MIXTURES = {
    "the shares alone": mixture(n_passes=0),
    "only once": mixture(n_passes=1),
    "divide what is missing twice": mixture(n_passes=2),
    "a single reading": lambda u, s, n, most: mixture()(u, s, n, 1.0),
    "nobody gives what is missing": lambda u, s, n, most: (n * s).clamp(max=most * u),
    "how many times each source is read": mixture(result=lambda x, u, n: x / u),
    "Multiply them by the length": mixture(result=lambda x, u, n: x / n),
    "which is more than the run needs": lambda u, s, n, most: most * u,
    "all are read equally often": lambda u, s, n, most: n * u / u.sum(),
    "capped_mixture": mixture(rest=lambda left, shares, free: torch.full_like(shares, left / free.sum())),
    "a tuple of 2 values instead of": mixture(result=lambda x, u, n: (x, u)),
}


@pytest.mark.parametrize("words", WRONG_MIXTURES)
def test_a_wrong_mixture_is_told(words):
    told_not_passed("capped_mixture", WRONG_MIXTURES[words], words)


# One wrong field in each config

FIELDS = {
    "A": ("d_model", 4096),
    "B": ("n_vocab", 128256),
    "C": ("n_kv_heads", 8),
    "D": ("position", "learned"),
    "E": ("tie_embeddings", True),
}
PAIR = namedtuple("PAIR", "field value")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"E": {"tie_embeddings": 1}, "A": ["d_model", "4_096"]},
        {"A": ("D_MODEL", np.int64(4096)), "B": PAIR("n_vocab", torch.tensor(128256.0))},
        {"D": ("position", "Learned absolute"), "C": ("n_kv_heads", Fraction(8))},
    ],
)
def test_fields_may_be_given_in_many_ways(changes):
    result = told("wrong_fields", lambda: FIELDS | changes)
    assert result.status == "passed", result


WRONG_FIELDS = {
    "says that there are 32": {"A": ("n_heads", 31)},
    "There are two of them": {"B": ("n_vocab", 224_512)},
    "there are 80": {"C": ("n_layers", 10)},
    "holds keys and values": {"C": ("n_kv_heads", 16)},
    "half of the vocabulary": {"E": ("n_vocab", 128_000)},
    "your values for 'A' and 'C' are not right": {"A": ("d_model", 4100), "C": ("n_kv_heads", 2)},
    "the config D has no field": {"D": ("rope", True)},
    "is a whole number": {"A": ("d_model", 4096.5)},
    "not one of the five names": {"D": ("position", "trained")},
    "right to the last parameter": {"B": ("n_vocab", 128_000)},
    "In B, you change `d_ff`": {"B": ("d_ff", 11008)},
    "In E, you change the number of key-value heads": {"E": ("n_kv_heads", 8)},
    "is not a pair": {"B": 128256},
    "'4k' is not a number": {"A": ("d_model", "4k")},
    "True or False": {"E": ("tie_embeddings", "maybe")},
}


@pytest.mark.parametrize("words", WRONG_FIELDS)
def test_wrong_fields_are_told(words):
    result = told("wrong_fields", lambda: FIELDS | WRONG_FIELDS[words])
    assert result.status != "passed" and words in result.message, result


# Repair a row


def consistent(r, n_matrices=None):
    n_matrices = n_matrices or (3 if r["gated"] else 2)
    block = 4 * r["d_model"] ** 2 + n_matrices * r["d_model"] * r["d_ff"]
    return [
        math.isclose(r["n_heads"] * 128, r["d_model"]),
        math.isclose(r["factor"], r["d_ff"] / r["d_model"]),
        math.isclose(block * r["n_layers"], r["n_parameters"]),
    ]


def repaired(
    order=("n_heads", "d_model", "d_ff", "factor", "n_layers"), result=lambda n, v: (n, v), needed=3, **options
):
    """Try one entry after another, in the given order, until as many equations hold as are needed."""

    def answer(row):
        block = 4 * row["d_model"] ** 2 + (3 if row["gated"] else 2) * row["d_model"] * row["d_ff"]
        values = {
            "n_heads": row["d_model"] / 128,
            "d_model": 128 * row["n_heads"],
            "d_ff": row["factor"] * row["d_model"],
            "factor": row["d_ff"] / row["d_model"],
            "n_layers": row["n_parameters"] / block,
        }
        for name in order:
            if sum(consistent(row | {name: values[name]}, **options)) >= needed:
                return result(name, values[name])
        return result(order[0], values[order[0]])

    return answer


def by_exclusion(matrices):
    """Ask the equations one after the other, with so many matrices in a feed-forward layer."""

    def answer(row):
        d, d_ff = row["d_model"], row["d_ff"]
        block = 4 * d * d + matrices(row["gated"]) * d * d_ff
        heads, factor = d == 128 * row["n_heads"], d_ff == row["factor"] * d
        if not heads:
            return ("n_heads", d // 128) if factor else ("d_model", 128 * row["n_heads"])
        if not factor:
            right = block * row["n_layers"] == row["n_parameters"]
            return ("factor", d_ff / d) if right else ("d_ff", int(row["factor"] * d))
        return "n_layers", row["n_parameters"] // block

    return answer


RIGHT_REPAIRS = [
    repaired(),
    by_exclusion(lambda gated: 2 + gated),
    repaired(order=("n_layers", "factor", "d_ff", "n_heads", "d_model"), result=lambda n, v: [n, np.float64(v)]),
    repaired(result=lambda n, v: (np.str_(n), torch.tensor(float(v), dtype=torch.float64))),
    repaired(result=lambda n, v: (n, v if n == "factor" else round(v))),
]


@pytest.mark.parametrize("answer", RIGHT_REPAIRS)
def test_a_row_may_be_repaired_in_many_ways(answer):
    assert told("repaired_row", answer).status == "passed"


WRONG_REPAIRS = {
    "you always change the factor": lambda row: (
        ("factor", row["d_ff"] / row["d_model"]) if repaired()(row)[0] == "d_ff" else repaired()(row)
    ),
    "you always change the width": lambda row: (
        ("d_model", 128 * row["n_heads"]) if repaired()(row)[0] == "n_heads" else repaired()(row)
    ),
    "the value that stands there": lambda row: (repaired()(row)[0], row[repaired()(row)[0]]),
    "The name comes first": repaired(result=lambda n, v: (v, n)),
    "Return the right value, too": repaired(result=lambda n, v: n),
    "you always change the number of heads": lambda row: (
        repaired()(row) if row["d_model"] == 128 * row["n_heads"] else ("n_heads", row["d_model"] / 128)
    ),
    "layer two matrices": by_exclusion(lambda gated: 2),
    "layer three matrices": by_exclusion(lambda gated: 3),
    "n_heads": repaired(needed=2),
    "a dictionary instead of a tuple of 2 values": repaired(result=lambda n, v: {n: v}),
    "returns nothing": repaired(result=lambda n, v: None),
    "you also change the row": lambda row: [row.update([pair]) or pair for pair in [repaired()(row)]][0],
}


@pytest.mark.parametrize("words", WRONG_REPAIRS)
def test_a_wrong_repair_is_told(words):
    told_not_passed("repaired_row", WRONG_REPAIRS[words], words)


# Claims about the table

VERDICTS = dict.fromkeys("AEH", "true") | dict.fromkeys("BCG", "false") | dict.fromkeys("DF", "cannot tell")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"A": True, "B": False, "G": np.bool_(False)},
        {"D": "Can't tell", "F": " CANNOT TELL"},
        {"D": "cannot_tell", "A": "True."},
        {"H": torch.tensor(True)},
    ],
)
def test_verdicts_may_be_given_in_many_ways(changes):
    assert told("claims", lambda: VERDICTS | changes).status == "passed"


WRONG_VERDICTS = {
    "whose norm is not known": {"D": "true"},
    "say how well a model predicts": {"F": "true"},
    "try it with each norm": {"G": "cannot tell"},
    "look at each of the gated models": {"C": "true"},
    "D and F are wrong": {"D": "true", "F": "true"},
    "your values for 'B' and 'E' are not right": {"B": "cannot tell", "E": "cannot tell"},
    "a single row that contradicts it. The norm": {"C": "cannot tell"},
    "so you can count": {"E": "cannot tell"},
    "is empty in 2023": {"H": "cannot tell"},
    "not one of the three verdicts": {"A": "perhaps"},
    "RoPE is older": {"B": "true"},
}


@pytest.mark.parametrize("words", WRONG_VERDICTS)
def test_wrong_verdicts_are_told(words):
    told_not_passed("claims", lambda: VERDICTS | WRONG_VERDICTS[words], words)


# A checkpoint taken apart


def sizes(**changes):
    def answer(shapes, d_head):
        at = SimpleNamespace(**{name.split(".")[-2]: shape for name, shape in shapes.items()})
        found = {
            "n_vocab": at.embed_tokens[0],
            "d_model": at.norm[0],
            "n_layers": len([name for name in shapes if "down_proj" in name]),
            "n_heads": at.q_proj[0] // d_head,
            "n_kv_heads": at.v_proj[0] // d_head,
            "d_ff": at.down_proj[1],
            "tie_embeddings": not hasattr(at, "lm_head"),
        }
        return found | {name: change(at, d_head, found, shapes) for name, change in changes.items()}

    return answer


RIGHT_SIZES = [
    sizes(),
    sizes(n_heads=lambda at, d_head, found, shapes: np.int64(at.o_proj[1] / d_head)),
    sizes(tie_embeddings=lambda at, d_head, found, shapes: np.bool_(len(shapes) % 9 == 2)),
    sizes(n_layers=lambda at, d_head, found, shapes: (len(shapes) - 2) // 9),
]


@pytest.mark.parametrize("answer", RIGHT_SIZES)
def test_a_checkpoint_may_be_taken_apart_in_many_ways(answer):
    result = told("sizes_from_tensors", answer)
    assert result.status == "passed", result


WRONG_SIZES = {
    "counted from 0": sizes(n_layers=lambda at, d_head, found, shapes: found["n_layers"] - 1),
    "among strings": sizes(
        n_layers=lambda at, d_head, found, shapes: 1 + int(max(n.split(".")[2] for n in shapes if "layers" in n))
    ),
    "need not be as wide as the model": sizes(n_heads=lambda at, d_head, found, shapes: at.norm[0] // d_head),
    "is a width. Divide it": sizes(n_kv_heads=lambda at, d_head, found, shapes: at.k_proj[0]),
    "The first is that of the outputs": sizes(n_kv_heads=lambda at, d_head, found, shapes: at.k_proj[1] // d_head),
    "What does the matrix of the keys say": sizes(n_kv_heads=lambda at, d_head, found, shapes: found["n_heads"]),
    "is the width of the model": sizes(d_ff=lambda at, d_head, found, shapes: at.down_proj[0]),
    "the wrong way round": sizes(tie_embeddings=lambda at, d_head, found, shapes: hasattr(at, "lm_head")),
    "raises AttributeError": sizes(n_vocab=lambda at, d_head, found, shapes: at.lm_head[0]),
    "a dictionary with the keys": lambda shapes, d_head: {"n_vocab": 5},
    "instead of": lambda shapes, d_head: tuple(sizes()(shapes, d_head).values()),
}


@pytest.mark.parametrize("words", WRONG_SIZES)
def test_a_checkpoint_taken_apart_wrongly_is_told(words):
    told_not_passed("sizes_from_tensors", WRONG_SIZES[words], words)


# Half a LLaMA


def rms(z):
    return F.rms_norm(z, z.shape[-1:], eps=1e-5)


def block(read=rms, kept=lambda z: z, first=rms, out=lambda z: z, causal=True, act=F.silu):
    def answer(x, w_o, w_gate, w_up, w_down):
        seen = torch.ones(len(x), len(x))
        seen = seen.tril() if causal else seen
        x = x + seen / seen.sum(1, keepdim=True) @ first(x) @ w_o
        z = read(x)
        return out(kept(x) + (act(z @ w_gate) * (z @ w_up)) @ w_down)

    return answer


RIGHT_BLOCKS = [
    block(),
    block(lambda z: z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + 1e-5)),
    block(act=lambda z: z / (1 + torch.exp(-z))),
    lambda *given: block()(*given).numpy(),
]


@pytest.mark.parametrize("answer", RIGHT_BLOCKS)
def test_the_block_may_be_mended_in_many_ways(answer):
    assert told("half_a_llama", answer).status == "passed"


WRONG_BLOCKS = {
    "Not attempted": block(kept=rms),
    "reads it without a norm": block(read=lambda z: z),
    "layer norms": block(read=lambda z: F.layer_norm(z, z.shape[-1:]), first=lambda z: F.layer_norm(z, z.shape[-1:])),
    "one more norm after": block(out=rms),
    "It should precede": block(read=lambda z: z, out=rms),
    "half_a_llama": block(causal=False),
    "Not yet": block(act=F.relu),
}


@pytest.mark.parametrize("words", WRONG_BLOCKS)
def test_a_wrong_block_is_told(words):
    told_not_passed("half_a_llama", WRONG_BLOCKS[words], words)


# The bars

BARS = {"GPT-2": "D", "T5 11B": "C", "LLaMA 65B": "A", "Llama 3 70B": "E", "Gemma 2B": "B", "ratio": 2}


@pytest.mark.parametrize("changes", [{}, {"GPT-2": "d "}, {"ratio": "2.1"}, {"ratio": torch.tensor(2.015)}])
def test_the_bars_may_be_read_in_many_ways(changes):
    assert told("read_the_shares", lambda: BARS | changes).status == "passed"


WRONG_BARS = {
    "are exchanged. Which of them": {"LLaMA 65B": "E", "Llama 3 70B": "A"},
    "largest shares of embeddings": {"GPT-2": "B", "Gemma 2B": "D"},
    "Your ratio is too small": {"ratio": 1.5},
    "Your ratio is too large": {"ratio": 4.7},
    "a model of its own": {"GPT-2": "A"},
    "not one of the letters": {"GPT-2": "F"},
    "an MLP factor of 64": {"T5 11B": "E", "Llama 3 70B": "C"},
    "NaN, which is not a number": {"ratio": float("nan")},
    "so your ratio is that of T5": {"T5 11B": "A", "LLaMA 65B": "C", "ratio": 57 / 43},
    "so your ratio is that of Llama 3": {"LLaMA 65B": "E", "Llama 3 70B": "A", "ratio": 80 / 17},
    "None is not a number": {"ratio": None},
    'letters for "GPT-2" and "Llama 3 70B" are not right.': {"GPT-2": "E", "Llama 3 70B": "D"},
    "look at attention. Your ratio is too large.": {"GPT-2": "B", "Gemma 2B": "D", "ratio": 3},
    "are exchanged. Which of them has": {"LLaMA 65B": "E", "Llama 3 70B": "A", "ratio": 0.5},
}


@pytest.mark.parametrize("words", WRONG_BARS)
def test_wrong_readings_of_the_bars_are_told(words):
    result = told_not_passed("read_the_shares", lambda: BARS | WRONG_BARS[words], words)
    assert not any(each in result.message for each in ("D for GPT-2", "C for T5", "A for LLaMA", "B for Gemma"))


@pytest.mark.parametrize("letters", ["DEACB", "DEBCA", "AEDCB", "AEBCD", "BEDCA", "BEACD"])
def test_every_wrong_letter_beside_the_factor_of_64_is_told(letters):
    given = dict(zip(("GPT-2", "T5 11B", "LLaMA 65B", "Llama 3 70B", "Gemma 2B"), letters, strict=True))
    message = told("read_the_shares", lambda: BARS | given).message
    assert "T5 11B and Llama 3 70B are exchanged" in message
    if letters == "BEACD":
        assert "The two models with the largest shares of embeddings are exchanged" in message
        return
    for name in ("GPT-2", "LLaMA 65B", "Gemma 2B"):
        assert (f'"{name}"' in message) == (given[name] != BARS[name])


def test_the_bars_are_those_of_the_presets():
    names = ("llama-65b", "gemma-2b", "t5-11b", "gpt-2", "llama-3-70b")
    shown = [(0.8, 32.9, 66.3), (20.9, 6.8, 72.3), (0.3, 42.7, 57.0), (31.6, 22.8, 45.6), (3.0, 17.1, 79.9)]
    for name, printed in zip(names, shown, strict=True):
        config = preset(name)
        n_source = {"n_source": 1} if config.kind == "encoder-decoder" else {}
        parts = Counter()
        for part in costs(config, n_tokens=1, **n_source).parts:
            which = "attention" if "attention" in part.name else "feed-forward" if "feed" in part.name else "rest"
            parts[which] += part.n_parameters
        total = parts.total()
        found = [100 * parts[which] / total for which in ("rest", "attention", "feed-forward")]
        assert found == pytest.approx(printed, abs=0.1), (name, found)


# What is open

OPEN = {"compare": "PQRS", "look inside": "QRS", "memory": "S", "restarts": "R", "emergence": "S", "retrain": "S"}
OPEN |= {"product": "S"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"compare": ["p", "q", "r", "s"]},
        {"look inside": {"Q", "R", "S"}},
        {"compare": "P, Q, R and S", "memory": ("S",)},
        {"restarts": {"P": False, "Q": False, "R": True, "S": False}},
    ],
)
def test_what_is_open_may_be_written_in_many_ways(changes):
    assert told("what_is_open", lambda: OPEN | changes).status == "passed"


WRONG_OPEN = {
    "an API is enough": {"compare": "QRS"},
    "which sentences stood": {"memory": "QRS"},
    "Who writes down": {"restarts": "RS"},
    "what they were before": {"emergence": "QRS"},
    "reads texts that you may not have": {"retrain": "RS"},
    "what does the last row say": {"product": "QRS"},
    "your values for 'compare' and 'product' are not right": {"compare": "PQ", "product": "P"},
    "something other than the letters": {"compare": "all"},
}


@pytest.mark.parametrize("words", WRONG_OPEN)
def test_what_is_not_open_is_told(words):
    told_not_passed("what_is_open", lambda: OPEN | WRONG_OPEN[words], words)


# Wrong cells

CELLS = {"GPT vocabulary": 40478, "GPT2 positions": "absolute", "BLOOM size": 176, "LLaMA size": 65.3}


@pytest.mark.parametrize(
    "cells",
    [
        CELLS,
        {
            ("gpt", "vocab"): "40,478",
            ("gpt2", "position"): "learned",
            ("bloom", "size"): "176B",
            ("llama", "size"): "65.3",
        },
        {"GPT_vocabulary": 40478.0, "GPT-2 positions": "Absolute", "BLOOM size": 176.2, "LLaMA size": 65.286},
        {name: np.array(value).item() for name, value in CELLS.items()},
    ],
)
def test_cells_may_be_repaired_in_many_ways(cells):
    assert told("wrong_cells", lambda: cells).status == "passed"


WRONG_CELLS = {
    "Divide its two widths": CELLS | {"T5 MLP factor": 4},
    "agrees with the tokenizer": CELLS | {"BLOOM vocabulary": 250_880},
    "basic symbols are tokens, too": CELLS | {"GPT vocabulary": 40_000},
    "has one row for each position": CELLS | {"GPT2 positions": "relative"},
    "One of the words": {name: value for name, value in CELLS.items() if "GPT2" not in name},
    "you return what stands there": CELLS | {"BLOOM size": 175, "LLaMA size": 65.2},
    "3 of the wrong cells, 3 repaired; right cells changed: llama vocabulary": {
        name: value for name, value in CELLS.items() if "BLOOM" not in name
    }
    | {"LLaMA vocabulary": 32_016},
    "does not name a model and a column": CELLS | {"Gemma size": 2},
    "0 of the wrong cells": {},
    "'many' is not a number": CELLS | {"GPT vocabulary": "many"},
}


@pytest.mark.parametrize("words", WRONG_CELLS)
def test_wrong_repairs_of_cells_are_told(words):
    result = told_not_passed("wrong_cells", lambda: WRONG_CELLS[words], words)
    assert "40478" not in result.message and "40,478" not in result.message and "65.3" not in result.message


# When decoders took over


def takeover(majority=lambda n, n_all: n > n_all / 2, pick=min, counted=("decoder",)):
    def answer(years, branches):
        kept = []
        for year in sorted(set(years), reverse=True):
            of_year = [b for y, b in zip(years, branches, strict=True) if y == year]
            if not majority(sum(b in counted for b in of_year), len(of_year)):
                break
            kept.append(year)
        return pick(kept) if kept else 0

    return answer


RIGHT_TAKEOVERS = [
    takeover(),
    takeover(lambda n, n_all: n_all - n < n),
    lambda *given: np.int64(takeover()(*given)),
    lambda *given: torch.tensor(takeover()(*given)),
]


@pytest.mark.parametrize("answer", RIGHT_TAKEOVERS)
def test_the_year_may_be_found_in_many_ways(answer):
    assert told("decoder_majority", answer).status == "passed"


WRONG_TAKEOVERS = {
    "half of the models for a majority": takeover(lambda n, n_all: 2 * n >= n_all),
    "all models are decoders": takeover(lambda n, n_all: n == n_all),
    "a branch of their own": takeover(counted=("decoder", "encoder-decoder")),
    "since when": takeover(pick=max),
    "returns nothing": lambda years, branches: takeover()(years, branches) or None,
    "majority of encoders": takeover(counted=("encoder",)),
    "a string instead of a number": lambda *given: str(takeover()(*given)),
}


@pytest.mark.parametrize("words", WRONG_TAKEOVERS)
def test_a_wrong_year_is_told(words):
    told_not_passed("decoder_majority", WRONG_TAKEOVERS[words], words)
