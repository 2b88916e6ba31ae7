import torch


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
