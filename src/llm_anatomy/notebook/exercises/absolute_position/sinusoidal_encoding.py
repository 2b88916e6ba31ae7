import torch


def cases(generator):
    slide = {"positions": torch.tensor([[0, 1, 2, 3, 6]]), "d_model": 4}

    def drawn(batch, n_tokens, d_model, dtype=torch.int64):
        starts = torch.randint(1, 40, (batch, 1), generator=generator)
        return {"positions": (starts + torch.arange(n_tokens)).to(dtype), "d_model": d_model}

    return [slide, drawn(2, 3, 8), drawn(4, 2, 7), drawn(3, 8, 6, torch.int32)]


def property_position_zero(answer, generator):
    assert torch.equal(answer(torch.zeros(1, 1, dtype=torch.long), 6).flatten(), torch.tensor([0.0, 1, 0, 1, 0, 1])), (
        "At position 0 all sines are 0 and all cosines 1, so the code should be 0, 1, 0, 1, 0, 1."
    )


def property_all_codes_equally_long(answer, generator):
    lengths = answer(torch.tensor([[0, 5, 17, 40]]), 12).norm(dim=-1)
    assert torch.allclose(lengths, torch.full((1, 4), 6**0.5), atol=1e-4), (
        "In each pair sin² + cos² is 1, so every code should have the length √(d_model / 2). Yours have not."
    )


def property_neighbours_on_the_slowest_pair(answer, generator):
    first, second = answer(torch.tensor([[20, 21]]), 512)[0, :, -2:]
    gap = (first - second).abs().max().item()
    assert 0 < gap < 1.04e-4, (
        f"At width 512, neighbours differ by less than 0.000104 on the slowest pair. Yours differ by {gap:.2g}."
    )


def property_a_position_has_one_code(answer, generator):
    codes = answer(torch.tensor([[3, 9, 3], [9, 3, 4]]), 8)
    assert torch.equal(codes[0, 0], codes[0, 2]) and torch.equal(codes[0, :2], codes[1, :2].flip(0)), (
        "The same position should have the same code wherever it stands in the batch."
    )
