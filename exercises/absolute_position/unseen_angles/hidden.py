import torch


def cases(generator):
    def drawn(n_positions, d_model, n_trained, furthest):
        positions = torch.randint(0, furthest, (n_positions,), generator=generator)
        positions[positions == n_trained - 1] += 1
        positions[:2] = torch.tensor([n_trained, n_trained + 1])
        return {"positions": positions, "d_model": d_model, "n_trained": n_trained}

    return [drawn(9, 32, 128, 4000), drawn(12, 8, 30, 3000), drawn(7, 64, 512, 9000), drawn(20, 4, 3, 1000)]
