import torch
from einops import rearrange

from llm_anatomy.layers.positions.rotary import interleaved_to_half_split
from llm_anatomy.shapes import Float, Tensor


def half_split_to_interleaved(
    weight: Float[Tensor, "n_heads·d_head d_model"], n_heads: int, d_rotary: int
) -> Float[Tensor, "n_heads·d_head d_model"]:
    """The same projection, for code that pairs neighbours among the first d_rotary entries of a head."""
    heads = rearrange(weight, "(n_heads d_head) d_model -> n_heads d_head d_model", n_heads=n_heads)
    turned, others = heads[:, :d_rotary], heads[:, d_rotary:]
    turned = rearrange(turned, "n_heads (half plane) d_model -> n_heads (plane half) d_model", half=2)
    return torch.cat((turned, others), 1).flatten(0, 1)


def accepted_einops(weight, n_heads, d_rotary):
    """Exchanges half and plane in an einops pattern, and appends the rows that are not rotated."""
    heads = rearrange(weight, "(heads d_head) d_model -> heads d_head d_model", heads=n_heads)
    turned = rearrange(heads[:, :d_rotary], "heads (half plane) d_model -> heads (plane half) d_model", half=2)
    return torch.cat((turned, heads[:, d_rotary:]), dim=1).flatten(0, 1)


def accepted_list_of_row_numbers(weight, n_heads, d_rotary):
    """Writes down which row comes next, plane by plane, in a Python list."""
    d_head = len(weight) // n_heads
    order = []
    for first in range(0, len(weight), d_head):
        for plane in range(d_rotary // 2):
            order += [first + plane, first + plane + d_rotary // 2]
        order += range(first + d_rotary, first + d_head)
    return weight[order]


def accepted_inverse_of_the_package(weight, n_heads, d_rotary):
    """Inverts the package's reordering, which goes the other way, with argsort."""
    heads = weight.unflatten(0, (n_heads, -1))
    order = torch.arange(heads.shape[1])
    order[:d_rotary] = interleaved_to_half_split(order[:d_rotary]).argsort()
    return heads[:, order].flatten(0, 1)


def cases(generator):
    numbered = {"weight": 10.0 * torch.arange(24).unsqueeze(1) + torch.arange(4), "n_heads": 3, "d_rotary": 6}

    drawn = {"weight": torch.randn(20, 2, generator=generator), "n_heads": 2, "d_rotary": 6}
    all_turned = {"weight": torch.arange(6.0).unsqueeze(1), "n_heads": 1, "d_rotary": 6}
    return [numbered, drawn, all_turned]


def property_one_head_on_paper(answer, generator):
    rows = answer(torch.arange(16.0).unsqueeze(1), 2, 6)[:8, 0].int().tolist()
    assert rows[0] == 0 and rows[1] == 3 and rows[6:] == [6, 7], (
        "In a head of width 8 in which 6 entries are rotated, rows 0 and 3 form the first plane and should come "
        f"first, and rows 6 and 7 should stay where they are. In your answer, the first head has the rows {rows}."
    )


def property_each_head_keeps_its_rows(answer, generator):
    heads = answer(torch.arange(24.0).unsqueeze(1), 3, 6)[:, 0].reshape(3, 8).sort(-1).values
    assert torch.equal(heads, torch.arange(24.0).reshape(3, 8)), (
        "Each head should have the same rows as before, in another order. In your answer some rows are lost or move "
        "to another head."
    )


def property_same_scores(answer, generator):
    w_query, w_key = (torch.randn(16, 5, generator=generator) for _ in range(2))
    x = torch.randn(7, 5, generator=generator)
    angles = torch.arange(7)[:, None, None] * torch.tensor([1.0, 0.2, 0.04])
    turns = torch.polar(torch.ones_like(angles), angles)  # (tokens, 1, planes)

    def scores(w_query, w_key, shape, axis):
        """The scores of 2 heads of width 8 with 6 rotated entries, for this shape and order of a plane's entries."""
        heads = [(x @ w.transpose(-2, -1)).reshape(7, 2, 8) for w in (w_query, w_key)]
        pairs = [head[..., :6].reshape(7, 2, *shape).unbind(axis) for head in heads]
        query, key = (torch.complex(*pair) * turns for pair in pairs)
        others = torch.einsum("qhd,khd->hqk", *(head[..., 6:] for head in heads))
        return torch.einsum("qhp,khp->hqk", query, key.conj()).real + others

    before = scores(w_query, w_key, (2, 3), 2)
    after = scores(answer(w_query, 2, 6).float(), answer(w_key, 2, 6).float(), (3, 2), 3)
    assert torch.allclose(before, after, atol=1e-4), (
        "The old weights with half-split pairs and your weights with neighbouring pairs should give the same scores. "
        "They do not."
    )


def hidden_cases(generator):
    def drawn(n_heads, d_head, d_rotary, d_model):
        weight = torch.randn(n_heads * d_head, d_model, generator=generator)
        return {"weight": weight, "n_heads": n_heads, "d_rotary": d_rotary}

    return [drawn(5, 14, 6, 8), drawn(2, 16, 8, 4), drawn(3, 10, 6, 6), drawn(1, 8, 6, 2), drawn(6, 6, 2, 4)]
