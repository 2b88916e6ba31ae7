import torch


def cases(generator):
    def of(n, reach, d_model, dtype=torch.float32):
        positions = torch.randint(0, reach, (2, n, 1), generator=generator)
        angles = positions / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
        query, key = torch.stack((angles.sin(), angles.cos()), -1).flatten(-2).to(dtype)
        return {"query_codes": query, "key_codes": key}

    return [of(12, 310, 4), of(7, 2000, 16), of(9, 3000, 8, torch.float64), of(3, 500, 128)]
