import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def decoding_step(
    x: Float[Tensor, "d_model"],
    w_query: Float[Tensor, "d_model d_head"],
    w_key: Float[Tensor, "d_model d_head"],
    w_value: Float[Tensor, "d_model d_value"],
    keys: Float[Tensor, "n_cached d_head"],
    values: Float[Tensor, "n_cached d_value"],
) -> tuple[Float[Tensor, "d_value"], Float[Tensor, "n_keys d_head"], Float[Tensor, "n_keys d_value"]]:
    """Return the output of the new token, and the cache with its key and its value."""
    keys = torch.cat((keys, (x @ w_key)[None]))
    values = torch.cat((values, (x @ w_value)[None]))
    scores = keys @ (x @ w_query) / w_query.shape[1] ** 0.5
    return scores.softmax(0) @ values, keys, values


def accepted_rows(x, w_query, w_key, w_value, keys, values):
    """Treats the new token as a table with one row."""
    row = x.unsqueeze(0)
    query, key, value = row @ w_query, row @ w_key, row @ w_value
    keys, values = torch.vstack((keys, key)), torch.vstack((values, value))
    weights = torch.softmax(query @ keys.T / keys.size(1) ** 0.5, dim=-1)
    return [(weights @ values)[0], keys, values]


def accepted_library(x, w_query, w_key, w_value, keys, values):
    """Leaves attention to PyTorch, which needs no mask for one query."""
    keys = torch.cat((keys, torch.einsum("d, de -> e", x, w_key).reshape(1, -1)))
    values = torch.cat((values, torch.einsum("d, de -> e", x, w_value).reshape(1, -1)))
    output = F.scaled_dot_product_attention((x @ w_query)[None, None], keys[None], values[None])
    return output.flatten(), keys, values


def accepted_buffers(x, w_query, w_key, w_value, keys, values):
    """Fills buffers that have one more row, and loops over the scores."""
    n = len(keys)
    all_keys, all_values = x.new_zeros(n + 1, w_key.shape[1]), x.new_zeros(n + 1, w_value.shape[1])
    all_keys[:n], all_values[:n] = keys, values
    all_keys[n], all_values[n] = x @ w_key, x @ w_value
    query = x @ w_query / len(w_query[0]) ** 0.5
    powers = torch.stack([torch.exp(query @ key) for key in all_keys])
    return (powers[:, None] * all_values).sum(0) / powers.sum(), all_keys, all_values


NAMES = ("x", "w_query", "w_key", "w_value", "keys", "values")


def cases(generator):
    def drawn(n_cached, d_model, d_head, d_value):
        shapes = (d_model,), (d_model, d_head), (d_model, d_head), (d_model, d_value)
        shapes = *shapes, (n_cached, d_head), (n_cached, d_value)
        return dict(zip(NAMES, [(10 * torch.randn(*s, generator=generator)).round() / 10 for s in shapes], strict=True))

    small = [torch.tensor([1.0]), *(torch.tensor([[w]]) for w in (1.0, 2.0, 5.0, 1.5, 3.0))]
    return [drawn(4, 5, 3, 2), dict(zip(NAMES, small, strict=True)), drawn(6, 3, 4, 5), drawn(0, 4, 2, 3)]


def property_equal_values(answer, generator):
    x, w_query, w_key, keys = (torch.randn(*s, generator=generator) for s in ((4,), (4, 3), (4, 3), (5, 3)))
    value = torch.tensor([2.0, -1.0])
    w_value = x[:, None] * value / (x @ x)
    output = answer(x, w_query, w_key, w_value, keys, value.expand(5, 2).clone())[0]
    assert torch.allclose(output, value, atol=1e-4), (
        "If the cached tokens and the new one all have the same value, the output should be this value."
    )


def property_whole_text(answer, generator):
    xs, w_query, w_key, w_value = (torch.randn(*s, generator=generator) for s in ((6, 4), (4, 3), (4, 3), (4, 2)))
    keys, values = torch.zeros(0, 3), torch.zeros(0, 2)
    outputs = []
    for x in xs:
        output, keys, values = answer(x, w_query, w_key, w_value, keys, values)
        outputs.append(output)
    scores = (xs @ w_query) @ (xs @ w_key).T / 3**0.5
    right = scores.masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf).softmax(-1) @ (xs @ w_value)
    assert torch.allclose(torch.stack(outputs), right, atol=1e-4), (
        "Six steps, one after the other, should give what causal attention over all six tokens gives at once."
    )


def hidden_cases(generator):
    def drawn(n_cached, d_model, d_head, d_value):
        shapes = (d_model,), (d_model, d_head), (d_model, d_head), (d_model, d_value)
        shapes = *shapes, (n_cached, d_head), (n_cached, d_value)
        return dict(zip(NAMES, [0.8 * torch.randn(*s, generator=generator) for s in shapes], strict=True))

    return [drawn(7, 4, 5, 3), drawn(1, 6, 2, 4), drawn(3, 3, 8, 6), drawn(9, 2, 4, 5)]
