import torch


def cases(generator):
    def falling(n_positions, d_code, dtype=torch.float32):
        """Codes that walk slowly, so that rises are rare."""
        codes = torch.randn(n_positions, d_code, generator=generator, dtype=torch.float64).cumsum(0)
        return {"proximity": -torch.cdist(codes, codes).to(dtype)}

    steps = torch.randint(0, 3, (12, 12), generator=generator).float()
    return [falling(14, 3), falling(25, 6, torch.float64), {"proximity": steps}, {"proximity": torch.eye(5)}]
