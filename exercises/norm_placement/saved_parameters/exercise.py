import torch


def saved_parameters(n_layers: int, d_model: int, d_ff: int, gated: bool, placement: str) -> tuple[int, int, int]:
    """Return what RMSNorm saves, and what feed-forward and attention layers without biases save."""
    norms = (2 * n_layers + (placement == "pre")) * d_model
    return norms, n_layers * ((1 + gated) * d_ff + d_model), 4 * n_layers * d_model


def accepted_loop(n_layers, d_model, d_ff, gated, placement):
    """Adds up layer by layer, and returns a list."""
    saved = [d_model if placement == "pre" else 0, 0, 0]
    for _ in range(n_layers):
        saved[0] += d_model + d_model
        saved[1] += d_ff + d_ff + d_model if gated else d_ff + d_model
        saved[2] += sum([d_model] * 4)
    return saved


def accepted_modules(n_layers, d_model, d_ff, gated, placement):
    """Makes the layers on PyTorch's meta device, and counts their biases."""
    with torch.device("meta"):
        norms = [torch.nn.LayerNorm(d_model) for _ in range(2 * n_layers + int(placement == "pre"))]
        ups = [torch.nn.Linear(d_model, d_ff) for _ in range(n_layers * (2 if gated else 1))]
        downs = [torch.nn.Linear(d_ff, d_model) for _ in range(n_layers)]
        projections = [torch.nn.Linear(d_model, d_model) for _ in range(4 * n_layers)]
    return torch.tensor([sum(each.bias.numel() for each in some) for some in (norms, ups + downs, projections)])


def cases(generator):
    def case(n_layers, d_model, d_ff, gated, placement):
        names = ("n_layers", "d_model", "d_ff", "gated", "placement")
        return dict(zip(names, (n_layers, d_model, d_ff, gated, placement), strict=True))

    return [
        case(12, 768, 3072, False, "pre"),  # GPT-2 small
        case(32, 4096, 11008, True, "pre"),  # Llama 7B
        case(6, 512, 2048, False, "post"),  # the original decoder, without its cross-attention
        case(3, 5, 7, True, "post"),
        case(1, 5, 7, False, "pre"),
    ]


def observe(returned, n_layers, d_model, d_ff, gated, placement):
    """the three numbers"""
    numbers = returned.tolist() if isinstance(returned, torch.Tensor) else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 3, "three numbers are needed"
    return tuple(int(number) if float(number).is_integer() else float(number) for number in numbers)


def property_twice_the_layers(answer, generator):
    few, many = (list(map(int, answer(n_layers, 6, 11, False, "post"))) for n_layers in (4, 8))
    assert many == [2 * each for each in few], "A post-norm model with twice the layers should save twice as much."


def hidden_cases(generator):
    names = ("n_layers", "d_model", "d_ff", "gated", "placement")
    values = [(24, 1024, 4096, False, "post"), (40, 5120, 13824, True, "pre"), (2, 9, 4, True, "post")]
    return [dict(zip(names, each, strict=True)) for each in [*values, (7, 3, 10, False, "pre")]]
