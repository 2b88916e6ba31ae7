import torch

TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}


def cases(generator):
    def matrices(width, inner, dtype=torch.float32):
        tall = [torch.randn(inner, width, generator=generator).to(dtype) for _ in range(2)]
        flat = torch.randn(width, inner, generator=generator).to(dtype)
        return {"weights": {"gate.weight": tall[0], "up.weight": tall[1], "down.weight": flat}}

    return [matrices(6, 7), matrices(1, 9), matrices(5, 3, torch.float64)]
