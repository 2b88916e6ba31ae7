import torch


def _of_words(outputs, positions):
    """What padding receives is not looked at."""
    return torch.where(positions[..., None] >= 0, outputs, 0)


def probe_more_padding(answer, x, positions, w_query, w_key, w_value):
    """More padding on the left changes nothing that the words receive."""
    n_more = 3
    longer = torch.cat((torch.full_like(x[:, :1], 4).expand(-1, n_more, -1), x), 1)
    padded_positions = torch.cat((torch.full_like(positions[:, :1], -1).expand(-1, n_more), positions), 1)
    return _of_words(answer(longer, padded_positions, w_query, w_key, w_value)[:, n_more:], positions)


def probe_order_of_tokens(answer, x, positions, w_query, w_key, w_value):
    """Tokens listed in another order, each with its position, receive what they received before."""
    outputs = answer(x.flip(1), positions.flip(1), w_query, w_key, w_value).flip(1)
    return _of_words(outputs, positions)
