import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Bool, Float, Tensor


def masked_batch_norm(
    x: Float[Tensor, "batch n_tokens d_model"], mask: Bool[Tensor, "batch n_tokens"], eps: float
) -> Float[Tensor, "batch n_tokens d_model"]:
    """Return x with each feature standardized over the tokens of the batch, and zeros at the padding."""
    tokens = x[mask]  # (tokens of the batch, d_model)
    variance, mean = torch.var_mean(tokens, dim=0, correction=0)
    normed = torch.zeros_like(x)
    normed[mask] = (tokens - mean) / (variance + eps).sqrt()
    return normed


def accepted_sums(x, mask, eps):
    """Multiplies by the mask before each sum, without indexing."""
    weight = mask[..., None].to(x.dtype)
    n = weight.sum()
    mean = (weight * x).sum((0, 1)) / n
    centred = weight * (x - mean)
    return centred / torch.sqrt(centred.square().sum((0, 1)) / n + eps)


def accepted_library(x, mask, eps):
    """Lets PyTorch normalize the tokens, and scatters them back."""
    rows = F.batch_norm(x[mask], None, None, training=True, eps=eps)
    return torch.zeros_like(x).masked_scatter(mask.unsqueeze(-1), rows)


def accepted_loops(x, mask, eps):
    """Collects the tokens of each sequence in a list."""
    tokens = [x[b, t] for b in range(x.shape[0]) for t in range(x.shape[1]) if mask[b, t]]
    mean = sum(tokens) / len(tokens)
    var = sum((token - mean) ** 2 for token in tokens) / len(tokens)
    every = (x - mean) / (var + eps) ** 0.5
    return torch.where(mask[..., None], every, 0.0)


def accepted_nan(x, mask, eps):
    """Marks the padding with NaN, and takes means of what is left."""
    kept = x.masked_fill(~mask[..., None], torch.nan).flatten(0, 1)
    centred = kept - kept.nanmean(0)
    return (centred / (centred.square().nanmean(0) + eps).sqrt()).nan_to_num(0.0).view_as(x)


def lengths(*sizes):
    """The mask of sequences with these lengths, padded on the right."""
    return torch.arange(max(sizes)) < torch.tensor(sizes)[:, None]


def cases(generator):
    def drawn(mask, d_model, eps):
        x = (10 * (1 + torch.randn(*mask.shape, d_model, generator=generator))).round() / 10
        return {"x": x, "mask": mask, "eps": eps}

    small = {"x": torch.tensor([[[1.0], [1.0]], [[4.0], [9.0]]]), "mask": lengths(2, 1), "eps": 2.0}
    return [
        drawn(lengths(4, 2, 3), 2, 1e-5),
        small,
        drawn(lengths(1, 5).flip(1), 3, 0.1),  # padding on the left
        drawn(lengths(3, 3, 3, 3), 2, 0.01),  # no padding
    ]


def property_padding_has_no_influence(answer, generator):
    x, mask = torch.randn(3, 4, 2, generator=generator), lengths(2, 4, 3)
    changed = x.masked_fill(~mask[..., None], -40.0)
    assert torch.allclose(answer(x, mask, 0.01)[mask], answer(changed, mask, 0.01)[mask], atol=1e-5), (
        "When we change what is in the padding, your outputs for the tokens change. It should have no influence at all."
    )


def property_more_padding(answer, generator):
    x, mask = torch.randn(2, 3, 4, generator=generator), lengths(2, 3)
    padded = answer(F.pad(x, (0, 0, 0, 2)), F.pad(mask, (0, 2)), 0.01)
    assert torch.allclose(answer(x, mask, 0.01), padded[:, :3], atol=1e-5), (
        "With two more positions of padding, your outputs for the tokens change. They should not."
    )


def property_mean_0_and_variance_1(answer, generator):
    x, mask = 4 + 3 * torch.randn(4, 5, 3, generator=generator), lengths(5, 2, 3, 4)
    tokens = answer(x, mask, 1e-6)[mask]
    mean, mean_square = tokens.mean(0), tokens.square().mean(0)
    assert torch.allclose(mean, torch.zeros(3), atol=1e-4) and torch.allclose(mean_square, torch.ones(3), atol=1e-3), (
        "Over all tokens of the batch, each feature of your result should have mean 0, and its squares mean 1."
    )


def hidden_cases(generator):
    def drawn(mask, d_model, eps):
        return {"x": 2 + torch.randn(*mask.shape, d_model, generator=generator), "mask": mask, "eps": eps}

    scattered = torch.rand(4, 6, generator=generator) < 0.5
    scattered[:2, 0] = True
    return [
        drawn(lengths(5, 3, 1, 4), 3, 1e-5),
        drawn(lengths(2, 7).flip(1), 4, 0.05),
        drawn(scattered, 2, 0.2),
        drawn(lengths(4, 1, 2), 6, 1e-3),
    ]
