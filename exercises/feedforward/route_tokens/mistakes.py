import torch
import torch.nn.functional as F


def _route(logits, capacity, choice=None, order=None):
    choice = logits.argmax(-1) if choice is None else choice
    order = torch.arange(len(logits)) if order is None else order
    chosen = F.one_hot(choice, logits.shape[1])[order]
    rank = torch.empty_like(choice)
    rank[order] = (chosen.cumsum(0) * chosen).sum(-1)
    return choice, rank <= capacity


def _result(logits, choice, kept):
    weight = logits.softmax(-1).gather(1, choice[:, None])[:, 0]
    return torch.where(kept, choice, -1), weight * kept


def nobody_dropped(logits, capacity):
    """You drop no token. An expert accepts at most `capacity` of them."""
    return _result(logits, *_route(logits, len(logits)))


def one_too_many(logits, capacity):
    """Your experts accept one token more than their capacity."""
    return _result(logits, *_route(logits, capacity + 1))


def one_too_few(logits, capacity):
    """Your experts accept one token less than their capacity."""
    return _result(logits, *_route(logits, capacity - 1))


def last_tokens_first(logits, capacity):
    """Your experts keep the last tokens that chose them. Earlier tokens go first."""
    return _result(logits, *_route(logits, capacity, order=torch.arange(len(logits)).flip(0)))


def most_probable_first(logits, capacity):
    """Your experts keep the tokens with the largest weights. Here earlier tokens go first."""
    order = logits.softmax(-1).amax(-1).argsort(descending=True, stable=True)
    return _result(logits, *_route(logits, capacity, order=order))


def capacity_for_all(logits, capacity):
    """You keep only the first `capacity` tokens of all. Each expert has this capacity for itself."""
    return _result(logits, logits.argmax(-1), torch.arange(len(logits)) < capacity)


def next_best_expert(logits, capacity):
    """You send a token whose expert is full to another one. It is dropped."""
    free, experts = [capacity] * logits.shape[1], []
    for row in logits:
        order = [e for e in row.argsort(descending=True).tolist() if free[e] > 0]
        experts.append(order[0] if order else -1)
        if order:
            free[order[0]] -= 1
    experts = torch.tensor(experts)
    return _result(logits, experts.clamp(min=0), experts >= 0)


def smallest_logit(logits, capacity):
    """Your tokens choose the expert with their smallest logit."""
    return _result(logits, *_route(logits, capacity, logits.argmin(-1)))


def weight_of_the_dropped(logits, capacity):
    """Your experts are right, but dropped tokens still have a weight. It should be 0."""
    choice, kept = _route(logits, capacity)
    return torch.where(kept, choice, -1), logits.softmax(-1).amax(-1)


def dropped_to_expert_zero(logits, capacity):
    """Your weights are right, but a dropped token gets the number 0, which is that of an expert. It should get −1."""
    experts, weights = _result(logits, *_route(logits, capacity))
    return experts.clamp(min=0), weights


def dropped_keeps_its_choice(logits, capacity):
    """Your weights are right, but dropped tokens still have the number of the expert that they chose. They should get
    −1."""
    return logits.argmax(-1), _result(logits, *_route(logits, capacity))[1]


def weights_of_one(logits, capacity):
    """Your experts are right, but all your weights are 1, or 0. The weight is the probability of the expert among all
    experts."""
    choice, kept = _route(logits, capacity)
    return torch.where(kept, choice, -1), kept.float()


def logits_for_weights(logits, capacity):
    """Your experts are right, but your weights are the logits. Take their softmax first."""
    choice, kept = _route(logits, capacity)
    return torch.where(kept, choice, -1), logits.amax(-1) * kept


def sigmoid_for_softmax(logits, capacity):
    """Your experts are right, but your weights are sigmoids of the logits. Take the softmax over the experts."""
    choice, kept = _route(logits, capacity)
    return torch.where(kept, choice, -1), logits.sigmoid().amax(-1) * kept


def softmax_over_the_tokens(logits, capacity):
    """Your experts are right, but the softmax of your weights runs over the tokens. It runs over the experts."""
    choice, kept = _route(logits, capacity)
    return torch.where(kept, choice, -1), logits.softmax(0).gather(1, choice[:, None])[:, 0] * kept


def softmax_over_everything(logits, capacity):
    """Your experts are right, but the softmax of your weights runs over the whole table. Each token has its own."""
    choice, kept = _route(logits, capacity)
    probabilities = logits.flatten().softmax(0).view_as(logits)
    return torch.where(kept, choice, -1), probabilities.gather(1, choice[:, None])[:, 0] * kept


def counted_from_one(logits, capacity):
    """Your experts are counted from 1. They should be counted from 0."""
    choice, kept = _route(logits, capacity)
    return torch.where(kept, choice + 1, -1), logits.softmax(-1).amax(-1) * kept


def weights_first(logits, capacity):
    """Your two results are in the wrong order: the experts come first."""
    return _result(logits, *_route(logits, capacity))[::-1]


def experts_alone(logits, capacity):
    """You return the experts alone. Return the weights after them."""
    return _result(logits, *_route(logits, capacity))[0]


def best_expert_of_the_softmax_over_tokens(logits, capacity):
    """You take the softmax over the tokens before each token chooses its expert. It runs over the experts."""
    probabilities = logits.softmax(0)
    choice, kept = _route(probabilities, capacity)
    return torch.where(kept, choice, -1), probabilities.amax(-1) * kept


def softmax_over_experts_with_room(logits, capacity):
    """Your experts are right, but the softmax of your weights runs over the experts that still have room. It runs over
    all experts."""
    choice, kept = _route(logits, capacity)
    chosen = F.one_hot(choice, logits.shape[1])
    full = chosen.cumsum(0) - chosen >= capacity
    weight = logits.masked_fill(full, -torch.inf).softmax(-1).gather(1, choice[:, None])[:, 0]
    return torch.where(kept, choice, -1), torch.where(kept, weight, 0.0)


def full_experts_left_out(logits, capacity):
    """You leave out experts that are full before a token chooses, so it goes to another one. It is dropped."""
    free, experts, weights = [capacity] * logits.shape[1], [], []
    for row in logits:
        open_to = [e for e, room in enumerate(free) if room]
        p = row[open_to].softmax(-1)
        experts.append(open_to[int(p.argmax())] if open_to else -1)
        weights.append(float(p.max()) if open_to else 0.0)
        if open_to:
            free[experts[-1]] -= 1
    return torch.tensor(experts), torch.tensor(weights)
