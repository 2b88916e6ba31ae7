import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Int, Tensor


def undo_the_shuffle(
    outputs: Float[Tensor, "n_tokens d_model"], order: Int[Tensor, "n_tokens"]
) -> Float[Tensor, "n_tokens d_model"]:
    """Return the outputs in the order of the text; row i of `outputs` belongs to token order[i]."""
    return outputs[order.argsort()]


def accepted_argsort(outputs, order):
    """Finds the row in which each token is."""
    return outputs[order.argsort()]


def accepted_assignment(outputs, order):
    """Writes row i into row order[i] of an empty result."""
    restored = torch.empty_like(outputs)
    restored[order] = outputs
    return restored


def accepted_permutation_matrix(outputs, order):
    """Multiplies by the transpose of the permutation matrix, which is its inverse."""
    shuffle = F.one_hot(order, len(order)).to(outputs.dtype)
    return shuffle.T @ outputs


def cases(generator):
    def drawn(order, d_model):
        numbers = torch.randn(len(order), d_model, generator=generator)
        return {"outputs": (100 * numbers).round() / 100, "order": torch.tensor(order)}

    small = torch.tensor([[1.0, 9, 2], [6, 5, 8], [4, 7, 3]])
    return [{"outputs": small, "order": torch.tensor([1, 2, 0])}, drawn([2, 4, 1, 0, 3], 6), drawn([1, 3, 0, 2], 5)]


def attend(x):
    """Self-attention without positions and without a mask."""
    return torch.softmax(x @ x.T / x.shape[-1] ** 0.5, -1) @ x


def property_as_if_never_shuffled(answer, generator):
    x, order = torch.randn(6, 3, generator=generator), torch.tensor([3, 5, 0, 1, 4, 2])
    assert torch.allclose(answer(attend(x[order]), order).float(), attend(x), atol=1e-5), (
        "If we apply attention to a shuffled text and your function undoes the shuffle, the result should be "
        "attention over the text itself. It is not."
    )


def property_shuffling_again_gives_it_back(answer, generator):
    outputs, order = torch.randn(5, 2, generator=generator), torch.tensor([1, 2, 3, 4, 0])
    assert torch.allclose(answer(outputs, order)[order].float(), outputs, atol=1e-5), (
        "If we shuffle your result in the same way again, we should get the outputs that you were given. We do not."
    )


def property_nothing_to_undo(answer, generator):
    outputs = torch.randn(4, 3, generator=generator)
    assert torch.allclose(answer(outputs, torch.arange(4)).float(), outputs, atol=1e-5), (
        "If the text was not shuffled, the outputs should stay as they are. Yours do not."
    )


def hidden_cases(generator):
    def drawn(n_tokens, d_model):
        return {
            "outputs": torch.randn(n_tokens, d_model, generator=generator),
            "order": torch.randperm(n_tokens, generator=generator),
        }

    return [drawn(8, 5), drawn(12, 3), drawn(30, 2), drawn(1, 4)]
