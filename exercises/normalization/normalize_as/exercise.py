import torch
import torch.nn.functional as F
from einops import rearrange

from llm_anatomy.shapes import Float, Tensor


def normalize_as(
    x: Float[Tensor, "batch n_tokens d_model"], kind: str, n_groups: int, eps: float
) -> Float[Tensor, "batch n_tokens d_model"]:
    """Return x as batch, layer, instance or group norm normalizes it, without scale and shift."""
    axes = {"batch": (0, 1), "layer": (-1,), "instance": (1,), "group": (1, 3)}[kind]
    grouped = x.unflatten(-1, (n_groups, -1)) if kind == "group" else x
    variance, mean = torch.var_mean(grouped, axes, correction=0, keepdim=True)
    return ((grouped - mean) / (variance + eps).sqrt()).reshape(x.shape)


def accepted_library(x, kind, n_groups, eps):
    """Leaves each kind to PyTorch's function of this name, which wants the features on axis 1."""
    if kind == "layer":
        return F.layer_norm(x, x.shape[-1:], eps=eps)
    turned = x.transpose(1, 2)
    if kind == "batch":
        normed = F.batch_norm(turned, None, None, training=True, eps=eps)
    elif kind == "instance":
        normed = F.instance_norm(turned, eps=eps)
    else:
        normed = F.group_norm(turned, n_groups, eps=eps)
    return normed.transpose(1, 2)


def accepted_rows(x, kind, n_groups, eps):
    """Rearranges x into a table, with a row for all numbers that share a mean, and back."""
    patterns = {"batch": "b t f -> f (b t)", "layer": "b t f -> (b t) f", "instance": "b t f -> (b f) t"}
    pattern = patterns.get(kind, "b t (g f) -> (b g) (t f)")
    sizes = {"b": x.shape[0], "t": x.shape[1]} | ({"g": n_groups} if kind == "group" else {})
    rows = rearrange(x, pattern, **{name: n for name, n in sizes.items() if name in pattern})
    centred = rows - rows.mean(1, keepdim=True)
    rows = centred / (centred.pow(2).mean(1, keepdim=True) + eps).sqrt()
    if kind in ("batch", "instance"):
        sizes["f"] = x.shape[2]
    back = " -> ".join(reversed(pattern.split(" -> ")))
    return rearrange(rows, back, **{name: n for name, n in sizes.items() if name in pattern})


def accepted_groups_everywhere(x, kind, n_groups, eps):
    """Takes instance norm as group norm with one feature in each group, and loops over slices."""
    y = torch.empty_like(x)
    b, t, f = x.shape
    if kind == "batch":
        slices = [(slice(None), slice(None), i) for i in range(f)]
    elif kind == "layer":
        slices = [(i, j) for i in range(b) for j in range(t)]
    else:
        width = 1 if kind == "instance" else f // n_groups
        slices = [(i, slice(None), slice(j, j + width)) for i in range(b) for j in range(0, f, width)]
    for each in slices:
        part = x[each]
        y[each] = (part - part.mean()) / (part.var(correction=0) + eps) ** 0.5
    return y


KINDS = ("batch", "layer", "instance", "group")


def cases(generator):
    def drawn(kind, batch, n_tokens, d_model, n_groups, eps):
        x = (10 * torch.randn(batch, n_tokens, d_model, generator=generator)).round() / 10
        return {"x": x, "kind": kind, "n_groups": n_groups, "eps": eps}

    lecture = torch.tensor([[1.0, 3.0, 5.0, 7.0], [3.0, 4.0, 6.0, 2.0], [8.0, 3.0, 2.0, 1.0]])[:, None]
    small = {"x": torch.tensor([[[1.0, 5.0]]]), "kind": "layer", "n_groups": 1, "eps": 5.0}
    return [
        {"x": lecture, "kind": "batch", "n_groups": 2, "eps": 1e-5},
        small,
        {"x": torch.tensor([[[1.0], [5.0]]]), "kind": "instance", "n_groups": 1, "eps": 5.0},
        *(drawn(kind, 2, 3, 4, 2, 0.01) for kind in KINDS),
        drawn("group", 2, 2, 6, 2, 0.1),
        drawn("group", 3, 2, 6, 3, 0.1),
    ]


def property_another_sequence(answer, generator):
    x = torch.randn(2, 3, 4, generator=generator)
    changed = torch.cat((x[:1], 2 - 3 * x[1:]))
    for kind in KINDS[1:]:
        assert torch.allclose(answer(x, kind, 2, 0.01)[0], answer(changed, kind, 2, 0.01)[0], atol=1e-5), (
            f"Your output for the first sequence, as {kind} norm, changes when we change the second sequence. Only "
            "batch norm lets sequences depend on each other."
        )


def property_another_token(answer, generator):
    x = torch.randn(2, 3, 4, generator=generator)
    changed = x.clone()
    changed[:, 2] = 2 - 3 * x[:, 2]
    assert torch.allclose(answer(x, "layer", 2, 0.01)[:, :2], answer(changed, "layer", 2, 0.01)[:, :2], atol=1e-5), (
        "Your output for a token, as layer norm, changes when we change another token. Layer norm has a mean for each "
        "token."
    )


def property_one_feature_in_each_group(answer, generator):
    x = torch.randn(3, 4, 5, generator=generator)
    assert torch.allclose(answer(x, "group", 5, 0.01), answer(x, "instance", 5, 0.01), atol=1e-5), (
        "If each group holds one feature, group norm is instance norm. Your results for the two kinds are different."
    )


def property_one_sequence(answer, generator):
    x = torch.randn(1, 4, 5, generator=generator)
    assert torch.allclose(answer(x, "batch", 1, 0.01), answer(x, "instance", 1, 0.01), atol=1e-5), (
        "With a single sequence, batch norm is instance norm. Your results for the two kinds are different."
    )


def hidden_cases(generator):
    def drawn(kind, *shape, n_groups, eps):
        x = 1 + 2 * torch.randn(*shape, generator=generator)
        return {"x": x, "kind": kind, "n_groups": n_groups, "eps": eps}

    return [
        *(drawn(kind, 4, 3, 6, n_groups=3, eps=0.05) for kind in KINDS),
        drawn("group", 2, 5, 8, n_groups=2, eps=1e-3),
        drawn("group", 3, 2, 4, n_groups=1, eps=0.1),
        drawn("instance", 2, 6, 3, n_groups=3, eps=1e-3),
    ]
