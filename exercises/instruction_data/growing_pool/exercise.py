import torch

from llm_anatomy.shapes import Float, Tensor


def broken(similarity: Float[Tensor, "n_texts n_texts"], n_seeds: int, threshold: float) -> list[int]:
    """Return the rows of the instructions that are added to the pool."""
    added = []
    for i in range(n_seeds, len(similarity)):
        if (similarity[i, :n_seeds] < threshold).all():
            added.append(i)
    return added


def growing_pool(similarity: Float[Tensor, "n_texts n_texts"], n_seeds: int, threshold: float) -> list[int]:
    """Return the rows of the instructions that are added to the pool."""
    pool = list(range(n_seeds))
    for i in range(n_seeds, len(similarity)):
        if (similarity[i, pool] < threshold).all():
            pool.append(i)
    return pool[n_seeds:]


def accepted_forward(similarity, n_seeds, threshold):
    """Crosses out what is similar to each text as soon as it is in the pool, and returns a tensor."""
    similar = similarity >= threshold
    refused = similar[:n_seeds].any(0)
    for i in range(n_seeds, len(similarity)):
        if not refused[i]:
            refused[i + 1 :] |= similar[i, i + 1 :]
    return n_seeds + torch.nonzero(~refused[n_seeds:]).flatten()


def accepted_plain(similarity, n_seeds, threshold):
    """Plain loops, and a tuple."""
    rows, added = similarity.tolist(), ()
    for i, row in enumerate(rows):
        if i < n_seeds:
            continue
        if max([row[j] for j in (*range(n_seeds), *added)], default=0.0) < threshold:
            added += (i,)
    return added


def observe(returned, similarity, n_seeds, threshold):
    """the rows of the added instructions"""
    if hasattr(returned, "tolist"):
        returned = returned.tolist()
    assert isinstance(returned, tuple | list), "return a list of rows"
    rows = [float(row) for row in returned]
    assert all(row.is_integer() for row in rows), "the rows should be whole numbers"
    return list(map(int, rows))


def _drawn(generator, n_texts, n_seeds, threshold):
    points = torch.rand(n_texts, 2, generator=generator)
    distance = (points[:, None] - points).norm(dim=-1)
    return {
        "similarity": (100 / (1 + 2.2 * distance)).round() / 100,
        "n_seeds": n_seeds,
        "threshold": threshold,
    }


def cases(generator):
    twins = torch.tensor([[1.0, 0.2, 0.2], [0.2, 1.0, 1.0], [0.2, 1.0, 1.0]])
    chain = torch.tensor([[1.0, 0.8, 0.3, 0.1], [0.8, 1.0, 0.8, 0.2], [0.3, 0.8, 1.0, 0.7], [0.1, 0.2, 0.7, 1.0]])
    border = torch.tensor([[1.0, 0.75, 0.5], [0.75, 1.0, 0.25], [0.5, 0.25, 1.0]])
    mixed = torch.full((5, 5), 0.95)
    mixed[4, :3] = mixed[:3, 4] = torch.tensor([0.5, 0.65, 0.6])
    mixed[3, 4] = mixed[4, 3] = mixed[3, 1] = mixed[1, 3] = 0.6
    return [
        _drawn(generator, 14, 4, 0.705),
        {"similarity": mixed, "n_seeds": 3, "threshold": 0.7},
        {"similarity": twins, "n_seeds": 1, "threshold": 0.7},
        {"similarity": chain, "n_seeds": 1, "threshold": 0.75},
        {"similarity": chain, "n_seeds": 2, "threshold": 0.7001},
        {"similarity": border, "n_seeds": 1, "threshold": 0.75},
        _drawn(generator, 20, 6, 0.815),
        _drawn(generator, 25, 3, 0.625),
    ]


def property_repeated_instruction(answer, generator):
    similarity = torch.full((6, 6), 0.1)
    similarity[2:, 2:] = 1.0
    found = answer(similarity, 2, 0.5)
    assert len(found) == 1, "If one new instruction is written four times, it should be added once. Yours is not."


def hidden_cases(generator):
    drawn = [_drawn(generator, *sizes) for sizes in ((18, 5, 0.705), (30, 2, 0.645), (12, 3, 0.775), (40, 8, 0.715))]
    points = torch.rand(16, generator=generator)
    quarters = (4 - 8 * (points[:, None] - points).abs()).round().clamp(0) / 4
    return drawn + [{"similarity": quarters, "n_seeds": 2, "threshold": 0.5}]
