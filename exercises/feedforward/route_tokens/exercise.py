import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Int, Tensor


def route_tokens(
    logits: Float[Tensor, "n_tokens n_experts"], capacity: int
) -> tuple[Int[Tensor, "n_tokens"], Float[Tensor, "n_tokens"]]:
    """Return the expert of each token, or -1, and the weight of its expert, or 0."""
    weight, choice = logits.softmax(-1).max(-1)
    chosen = F.one_hot(choice, logits.shape[1])
    rank = (chosen.cumsum(0) * chosen).sum(-1)  # 1 for the first token of its expert
    kept = rank <= capacity
    return torch.where(kept, choice, -1), weight * kept


def accepted_loop(logits, capacity):
    """Keeps the free slots of each expert, and returns lists turned into tensors."""
    free, experts, weights = [capacity] * logits.shape[1], [], []
    for row in logits:
        expert = int(row.argmax())
        taken = free[expert] > 0
        free[expert] -= taken
        experts.append(expert if taken else -1)
        weights.append(torch.softmax(row, 0)[expert] if taken else torch.tensor(0.0))
    return [torch.tensor(experts), torch.stack(weights)]


def accepted_expert_by_expert(logits, capacity):
    """Lets each expert take the first tokens that chose it."""
    choice, p = logits.argmax(1), torch.exp(logits - logits.logsumexp(1, keepdim=True))
    experts, weights = torch.full_like(choice, -1), torch.zeros(len(logits))
    for expert in range(logits.shape[1]):
        tokens = torch.nonzero(choice == expert).flatten()[:capacity]
        experts[tokens], weights[tokens] = expert, p[tokens, expert]
    return experts, weights


def accepted_pairs_of_tokens(logits, capacity):
    """Compares all pairs of tokens."""
    choice = logits.argmax(-1)
    before = (choice[:, None] == choice).tril(-1).sum(1)
    weight = 1 / torch.exp(logits - logits.amax(-1, keepdim=True)).sum(-1)
    return choice.masked_fill(before >= capacity, -1).int(), weight.masked_fill(before >= capacity, 0)


def cases(generator):
    def drawn(n_tokens, n_experts, capacity):
        logits = torch.stack([torch.randperm(10, generator=generator)[:n_experts] for _ in range(n_tokens)]).float() / 2
        logits[:, 0] += 2.25
        return {"logits": logits, "capacity": capacity}

    small = {"logits": torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), "capacity": 1}
    return [drawn(6, 3, 2), small, drawn(8, 2, 3), drawn(5, 4, 1), drawn(7, 3, 7)]


def property_no_expert_is_too_full(answer, generator):
    logits = torch.randn(12, 3, generator=generator)
    logits[:, 1] += 1
    experts = answer(logits, 2)[0]
    for expert in range(3):
        n_accepted, n_choices = int((experts == expert).sum()), int((logits.argmax(1) == expert).sum())
        assert n_accepted <= 2, f"With a capacity of 2, one of your experts accepts {n_accepted} tokens."
        assert n_accepted == min(2, n_choices), (
            f"{n_choices} tokens choose an expert with a capacity of 2, and yours accepts {n_accepted} of them."
        )


def property_enough_room(answer, generator):
    logits = torch.randn(7, 4, generator=generator)
    experts, weights = answer(logits, 7)
    assert bool((experts == logits.argmax(1)).all()), (
        "With room for all tokens at every expert, each token should get the expert with its largest logit."
    )
    assert bool((weights > 0).all()), "With room for all tokens at every expert, no weight should be 0."


def hidden_cases(generator):
    sizes = [(10, 4, 2), (9, 2, 4), (6, 5, 1), (12, 3, 3)]
    return [{"logits": torch.randn(n, e, generator=generator), "capacity": capacity} for n, e, capacity in sizes]
