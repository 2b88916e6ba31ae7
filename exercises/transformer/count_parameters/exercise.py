import torch
from torch import nn


def count_parameters(n_layers: int, d_model: int, d_ff: int, n_vocab: int, n_ctx: int) -> tuple[int, int, int, int]:
    """Return the numbers of parameters: in embeddings, attention, feed-forward layers and norms."""
    in_attention = 4 * (d_model + 1) * d_model  # with a bias for each output
    in_feedforward = (d_model + 1) * d_ff + (d_ff + 1) * d_model
    in_norms = (2 * n_layers + 1) * 2 * d_model
    return (n_vocab + n_ctx) * d_model, n_layers * in_attention, n_layers * in_feedforward, in_norms


def accepted_modules(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """Builds the parts on the meta device, which takes no memory, and counts what they hold."""

    def count(*modules):
        return sum(p.numel() for module in modules for p in module.parameters())

    with torch.device("meta"):
        embeddings = count(nn.Embedding(n_vocab, d_model), nn.Embedding(n_ctx, d_model))
        attention = count(*(nn.Linear(d_model, d_model) for _ in range(4)))
        feedforward = count(nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model))
        norm = count(nn.LayerNorm(d_model))
    return embeddings, attention * n_layers, feedforward * n_layers, norm + 2 * norm * n_layers


def accepted_term_by_term(n_layers, d_model, d_ff, n_vocab, n_ctx):
    """Adds up every matrix and every bias in a loop over the blocks, and returns a list."""
    counts = [n_vocab * d_model + n_ctx * d_model, 0, 0, d_model + d_model]
    for _ in range(n_layers):
        for matrix in "QKVO":
            counts[1] += d_model**2 + len(matrix) * d_model
        counts[2] += 2 * d_model * d_ff + d_ff + d_model
        counts[3] += 2 * (d_model + d_model)
    return counts


def cases(generator):
    sizes = [(2, 3, 4, 10, 5), (12, 768, 3072, 50257, 1024), (3, 5, 11, 20, 13), (48, 1600, 6400, 50257, 1024)]
    names = "n_layers", "d_model", "d_ff", "n_vocab", "n_ctx"
    return [dict(zip(names, each, strict=True)) for each in sizes]


def property_the_smallest_gpt2(answer, generator):
    total = int(sum(answer(12, 768, 3072, 50257, 1024)))
    assert total == 124_439_808, (
        f"The smallest GPT-2 has 124,439,808 parameters in all. Your four numbers add up to {total:,}."
    )


def property_linear_in_depth(answer, generator):
    one, two, three = (torch.as_tensor(answer(n, 4, 9, 30, 8)) for n in (1, 2, 3))
    assert torch.equal(two - one, three - two), (
        "Each block more should add the same number of parameters to each part. In yours it does not."
    )


def hidden_cases(generator):
    names = "n_layers", "d_model", "d_ff", "n_vocab", "n_ctx"
    drawn = [torch.randint(2, high, (6,), generator=generator).tolist() for high in (40, 900, 3000, 60000, 5000)]
    return [dict(zip(names, each, strict=True)) for each in zip(*drawn, strict=True)]
