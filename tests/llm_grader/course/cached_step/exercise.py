import math

import torch

from llm_anatomy.shapes import Float, Tensor


def cached_step(
    query: Float[Tensor, "n_heads d_head"],
    key: Float[Tensor, "n_heads d_head"],
    value: Float[Tensor, "n_heads d_head"],
    cache: dict[str, Tensor],
) -> tuple[Float[Tensor, "n_heads d_head"], dict[str, Tensor]]:
    """What the new token receives, and the cache with it."""
    keys, values = (torch.cat((cache[n], x[:, None]), 1) for n, x in (("keys", key), ("values", value)))
    scores = torch.einsum("hd,htd->ht", query, keys) / math.sqrt(query.shape[-1])
    return torch.einsum("ht,htd->hd", torch.softmax(scores, -1), values), {"keys": keys, "values": values}


def accepted_one_head_at_a_time(query, key, value, cache):
    """Each head on its own, with a list where a tuple would do."""
    grown = {name: torch.cat([cache[name], new.unsqueeze(1)], 1) for name, new in (("keys", key), ("values", value))}
    outputs = []
    for q, keys, values in zip(query, grown["keys"], grown["values"], strict=True):
        outputs.append(torch.softmax(keys @ q / len(q) ** 0.5, 0) @ values)
    return [torch.stack(outputs), grown]


def accepted_fused(query, key, value, cache):
    """PyTorch's own attention, with one query."""
    keys = torch.cat((cache["keys"], key[:, None]), dim=1)
    values = torch.cat((cache["values"], value[:, None]), dim=1)
    output = torch.nn.functional.scaled_dot_product_attention(query[:, None], keys, values)
    return output[:, 0], {"values": values, "keys": keys}


def drawn(generator, n_heads, n_past, d_head):
    query, key, value = (torch.randn(n_heads, d_head, generator=generator) for _ in range(3))
    keys, values = (torch.randn(n_heads, n_past, d_head, generator=generator) for _ in range(2))
    return {"query": query, "key": key, "value": value, "cache": {"keys": keys, "values": values}}


def cases(generator):
    return [drawn(generator, 2, 0, 3), drawn(generator, 3, 4, 2)]


def property_empty_cache(answer, generator):
    arguments = drawn(generator, 2, 0, 5)
    assert torch.allclose(answer(*arguments.values())[0], arguments["value"]), (
        "With an empty cache the new token is alone, and should receive its own value."
    )


def hidden_cases(generator):
    def step(heads, past, width, dtype=torch.float32):
        rows = [torch.randn(heads, width, generator=generator).to(dtype) for _ in range(3)]
        held = [torch.randn(heads, past, width, generator=generator).to(dtype) for _ in range(2)]
        names = ("query", "key", "value")
        return dict(zip(names, rows, strict=True)) | {"cache": dict(zip(("keys", "values"), held, strict=True))}

    return [step(2, 5, 4), step(4, 0, 3), step(1, 8, 6, torch.float64)]


def probe_cache_equality(answer, query, key, value, cache):
    """A text that comes token by token, through the cache, receives what it receives at once."""
    keys = torch.cat((cache["keys"], key[:, None]), 1)
    values = torch.cat((cache["values"], value[:, None]), 1)
    held = {"keys": keys[:, :0], "values": values[:, :0]}
    outputs = []
    for i in range(keys.shape[1]):
        output, held = answer(query + i, keys[:, i], values[:, i], held)
        outputs.append(output)
    return torch.stack(outputs, 1)
