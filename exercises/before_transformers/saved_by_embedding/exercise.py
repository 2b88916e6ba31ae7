def saved_by_embedding() -> int:
    """The number of parameters that the embeddings save."""
    plain = 50257 * 1024 + 1024 * 50257
    embedded = 50257 * 256 + 256 * 1024 + 1024 * 256 + 256 * 50257
    return plain - embedded


def accepted_factored():
    """Subtracts before multiplying."""
    return 2 * (50257 * (1024 - 256) - 256 * 1024)


def accepted_as_a_tensor():
    """Counts the entries of tensors that take no memory."""
    import torch

    def size(*shape):
        return torch.empty(shape, device="meta").numel()

    n = 2 * size(50257, 1024) - 2 * size(50257, 256) - 2 * size(1024, 256)
    return torch.tensor(n)


def cases(generator):
    return [{}]


def hidden_cases(generator):
    return [{}]
