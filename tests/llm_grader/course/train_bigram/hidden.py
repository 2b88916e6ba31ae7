import torch


def cases(generator):
    def text(size, length, shift):
        chosen = [1]
        for choice in torch.randint(10, (length,), generator=generator).tolist():
            chosen.append(choice % size if choice > 6 else (2 * chosen[-1] + shift) % size)
        return {"pairs": torch.tensor([chosen[:-1], chosen[1:]]).T.contiguous(), "n_vocab": size}

    return [text(6, 150, 1), text(9, 240, 2)]
