import torch
from torch import nn


def llama_parameters(
    d_model: int, n_layers: int, n_heads: int, n_kv_heads: int, d_ff: int, n_vocab: int, tie_embeddings: bool
) -> int:
    """Return the number of parameters of a model of the LLaMA family."""
    d_kv = n_kv_heads * (d_model // n_heads)
    block = 2 * d_model * d_model + 2 * d_model * d_kv + 3 * d_model * d_ff + 2 * d_model
    tables = 1 if tie_embeddings else 2
    return n_layers * block + d_model + tables * n_vocab * d_model


def accepted_modules(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """Builds a block on the meta device, which takes no memory, and counts what it holds."""
    d_head = d_model // n_heads
    pairs = [(d_model, n_heads * d_head)] + [(d_model, n_kv_heads * d_head)] * 2 + [(n_heads * d_head, d_model)]
    pairs += [(d_model, d_ff), (d_model, d_ff), (d_ff, d_model)]
    block = nn.ModuleList(nn.Linear(a, b, bias=False, device="meta") for a, b in pairs)
    in_block = sum(p.numel() for p in block.parameters()) + 2 * d_model
    table = nn.Embedding(n_vocab, d_model, device="meta").weight.numel()
    return in_block * n_layers + d_model + table + (0 if tie_embeddings else table)


def accepted_factor_of_the_width(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """Takes the width out of the sum, and returns a float, as division by the number of heads does."""
    shared = n_kv_heads / n_heads * d_model
    rows = n_layers * (2 * d_model + 2 * shared + 3 * d_ff + 2) + 1 + (2 - int(tie_embeddings)) * n_vocab
    return float(round(rows * d_model))


def accepted_loop(d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, tie_embeddings):
    """Adds tensor after tensor, in PyTorch's whole numbers."""
    total = torch.tensor(n_vocab * d_model + d_model)
    for _ in range(n_layers):
        for columns in (n_heads, n_kv_heads, n_kv_heads, n_heads):
            total += d_model * columns * d_model // n_heads
        total += d_ff * d_model * 3
        total += 2 * d_model
    return total if tie_embeddings else total + n_vocab * d_model


NAMES = ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "n_vocab", "tie_embeddings")


def cases(generator):
    sizes = [
        (4096, 32, 32, 32, 11008, 32000, False),  # LLaMA-7B
        (4, 3, 2, 1, 5, 7, False),
        (4096, 32, 32, 8, 14336, 128256, False),  # Llama 3 8B
        (2048, 16, 32, 8, 8192, 128256, True),  # Llama 3.2 1B
        (12, 5, 6, 2, 17, 30, True),
    ]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def property_linear_in_depth(answer, generator):
    one, two, four = (answer(12, n, 6, 3, 20, 50, False) for n in (1, 2, 4))
    assert abs((four - two) - 2 * (two - one)) <= 1e-9 * abs(four), (
        "Each block more should add the same number of parameters. In yours it does not."
    )


def property_heads_do_not_matter_by_themselves(answer, generator):
    counts = {int(answer(24, 2, n, n, 40, 50, True)) for n in (2, 3, 4)}
    assert len(counts) == 1, (
        "With as many key-value heads as query heads, the heads share the width among them, so their number should not "
        "change the count. In yours it does."
    )


def hidden_cases(generator):
    drawn = torch.randint(3, 40, (4, 6), generator=generator).tolist()
    sizes = [
        (4 * a * 2, n, 4, 2 if i % 2 else 1, 7 * f, 90 * v, bool(i % 2)) for i, (a, n, _, _, f, v) in enumerate(drawn)
    ]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]
