import torch


def cases(generator):
    slide = torch.tensor(
        [[0.42, 0.31, 0.73, 0.36, 0.99], [0.87, -0.64, 0.81, 0.26, -0.35], [0.02, 0.01, -0.24, -0.07, 0]]
    )

    def drawn(order, d_model, dtype=torch.float32):
        return {
            "outputs": torch.randn(len(order), d_model, generator=generator).to(dtype),
            "order": torch.tensor(order),
        }

    return [
        {"outputs": slide, "order": torch.tensor([1, 2, 0])},
        drawn([2, 4, 1, 0, 3], 3),
        drawn([5, 2, 6, 0, 3, 1, 4], 4, torch.float64),
    ]


def attend(x):
    """Self-attention without positions and without a mask."""
    return torch.softmax(x @ x.T / x.shape[-1] ** 0.5, -1) @ x


def property_as_if_never_shuffled(answer, generator):
    x, order = torch.randn(6, 3, generator=generator), torch.tensor([3, 5, 0, 1, 4, 2])
    assert torch.allclose(answer(attend(x[order]), order), attend(x), atol=1e-5), (
        "Attention over a shuffled text, with the shuffle undone by you, should be attention over the text itself."
    )


def property_shuffling_again_gives_it_back(answer, generator):
    outputs, order = torch.randn(5, 2, generator=generator), torch.tensor([1, 2, 3, 4, 0])
    assert torch.equal(answer(outputs, order)[order], outputs), (
        "Shuffling your result in the same way again should give back what you were given."
    )


def property_nothing_to_undo(answer, generator):
    outputs = torch.randn(4, 3, generator=generator)
    assert torch.equal(answer(outputs, torch.arange(4)), outputs), "A text that was not shuffled should stay as it is."
