import torch


def cases(generator):
    def drawn(n_positions, n_digits):
        return {"digits": torch.randint(0, 2, (n_positions, n_digits), generator=generator)}

    return [drawn(12, 5), drawn(7, 10), drawn(30, 2), drawn(3, 20), {"digits": torch.tensor([[1], [0]])}]
