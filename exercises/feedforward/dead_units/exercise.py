import torch

from llm_anatomy.shapes import Bool, Float, Tensor


def dead_units(
    x: Float[Tensor, "batch n_tokens d_model"], real: Bool[Tensor, "batch n_tokens"], w_1: Float[Tensor, "d_model d_ff"]
) -> tuple[int, float]:
    """Return the number of units that are dead on the real tokens, and the share of zeros among all their outputs."""
    zero = x[real] @ w_1 <= 0
    return int(zero.all(dim=0).sum()), float(zero.float().mean())


def accepted_largest_output(x, real, w_1):
    """Looks at the largest output of each unit, with 0 at the padding, and returns tensors."""
    hidden = torch.relu(x @ w_1) * real.unsqueeze(-1)
    dead = (hidden.amax((0, 1)) == 0).sum()
    positive = (hidden > 0).sum()
    return [dead, 1 - positive / (real.sum() * w_1.shape[1])]


def accepted_token_by_token(x, real, w_1):
    """Counts in a loop."""
    d_ff, n_zeros, n_real = w_1.shape[1], 0, 0
    alive = [False] * d_ff
    for sequence, kept in zip(x, real.tolist(), strict=True):
        for token, is_real in zip(sequence, kept, strict=True):
            if is_real:
                n_real += 1
                for unit, output in enumerate((token @ w_1).clamp(min=0).tolist()):
                    alive[unit] = alive[unit] or output > 0
                    n_zeros += output == 0
    return d_ff - sum(alive), n_zeros / (n_real * d_ff)


def accepted_by_gradients(x, real, w_1):
    """Looks for units whose outputs have no gradient, one token after the other."""
    z = (x.flatten(0, 1)[real.flatten()] @ w_1).requires_grad_()
    slopes = torch.autograd.grad(torch.relu(z).sum(), z)[0]
    return (slopes.sum(0) == 0).sum().item(), (slopes == 0).double().mean().item()


def cases(generator):
    small = {
        "x": torch.tensor([[[1.0], [2.0], [-1.0]]]),
        "real": torch.tensor([[True, True, False]]),
        "w_1": torch.tensor([[3.0, -1.0]]),
    }

    def drawn(lengths, n_tokens, d_model, d_ff):
        x = torch.randint(-3, 4, (len(lengths), n_tokens, d_model), generator=generator).float()
        w_1 = torch.randint(-3, 4, (d_model, d_ff), generator=generator).float()
        w_1[:, ::3], x[..., 0] = 0.0, x[..., 0].abs() + 1
        w_1[0, ::3] = -torch.arange(float(len(w_1[0, ::3])))  # one is dead everywhere
        real = torch.arange(n_tokens) < torch.tensor(lengths)[:, None]
        x[..., 0] = torch.where(real, x[..., 0], -x[..., 0])  # what was dead wakes up at the padding
        return {"x": x, "real": real, "w_1": w_1}

    whole = drawn([4, 4, 4], 4, 2, 5)
    left = drawn([1, 3], 4, 3, 8)
    turned = {"x": left["x"].flip(1), "real": left["real"].flip(1), "w_1": left["w_1"]}  # padding on the left
    return [drawn([2, 5], 5, 3, 7), small, whole, turned]


def property_nothing_is_dead_and_everything_is(answer, generator):
    x, real = 1 + torch.rand(2, 3, 4, generator=generator), torch.ones(2, 3, dtype=torch.bool)
    w_1 = 1 + torch.rand(4, 6, generator=generator)
    found = [tuple(map(float, answer(x, real, sign * w_1))) for sign in (1, -1)]
    assert found[0] == (0, 0), (
        "If all tokens and all weights are positive, no unit is dead and no output is 0. Yours says otherwise."
    )
    assert found[1] == (6, 1), (
        "If all tokens are positive and all weights negative, each of the 6 units is dead, and the share of zeros is "
        "1. Yours says otherwise."
    )


def hidden_cases(generator):
    def drawn(lengths, n_tokens, d_model, d_ff):
        x = torch.randint(-4, 5, (len(lengths), n_tokens, d_model), generator=generator).float()
        w_1 = torch.randint(-4, 5, (d_model, d_ff), generator=generator).float()
        w_1[:, 1::4], x[..., 0] = 0.0, x[..., 0].abs() + 1
        w_1[0, 1::4] = -2.0 * torch.arange(len(w_1[0, 1::4]))
        real = torch.arange(n_tokens) < torch.tensor(lengths)[:, None]
        x[..., 0] = torch.where(real, x[..., 0], -x[..., 0])
        return {"x": x, "real": real, "w_1": w_1}

    return [drawn([3, 6], 6, 2, 9), drawn([4, 2, 1], 4, 3, 6), drawn([2, 2, 5, 3], 5, 4, 11)]
