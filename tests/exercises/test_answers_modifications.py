"""Answers that students give to the exercises of chapter 14: right ones pass, wrong ones are told what is wrong."""

import math
import statistics
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bookbinder import ROOT
from bookbinder.masters import load
from llm_anatomy.data import table
from llm_anatomy.evaluation.significance import holm, kendall_tau, paired_t_test
from llm_anatomy.layers.convolution import LightweightConvolution
from llm_anatomy.layers.embeddings import AdaptiveEmbedding, AdaptiveSoftmax, MixtureOfSoftmaxes, TokenEmbedding
from llm_anatomy.layers.product_key_memory import ProductKeyMemory
from llm_anatomy.notebook.checks import check


def told(name, answer):
    return check(f"modifications/{name}", answer)


def passes(name, answer):
    result = told(name, answer)
    assert result.status == "passed", result


def told_not_passed(name, answer, words):
    result = told(name, answer)
    assert result.status != "passed" and words in f"{result.example} {result.message}", result
    return result


def solution(name):
    return load(ROOT / "exercises" / "modifications" / name).run()[name]


# A weight for each distance


def convolved(weights=lambda k: k.softmax(1), head=lambda c, size, n: c // size, back=lambda j, width: width - 1 - j):
    def answer(u, kernel):
        w, (n, d), size = weights(kernel), u.shape, u.shape[1] // len(kernel)
        out = torch.zeros(n, d)
        for t in range(n):
            for c in range(d):
                for j in range(w.shape[1]):
                    s = t - back(j, w.shape[1])
                    if 0 <= s < n:
                        out[t, c] += w[head(c, size, len(w)), j] * u[s, c]
        return out

    return answer


RIGHT_CONVOLUTIONS = [
    convolved(),
    convolved(lambda k: k.exp() / k.exp().sum(1, keepdim=True)),
    lambda u, kernel: convolved()(u, kernel).double().numpy(),
    lambda u, kernel: (
        F.conv1d(
            F.pad(u.T, (kernel.shape[1] - 1, 0)),
            kernel.softmax(-1)[:, None].repeat_interleave(u.shape[1] // len(kernel), 0),
            groups=u.shape[1],
        ).mT
    ),
]


@pytest.mark.parametrize("answer", RIGHT_CONVOLUTIONS)
def test_a_convolution_may_be_written_in_many_ways(answer):
    passes("lightweight_convolution", answer)


def counted_from_the_end(u, kernel):
    w, out = kernel.softmax(1), torch.zeros(u.shape)
    for t, c, j in np.ndindex(*u.shape, w.shape[1]):
        out[t, c] += w[c * len(w) // u.shape[1], j] * u[t - w.shape[1] + 1 + j, c]
    return out


WRONG_CONVOLUTIONS = {
    "should be their softmax": convolved(lambda k: k),
    "runs over the heads": convolved(lambda k: k.softmax(0)),
    "wrong way round": convolved(back=lambda j, width: j),
    "begins at the token": convolved(back=lambda j, width: -j),
    "deal out the channels": convolved(head=lambda c, size, n: c % n),
    "Python counts these from the end": counted_from_the_end,
    "the kernel of the first head": convolved(head=lambda c, size, n: 0),
    "one token too early": convolved(back=lambda j, width: width - j),
    "lightweight_convolution": convolved(lambda k: k.sigmoid()),
    "the expected one transposed": lambda u, kernel: convolved()(u, kernel).T,
    "changes its argument": lambda u, kernel: u.copy_(convolved()(u, kernel)),
}


@pytest.mark.parametrize("words", WRONG_CONVOLUTIONS)
def test_a_wrong_convolution_is_told(words):
    told_not_passed("lightweight_convolution", WRONG_CONVOLUTIONS[words], words)


def test_the_convolution_is_that_of_the_package():
    layer, u = LightweightConvolution(d_model=12, n_heads=3, width=4, causal=True), torch.randn(1, 6, 12)
    expected = layer._convolve(u, F.pad(u, (0, 0, 3, 0)))[0]
    torch.testing.assert_close(solution("lightweight_convolution")(u[0], layer.kernel), expected)


# A synthesizer that forgets the mask


def synthesized(seen=lambda s, t, mask: s <= t and mask[s], score=lambda table, t, s: table[t, s], floor=-math.inf):
    def answer(value, table, attention_mask):
        n, out = len(value), []
        for t in range(n):
            row = [score(table, t, s) if seen(s, t, attention_mask) else torch.tensor(floor) for s in range(n)]
            out.append(torch.stack(row).softmax(0) @ value)
        return torch.stack(out)

    return answer


def weighed(value, table, attention_mask):
    w = np.exp(table.numpy())[: len(value), : len(value)] * np.tri(len(value)) * attention_mask.numpy()
    return (w / w.sum(1)[:, None]) @ value.numpy()


RIGHT_SYNTHESIZERS = [
    synthesized(),
    synthesized(floor=-1e30),
    weighed,
    lambda value, table, mask: F.scaled_dot_product_attention(
        torch.zeros(1, len(value), 1),
        torch.zeros(1, len(value), 1),
        value[None],
        table[None, : len(value), : len(value)].masked_fill(
            ~(torch.ones(len(value), len(value)).tril().bool() & mask), -torch.inf
        ),
    )[0],
]


@pytest.mark.parametrize("answer", RIGHT_SYNTHESIZERS)
def test_the_synthesizer_may_be_mended_in_many_ways(answer):
    passes("forgetful_synthesizer", answer)


def mask_after(value, table, attention_mask):
    n = len(value)
    seen = torch.ones(n, n).tril() * attention_mask
    return (table[:n, :n].softmax(-1) * seen) @ value


WRONG_SYNTHESIZERS = {
    "later tokens have a part": synthesized(lambda s, t, mask: mask[s]),
    "padding has a part": synthesized(lambda s, t, mask: s <= t),
    "nothing is hidden": synthesized(lambda s, t, mask: True),
    "A score of 0 leads": synthesized(floor=0.0),
    "the wrong way round": synthesized(score=lambda table, t, s: table[s, t]),
    "whatever the table says": synthesized(score=lambda table, t, s: 0 * table[t, s]),
    "still has a part in the sum": mask_after,
    "Not attempted": lambda value, table, mask: (table.softmax(-1)[: len(value), : len(value)].tril() * mask) @ value,
    "forgetful_synthesizer": synthesized(lambda s, t, mask: (s < t or s == 0) and mask[s]),
    "a tuple of 2 values instead of a tensor": lambda *given: (synthesized()(*given), None),
}


@pytest.mark.parametrize("words", WRONG_SYNTHESIZERS)
def test_a_wrong_synthesizer_is_told(words):
    told_not_passed("forgetful_synthesizer", WRONG_SYNTHESIZERS[words], words)


# Two short lists in place of one long one


def remembered(score=lambda a, b: a + b, weigh=lambda s: s.softmax(0), index=lambda i, j, n: n * i + j, n_read=None):
    def answer(q, first, second, values, k):
        n, d = first.shape
        out = []
        for row in q:
            a, b = first @ row[:d], second @ row[d:]
            pairs = sorted(((score(a[i], b[j]), i, j) for i in range(n) for j in range(n)), key=lambda p: -p[0])
            best = pairs[: n_read or k]
            weights = weigh(torch.stack([s for s, _, _ in best]))
            out.append(sum(w * values[index(i, j, n)] for w, (_, i, j) in zip(weights, best, strict=True)))
        return torch.stack(out)

    return answer


RIGHT_MEMORIES = [
    remembered(),
    remembered(weigh=lambda s: (s - s.logsumexp(0)).exp()),
    lambda *given: remembered()(*given).tolist() and remembered()(*given).numpy(),
]


@pytest.mark.parametrize("answer", RIGHT_MEMORIES)
def test_a_memory_may_be_searched_in_many_ways(answer):
    passes("product_key_memory", answer)


def best_pairs(index):
    """Searches k² pairs, of which ``index`` says where their values are."""

    def answer(q, first, second, values, k):
        halves = zip(q.chunk(2, dim=-1), (first, second), strict=True)
        (a, i), (b, j) = ((half @ keys.T).topk(k) for half, keys in halves)
        best, pairs = (a[:, :, None] + b[:, None, :]).flatten(1).topk(k)
        at = index(i, j, len(first), k).flatten(1).gather(1, pairs)
        return (best.softmax(-1)[..., None] * values[at]).sum(1)

    return answer


WRONG_MEMORIES = {
    "They are added": remembered(score=lambda a, b: a * b),
    "average the values": remembered(weigh=lambda s: torch.full_like(s, 1 / len(s))),
    "Their softmax is missing": remembered(weigh=lambda s: s),
    "in steps of n": remembered(index=lambda i, j, n: n * j + i),
    "the best value only": remembered(n_read=1),
    "Only the `k` best are read": remembered(n_read=10**9),
    "These scores are not scaled": lambda q, *rest: remembered()(q / q.shape[1] ** 0.5, *rest),
    "compare the first half of the query with the second": lambda q, *rest: remembered()(
        q.roll(q.shape[1] // 2, 1), *rest
    ),
    "in steps of `k`": best_pairs(lambda i, j, n, k: k * i[:, :, None] + j[:, None, :]),
    "among the k² pairs": best_pairs(lambda i, j, n, k: torch.arange(k * k).view(1, k, k).expand(len(i), k, k)),
    "product_key_memory": remembered(weigh=lambda s: s.sigmoid()),
}


@pytest.mark.parametrize("words", WRONG_MEMORIES)
def test_a_wrong_memory_is_told(words):
    told_not_passed("product_key_memory", WRONG_MEMORIES[words], words)


def test_the_memory_is_that_of_the_package():
    memory = ProductKeyMemory(d_model=8, n_keys=5, n_heads=1, k=3, d_query=6)
    x = torch.randn(1, 4, 8)
    q = memory.query_norm(memory.w_query(x).unflatten(-1, (2, 3))).flatten(-2)[0]
    found = solution("product_key_memory")(q, *memory.sub_keys[0], memory.values, 3)
    torch.testing.assert_close(found, memory(x)[0])


# First the cluster, then the token


def adaptive(join=lambda head, tail: head + tail, head=lambda z: z.log_softmax(-1), tail=lambda z: z.log_softmax(-1)):
    def answer(logits, sizes):
        n, m = sizes[0], len(sizes) - 1
        first, rest, found = head(logits[:, : n + m]), logits[:, n + m :], []
        found.append(first[:, :n])
        for c in range(m):
            piece, rest = rest[:, : sizes[c + 1]], rest[:, sizes[c + 1] :]
            found.append(join(first[:, n + c : n + c + 1], tail(piece)))
        return torch.cat(found, 1)

    return answer


def normalized(z):
    return z - z.max(-1, keepdim=True).values - (z - z.max(-1, keepdim=True).values).exp().sum(-1, True).log()


RIGHT_ADAPTIVE = [
    adaptive(),
    adaptive(head=normalized, tail=normalized),
    lambda logits, sizes: adaptive()(logits.double(), sizes),
    lambda logits, sizes: adaptive()(logits, sizes).numpy(),
]


@pytest.mark.parametrize("answer", RIGHT_ADAPTIVE)
def test_an_adaptive_softmax_may_be_written_in_many_ways(answer):
    passes("adaptive_log_probs", answer)


def together(logits, sizes):
    n, m = sizes[0], len(sizes) - 1
    head, rare = logits[:, : n + m].log_softmax(-1), logits[:, n + m :].log_softmax(-1)
    return torch.cat([head[:, :n], rare + head[:, n:].repeat_interleave(torch.tensor(sizes[1:]), 1)], 1)


def clusters_first(logits, sizes):
    n, m = sizes[0], len(sizes) - 1
    return adaptive()(torch.cat([logits[:, m : n + m], logits[:, :m], logits[:, n + m :]], 1), sizes)


WRONG_ADAPTIVE = {
    "The probability of the cluster is missing": adaptive(lambda head, tail: tail),
    "Which of its tokens is chosen": adaptive(lambda head, tail: head.expand_as(tail)),
    "You multiply the two logarithms": adaptive(lambda head, tail: head * tail),
    "Return their logarithms": lambda logits, sizes: adaptive()(logits, sizes).exp(),
    "a softmax is needed": adaptive(head=lambda z: z, tail=lambda z: z),
    "too small for float32": lambda logits, sizes: adaptive(
        lambda a, b: a * b, lambda z: z.softmax(-1), lambda z: z.softmax(-1)
    )(logits, sizes).log(),
    "and logarithm in one step": adaptive(head=lambda z: z.softmax(-1).log(), tail=lambda z: z.softmax(-1).log()),
    "They need a softmax of": adaptive(tail=lambda z: z),
    "near −200. Yours has not": adaptive(
        head=lambda z: (z.softmax(-1) + 1e-10).log(), tail=lambda z: (z.softmax(-1) + 1e-10).log()
    ),
    "Each cluster has its own": together,
    "The frequent tokens come first": clusters_first,
    "adaptive_log_probs": adaptive(head=lambda z: z.log_softmax(0)),
    "instead of": lambda logits, sizes: adaptive()(logits, sizes).sum(-1),
}


@pytest.mark.parametrize("words", WRONG_ADAPTIVE)
def test_a_wrong_adaptive_softmax_is_told(words):
    told_not_passed("adaptive_log_probs", WRONG_ADAPTIVE[words], words)


def test_the_adaptive_softmax_is_that_of_the_package():
    softmax = AdaptiveSoftmax(AdaptiveEmbedding(n_vocab=20, d_model=8, cutoffs=[4, 11], factor=2))
    x = torch.randn(1, 3, 8)
    tails = [softmax.embedding.cluster_logits(x, c) for c in range(3)]
    logits = torch.cat([tails[0], softmax.w_clusters(x), *tails[1:]], -1)[0]
    torch.testing.assert_close(solution("adaptive_log_probs")(logits, [4, 7, 9]), softmax.log_prob(x)[0])


# Five pairs of runs


def t_values(sign=1, ddof=1, root=True, result=lambda *numbers: numbers):
    def answer(baseline, variant):
        a, b = np.array(baseline), np.array(variant)
        d, n = sign * (b - a), len(a)
        scale = n**0.5 if root else 1
        apart = ((a.var(ddof=ddof) + b.var(ddof=ddof)) / (n if root else 1)) ** 0.5
        return result(d.mean(), d.mean() / (d.std(ddof=ddof) / scale), d.mean() / apart)

    return answer


RIGHT_T = [
    t_values(),
    t_values(result=lambda *numbers: torch.tensor(numbers)),
    t_values(result=lambda *numbers: [Fraction(float(number)) for number in numbers]),
    lambda a, b: (
        statistics.mean(b) - statistics.mean(a),
        paired_t_test(b, a).t,
        (statistics.mean(b) - statistics.mean(a))
        / math.hypot(statistics.stdev(a) / len(a) ** 0.5, statistics.stdev(b) / len(b) ** 0.5),
    ),
]


@pytest.mark.parametrize("answer", RIGHT_T)
def test_t_may_be_computed_in_many_ways(answer):
    passes("paired_t", answer)


WRONG_T = {
    "the variant minus the baseline": t_values(sign=-1),
    "divided by n − 1": t_values(ddof=0),
    "That of their mean is smaller": t_values(root=False),
    "The other t is right": t_values(result=lambda m, t, u: (m, t, u)) and (lambda a, b: (
        t_values()(a, b)[0], t_values(root=False)(a, b)[1], t_values()(a, b)[2]
    )),
    "and not by n": lambda a, b: (lambda m, t, u: (m, t * len(a) ** 0.5, u))(*t_values()(a, b)),
    "They add up": t_values(result=lambda m, t, u: (m, t, 2**0.5 * u)),
    "instead of 2 for 'mean difference'": lambda a, b: (t_values()(a, b)[0] / np.mean(a), *t_values()(a, b)[1:]),
    "are exchanged": t_values(result=lambda m, t, u: (m, u, t)),
    "which are not paired": t_values(result=lambda m, t, u: (m, u, u)),
    "have no sign": t_values(result=lambda m, t, u: (m, abs(t), abs(u))),
    "three numbers are needed": t_values(result=lambda m, t, u: (m, t)),
    "without quotes": t_values(result=lambda *numbers: tuple(map(str, numbers))),
    "paired_t": t_values(result=lambda m, t, u: (m, t + 1, u)),
}  # fmt: skip


@pytest.mark.parametrize("words", WRONG_T)
def test_a_wrong_t_is_told(words):
    told_not_passed("paired_t", WRONG_T[words], words)


# How many of them survive?

HOLM = {"A": 0.028, "B": 0.084, "C": 0.045, "D": 0.6, "E": 0.048, "F": 0.084, "G": 0.042}
HOLM |= {"uncorrected": 6, "bonferroni": 2, "holm": 4}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"B": Decimal("0.084"), "D": "0.60", "holm": "4"},
        {"A": np.float32(0.028), "E": torch.tensor(0.048), "uncorrected": 6.0},
        {"C": 5 * 0.009, "E": 4 * 0.012, "F": Fraction(84, 1000)},
    ],
)
def test_corrected_values_may_be_given_in_many_ways(changes):
    passes("holm_by_hand", lambda: HOLM | changes)


WRONG_HOLM = {
    "Only B is wrong": {"B": 0.06},
    "Only the number for Bonferroni's": {"bonferroni": 4},
    "exchanged the numbers": {"bonferroni": 4, "holm": 2},
    "far above 0.05": {"uncorrected": 7},
    "count the corrected values": {"holm": 3},
    "your number for 'E' is not right": {"E": 0.036},
    "your numbers for 'A' and 'C' are not right": {"A": 0.004, "C": 0.009},
    "Benjamini and Hochberg": {"A": 0.021, "G": 0.021, "C": 0.021, "E": 0.021, "F": 0.035, "B": 0.035, "holm": 6},
    "as Benjamini": {"A": 0.028, "G": 0.0245, "C": 0.021, "E": 0.021, "F": 0.0392, "B": 0.035, "holm": 6},
    "You lower the one": {"F": 0.06, "B": 0.06},
    "rounded to two decimals": {"A": 0.03, "B": 0.08, "C": 0.04, "E": 0.05, "F": 0.08, "G": 0.04},
    "second smallest value times 7": {"bonferroni": 1},
    "third smallest value times 7": {"bonferroni": 3},
    "It gets the largest factor": {"A": 0.004, "G": 0.014, "C": 0.027, "E": 0.048, "F": 0.14, "B": 0.18, "D": 1},
    "the entry 'D' is 'large'": {"D": "large"},
}


@pytest.mark.parametrize("words", WRONG_HOLM)
def test_wrong_corrected_values_are_told(words):
    told_not_passed("holm_by_hand", lambda: HOLM | WRONG_HOLM[words], words)


def test_a_missing_value_is_told():
    told_not_passed("holm_by_hand", lambda: {"A": 0.028}, "the entry 'B' is missing")


def test_the_corrected_values_are_those_of_the_package():
    corrected = holm([0.004, 0.030, 0.009, 0.60, 0.012, 0.028, 0.007])
    assert [HOLM[letter] for letter in "ABCDEFG"] == pytest.approx(corrected)


# Better, worse, or nothing to say

JUDGED = {"A": "better", "C": "worse", "E": "better", "D": "unstable", "G": "unstable"}
JUDGED |= dict.fromkeys("BFH", "within noise")


@pytest.mark.parametrize(
    "changes", [{}, {"A": "Better "}, {"B": "within_noise", "F": "noise"}, {"H": np.str_("WITHIN  NOISE")}]
)
def test_the_verdicts_may_be_written_in_many_ways(changes):
    passes("verdicts", lambda: JUDGED | changes)


WRONG_JUDGED = {
    "B and H are wrong": {"B": "better", "H": "worse"},
    "need not be large": {"E": "within noise"},
    "with the baseline's": {"D": "better"},
    "missing from the mean": {"G": "better"},
    "is less than four times": {"F": "unstable"},
    "your values for 'A' and 'C' are not right": {"A": "worse", "C": "better"},
    "not one of the four verdicts": {"A": "good"},
}


@pytest.mark.parametrize("words", WRONG_JUDGED)
def test_a_wrong_verdict_is_told(words):
    told_not_passed("verdicts", lambda: JUDGED | WRONG_JUDGED[words], words)


def test_the_verdicts_follow_from_the_rule():
    p = dict(zip("ABCDEFH", (0.0002, 0.0199, 0.0012, 0.0383, 0.0039, 0.2139, 0.0211), strict=True))
    below = {letter for letter, corrected in zip(p, holm(list(p.values())), strict=True) if corrected < 0.05}
    assert below == {letter for letter, verdict in JUDGED.items() if verdict in ("better", "worse")}


# The same time, not the same steps


def matched(of_baseline=lambda r: min(1, r), of_variant=lambda r: min(1, 1 / r), at=np.interp, result=lambda *x: x):
    def answer(steps, baseline, variant, time_ratio):
        n, at_step = float(steps[-1]), steps.numpy()
        return result(
            at(n * of_baseline(time_ratio), at_step, baseline.numpy()),
            at(n * of_variant(time_ratio), at_step, variant.numpy()),
        )

    return answer


def stairs(step, steps, losses):
    return losses[np.searchsorted(steps, step + 1e-6) - 1]


def nearest(step, steps, losses):
    return losses[np.abs(steps - step).argmin()]


def by_index(rounded):
    def answer(steps, baseline, variant, time_ratio):
        last = len(steps) - 1
        return baseline[rounded(last * min(1, time_ratio))], variant[rounded(last / max(1, time_ratio))]

    return answer


RIGHT_MATCHED = [
    matched(),
    matched(at=lambda step, steps, losses: np.interp(int(step), steps, losses)),
    matched(result=lambda *losses: torch.tensor(losses)),
    matched(result=lambda *losses: np.array(losses, dtype=np.float32)),
]


@pytest.mark.parametrize("answer", RIGHT_MATCHED)
def test_losses_may_be_matched_in_many_ways(answer):
    passes("matched_losses", answer)


WRONG_MATCHED = {
    "after equally many steps": matched(lambda r: 1, lambda r: 1),
    "you read the baseline at its end": matched(lambda r: 1),
    "you read the variant at its end": matched(of_variant=lambda r: 1),
    "the ratio the wrong way round": matched(lambda r: min(1, 1 / r), lambda r: min(1, r)),
    "You shift the index of the last measurement by the ratio, and": by_index(int),
    "You shift the index of the last measurement by the ratio and round it": by_index(round),
    "you take the nearer one": matched(at=nearest),
    "in the wrong order": matched(result=lambda a, b: (b, a)),
    "you take the earlier one": matched(at=stairs),
    "fewer steps in the same time": matched(lambda r: 1, lambda r: r),
    "It is the baseline that has not": matched(lambda r: 1, lambda r: min(r, 1 / r)),
    "two losses are needed": matched(result=lambda a, b: b - a),
    "matched_losses": matched(lambda r: min(1, r) ** 2),
}


@pytest.mark.parametrize("words", WRONG_MATCHED)
def test_wrongly_matched_losses_are_told(words):
    told_not_passed("matched_losses", WRONG_MATCHED[words], words)


def test_how_many_smaller_losses_are_slower():
    base, *others = table("narang2021")
    ahead = [row for row in others if row["final_loss"] < base["final_loss"]]
    assert len(ahead) == 15 and sum(row["steps_per_s"] < base["steps_per_s"] for row in ahead) == 7
    assert not any({"final_loss", "steps_per_s"} & set((row["uncertain_cells"] or "").split(";")) for row in ahead)


# From a budget to a config


def planned(per_block=lambda d, f: 4 * d * d + 3 * d * f, n_tables=2, up=math.ceil, n_bytes=4, more=0, divides=True):
    def answer(n_parameters, n_vocab, n_ctx, cache_bytes):
        def total(h):
            return h * per_block(128 * h, 256 * up(128 * h * 8 / 3 / 256)) + n_tables * n_vocab * 128 * h

        heads = next(h for h in range(1, 10**4) if total(h + 1) > n_parameters) + more
        fits = [kv for kv in range(1, heads + 1) if kv * heads * 128 * n_bytes * n_ctx <= cache_bytes]
        kv = max((kv for kv in fits if not divides or heads % kv == 0), default=1)
        d_ff = 256 * up(128 * heads * 8 / 3 / 256)
        return {"d_model": 128 * heads, "n_layers": heads, "n_heads": heads, "n_kv_heads": kv, "d_ff": d_ff}

    return answer


RIGHT_PLANS = [
    planned(),
    lambda *given: {name: np.int64(size) for name, size in planned()(*given).items()},
    lambda *given: {name: torch.tensor(float(size)) for name, size in planned()(*given).items()},
    lambda *given: planned()(*given) | {"feedforward": "swiglu"},
]


@pytest.mark.parametrize("answer", RIGHT_PLANS)
def test_a_budget_may_be_spent_in_many_ways(answer):
    passes("config_for_budget", answer)


WRONG_PLANS = {
    "A gated one has three": planned(lambda d, f: 4 * d * d + 2 * d * f),
    "You count one table": planned(n_tables=1),
    "You round `d_ff` down": planned(up=math.floor),
    "the first one that does not fit": planned(more=1),
    "They hold keys and values": planned(n_bytes=2),
    "does not always divide": planned(divides=False),
    "of all layers": lambda *given: planned()(*given) | {"n_kv_heads": planned()(*given)["n_heads"]},
    "as many parameters as its budget": lambda n_parameters, n_vocab, n_ctx, cache_bytes: planned()(
        n_parameters - 1, n_vocab, n_ctx, cache_bytes - 1
    ),
    "leads to 'd_ff = 16384' instead of 'd_ff = 11008'": lambda *given: (
        planned()(*given) | {"d_ff": 4 * planned()(*given)["d_model"]}
    ),
    "config_for_budget": planned(lambda d, f: 5 * d * d + 3 * d * f),
    "the entry 'd_ff' is missing": lambda *given: {
        name: size for name, size in planned()(*given).items() if name != "d_ff"
    },
    "return a dictionary": lambda *given: tuple(planned()(*given).values()),
}


@pytest.mark.parametrize("words", WRONG_PLANS)
def test_a_wrong_plan_is_told(words):
    told_not_passed("config_for_budget", WRONG_PLANS[words], words)


# What do the twelve rows say?

SAID = dict.fromkeys("BFH", "true") | dict.fromkeys("ACE", "false") | dict.fromkeys("DG", "cannot tell")


@pytest.mark.parametrize("changes", [{}, {"A": False, "B": np.bool_(True)}, {"D": "Can't tell"}, {"G": "cannot_tell"}])
def test_what_the_rows_say_may_be_written_in_many_ways(changes):
    passes("gated_rows", lambda: SAID | changes)


WRONG_SAID = {
    "each of the twenty scores": {"A": "true"},
    "Two rows change": {"C": "true"},
    "from seed to seed": {"D": "true"},
    "The widths of the matrices": {"E": "true"},
    "D and G are wrong": {"D": "true", "G": "true"},
    "your values for 'A' and 'B' are not right": {"A": "cannot tell", "B": "cannot tell"},
    "not one of the three verdicts": {"A": "maybe"},
}


@pytest.mark.parametrize("words", WRONG_SAID)
def test_what_the_rows_do_not_say_is_told(words):
    told_not_passed("gated_rows", lambda: SAID | WRONG_SAID[words], words)


def test_the_twelve_rows_are_those_of_the_table():
    """Each number of the exercise stands in the CSV, in a cell that can be read, and the claims are what they are."""
    text = (ROOT / "exercises/modifications/gated_rows/exercise.md").read_text(encoding="utf-8")
    rows = {row["variant"]: row for row in table("narang2021")[:12]}
    assert not any(row["uncertain_cells"] for row in rows.values())
    columns = ("final_loss", "steps_per_s", "sglue", "xsum", "webq", "wmt_ende")
    for name, row in rows.items():
        name = "ReLU (baseline)" if name == "Vanilla Transformer" else name
        early = f"{float(row['early_loss_mean']):.3f} ± {float(row['early_loss_std']):.3f}"
        numbers = [f"{float(row[column]):.{3 if column == 'final_loss' else 2}f}" for column in columns]
        assert f"| {name} | {' | '.join([early, *numbers])} |" in text
    base, gated = rows["Vanilla Transformer"], [row for name, row in rows.items() if name.endswith("LU") and "GLU" in
                                                name or name == "GLU"]  # fmt: skip

    def ranked(column, of=None):
        return [row["variant"] for row in sorted(of or rows.values(), key=lambda row: float(row[column]))]

    assert len(gated) == 5
    assert not all(float(row[task]) > float(base[task]) for row in gated for task in columns[2:])
    assert {*ranked("early_loss_mean")[:5]} == {*ranked("final_loss")[:5]} == {row["variant"] for row in gated}
    assert ranked("early_loss_mean", gated) != ranked("final_loss", gated)
    assert all(float(row["steps_per_s"]) > float(base["steps_per_s"]) for row in gated)
    assert float(rows["Sigmoid"]["early_loss_mean"]) - float(base["early_loss_mean"]) > 5 * 0.019
    assert not any(float(r["final_loss"]) < float(base["final_loss"]) for r in rows.values() if r not in gated)


# Is this comparison fair?

FIELDS = {
    "A": ("d_ff", 1024),
    "B": ("n_heads", 4),
    "C": ("d_ff", 1920),
    "D": ("feedforward", "swish"),
    "E": ("d_embed", 128),
}
PAIR = namedtuple("PAIR", "field value")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"B": {"n_heads": 4, "n_kv_heads": 4}, "D": ["feedforward", "SiLU"]},
        {"A": PAIR("d_ff", torch.tensor(1024.0)), "E": ("d_embed", Fraction(128))},
        {"B": ("n_kv_heads", "4"), "C": {"D_FF": "1_920"}},
        {"B": ("n_heads and n_kv_heads", 4)},
        {"B": (("n_heads", "n_kv_heads"), 4)},
    ],
)
def test_fair_configs_may_be_given_in_many_ways(changes):
    passes("unfair_configs", lambda: FIELDS | changes)


WRONG_FIELDS = {
    "has three matrices, in place of two": {"A": ("d_ff", 768)},
    "attention": {"B": ("d_ff", 256)},
    "give back half": {"C": ("d_ff", 1728)},
    "still has a gate": {"D": ("feedforward", "reglu")},
    "there are twice as many of them": {"B": ("d_ff", 1536)},
    "another one than planned": {"D": ("feedforward", "gelu")},
    "you take 8/3 of the width": {"A": ("d_ff", 1365)},
    "what is saved for what is left": {"E": ("d_embed", 376)},
    "gives no field": {"A": ("d_model", 256)},
    "is a whole number": {"A": ("d_ff", 1024.5)},
    "is a number": {"E": ("d_embed", "narrow")},
    "is not a pair": {"B": 4},
    "your values for 'B' and 'E' are not right": {"B": ("n_heads", 5), "E": ("d_embed", 100)},
}
WRONG_FIELDS["your value for 'D' is not right"] = WRONG_FIELDS.pop("still has a gate")


@pytest.mark.parametrize("words", WRONG_FIELDS)
def test_unfair_configs_are_told(words):
    told_not_passed("unfair_configs", lambda: FIELDS | WRONG_FIELDS[words], words)


def test_the_fair_configs_are_equal():
    d = 512
    assert 3 * d * 1024 == 2 * d * 1536
    assert 24 * 4 * d * 4 * 64 == 12 * 4 * d * 8 * 64 and 24 * 2 * d * 768 == 12 * 2 * d * 1536
    assert 2 * d * (8 + 2) * 64 + 2 * d * 1920 == 4 * d * 8 * 64 + 2 * d * 1536
    assert 32_000 * d - 128 * (32_000 + d) == 12_222_464


# The parameters of shared blocks


def counted(cross=4, shared=lambda flag, n: 1 if flag else n, narrow=True, output=lambda n, d, e: n * d, tables=1):
    def answer(d_model, d_ff, n_vocab, n_layers, encoder_shared, decoder_shared, d_embed, tied):
        block = 4 * d_model**2 + 2 * d_model * d_ff
        total = shared(encoder_shared, n_layers) * block
        total += shared(decoder_shared, n_layers) * (block + cross * d_model**2)
        total += tables * n_vocab * d_embed + narrow * (d_embed != d_model) * d_embed * d_model
        return total + (not tied) * output(n_vocab, d_model, d_embed)

    return answer


RIGHT_COUNTS = [
    counted(),
    lambda *sizes: np.int64(counted()(*sizes)),
    lambda *sizes: float(counted()(*sizes)),
    lambda *sizes: torch.tensor(counted()(*sizes)),
]


@pytest.mark.parametrize("answer", RIGHT_COUNTS)
def test_shared_parameters_may_be_counted_in_many_ways(answer):
    passes("shared_parameters", answer)


WRONG_COUNTS = {
    "no cross-attention": counted(cross=0),
    "You count every block": counted(shared=lambda flag, n: n),
    "that projects its rows is missing": counted(narrow=False),
    "this table is missing": counted(output=lambda n, d, e: 0),
    "It is as wide as the": counted(output=lambda n, d, e: n * e),
    "for each of the two inputs": counted(tables=2),
    "is in millions": lambda *sizes: counted()(*sizes) / 1e6,
    "you count two projections": counted(narrow=2),
    "needs no projection": counted(output=lambda n, d, e: n * d + (e != d) * d * e),
    "Each stack goes by its own": lambda d, f, n, layers, encoder, decoder, *rest: counted()(
        d, f, n, layers, encoder and decoder, encoder and decoder, *rest
    ),
    "Only the decoder has it": lambda d, f, n, layers, encoder, *rest: (
        counted()(d, f, n, layers, encoder, *rest) + 4 * d * d * (1 if encoder else layers)
    ),
    "instead of 222855168": counted(cross=2),
}


@pytest.mark.parametrize("words", WRONG_COUNTS)
def test_shared_parameters_counted_wrongly_are_told(words):
    told_not_passed("shared_parameters", WRONG_COUNTS[words], words)


def test_the_counts_are_those_of_the_paper():
    options = {1: (False, False, 768, True), 22: (True, True, 768, False), 25: (True, False, 768, False)}
    options |= {26: (False, True, 768, False), 27: (False, False, 128, False), 28: (False, False, 128, True)}
    for row, option in options.items():
        cells = table("narang2021")[row - 1]
        assert "params_M" not in (cells["uncertain_cells"] or "")
        found = solution("shared_parameters")(768, 3072, 32128, 12, *option)
        assert abs(found / 1e6 - cells["params_M"]) < (1 if row == 22 else 0.5), row  # of 65.9, the paper has 65


# The best of fifty-one


def best(
    scale=lambda std, n: std / n**0.5, pick=lambda x: -x.min(1), lead=np.mean, result=lambda *x: x, n_tables=100_000
):
    def answer(n_variants, n_runs, std, gap):
        leads = pick(np.random.default_rng(3).normal(0, scale(std, n_runs), (n_tables, n_variants)))
        return result(lead(leads), np.mean(leads >= gap))

    return answer


def by_formula(n_variants, n_runs, std, gap):
    normal, scale = statistics.NormalDist(0, std / n_runs**0.5), std / n_runs**0.5
    points = [normal.inv_cdf(((i + 0.5) / 20_000) ** (1 / n_variants)) for i in range(20_000)]
    assert scale > 0
    return [statistics.fmean(points), 1 - normal.cdf(gap) ** n_variants]


RIGHT_BEST = [
    best(),
    best(pick=lambda x: x.max(1), n_tables=60_000),
    by_formula,
    best(result=lambda *numbers: torch.tensor(numbers)),
]


@pytest.mark.parametrize("answer", RIGHT_BEST)
def test_the_best_row_may_be_found_in_many_ways(answer):
    passes("best_of_many", answer)


WRONG_BEST = {
    "as much as single runs": best(lambda std, n: std),
    "by the number of runs": best(lambda std, n: std / n),
    "A lead is positive": best(result=lambda lead, p: (-lead, p)),
    "of less than `gap`": best(result=lambda lead, p: (lead, 1 - p)),
    "best of all single runs": lambda n_variants, n_runs, std, gap: best()(n_variants * n_runs, 1, std, gap),
    "every row leads by so much": lambda n_variants, n_runs, std, gap: (
        by_formula(n_variants, n_runs, std, gap)[0],
        (1 - statistics.NormalDist().cdf(gap * n_runs**0.5 / std)) ** n_variants,
    ),
    "whether it is better or worse": best(pick=lambda x: abs(x).max(1)),
    "the worst row": best(pick=lambda x: -x.max(1)),
    "a lead that is too small": best(lead=lambda x: 0.9 * np.mean(x)),
    "a number from 0 to 1": best(result=lambda lead, p: (lead, 100 * p)),
    "two numbers": best(result=lambda lead, p: lead),
}


@pytest.mark.parametrize("words", WRONG_BEST)
def test_a_wrong_best_row_is_told(words):
    told_not_passed("best_of_many", WRONG_BEST[words], words)


def test_the_numbers_of_the_explanation_follow():
    leads = [by_formula(51, n_runs, 0.006, 0.0)[0] for n_runs in (1, 5, 25)]
    assert [round(leads[0], 4), *(round(lead, 3) for lead in leads[1:])] == [0.0135, 0.006, 0.003]


# Do two tables agree?


def agreement(count=lambda a, b: np.sign(a * b), below=lambda x, y, n: (x * y) ** 0.5, pairs=combinations):
    def answer(first, second):
        every = [(first[i] - first[j], second[i] - second[j]) for i, j in pairs(range(len(first)), 2)]
        x, y = (sum(pair[side] != 0 for pair in every) for side in (0, 1))
        return sum(count(a, b) for a, b in every) / below(x, y, len(every))

    return answer


RIGHT_AGREEMENTS = [
    agreement(),
    kendall_tau,
    lambda first, second: np.float64(agreement()(first, second)),
    lambda first, second: torch.tensor(agreement()(first, second)),
]


@pytest.mark.parametrize("answer", RIGHT_AGREEMENTS)
def test_an_agreement_may_be_computed_in_many_ways(answer):
    passes("rank_agreement", answer)


WRONG_AGREEMENTS = {
    "the number of all pairs": agreement(below=lambda x, y, n: n),
    "do not subtract": agreement(lambda a, b: a * b > 0),
    "is missing": agreement(below=lambda x, y, n: x * y),
    "not concordant as discordant": agreement(lambda a, b: 1 if a * b > 0 else -1),
    "concordant pairs count positively": agreement(lambda a, b: -np.sign(a * b)),
    "(Pearson)": lambda first, second: np.corrcoef(first, second)[0, 1],
    "where ties should share": lambda first, second: np.corrcoef(
        *(np.argsort(np.argsort(x, kind="stable")) for x in (first, second))
    )[0, 1],
    "rank_agreement": agreement(below=lambda x, y, n: (x + y) / 2 + 1),
    "a string instead of a number": lambda first, second: str(kendall_tau(first, second)),
}


@pytest.mark.parametrize("words", WRONG_AGREEMENTS)
def test_a_wrong_agreement_is_told(words):
    told_not_passed("rank_agreement", WRONG_AGREEMENTS[words], words)


def test_the_losses_are_those_of_the_table():
    names = ("GeGLU", "Vanilla Transformer", "GeLU", "Swish", "RMS Norm", "Block sharing", "ELU")
    rows = {row["variant"]: row for row in table("narang2021")}
    losses = [float(rows[name]["final_loss"]) for name in names]
    assert losses == [1.792, 1.838, 1.838, 1.847, 1.821, 2.164, 1.932]
    assert round(kendall_tau([2.63, 2.71, 2.66, 2.69, 2.74, 2.95, 2.70], losses), 2) == 0.39


# A mixture of softmaxes


def mixed(weights=lambda g: g.log_softmax(1), parts=lambda z: z.log_softmax(2), join=lambda x: x.logsumexp(1)):
    return lambda gate, logits: join(weights(gate)[:, :, None] + parts(logits))


RIGHT_MIXTURES = [
    mixed(),
    mixed(join=lambda x: x.double().exp().sum(1).log()),
    lambda gate, logits: mixed()(gate, logits).numpy(),
    lambda gate, logits: torch.stack([torch.logsumexp(row, 0) for row in mixed(join=lambda x: x)(gate, logits)]),
]


@pytest.mark.parametrize("answer", RIGHT_MIXTURES)
def test_softmaxes_may_be_mixed_in_many_ways(answer):
    passes("mixture_log_probs", answer)


WRONG_MIXTURES = {
    "one softmax, which is not a mixture": lambda gate, logits: torch.einsum(
        "rk, rkw -> rw", gate.softmax(1), logits
    ).log_softmax(-1),
    "You average the logarithms": lambda gate, logits: torch.einsum(
        "rk, rkw -> rw", gate.softmax(1), logits.log_softmax(-1)
    ),
    "without a softmax": mixed(weights=lambda g: g),
    "runs over the components": mixed(parts=lambda z: z.log_softmax(1)),
    "Return their logarithms": lambda gate, logits: mixed()(gate, logits).exp(),
    "Your weights are missing": mixed(weights=torch.zeros_like),
    "minus infinity": lambda gate, logits: torch.einsum("rk, rkw -> rw", gate.softmax(1), logits.softmax(-1)).log(),
    "near −200. Yours has not": lambda gate, logits: (
        torch.einsum("rk, rkw -> rw", gate.softmax(1), logits.softmax(-1)) + 1e-12
    ).log(),
    "mixture_log_probs": mixed(parts=lambda z: z),
}


@pytest.mark.parametrize("words", WRONG_MIXTURES)
def test_a_wrong_mixture_is_told(words):
    told_not_passed("mixture_log_probs", WRONG_MIXTURES[words], words)


def test_the_mixture_is_that_of_the_package():
    layer, x = MixtureOfSoftmaxes(TokenEmbedding(n_vocab=11, d_model=6), n_components=3), torch.randn(1, 4, 6)
    logits = layer.w_components(x).tanh().unflatten(-1, (3, 6)) @ layer.embedding.weight.T
    torch.testing.assert_close(solution("mixture_log_probs")(layer.w_weights(x)[0], logits[0]), layer(x)[0])
