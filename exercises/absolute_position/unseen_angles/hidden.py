import torch


def cases(generator):
    def drawn(n_places, d_model, n_trained, furthest):
        places = torch.randint(0, furthest, (n_places,), generator=generator)
        places[places == n_trained - 1] += 1
        places[:2] = torch.tensor([n_trained, n_trained + 1])
        return {"positions": places, "d_model": d_model, "n_trained": n_trained}

    return [drawn(9, 32, 128, 4000), drawn(12, 8, 30, 3000), drawn(7, 64, 512, 9000), drawn(20, 4, 3, 1000)]
