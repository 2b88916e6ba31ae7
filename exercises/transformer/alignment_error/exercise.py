import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Bool, Float, Tensor


def alignment_error_rate(
    weights: Float[Tensor, "n_target n_source"],
    sure: Bool[Tensor, "n_target n_source"],
    possible: Bool[Tensor, "n_target n_source"],
) -> float:
    """Return the alignment error rate of the pairs of largest weight."""
    found = torch.nn.functional.one_hot(weights.argmax(1), weights.shape[1]).bool()
    hits = (found & sure).sum() + (found & possible).sum()
    return 1 - (hits / (found.sum() + sure.sum())).item()


def accepted_sets(weights, sure, possible):
    """Works with sets of pairs, as the formula does."""
    found = {(i, max(range(len(row)), key=row.__getitem__)) for i, row in enumerate(weights.tolist())}
    sure_pairs, possible_pairs = (set(map(tuple, table.nonzero().tolist())) for table in (sure, possible))
    return 1 - (len(found & sure_pairs) + len(found & possible_pairs)) / (len(found) + len(sure_pairs))


def accepted_gather(weights, sure, possible):
    """Looks the chosen pairs up in both tables, and returns a tensor."""
    best = weights.max(dim=1, keepdim=True).indices
    hits = sure.gather(1, best).sum() + possible.gather(1, best).sum()
    return 1 - hits / (len(weights) + sure.sum())


def accepted_comparison(weights, sure, possible):
    """Marks what equals the largest weight of its row."""
    found = weights == weights.amax(1, keepdim=True)
    return 1 - float((found * (sure.float() + possible.float())).sum()) / float(found.sum() + sure.sum())


def alignments(generator, n_target, n_source):
    """Weights, and the tables of a human alignment whose pairs they often find."""
    partner = torch.arange(n_target).clamp(max=n_source - 1)
    sure = F.one_hot(partner, n_source).bool()
    sure[torch.randint(n_target, (1,), generator=generator)] = False
    possible = sure | (torch.rand(n_target, n_source, generator=generator) < 0.3)
    weights = torch.softmax(torch.randn(n_target, n_source, generator=generator) + 1.5 * sure, -1)
    return {"weights": weights, "sure": sure, "possible": possible}


def cases(generator):
    small = {"weights": [[0.7, 0.3], [0.6, 0.4]], "sure": [[1, 0], [0, 1]], "possible": [[1, 0], [0, 1]]}
    dtypes = torch.float32, torch.bool, torch.bool
    small = {name: torch.tensor(x, dtype=dtype) for (name, x), dtype in zip(small.items(), dtypes, strict=True)}
    sizes = [(5, 4), (4, 6), (3, 3)]
    drawn = [alignments(generator, *each) for each in sizes]
    one = F.one_hot(torch.tensor([0, 3, 3]), 4)[:, :3].bool()  # two of three words have no partner
    return [
        small,
        {"weights": torch.eye(3), "sure": one, "possible": one},
        *(case | {"weights": (case["weights"] * 1000).round() / 1000} for case in drawn),
    ]


def property_a_perfect_alignment(answer, generator):
    sure = torch.eye(4, dtype=torch.bool)
    rate = float(answer(torch.eye(4) * 0.6 + 0.1, sure, sure))
    assert abs(rate) < 1e-5, f"If the model finds exactly the sure pairs, the error rate is 0. Yours is {rate:.3g}."


def property_nothing_found(answer, generator):
    none = torch.zeros(3, 4, dtype=torch.bool)
    rate = float(answer(torch.rand(3, 4, generator=generator), none, none))
    assert abs(rate - 1) < 1e-5, f"If no pair is even possible, the error rate is 1. Yours is {rate:.3g}."


def hidden_cases(generator):
    found = [alignments(generator, *sizes) for sizes in ((6, 5), (9, 7), (4, 8), (12, 12), (7, 3))]
    few = alignments(generator, 8, 6)
    has_a_partner = torch.arange(8)[:, None] % 3 > 0
    return [*found, few | {name: few[name] & has_a_partner for name in ("sure", "possible")}]
