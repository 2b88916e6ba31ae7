import torch


def cases(generator):
    numbered = {"weight": 10.0 * torch.arange(24).unsqueeze(1) + torch.arange(4), "n_heads": 3, "d_rotary": 6}

    def drawn(n_heads, d_head, d_rotary, d_model, dtype=torch.float32):
        weight = torch.randn(n_heads * d_head, d_model, generator=generator).to(dtype)
        return {"weight": weight, "n_heads": n_heads, "d_rotary": d_rotary}

    return [numbered, drawn(2, 10, 6, 4), drawn(4, 12, 10, 6, torch.float64), drawn(1, 8, 8, 2)]


def property_one_head_on_paper(answer, generator):
    rows = answer(torch.arange(16.0).unsqueeze(1), 2, 6)[:8, 0].int().tolist()
    assert rows[0] == 0 and rows[1] == 3 and rows[6:] == [6, 7], (
        "In a head of width 8 of which 6 entries are turned, rows 0 and 3 are the first plane and should come first; "
        f"rows 6 and 7 should stay. The first head of your answer has the rows {rows}."
    )


def property_each_head_keeps_its_rows(answer, generator):
    heads = answer(torch.arange(24.0).unsqueeze(1), 3, 6)[:, 0].reshape(3, 8).sort(-1).values
    assert torch.equal(heads, torch.arange(24.0).reshape(3, 8)), (
        "Each head should have the same rows as before, in another order. In yours rows are lost or change heads."
    )


def property_same_scores(answer, generator):
    w_query, w_key = (torch.randn(16, 5, generator=generator) for _ in range(2))
    x = torch.randn(7, 5, generator=generator)
    angles = torch.arange(7)[:, None, None] * torch.tensor([1.0, 0.2, 0.04])
    turns = torch.polar(torch.ones_like(angles), angles)  # (tokens, 1, planes)

    def scores(w_query, w_key, shape, axis):
        """Of 2 heads of width 8, 6 turned: of what shape they are, and where the entries of a plane stand."""
        heads = [(x @ w.transpose(-2, -1)).reshape(7, 2, 8) for w in (w_query, w_key)]
        pairs = [head[..., :6].reshape(7, 2, *shape).unbind(axis) for head in heads]
        query, key = (torch.complex(*pair) * turns for pair in pairs)
        others = torch.einsum("qhd,khd->hqk", *(head[..., 6:] for head in heads))
        return torch.einsum("qhp,khp->hqk", query, key.conj()).real + others

    before = scores(w_query, w_key, (2, 3), 2)
    after = scores(answer(w_query, 2, 6), answer(w_key, 2, 6), (3, 2), 3)
    assert torch.allclose(before, after, atol=1e-4), (
        "Old weights with halves paired and your weights with neighbours paired should give the same scores."
    )
