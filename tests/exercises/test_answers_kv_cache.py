"""Answers that students give to the exercises of chapter 11: right ones pass, wrong ones are told what is wrong."""

import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.head_sharing import share_heads
from llm_anatomy.layers.kv_cache import KVCache, RollingKVCache
from llm_anatomy.notebook.checks import check


def told(name, answer):
    return check(f"kv_cache/{name}", answer)


# Right answers


def step_by_arrays(x, w_query, w_key, w_value, keys, values):
    x, w_query, w_key, w_value, keys, values = (t.numpy() for t in (x, w_query, w_key, w_value, keys, values))
    keys, values = np.concatenate((keys, (x @ w_key)[None])), np.concatenate((values, (x @ w_value)[None]))
    power = np.exp(keys @ (x @ w_query) / np.sqrt(keys.shape[1]))
    return power / power.sum() @ values, keys, values


def step_by_the_package(x, w_query, w_key, w_value, keys, values):
    cache = KVCache(1, len(keys) + 1, [(1, keys.shape[1]), (1, values.shape[1])])
    if len(keys):
        cache.append(keys[None, None], values[None, None])
    all_keys, all_values, _ = cache.append((x @ w_key).view(1, 1, 1, -1), (x @ w_value).view(1, 1, 1, -1))
    output = F.scaled_dot_product_attention((x @ w_query).view(1, 1, 1, -1), all_keys, all_values)
    return output[0, 0, 0], all_keys[0, 0], all_values[0, 0]


def step_in_double(x, w_query, w_key, w_value, keys, values):
    x, w_query, w_key, w_value, keys, values = (t.double() for t in (x, w_query, w_key, w_value, keys, values))
    keys, values = torch.vstack([keys, w_key.T @ x]), torch.vstack([values, w_value.T @ x])
    scores = torch.mv(keys, w_query.T @ x).div(math.sqrt(keys.size(1)))
    return [torch.softmax(scores, 0) @ values, keys, values]


@pytest.mark.parametrize("answer", [step_by_arrays, step_by_the_package, step_in_double])
def test_a_step_may_be_written_in_many_ways(answer):
    assert told("decoding_step", answer).status == "passed"


def roped(positions, mask=True):
    """Attention with RoPE and a cache, at positions that may be wrong."""

    def answer(q, k, v, frequencies, n_prompt):
        def rotate(x, at):
            angles = torch.as_tensor(at)[:, None] * frequencies
            z = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones(()), angles)
            return torch.cat((z.real, z.imag), -1)

        keys, outputs = k[:0], []
        for start, end in [(0, n_prompt)] + [(i, i + 1) for i in range(n_prompt, len(q))]:
            of_query, of_key = positions(start, end, n_prompt)
            keys = torch.cat((keys, rotate(k[start:end], of_key)))
            scores = rotate(q[start:end], of_query) @ keys.T / q.shape[1] ** 0.5
            if mask:
                scores += torch.full((end - start, end), -torch.inf).triu(start + 1)
            outputs.append(scores.softmax(-1) @ v[:end])
        return torch.cat(outputs)

    return answer


def twice(function):
    return lambda start, end, n_prompt: (function(start, end, n_prompt),) * 2


RIGHT_POSITIONS = [
    twice(lambda start, end, n_prompt: range(start, end)),
    twice(lambda start, end, n_prompt: [start + i + 100 for i in range(end - start)]),
    twice(lambda start, end, n_prompt: torch.linspace(start, end - 1, end - start)),
]


@pytest.mark.parametrize("positions", RIGHT_POSITIONS)
def test_positions_may_be_counted_from_anywhere(positions):
    assert told("lost_position", roped(positions)).status == "passed"


@pytest.mark.parametrize(
    "answer",
    [
        (2_621_440, 327_680, 40_960, 30_517, 244_140),
        [2.62144e6, 327680.0, 40960, 80e9 // 2621440, 80e9 // 327680],
        np.array([2_621_440, 327_680, 40_960, 30_517, 244_140]),
        torch.tensor([2_621_440, 327_680, 40_960, 30_517, 244_140]),
    ],
)
def test_the_numbers_may_be_given_in_many_ways(answer):
    assert told("cache_numbers", lambda: answer).status == "passed"


def batch_by_arrays(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    kept = np.minimum([n_tokens if w is None else w for w in windows], n_tokens).sum()
    cache = int(kept) * n_kv_heads * d_head * 2 * n_bytes
    return np.array([cache, max((memory - n_parameters * n_bytes) // cache, 0)])


def batch_by_comparisons(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    per_token = sum([n_kv_heads * d_head, n_kv_heads * d_head]) * n_bytes
    cache = sum(per_token * (n_tokens if not w or w >= n_tokens else w) for w in windows)
    left = memory - n_bytes * n_parameters
    return (cache, 0) if left < cache else (cache, math.floor(left / cache))


def batch_in_words(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    cache = sum(2 * n_bytes * n_kv_heads * d_head * min(n_tokens, w or n_tokens) for w in windows)
    return float(cache), divmod(max(memory - n_parameters * n_bytes, 0), cache)[0]


@pytest.mark.parametrize("answer", [batch_by_arrays, batch_by_comparisons, batch_in_words])
def test_the_batch_may_be_computed_in_many_ways(answer):
    assert told("largest_batch", answer).status == "passed"


def grouped(table=lambda i, n_heads, n_groups: i // (n_heads // n_groups), values=None, scale=None, mask=0):
    """Attention of heads that share keys and values by a table, which may be wrong."""

    def answer(q, k, v):
        outputs = []
        for i in range(len(q)):
            g = table(i, len(q), len(k))
            scores = q[i] @ k[g].T * (q.shape[-1] ** -0.5 if scale is None else scale)
            if mask is not None:
                scores = scores.masked_fill(torch.ones_like(scores).triu(mask + 1).bool(), float("-inf"))
            outputs.append(scores.softmax(-1) @ v[g if values is None else values(i, len(q), len(k))])
        return torch.stack(outputs)

    return answer


def grouped_by_arrays(q, k, v):
    q, k, v = q.numpy(), k.numpy(), v.numpy()
    table = np.ceil(np.arange(1, len(q) + 1) * len(k) / len(q)).astype(int) - 1
    scores = np.einsum("hqd,hkd->hqk", q, k[table]) / np.sqrt(q.shape[2])
    power = np.tril(np.exp(scores - scores.max()))
    return power / power.sum(-1, keepdims=True) @ v[table]


def grouped_by_the_package(q, k, v):
    n_heads, n_tokens, d = q.shape
    cols = torch.arange(n_tokens)
    expanded = [x[:, None].expand(-1, n_heads // len(x), -1, -1).reshape(q.shape) for x in (k, v)]
    weights = torch.where(cols <= cols[:, None], q @ expanded[0].transpose(1, 2) * d**-0.5, -1e30).softmax(2)
    return torch.bmm(weights, expanded[1])


@pytest.mark.parametrize("answer", [grouped(), grouped_by_arrays, grouped_by_the_package])
def test_groups_may_be_written_in_many_ways(answer):
    assert told("grouped_heads", answer).status == "passed"


def pooled(pool):
    """Pools w (d_model, heads, d_head) of keys and of values in the same way."""

    def answer(w_key, w_value, n_heads, n_groups):
        return tuple(pool(w.reshape(len(w), n_heads, -1), n_groups) for w in (w_key, w_value))

    return answer


def pooled_by_strides(w_key, w_value, n_heads, n_groups):
    n = n_heads // n_groups
    new = []
    for w in (w_key.numpy(), w_value.numpy()):
        d = w.shape[1] // n_heads
        columns = [
            np.mean([w[:, (g * n + h) * d + f] for h in range(n)], axis=0) for g in range(n_groups) for f in range(d)
        ]
        new.append(np.stack(columns, axis=1))
    return new


def pooled_by_the_package(w_key, w_value, n_heads, n_groups):
    found = []
    for w in (w_key, w_value):
        attention = SelfAttention(n_heads * 2, n_heads, bias=False)
        attention.w_key.weight.data, attention.w_value.weight.data = w.T.clone(), w.T.clone()
        found.append(share_heads(attention, n_groups).w_key.weight.detach().T)
    return found


def pooled_by_slices(w_key, w_value, n_heads, n_groups):
    def one(w):
        heads = w.unflatten(1, (n_groups, n_heads // n_groups, w.size(1) // n_heads))
        return torch.einsum("mghd -> mgd", heads).flatten(1).mul(n_groups / n_heads)

    return one(w_key), one(w_value)


@pytest.mark.parametrize("answer", [pooled_by_strides, pooled_by_the_package, pooled_by_slices])
def test_heads_may_be_pooled_in_many_ways(answer):
    assert told("pooled_heads", answer).status == "passed"


def folded_by_arrays(*arguments):
    q, r, c, k, w_uk, w_uv = (t.numpy().astype(np.float64) for t in arguments)
    folded = np.einsum("hd,hdc->hc", q, w_uk)
    power = np.exp((folded @ c.T + r @ k.T) / np.sqrt(q.shape[1] + r.shape[1]))
    averaged = power @ c / power.sum(1, keepdims=True)
    return folded, averaged, np.einsum("hvc,hc->hv", w_uv, averaged)


def folded_by_the_kernel(q, r, c, k, w_uk, w_uv):
    folded = torch.bmm(w_uk.mT, q[..., None])[..., 0]
    query, key = torch.cat((folded, r), -1)[:, None], torch.cat((c, k), -1).expand(len(q), -1, -1)
    value = c.expand(len(q), -1, -1)
    scale = 1 / math.sqrt(q.shape[-1] + r.shape[-1])
    averaged = F.scaled_dot_product_attention(query, key, value, scale=scale)[:, 0]
    return folded, averaged, torch.matmul(w_uv, averaged.unsqueeze(-1)).squeeze(-1)


def folded_head_by_head(q, r, c, k, w_uk, w_uv):
    folded, averaged, outputs = torch.empty(len(q), c.size(1)), torch.empty(len(q), c.size(1)), []
    for i in range(len(q)):
        folded[i] = q[i] @ w_uk[i]
        scores = torch.stack([folded[i] @ c[s] + r[i] @ k[s] for s in range(len(c))])
        averaged[i] = (scores / (q.size(1) + k.size(1)) ** 0.5).softmax(0) @ c
        outputs.append(averaged[i] @ w_uv[i].T)
    return folded, averaged, torch.stack(outputs)


@pytest.mark.parametrize("answer", [folded_by_arrays, folded_by_the_kernel, folded_head_by_head])
def test_keys_may_be_folded_in_many_ways(answer):
    assert told("fold_the_key", answer).status == "passed"


def shaw(vectors):
    """Shaw's attention with `vectors(offsets, t, s)` for each key."""

    def answer(q, k, v, offsets):
        outputs = []
        for t in range(len(q)):
            keys = torch.stack([k[s] + vectors(offsets, t, s) for s in range(t + 1)])
            outputs.append((keys @ q[t] / q.shape[1] ** 0.5).softmax(0) @ v[: t + 1])
        return torch.stack(outputs)

    return answer


def shaw_with_a_constant(offsets, t, s):
    return offsets[min(t - s, len(offsets) - 1)] - offsets[0]


def shaw_by_arrays(q, k, v, offsets):
    q, k, v, offsets = q.numpy(), k.numpy(), v.numpy(), offsets.numpy()
    t = np.arange(len(q))
    rows = np.take_along_axis(q @ offsets.T, np.clip(t[:, None] - t, 0, len(offsets) - 1), 1)
    power = np.tril(np.exp((q @ k.T + rows) / np.sqrt(q.shape[1])))
    return power / power.sum(1, keepdims=True) @ v


@pytest.mark.parametrize(
    "answer",
    [
        shaw(lambda offsets, t, s: offsets[min(t - s, len(offsets) - 1)]),
        shaw(shaw_with_a_constant),
        shaw_by_arrays,
    ],
)
def test_offsets_may_be_mended_in_many_ways(answer):
    assert told("stale_offsets", answer).status == "passed"


def roofline(change=lambda p: None, finish=None):
    """The step of two parts; `change` spoils its numbers, `finish` what is returned."""

    def answer(batch, n_new, n_tokens, n_parameters, n_layers, n_heads, n_kv_heads, d_head, n_bytes, peak, bandwidth):
        p = dict(batch=batch, n_new=n_new, n_bytes=n_bytes, n_heads=n_heads, n_kv_heads=n_kv_heads, n_layers=n_layers)
        p["f_w"] = 2.0 * n_parameters * batch * n_new
        p["f_a"] = 4.0 * d_head * n_heads * n_tokens * n_layers * batch * n_new
        p["m_w"] = float(n_parameters * n_bytes)
        p["m_a"] = 2.0 * n_layers * n_kv_heads * d_head * n_tokens * batch * n_bytes
        change(p)
        intensities = [p["f_w"] / p["m_w"], p["f_a"] / p["m_a"]]
        pairs = [(p["f_w"] / peak, p["m_w"] / bandwidth), (p["f_a"] / peak, p["m_a"] / bandwidth)]
        words = ["memory" if moving > computing else "compute" for computing, moving in pairs]
        if finish:
            return finish(intensities, words, pairs, p)
        return torch.tensor(intensities), words, batch * n_new / (max(pairs[0]) + max(pairs[1]))

    return answer


def spoilt(**factors):
    """Multiplies entries of the step by powers of its own numbers: `m_w="batch"`, or `m_a="/n_new"`."""

    def change(p):
        for name, by in factors.items():
            p[name] = p[name] / p[by[1:]] if str(by).startswith("/") else p[name] * p.get(by, by)

    return roofline(change)


@pytest.mark.parametrize(
    "answer",
    [
        roofline(),
        roofline(
            finish=lambda i, words, pairs, p: (
                np.array(i),
                np.array(words),
                np.float32(p["batch"] * p["n_new"] / sum(map(max, pairs))),
            )
        ),
        roofline(
            finish=lambda i, words, pairs, p: (
                torch.tensor(i, dtype=torch.float64),
                tuple(words),
                torch.tensor(p["batch"] * p["n_new"]) / torch.tensor(pairs).amax(1).sum(),
            )
        ),
        roofline(
            finish=lambda i, words, pairs, p: [i, words, 1 / (sum(map(max, pairs)) / p["batch"] / p["n_new"])],
        ),
    ],
)
def test_intensities_may_be_computed_in_many_ways(answer):
    assert told("two_intensities", answer).status == "passed"


READ = {"multi-head": "C", "grouped": "E", "multi-query": "D", "latent": "A", "window": "B"}
READ |= {"key-value heads": 8, "length": 4096}


@pytest.mark.parametrize(
    "answer",
    [
        READ,
        {name: letter.lower() if isinstance(letter, str) else letter for name, letter in READ.items()},
        READ | {"length": 3500, "key-value heads": np.int64(8)},
        READ | {"length": torch.tensor(4800.0), "key-value heads": torch.tensor(8)},
        READ | {"length": "4_096"},
    ],
)
def test_the_figure_may_be_read_in_many_ways(answer):
    assert told("read_the_cache", lambda: answer).status == "passed"


def rolled_by_the_package(q, k, v, keys, values, n_seen):
    w = len(keys)
    cache = RollingKVCache(1, w, [(1, keys.shape[1]), (1, values.shape[1])])
    for t in range(max(0, n_seen - w), n_seen) if n_seen % w else range(n_seen - w if n_seen else 0, n_seen):
        cache.length = t
        cache.append(keys[t % w].view(1, 1, 1, -1), values[t % w].view(1, 1, 1, -1), positions=torch.tensor([[t]]))
    cache.length = n_seen
    used_keys, used_values, _ = cache.append(
        k.view(1, 1, 1, -1), v.view(1, 1, 1, -1), positions=torch.tensor([[n_seen]])
    )
    output = F.scaled_dot_product_attention(q.view(1, 1, 1, -1), used_keys, used_values)[0, 0, 0]
    unused = slice(used_keys.shape[2], None)
    return output, torch.cat((used_keys[0, 0], keys[unused])), torch.cat((used_values[0, 0], values[unused]))


def rolled_by_arrays(q, k, v, keys, values, n_seen):
    keys, values = keys.numpy().copy(), values.numpy().copy()
    keys[n_seen % len(keys)], values[n_seen % len(keys)] = k.numpy(), v.numpy()
    n = min(len(keys), n_seen + 1)
    power = np.exp(keys[:n] @ q.numpy() / np.sqrt(len(q)))
    return power @ values[:n] / power.sum(), keys, values


def rolled_by_scatter(q, k, v, keys, values, n_seen):
    slot = torch.tensor([n_seen % len(keys)])
    keys, values = keys.index_copy(0, slot, k[None]), values.index_copy(0, slot, v[None])
    used = torch.arange(len(keys)) <= n_seen
    return torch.softmax(keys[used] @ q * len(q) ** -0.5, -1) @ values[used], keys, values


@pytest.mark.parametrize("answer", [rolled_by_the_package, rolled_by_arrays, rolled_by_scatter])
def test_a_cache_may_roll_in_many_ways(answer):
    assert told("rolling_step", answer).status == "passed"


def shares(n_new, n_slots, *steps):
    return *steps, *(1 - sum(n_new) / n_slots / each for each in steps)


def batched_by_slots(n_new, n_slots):
    static = sum(max(n_new[i : i + n_slots]) for i in range(0, len(n_new), n_slots))
    slots = [0] * n_slots
    for n in n_new:
        slots.sort()
        slots[0] += n
    return shares(n_new, n_slots, static, max(slots))


def batched_by_simulation(n_new, n_slots):
    waiting, slots, steps = list(n_new), [0] * n_slots, 0
    while waiting or any(slots):
        slots = [n if n else (waiting.pop(0) if waiting else 0) for n in slots]
        slots, steps = [max(n - 1, 0) for n in slots], steps + 1
    static, rest = 0, np.array(n_new)
    while len(rest):
        static, rest = static + rest[:n_slots].max(), rest[n_slots:]
    return np.array(shares(n_new, n_slots, static, steps))


def batched_in_tensors(n_new, n_slots):
    static, continuous, *idle = batched_by_slots(n_new, n_slots)
    return torch.tensor(static), continuous, *map(np.float32, idle)


@pytest.mark.parametrize("answer", [batched_by_slots, batched_by_simulation, batched_in_tensors])
def test_requests_may_be_batched_in_many_ways(answer):
    assert told("batching", answer).status == "passed"


# Wrong answers


def spoilt_step(scores=lambda s, d: s / d**0.5, weights=lambda s: s.softmax(-1), order=1, keep=slice(None)):
    """One step for a table with one row, which goes wrong in one place."""

    def answer(x, w_query, w_key, w_value, keys, values):
        q, k, v = (x[None] @ w for w in (w_query, w_key, w_value))
        all_keys, all_values = (torch.cat((old, new)[::order]) for old, new in ((keys, k), (values, v)))
        s = scores(q @ all_keys[keep].T, q.shape[1])
        return (weights(s) @ all_values[keep])[0], all_keys, all_values

    return answer


def causal_mask_of_the_row(s):
    return s.masked_fill(torch.ones_like(s).triu(1).bool(), -torch.inf).softmax(-1)


def no_row_in_the_output(x, w_query, w_key, w_value, keys, values):
    output, keys, values = step_in_double(x, w_query, w_key, w_value, keys, values)
    return output.unsqueeze(0).float(), keys.float(), values.float()


def query_into_the_cache(x, w_query, w_key, w_value, keys, values):
    return spoilt_step()(x, w_query, w_query, w_value, keys, values)


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (spoilt_step(scores=lambda s, d: s), "not_scaled"),
        (spoilt_step(scores=lambda s, d: s / d), "scaled_without_root"),
        (spoilt_step(weights=causal_mask_of_the_row), "mask_of_a_square"),
        (spoilt_step(weights=lambda s: s.softmax(0)), "sum_of_the_values"),
        (spoilt_step(weights=lambda s: s), "no_softmax"),
        (spoilt_step(order=-1), "new_row_first"),
        (spoilt_step(keep=slice(-1)), "attends_before_appending"),
        (no_row_in_the_output, "row_for_a_vector"),
        (lambda *a: (step_in_double(*a)[0], a[0] @ a[2], a[0] @ a[3]), "new_row_alone"),
        (query_into_the_cache, "query_cached"),
    ],
)
def test_a_mistake_in_a_step_is_named(answer, mistake):
    assert told("decoding_step", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (spoilt_step(scores=lambda s, d: s * d**0.5), "should give what causal attention over all six tokens"),
        (lambda *a: step_in_double(*a)[0], "instead of a tuple of "),
        (lambda *a: (step_in_double(*a)[0],), "returns 1 value instead of 3"),
    ],
)
def test_a_step_gone_wrong_is_told(answer, words):
    assert words in told("decoding_step", answer).message


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (roped(lambda start, end, n: (range(start, end), range(end - start))), "only_the_queries"),
        (roped(lambda start, end, n: (range(end - start), range(start, end))), "only_the_keys"),
        (roped(twice(lambda start, end, n: [n] if start else range(end))), "same_position_for_all_new_tokens"),
        (roped(twice(lambda start, end, n: [start - n] if start else range(end))), "decoding_counted_from_zero"),
        (roped(twice(lambda start, end, n: [start - n + 1] if start else range(end))), "steps_counted"),
        (roped(twice(lambda start, end, n: [end] if start else range(end))), "one_too_far"),
        (roped(twice(lambda start, end, n: [start - 1] if start else range(end))), "one_too_near"),
        (roped(twice(lambda start, end, n: [start] * (end - start))), "same_position_for_a_block"),
        (roped(twice(lambda start, end, n: range(start, end)), mask=False), "mask_removed"),
        (
            lambda q, k, v, f, n: F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0],
            "not_rotated",
        ),
    ],
)
def test_a_wrong_position_is_named(answer, mistake):
    assert told("lost_position", answer).mistake == mistake


def key_rotated_twice(q, k, v, frequencies, n_prompt):
    def rotate(x, first):
        angles = torch.arange(first, first + len(x))[:, None] * frequencies
        z = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones(()), angles)
        return torch.cat((z.real, z.imag), -1)

    k = rotate(rotate(k, 0), 0)
    return roped(twice(lambda start, end, n: [0] * (end - start)))(rotate(q, 0), k, v, frequencies, n_prompt)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (roped(twice(lambda start, end, n: range(end - start))), "still does what the code you were given does"),
        (roped(twice(lambda start, end, n: range(start + start, start + end))), "wrong only in some rows"),
    ],
)
def test_a_position_gone_wrong_is_told(answer, words):
    assert words in told("lost_position", answer).message


def test_keys_of_one_block_that_are_rotated_twice_are_wrong_after_the_first_row():
    assert "wrong only after the first row" in told("lost_position", key_rotated_twice).message


@pytest.mark.parametrize(
    ("numbers", "mistake"),
    [
        ((1_310_720, 163_840, 20_480, 61_035, 488_281), "keys_alone"),
        ((5_242_880, 655_360, 81_920, 15_258, 122_070), "four_bytes"),
        ((32_768, 4_096, 512, 2_441_406, 19_531_250), "one_layer"),
        ((20_971_520, 2_621_440, 327_680, 3814, 30_517), "bits"),
        ((2_621_440, 655_360, 40_960, 30_517, 122_070), "sixteen_heads"),
        ((2_621_440, 40_960, 327_680, 30_517, 244_140), "grouped_and_multi_query_exchanged"),
        ((2_621_440, 327_680, 40_960, 30_518, 244_141), "rounded_up"),
        ((2_621_440, 327_680, 40_960, 32_768, 262_144), "gibibytes"),
        ((2_621_440, 327_680, 40_960, 30_517, 1_953_125), "tokens_of_the_single_head"),
    ],
)
def test_a_wrong_number_is_named(numbers, mistake):
    assert told("cache_numbers", lambda: numbers).mistake == mistake


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((2_621_440, 327_680, 40_960, 80e9 / 2_621_440, 80e9 / 327_680), "30,517.57812 is not"),
        ((2_621_440, 327_680, 40_960), "five numbers are needed"),
        (("2621440", 327_680, 40_960, 30_517, 244_140), "without quotes"),
        ((2_621_440, 327_680, 40_960, 30_517, 30_517), "your fifth number is not right"),
    ],
)
def test_it_is_told_what_is_wrong_with_the_numbers(numbers, words):
    assert words in told("cache_numbers", lambda: numbers).message


def served(
    kept=lambda w, n: min(w or n, n), factor=2, weights=lambda p, b: p * b, batch=lambda left, cache: left // cache
):
    def answer(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
        cache = factor * n_kv_heads * d_head * n_bytes * sum(kept(w, n_tokens) for w in windows)
        return cache, max(batch(memory - weights(n_parameters, n_bytes), cache), 0)

    return answer


def served_as_by_the_smallest_window(n_parameters, windows, *others):
    smallest = min((w for w in windows if w is not None), default=None)
    return batch_by_comparisons(n_parameters, [smallest] * len(windows), *others)


def served_in_billions(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory):
    cache, batch = batch_in_words(n_parameters, windows, n_kv_heads, d_head, n_tokens, n_bytes, memory)
    return cache / 1e9, batch


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (served(kept=lambda w, n: n), "windows_ignored"),
        (served_as_by_the_smallest_window, "smallest_window_for_all"),
        (served(kept=lambda w, n: w or n), "whole_window"),
        (served(factor=1), "keys_alone"),
        (served(weights=lambda p, b: 0), "weights_forgotten"),
        (served(weights=lambda p, b: p), "weights_of_one_byte"),
        (served(batch=lambda left, cache: -(-left // cache)), "rounded_up"),
        (served(batch=lambda left, cache: left / cache), "not_rounded"),
        (served(batch=lambda left, cache: round(left / cache)), "rounded"),
        (served(batch=lambda left, cache: max(1, left // cache)), "at_least_one"),
    ],
)
def test_a_mistake_in_the_batch_is_named(answer, mistake):
    assert told("largest_batch", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (served(kept=lambda w, n: max(w or n, n)), "A window that is as long as the conversation"),
        (served(factor=3), "instead of 2147483648"),
        (served_in_billions, "leads to 2.1475 instead of 2147483648"),
        (lambda *a: served()(*a)[1], "two numbers are needed"),
    ],
)
def test_a_batch_gone_wrong_is_told(answer, words):
    assert words in told("largest_batch", answer).message


def grouped_without_root(q, k, v):
    return grouped(scale=1 / q.shape[-1])(q, k, v)


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (grouped(lambda i, n_heads, n: i % n), "heads_take_turns"),
        (grouped(lambda i, n_heads, n: 0), "first_head_for_all"),
        (grouped(lambda i, n_heads, n: max(math.ceil(i * n / n_heads) - 1, 0)), "one_head_too_early"),
        (grouped(lambda i, n_heads, n: min((i + 1) * n // n_heads, n - 1)), "floor_for_ceiling"),
        (grouped(lambda i, n_heads, n: math.ceil(i * n / n_heads) - 1), "first_head_reads_the_last"),
        (grouped(values=lambda i, n_heads, n: i % n), "values_take_turns"),
        (grouped(scale=1), "not_scaled"),
        (grouped_without_root, "scaled_without_root"),
        (grouped(mask=None), "no_mask"),
        (lambda q, k, v: grouped()(q, k, v).unflatten(0, (len(k), -1)), "groups_kept_as_an_axis"),
    ],
)
def test_a_mistake_in_the_groups_is_named(answer, mistake):
    assert told("grouped_heads", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (grouped(mask=1), "no token may attend to later ones"),
        (grouped(lambda i, n_heads, n: min(i, n - 1)), "the outputs of the first 3 should stay"),
        (grouped(scale=0.5), "off by up to"),
    ],
)
def test_groups_gone_wrong_are_told(answer, words):
    assert told("grouped_heads", answer).status == "failed" and words in told("grouped_heads", answer).message


def groups_of(w, n):
    return w.unflatten(1, (n, -1))


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (pooled(lambda w, n: groups_of(w, n).sum(2).flatten(1)), "sum_for_mean"),
        (pooled(lambda w, n: groups_of(w, n)[:, :, 0].flatten(1)), "first_head"),
        (pooled(lambda w, n: groups_of(w, n).sum(2).flatten(1) / n), "divided_by_the_groups"),
        (pooled(lambda w, n: groups_of(w, n).sum(2).flatten(1) / w.shape[1]), "divided_by_all_heads"),
        (pooled(lambda w, n: w.unflatten(1, (-1, n)).mean(1).flatten(1)), "heads_take_turns"),
        (pooled(lambda w, n: groups_of(w, n).mean(1).flatten(1)), "mean_over_the_groups"),
        (
            pooled(lambda w, n: groups_of(w, n).mean(2).repeat_interleave(w.shape[1] // n, 1).flatten(1)),
            "repeated_for_each_head",
        ),
        (pooled(lambda w, n: groups_of(w, n).mean(2).mT.flatten(1)), "order_within_a_group"),
        (pooled(lambda w, n: groups_of(w, n).mean(2).flatten(1).T), "transposed"),
    ],
)
def test_a_mistake_in_pooling_is_named(answer, mistake):
    assert told("pooled_heads", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (pooled(lambda w, n: groups_of(w, n).amax(2).flatten(1)), "should be the mean of the keys"),
        (pooled(lambda w, n: groups_of(w, n).mean(2)), "shape"),
    ],
)
def test_pooling_gone_wrong_is_told(answer, words):
    assert words in told("pooled_heads", answer).message


def spoilt_fold(scale=lambda q, r, c: (q.shape[1] + r.shape[1]) ** 0.5, rotary=1.0, dim=1, out=lambda *o: o):
    def answer(q, r, c, k, w_uk, w_uv):
        folded = torch.einsum("hdc, hd -> hc", w_uk, q)
        weights = ((folded @ c.T + rotary * r @ k.T) / scale(q, r, c)).softmax(dim)
        return out(folded, weights @ c, torch.einsum("hvc, hc -> hv", w_uv, weights @ c))

    return answer


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (spoilt_fold(rotary=0.0), "rotary_part_missing"),
        (spoilt_fold(lambda q, r, c: q.shape[1] ** 0.5), "scaled_by_the_head"),
        (spoilt_fold(lambda q, r, c: c.shape[1] ** 0.5), "scaled_by_the_latent"),
        (spoilt_fold(lambda q, r, c: (c.shape[1] + r.shape[1]) ** 0.5), "scaled_by_latent_and_rotary"),
        (spoilt_fold(lambda q, r, c: 1), "not_scaled"),
        (spoilt_fold(dim=0), "softmax_over_the_heads"),
        (spoilt_fold(out=lambda folded, averaged, output: (folded, output, averaged)), "output_before_latents"),
        (spoilt_fold(out=lambda folded, averaged, output: (output, averaged, folded)), "outputs_first"),
        (spoilt_fold(lambda q, r, c: q.shape[1] + r.shape[1]), "scaled_without_root"),
    ],
)
def test_a_mistake_in_folding_is_named(answer, mistake):
    assert told("fold_the_key", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (spoilt_fold(out=lambda folded, averaged, output: output), "instead of a tuple of "),
        (spoilt_fold(rotary=-1.0), "recovered from the latents"),
        (spoilt_fold(out=lambda folded, averaged, output: (folded, averaged, output.flatten())), "shape"),
    ],
)
def test_folding_gone_wrong_is_told(answer, words):
    assert words in told("fold_the_key", answer).message


def zero_beyond(offsets, t, s):
    return offsets[t - s] if t - s < len(offsets) else torch.zeros_like(offsets[0])


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (shaw(lambda offsets, t, s: offsets[min(s, len(offsets) - 1)]), "absolute_positions"),
        (shaw(zero_beyond), "zero_beyond"),
        (shaw(lambda offsets, t, s: offsets[(t - s) % len(offsets)]), "wrapped_round"),
        (shaw(lambda offsets, t, s: -offsets[min(t - s, len(offsets) - 1)]), "sign"),
        (shaw(lambda offsets, t, s: offsets[min(t - s + 1, len(offsets) - 1)]), "one_too_far"),
        (shaw(lambda offsets, t, s: offsets[max(s - t, 1 - len(offsets))]), "negative_distances"),
        (shaw(lambda offsets, t, s: offsets[min(max(t - s - 1, 0), len(offsets) - 1)]), "one_too_near"),
    ],
)
def test_a_stale_offset_is_named(answer, mistake):
    assert told("stale_offsets", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (shaw(lambda offsets, t, s: offsets[s - t]), "Negative distances, for example"),
        (shaw(lambda offsets, t, s: offsets[0]), "still does what the code you were given does"),
        (shaw(lambda offsets, t, s: torch.zeros(())), "still does what the code you were given does"),
        (shaw(lambda offsets, t, s: offsets[min(t, len(offsets) - 1)]), "still does what the code you were given does"),
        (shaw(lambda offsets, t, s: 2 * offsets[min(t - s, len(offsets) - 1)]), "wrong only in some rows"),
    ],
)
def test_an_offset_gone_wrong_is_told(answer, words):
    assert told("stale_offsets", answer).status != "passed" and words in told("stale_offsets", answer).message


def finished(seconds=lambda pairs: sum(map(max, pairs)), new=lambda p: p["batch"] * p["n_new"], words=lambda w: w):
    return roofline(finish=lambda i, w, pairs, p: (torch.tensor(i), words(w), new(p) / seconds(pairs)))


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (spoilt(m_w="batch"), "weights_for_each_text"),
        (spoilt(m_a="/batch"), "one_cache_for_all"),
        (spoilt(f_w=0.5), "one_operation_for_each_weight"),
        (spoilt(m_a=0.5), "keys_alone"),
        (spoilt(m_a="n_new"), "cache_for_each_new_token"),
        (spoilt(m_a="/n_bytes", m_w="/n_bytes"), "bytes_forgotten"),
        (spoilt(f_w="/batch"), "batch_not_in_the_operations"),
        (finished(seconds=lambda pairs: sum(map(sum, pairs))), "times_added"),
        (finished(seconds=lambda pairs: max(map(max, pairs))), "longer_part_alone"),
        (finished(new=lambda p: 1), "steps_in_a_second"),
        (finished(new=lambda p: p["n_new"]), "tokens_of_one_text"),
        (finished(new=lambda p: p["batch"]), "texts_in_a_second"),
        (finished(words=lambda w: [{"memory": "compute", "compute": "memory"}[each] for each in w]), "words_exchanged"),
    ],
)
def test_a_mistake_in_the_intensities_is_named(answer, mistake):
    assert told("two_intensities", answer).mistake == mistake


def test_attention_halved_for_a_mask_is_told_that_the_mask_saves_nothing():
    result = told("two_intensities", spoilt(f_a=0.5))
    assert result.mistake == "half_the_operations_of_attention" and "mask saves none" in result.message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (finished(words=lambda w: ["memory-bound"] * 2), "'memory-bound' is neither 'memory' nor 'compute'"),
        (spoilt(f_a="batch"), "The intensity of attention should be the same for any batch"),
        (roofline(finish=lambda i, w, pairs, p: (i, w)), "return three things"),
        (roofline(finish=lambda i, w, pairs, p: (w, i, 1.0)), "the intensities come first"),
        (spoilt(m_a="/n_layers"), "leads to [1, 32] instead of [1, 1]"),
    ],
)
def test_intensities_gone_wrong_are_told(answer, words):
    assert told("two_intensities", answer).status == "failed" and words in told("two_intensities", answer).message


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        ({"latent": "D", "multi-query": "A"}, "latent_and_multi_query_exchanged"),
        ({"grouped": "B", "window": "E"}, "window_and_grouped_exchanged"),
        ({"key-value heads": 4}, "four_heads"),
        ({"key-value heads": 32}, "all_heads"),
        ({"length": 131_072}, "too_long"),
        ({"length": 1000}, "too_short"),
    ],
)
def test_a_curve_that_is_misread_is_named(change, mistake):
    assert told("read_the_cache", lambda: READ | change).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (READ | {"grouped": "C"}, "each of the five curves belongs to a model of its own"),
        (READ | {"grouped": "F"}, "'F' is not one of the letters"),
        (READ | {"key-value heads": 7.5}, "should be a power of 2"),
        (READ | {"key-value heads": "8 heads"}, "should be numbers without words"),
        ({k: v for k, v in READ.items() if k != "length"}, "the entry 'length' is missing"),
        (
            READ | {"grouped": "A", "latent": "D", "multi-query": "E"},
            'Your letters for "grouped", "latent" and "multi-query" are not right.',
        ),
        (
            READ | {"latent": "D", "multi-query": "A", "key-value heads": 4},
            "than 576? Your number of key-value heads is too small. By which factor",
        ),
        (READ | {"key-value heads": 1, "length": 500}, "Your number of key-value heads is too small."),
        (READ | {"length": float("nan")}, "NaN, which is not a number"),
        (READ | {"key-value heads": 1, "length": 500}, "Your window is too short."),
    ],
)
def test_a_wrong_reading_is_told(answer, words):
    assert words in told("read_the_cache", lambda: answer).message


def test_a_wrong_number_of_heads_is_not_told_a_division_that_gives_the_right_one():
    for n in (1, 2, 4, 16, 32):
        message = told("read_the_cache", lambda n=n: READ | {"key-value heads": n}).message
        assert not re.search(r"\b(4|8|32|eight|groups?)\b", message)


def moved(q, k, v, keys, values, n_seen):
    keys, values = torch.vstack((keys[1:], k)), torch.vstack((values[1:], v))
    scores = (keys @ q / len(q) ** 0.5).masked_fill(torch.arange(len(keys)) < len(keys) - 1 - n_seen, -torch.inf)
    return scores.softmax(0) @ values, keys, values


def moved_when_full(q, k, v, keys, values, n_seen):
    return (moved if n_seen >= len(keys) else rolling())(q, k, v, keys, values, n_seen)


def rolling(slot=lambda n, w: n % w, used=lambda n, w: range(min(n + 1, w)), scale=True, in_place=False):
    def answer(q, k, v, keys, values, n_seen):
        if not in_place:
            keys, values = keys.clone(), values.clone()
        w = len(keys)
        keys[slot(n_seen, w)], values[slot(n_seen, w)] = k, v
        rows = list(used(n_seen, w))
        weights = (keys[rows] @ q / (len(q) ** 0.5 if scale else 1)).softmax(0)
        return weights @ values[rows], keys, values

    return answer


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (rolling(used=lambda n, w: range(w)), "unused_slots_read"),
        (rolling(used=lambda n, w: range(n % w + 1)), "up_to_the_slot"),
        (rolling(used=lambda n, w: range(min(n, w))), "new_slot_not_read"),
        (rolling(slot=lambda n, w: (n + 1) % w), "next_slot"),
        (rolling(slot=lambda n, w: (n - 1) % w), "slot_before"),
        (rolling(slot=lambda n, w: min(n, w - 1)), "last_slot_when_full"),
        (rolling(scale=False), "not_scaled"),
        (rolling(in_place=True), "changed_in_place"),
        (moved_when_full, "shifted"),
        (moved, "shifted_in_each_step"),
    ],
)
def test_a_cache_that_does_not_roll_is_named(answer, mistake):
    assert told("rolling_step", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (rolling(used=lambda n, w: [i for i in range(w) if i <= n and i != (n + 1) % w] or [0]), "sliding window"),
        (lambda *a: rolling()(*a)[0], "instead of a tuple of "),
    ],
)
def test_a_cache_gone_wrong_is_told(answer, words):
    assert words in told("rolling_step", answer).message


def served_by(static=None, continuous=None, finish=lambda *numbers: numbers):
    def answer(n_new, n_slots):
        steps = [*batched_by_slots(n_new, n_slots)[:2]]
        steps[0] = static(n_new, n_slots) if static else steps[0]
        steps[1] = continuous(n_new, n_slots) if continuous else steps[1]
        return finish(*shares(n_new, n_slots, *steps))

    return answer


def one_step_later(n_new, n_slots):
    return batched_by_slots([n + 1 for n in n_new], n_slots)[1] - 1


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (served_by(continuous=lambda n_new, s: math.ceil(sum(n_new) / s)), "no_slot_ever_idle"),
        (served_by(continuous=lambda n_new, s: max(max(n_new), -(-sum(n_new) // s))), "even_or_longest"),
        (served_by(continuous=one_step_later), "one_step_lost"),
        (served_by(continuous=lambda n_new, s: max(sum(n_new[i::s]) for i in range(s))), "fixed_turns"),
        (served_by(static=lambda n_new, s: sum(n_new)), "one_after_the_other"),
        (lambda n_new, n_slots: batched_by_slots(sorted(n_new)[::-1], n_slots), "longest_first"),
        (served_by(finish=lambda a, b, c, d: (a, b, 1 - c, 1 - d)), "busy_for_idle"),
        (served_by(finish=lambda a, b, c, d: (a, b, 100 * c, 100 * d)), "in_percent"),
        (served_by(finish=lambda a, b, c, d: (b, a, d, c)), "exchanged"),
    ],
)
def test_a_mistake_in_batching_is_named(answer, mistake):
    assert told("batching", answer).mistake == mistake


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda n_new, n_slots: batched_by_slots(n_new, n_slots)[:2], "four numbers are needed"),
        (served_by(continuous=lambda n_new, s: max(n_new)), "leads to 7 instead of 15"),
        (served_by(static=lambda n_new, s: sum(n_new) // s), "leads to 1 instead of 5"),
    ],
)
def test_batching_gone_wrong_is_told(answer, words):
    assert told("batching", answer).status == "failed" and words in told("batching", answer).message
