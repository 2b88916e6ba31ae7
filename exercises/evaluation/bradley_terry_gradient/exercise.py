import numpy as np
import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def bradley_terry_gradient(
    wins: Float[Tensor, "n_models n_models"], theta: Float[Tensor, "n_models"]
) -> tuple[Float[Tensor, ""], Float[Tensor, "n_models"]]:
    """Return the logarithm of the likelihood of all battles, and its gradient."""
    differences = theta[:, None] - theta
    expected = (wins + wins.T) * torch.sigmoid(differences)
    return (wins * F.logsigmoid(differences)).sum(), (wins - expected).sum(1)


def accepted_autograd(wins, theta):
    """Lets PyTorch work out the gradient, and returns a list."""
    theta = theta.clone().requires_grad_()
    total = (wins * -F.softplus(theta[None, :] - theta[:, None])).sum()
    total.backward()
    return [total, theta.grad]


def accepted_loops(wins, theta):
    """Goes through all pairs, in double precision, with NumPy."""
    w, t = wins.numpy().astype(float), theta.numpy().astype(float)
    total, gradient = 0.0, np.zeros(len(t))
    for i in range(len(t)):
        for j in range(len(t)):
            if i != j:
                total -= w[i, j] * np.logaddexp(0, t[j] - t[i])
                surprise = w[i, j] / (1 + np.exp(t[i] - t[j]))
                gradient[i] += surprise
                gradient[j] -= surprise
    return total, gradient


def observe(returned, wins, theta):
    """the log-likelihood and the gradient"""
    assert isinstance(returned, tuple | list) and len(returned) == 2, "return two things, the sum and its gradient"
    total, gradient = (each.detach() if hasattr(each, "detach") else each for each in returned)
    gradient = torch.as_tensor(
        [float(x) for x in gradient] if isinstance(gradient, tuple | list) else gradient, dtype=torch.float64
    )
    assert gradient.shape == theta.shape, "the gradient should have one number for each model"
    total, differences = float(total), theta[:, None] - theta
    largest = float((wins * differences.clamp(max=0)).sum())  # since log σ(x) is below 0 and below x
    if differences.max() > 40 and total > 0.99 * largest:
        total = "too close to zero"
    return {"log-likelihood": total, "gradient": gradient}


def _case(wins, theta):
    return {"wins": torch.tensor(wins), "theta": torch.tensor(theta)}


def cases(generator):
    return [
        _case([[0.0, 7.0, 9.5], [3.0, 0.0, 6.0], [2.5, 4.0, 0.0]], [0.5, 0.0, -0.25]),
        _case([[0.0, 3.0], [1.0, 0.0]], [0.0, 0.0]),
        _case([[0.0, 3.0], [1.0, 0.0]], [2.0, 1.0]),
        _case(
            [[0.0, 2.0, 0.0, 5.5], [6.0, 0.0, 1.0, 0.0], [0.0, 4.0, 0.0, 3.0], [0.5, 0.0, 8.0, 0.0]],
            [1.0, -0.5, 0.25, 2.0],
        ),
        _case([[0.0, 2.0], [1.0, 0.0]], [-60.0, 50.0]),
    ]


def property_sum(answer, generator):
    wins = torch.randint(9, (5, 5), generator=generator).float().fill_diagonal_(0)
    gradient = answer(wins, torch.randn(5, generator=generator))[1]
    assert abs(sum(map(float, gradient))) < 1e-3, "The entries of the gradient should add up to 0. Yours do not."


def property_shift(answer, generator):
    wins = torch.randint(9, (4, 4), generator=generator).float().fill_diagonal_(0)
    theta = torch.randn(4, generator=generator)
    one, other = (float(torch.as_tensor(answer(wins, each)[0]).detach()) for each in (theta, theta + 3))
    assert abs(one - other) < 1e-3 * abs(one), (
        "If all strengths grow by the same amount, the likelihood should stay. Yours changes."
    )


def hidden_cases(generator):
    def drawn(n, spread):
        wins = (torch.randint(30, (n, n), generator=generator) / 2).fill_diagonal_(0)
        wins[0, n - 1] = wins[n - 1, 0] = 0
        return {"wins": wins, "theta": (spread * torch.randn(n, generator=generator))}

    far = {"wins": torch.tensor([[0.0, 5.0, 1.0], [2.0, 0.0, 3.0], [4.0, 1.0, 0.0]])}
    return [drawn(5, 1.0), drawn(3, 0.5), drawn(8, 1.5), far | {"theta": torch.tensor([120.0, 0.0, -1.0])}]
